"""To look at: the unrolled graph of a flow as a drawing."""

from ..engine.namespaces import namespace
from .drawing import Drawing, draw
from .page import Page, explore

__all__ = ["Drawing", "Page", "draw", "explore"]
__getattr__, __dir__ = namespace(__name__, __all__, {})
