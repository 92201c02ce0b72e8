"""Tools that test gradients: your own operations, layers and cells, in three lines each.

`check_grads`, `check_primitive` and `compare` need NumPy only. `strategies`, `profiles` and `check_cell` draw their
examples with hypothesis (the `test` extra), and are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ..engine.namespaces import namespace
from ..engine.tensor import Tensor
from .comparison import Comparison, compare
from .gradients import Checked, NotDifferentiableError, NotPureError, WrongGradientError, check_grads
from .primitives import check_primitive

if TYPE_CHECKING:
    from . import profiles, strategies
    from .cells import BrokenLawError, CheckedCell, check_cell

__all__ = [
    "BrokenLawError", "Checked", "CheckedCell", "Comparison", "NotDifferentiableError", "NotPureError",
    "WrongGradientError", "check_cell", "check_grads", "check_primitive", "compare", "profiles", "strategies",
]  # fmt: skip


_WITH_HYPOTHESIS = {"profiles": "profiles", "strategies": "strategies"} | dict.fromkeys(
    ("BrokenLawError", "CheckedCell", "check_cell"), "cells"
)
__getattr__, __dir__ = namespace(__name__, __all__, _WITH_HYPOTHESIS)


def register() -> None:
    """Tell hypothesis how to draw a Tensor: `st.from_type(tg.Tensor)`. Its entry point calls this."""
    from hypothesis import strategies as st

    st.register_type_strategy(Tensor, lambda _: import_module(".strategies", __name__).tensors())
