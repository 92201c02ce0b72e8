"""Training that can be interrupted, resumed and trusted.

`loop` holds fit, `checkpoint` holds save and load. Uses nn, optim and replaying.
"""
