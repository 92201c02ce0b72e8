"""Optimisers, schedules of the learning rate, and clipping.

`optimisers` holds SGD, Adam and AdamW on what they share, `schedules` the rates, `clipping` the norms. Uses the engine.
"""

from ..engine.namespaces import namespace
from .clipping import GradientNorm, clip_grad_norm, clip_grad_value
from .optimisers import SGD, Adam, AdamW, Optimiser
from .schedules import constant, cosine, step_decay, warm_up

__all__ = [
    "SGD", "Adam", "AdamW", "GradientNorm", "Optimiser", "clip_grad_norm", "clip_grad_value", "constant", "cosine",
    "step_decay", "warm_up",
]  # fmt: skip
__getattr__, __dir__ = namespace(__name__, __all__, {})
