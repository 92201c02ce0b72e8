"""The engine: a tensor, the record of how it was computed, the table of operations, and the backward pass.

`tensor` and `recording` remember, `ops` is the table of calculus (its forward functions beside NumPy's in `numerics`),
`compositions` is made of it, `methods` puts both behind operators, methods and NumPy's functions, and `backward` walks
the record. Uses NumPy and nothing else of the package.
"""
