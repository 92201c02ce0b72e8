"""A step recorded once and played again: the same operations on new numbers, in planned memory.

`recorder` records and plays, `planning` lays out the memory, `matmul` makes products faster, `source` prints the
program as NumPy code, `staleness` notices what has changed since, `reference` computes without the recording what a
replay is compared with, `shards` plays the parts of a batch in threads. `native` runs the planned calls: from C
(`loops.c`, built by `compiling`) where `lowering` knows how and `trials` finds the same bytes, else from a list of
Python calls. Uses the engine, and of `nn` the Module and the functions that a
replay looks into.
"""
