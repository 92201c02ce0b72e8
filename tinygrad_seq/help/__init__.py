"""Texts and answers: what `help` shows of an operation, and what is said to a name that belongs to another library.

`reference` holds the operations' texts, `pytorch_names` the answers. Nothing imports from here but the package itself.
"""
