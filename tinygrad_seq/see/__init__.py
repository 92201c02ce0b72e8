"""To look at: the unrolled graph of a flow as a drawing."""

from .drawing import Drawing, draw
from .page import Page, explore

__all__ = ["Drawing", "Page", "draw", "explore"]
