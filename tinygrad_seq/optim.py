"""Optimisers and clipping. Parameters are rebound, never written in place: recorded graphs stay what they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .signatures import Array
from .tensor import Tensor


class GradientNorm(float):
    """The norm of all gradients before clipping: a float, with the `scale` by which the gradients were multiplied."""

    scale: float

    def __new__(cls, norm: float, scale: float) -> GradientNorm:
        self = super().__new__(cls, norm)
        self.scale = scale
        return self


def parameters_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters as a list, each once (tied parameters count once)."""
    if isinstance(parameters, Tensor):
        raise TypeError("parameters come as a list: [w], or module.parameters()")
    listed = list(dict.fromkeys(parameters))
    for x in listed:
        if not isinstance(x, Tensor):
            raise TypeError(f"parameters are tensors, got {type(x).__name__}")
    return listed


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> GradientNorm:
    """Scale all gradients by one factor so that their joint 2-norm is at most max_norm (Pascanu et al. 2013).

    Returns the norm before clipping; `.scale` is the factor. The norm is taken in float64 and cannot overflow. No
    gradients, or only zeros: norm 0, nothing changes. A gradient that is not finite raises FloatingPointError with
    the parameter's name and leaves all gradients as they were; a negative or NaN max_norm raises ValueError.

    >>> w = Tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> clip_grad_norm([w], 1.0), w.grad.tolist()
    (5.0, [0.6000000000000001, 0.8])
    """
    if not max_norm >= 0:
        raise ValueError(f"max_norm is a number >= 0, got {max_norm}")
    listed = [(x, x.grad) for x in parameters_of(parameters) if x.grad is not None]
    for k, (x, g) in enumerate(listed):
        if not np.isfinite(g).all():
            raise FloatingPointError(f"the gradient of parameter {k} ({x.label()}) is not finite; nothing was clipped")
    largest = max((float(np.abs(g).max(initial=0)) for _, g in listed), default=0.0)
    if largest == 0:
        return GradientNorm(0.0, 1.0)
    # scaled by the largest entry: squares neither overflow nor underflow
    squares = sum(float(np.square(np.asarray(g, np.float64) / largest).sum()) for _, g in listed)
    norm = largest * float(np.sqrt(squares))
    scale = min(1.0, max_norm / norm)
    if scale < 1:
        for x, g in listed:
            x.grad = np.asarray(g * scale, x.dtype)
    return GradientNorm(norm, scale)


class Optimiser:
    """What optimisers share: the parameters (each once), the learning rate, and one state for each parameter.

    A parameter whose gradient is None is left alone, and so is its state.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        self.parameters = parameters_of(parameters)
        if not self.parameters:
            raise ValueError("an optimiser needs parameters; the list is empty (or a generator that was used up)")
        if not 0 <= lr < np.inf:
            raise ValueError(f"the learning rate is a finite number >= 0, got {lr}")
        self.lr = lr
        self.state: list[dict[str, Any]] = [{} for _ in self.parameters]

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for x in self.parameters:
            x.zero_grad()

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for x, state in zip(self.parameters, self.state, strict=True):
            if x.grad is not None:
                x.data = np.asarray(x._array - self.change(x, x.grad, state), x.dtype)

    def change(self, x: Tensor, g: Array, state: dict[str, Any]) -> Array:
        """What is subtracted from the parameter x for its gradient g; keeps its memory in `state`."""
        raise TypeError(f"{type(self).__name__} defines no change(x, g, state)")


class SGD(Optimiser):
    """w <- w - lr * m with m <- momentum * m + g (m = g without momentum).

    >>> w = Tensor(0.5, requires_grad=True)
    >>> (0.5 * (w * w - 1) ** 2).backward()
    >>> SGD([w], lr=0.1).step()
    >>> float(w)
    0.575
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.0) -> None:
        super().__init__(parameters, lr)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum lies in [0, 1), got {momentum}")
        self.momentum = momentum

    def change(self, x: Tensor, g: Array, state: dict[str, Any]) -> Array:
        if self.momentum:
            state["m"] = g = self.momentum * state["m"] + g if "m" in state else g.copy()
        return self.lr * g


class Adam(Optimiser):
    """Adam (Kingma and Ba 2015, algorithm 1), with a clock for each parameter:

    m, v <- moving averages of g, g² (rates beta1, beta2); w <- w - lr * m̂ / (√v̂ + eps), m̂ = m / (1 - beta1^t) and
    v̂ = v / (1 - beta2^t).

    >>> w = Tensor(1.0, requires_grad=True)
    >>> (0.5 * w).backward()
    >>> Adam([w], lr=0.1).step()
    >>> round(float(w), 6)
    0.9
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr)
        if not all(0 <= beta < 1 for beta in betas) or not eps >= 0:
            raise ValueError(f"Adam needs betas in [0, 1) and eps >= 0, got {betas} and {eps}")
        self.betas, self.eps = betas, eps

    def change(self, x: Tensor, g: Array, state: dict[str, Any]) -> Array:
        (beta1, beta2), t = self.betas, state.get("t", 0) + 1
        m = beta1 * state.get("m", 0.0) + (1 - beta1) * g
        v = beta2 * state.get("v", 0.0) + (1 - beta2) * g * g
        state.update(t=t, m=m, v=v)
        return np.asarray(self.lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + self.eps))
