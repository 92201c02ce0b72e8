"""Optimisers, schedules of the learning rate, and clipping.

`optimisers` holds SGD, Adam, AdamW, RMSprop and Adagrad on what they share, `parameters` says which are meant and by
what names, `schedules` holds the rates, `clipping` the norms. Uses the engine and nn's Module.
"""

from ..engine.namespaces import namespace
from .clipping import GradientNorm, clip_grad_norm, clip_grad_value
from .optimisers import SGD, Adagrad, Adam, AdamW, Optimiser, RMSprop
from .schedules import constant, cosine, step_decay, warm_up

__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "GradientNorm", "Optimiser", "RMSprop", "clip_grad_norm", "clip_grad_value",
    "constant", "cosine", "step_decay", "warm_up",
]  # fmt: skip
__getattr__, __dir__ = namespace(__name__, __all__, {})
