"""Tools that test gradients: your own operations, layers and cells, in three lines each.

`check_grads` and `check_primitive` need NumPy only. `strategies`, `profiles` and `check_cell` draw their examples with
hypothesis (the `test` extra), and are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from .gradients import Checked, NotDifferentiableError, NotPureError, WrongGradientError, check_grads
from .primitives import check_primitive

if TYPE_CHECKING:
    from . import profiles, strategies

__all__ = [
    "Checked", "NotDifferentiableError", "NotPureError", "WrongGradientError", "check_grads", "check_primitive",
    "profiles", "strategies",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("profiles", "strategies"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Tell hypothesis how to draw a Tensor: `st.from_type(tg.Tensor)`. Its entry point calls this."""
    from hypothesis import strategies as st

    st.register_type_strategy(Tensor, lambda _: import_module(".strategies", __name__).tensors())
