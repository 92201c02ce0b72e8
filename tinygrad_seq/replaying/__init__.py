"""A step recorded once and played again: the same operations on new numbers, in planned memory.

`recorder` records and plays, `planning` lays out the memory, `matmul` makes products faster, `source` prints the
program as NumPy code, `staleness` notices what has changed since. Uses the engine, and of `nn` the Module.
"""
