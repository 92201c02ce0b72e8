"""To look at: the unrolled graph of a flow as a drawing."""

from ..engine.namespaces import namespace
from .drawing import Drawing, draw
from .page import Page, explore
from .shading import Shaded, text

__all__ = ["Drawing", "Page", "Shaded", "draw", "explore", "text"]
__getattr__, __dir__ = namespace(__name__, __all__, {})
