"""Clipping: gradients that are too long are shortened, all of them by one factor or each entry by itself."""

from __future__ import annotations

from math import hypot, isfinite, sqrt

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor
from .parameters import Parameters, named


class GradientNorm(float):
    """What was measured before clipping: a float, with the `scale` by which the largest entry was multiplied.

    >>> w = Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> norm = clip_grad_norm([w], max_norm=1.0)
    >>> float(norm), norm.scale
    (5.0, 0.2)
    """

    scale: float

    def __new__(cls, norm: float, scale: float) -> GradientNorm:
        self = super().__new__(cls, norm)
        self.scale = scale
        return self


def clip_grad_norm(parameters: Parameters, max_norm: float, p: float = 2.0) -> GradientNorm:
    """Scale all gradients by one factor so that their joint p-norm is at most max_norm (Pascanu et al. 2013).

    The factor is max_norm / norm; PyTorch's is max_norm / (norm + 1e-6), which ends a little below.

    `parameters` are what an optimiser takes: a module, a list of tensors, a dict of them.
    Returns the norm before clipping; `.scale` is the factor. The norm is taken in float64 and cannot overflow; p may
    be infinite. Tied parameters count once. No gradients, or only zeros: norm 0, nothing changes. A gradient that is
    not finite raises FloatingPointError with the parameter's name and leaves all gradients as they were; a negative
    or NaN max_norm, or p < 1, raises ValueError.

    >>> w = Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> clip_grad_norm([w], 1.0), w.grad.tolist()
    (5.0, [0.6000000000000001, 0.8])
    """
    if not max_norm >= 0 or not p >= 1:
        raise ValueError(f"clip_grad_norm needs max_norm >= 0 and p >= 1, got {max_norm} and {p}")
    given = _given(parameters)
    norm = _norm(given, p)
    scale = min(1.0, max_norm / norm) if norm else 1.0
    if scale < 1:
        for _, x, g in given:
            x.grad = np.asarray(g * scale, x.dtype)
    return GradientNorm(norm, scale)


def clip_grad_value(parameters: Parameters, bound: float) -> GradientNorm:
    """Move every entry of every gradient into -bound..bound.

    Returns the largest absolute value before clipping; `.scale` is by what that entry was multiplied. Errors as in
    `clip_grad_norm`, which keeps the direction of the gradient; this does not.

    >>> w = Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> clip_grad_value([w], 3.5), w.grad.tolist()
    (4.0, [3.0, 3.5])
    """
    if not bound >= 0:
        raise ValueError(f"clip_grad_value needs a bound >= 0, got {bound}")
    given = _given(parameters)
    largest = _norm(given, np.inf)
    if largest > bound:
        for _, x, g in given:
            x.grad = np.asarray(np.clip(g, -bound, bound), x.dtype)
    return GradientNorm(largest, min(1.0, bound / largest) if largest else 1.0)


def _given(parameters: Parameters) -> list[tuple[str, Tensor, Array]]:
    """The parameters that have a gradient, each once, with their names and their gradients."""
    names = {x: name for name, x in reversed(named(parameters).items())}
    return [(name, x, x.grad) for x, name in reversed(names.items()) if x.grad is not None]


def _norm(given: list[tuple[str, Tensor, Array]], p: float) -> float:
    """The joint p-norm of the gradients, which must be finite."""
    gradients = [np.asarray(g, np.float64).ravel() for _, _, g in given]
    if p == 2:
        with np.errstate(over="ignore", invalid="ignore"):
            norm = hypot(*(sqrt(g @ g) for g in gradients))
        if 1e-140 < norm < np.inf:  # else squares may have overflowed or underflowed
            return norm
    largest = 0.0
    for (name, _, _), g in zip(given, gradients, strict=True):
        peak = float(np.abs(g).max(initial=0))
        if not isfinite(peak):
            raise FloatingPointError(f"the gradient of parameter {name} is not finite; nothing was clipped")
        largest = max(largest, peak)
    if largest == 0 or p == np.inf:
        return largest
    return largest * float(sum((np.abs(g / largest) ** p).sum() for g in gradients) ** (1 / p))
