"""Tools that test gradients: your own operations, layers and cells, in three lines each."""

from .gradients import Checked, NotDifferentiableError, NotPureError, WrongGradientError, check_grads
from .primitives import check_primitive

__all__ = [
    "Checked", "NotDifferentiableError", "NotPureError", "WrongGradientError", "check_grads", "check_primitive",
]  # fmt: skip
