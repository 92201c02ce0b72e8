"""To look at: the unrolled graph of a flow as a drawing."""

from .drawing import Drawing, draw

__all__ = ["Drawing", "draw"]
