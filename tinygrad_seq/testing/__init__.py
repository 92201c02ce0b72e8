"""Tools that test gradients: your own operations, layers and cells, in three lines each.

`check_grads`, `check_primitive` and `compare` need NumPy only. `strategies`, `profiles` and `check_cell` draw their
examples with hypothesis (the `test` extra), and are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .comparison import Comparison, compare
from .gradients import Checked, NotDifferentiableError, NotPureError, WrongGradientError, check_grads
from .primitives import check_primitive

if TYPE_CHECKING:
    from . import profiles, strategies
    from .cells import BrokenLawError, CheckedCell, check_cell

WITH_HYPOTHESIS = {
    "profiles": "profiles", "strategies": "strategies", "BrokenLawError": "cells", "CheckedCell": "cells",
    "check_cell": "cells",
}  # fmt: skip

__all__ = [
    "BrokenLawError", "Checked", "CheckedCell", "Comparison", "NotDifferentiableError", "NotPureError",
    "WrongGradientError", "check_cell", "check_grads", "check_primitive", "compare", "profiles", "strategies",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in WITH_HYPOTHESIS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{WITH_HYPOTHESIS[name]}", __name__)
    return module if name == WITH_HYPOTHESIS[name] else getattr(module, name)


def register() -> None:
    """Tell hypothesis how to draw a Tensor: `st.from_type(tg.Tensor)`. Its entry point calls this."""
    from hypothesis import strategies as st

    st.register_type_strategy(Tensor, lambda _: import_module(".strategies", __name__).tensors())
