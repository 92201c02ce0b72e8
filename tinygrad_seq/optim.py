"""Optimisers, schedules and clipping. Parameters are rebound, never written in place: recorded graphs stay untouched.

An optimiser's rule is a pure function of arrays, (parameter, gradient, memory, rate) -> (parameter, memory). All rules
of a step are computed before the first parameter changes, so that an error leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import cos, hypot, isfinite, pi, sqrt
from typing import Any

import numpy as np

from .signatures import Array
from .tensor import Tensor

Schedule = Callable[[int], float]
Memory = dict[str, Any]


# Clipping ------------------------------------------------------------------------------------------------------------


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


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float, p: float = 2.0) -> GradientNorm:
    """Scale all gradients by one factor so that their joint p-norm is at most max_norm (Pascanu et al. 2013).

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


def clip_grad_value(parameters: Iterable[Tensor], bound: float) -> GradientNorm:
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


def _given(parameters: Iterable[Tensor]) -> list[tuple[int, Tensor, Array]]:
    """The parameters that have a gradient, each once, with their numbers in the list and their gradients."""
    return [(k, x, x.grad) for k, x in enumerate(dict.fromkeys(parameters_of(parameters))) if x.grad is not None]


def _norm(given: list[tuple[int, Tensor, Array]], p: float) -> float:
    """The joint p-norm of the gradients, which must be finite."""
    gradients = [np.asarray(g, np.float64).ravel() for _, _, g in given]
    if p == 2:
        with np.errstate(over="ignore", invalid="ignore"):
            norm = hypot(*(sqrt(g @ g) for g in gradients))
        if 1e-140 < norm < np.inf:  # else squares may have overflowed or underflowed
            return norm
    largest = 0.0
    for (k, x, _), g in zip(given, gradients, strict=True):
        peak = float(np.abs(g).max(initial=0))
        if not isfinite(peak):
            raise FloatingPointError(f"the gradient of parameter {k} ({x.label()}) is not finite; nothing was clipped")
        largest = max(largest, peak)
    if largest == 0 or p == np.inf:
        return largest
    return largest * float(sum((np.abs(g / largest) ** p).sum() for g in gradients) ** (1 / p))


def parameters_of(parameters: Iterable[Tensor]) -> list[Tensor]:
    """The parameters as a list."""
    if isinstance(parameters, (Tensor, Mapping)) or not isinstance(parameters, Iterable):
        raise TypeError(f"parameters come as a list: [w], or module.parameters(); got {type(parameters).__name__}")
    listed = list(parameters)
    for x in listed:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"parameters are tensors, got {type(x).__name__} in the list: of a module give module.parameters(), of "
                "two modules [*one.parameters(), *other.parameters()]"
            )
    return listed


# Schedules: the learning rate as a function of the number of updates that were made before ---------------------------


def constant(lr: float) -> Schedule:
    """The same rate at every update, as a function: what `warm_up` may lead to.

    >>> constant(0.1)(1000)
    0.1
    """
    return lambda update: lr


def warm_up(then: float | Schedule, updates: int) -> Schedule:
    """Rise in a line over so many updates, n/updates of `then` at the n-th, and from there follow `then`.

    >>> rate = warm_up(0.5, updates=4)
    >>> [rate(n) for n in range(6)]
    [0.125, 0.25, 0.375, 0.5, 0.5, 0.5]
    """
    _counts("warm_up", updates=updates)
    follow = then if callable(then) else constant(then)
    return lambda update: follow(update) * min(1.0, (update + 1) / updates)


def cosine(lr: float, updates: int, end: float = 0.0) -> Schedule:
    """Fall from lr to end over so many updates along half a cosine (Loshchilov and Hutter 2017, equation 5).

    >>> rate = cosine(1.0, updates=4)
    >>> [round(rate(n), 4) for n in (0, 1, 2, 3, 4, 5)]
    [1.0, 0.8536, 0.5, 0.1464, 0.0, 0.0]
    """
    _counts("cosine", updates=updates)
    return lambda update: end + (lr - end) * (1 + cos(pi * min(1.0, update / updates))) / 2


def step_decay(lr: float, every: int, factor: float = 0.5) -> Schedule:
    """Multiply the rate by `factor` after every so many updates.

    >>> rate = step_decay(1.0, every=2, factor=0.5)
    >>> [rate(n) for n in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    _counts("step_decay", every=every)
    return lambda update: lr * factor ** (update // every)


def _counts(schedule: str, **counts: int) -> None:
    for name, n in counts.items():
        if n < 1:
            raise ValueError(f"{schedule} needs {name} of at least 1, got {n}")


# Optimisers ----------------------------------------------------------------------------------------------------------


class Optimiser:
    """What optimisers share: the parameters, the learning rate, and a memory with a clock of its own for each of them.

    `lr` is a number, or a function of the number of updates made before (see the schedules). A parameter whose
    gradient is None is left alone, and so are its memory and its clock. Write one of your own by giving `rule` and the
    names of the arrays that it `remembers`.

    ValueError for no parameters (or a generator that was used up), a parameter given twice (a tied one is listed once
    by `module.parameters()`), one that was computed or requires no gradient, and for a rate that is negative or not
    finite.

    >>> class SignDescent(Optimiser):
    ...     def rule(self, w, g, memory, lr):
    ...         return w - lr * np.sign(g), memory
    >>> w = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimiser = SignDescent([w], lr=0.25)
    >>> (3.0 * w[0] - w[1]).backward()
    >>> optimiser.step()
    >>> w.tolist(), optimiser
    ([0.75, 2.25], SignDescent(lr=0.25, parameters: 1, updates: 1))
    """

    remembers: tuple[str, ...] = ()

    def __init__(self, parameters: Iterable[Tensor], lr: float | Schedule) -> None:
        self.parameters = parameters_of(parameters)
        if not self.parameters:
            raise ValueError(
                "an optimiser needs parameters; the list is empty (a generator that was used up, or a frozen module)"
            )
        seen: set[Tensor] = set()
        for k, x in enumerate(self.parameters):
            if x in seen:
                raise ValueError(f"parameter {k} ({x.label()}) is given twice; module.parameters() lists each once")
            if x.operation is not None:
                raise ValueError(f"parameter {k} is {x.label()}; only leaves can be trained")
            if not x.requires_grad:
                raise ValueError(
                    f"parameter {k} ({x.label()}) requires no gradient and would never change: leave it out, or set "
                    "requires_grad=True (a frozen module: freeze(False))"
                )
            seen.add(x)
        self.lr, self.updates = lr, 0
        self.memory: list[Memory] = [{} for _ in self.parameters]
        _ = self.rate  # refused now if it is none

    @property
    def rate(self) -> float:
        """The learning rate of the next update."""
        rate = float(self.lr(self.updates) if callable(self.lr) else self.lr)
        if not 0 <= rate < np.inf:
            raise ValueError(f"the learning rate is a finite number >= 0, got {rate} for update {self.updates}")
        return rate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.rate:g}, parameters: {len(self.parameters)}, updates: {self.updates})"

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for x in self.parameters:
            x.zero_grad()

    def step(self) -> None:
        """Update every parameter that has a gradient; an error changes nothing."""
        rate, changes = self.rate, []
        for k, (x, memory) in enumerate(zip(self.parameters, self.memory, strict=True)):
            g = x.grad
            if g is not None:
                if g.shape != x.shape:
                    raise ValueError(f"the gradient of parameter {k} ({x.label()}) has shape {g.shape}, not {x.shape}")
                changes.append((k, x, *self.rule(x._array, g, memory, rate)))
        for k, x, new, memory in changes:
            x._array, self.memory[k] = np.asarray(new, x.dtype), memory
        self.updates += 1

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        """The new value of the parameter w for its gradient g, and the new memory; the first memory is empty.

        Both are new objects, which share nothing with w, g and the old memory.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no rule(w, g, memory, lr)")

    def state_dict(self) -> dict[str, Array]:
        """Copies of all that is remembered: `updates`, and `k.m` for the m of parameter number k."""
        state = {"updates": np.array(self.updates)}
        for k, memory in enumerate(self.memory):
            state |= {f"{k}.{name}": np.array(value) for name, value in memory.items()}
        return state

    def load_state_dict(self, arrays: Mapping[str, Any]) -> None:
        """Take up a state. Strict: exactly the names, shapes and dtypes of this optimiser's memory (all of it or none
        for each parameter), or ValueError naming each difference, and nothing is changed."""
        given = {name: np.asarray(value) for name, value in arrays.items()}
        wanted = {"updates": np.array(self.updates)}
        for k, x in enumerate(self.parameters):
            names = {name: f"{k}.{name}" for name in self.remembers}
            if any(name in given for name in names.values()):
                wanted |= {path: np.array(0) if name == "t" else x._array for name, path in names.items()}
        faults = [f"missing {path}" for path in wanted if path not in given]
        faults += [f"unknown {path}" for path in given if path not in wanted]
        for path in wanted.keys() & given.keys():
            want, got = wanted[path], given[path]
            if (got.shape, got.dtype) != (want.shape, want.dtype):
                faults.append(f"{path}: needs {want.shape} {want.dtype}, got {got.shape} {got.dtype}")
        if faults:
            raise ValueError(f"the state does not fit {type(self).__name__}: {'; '.join(sorted(faults))}")
        self.updates = int(given.pop("updates"))
        self.memory = [{} for _ in self.parameters]
        for path, value in given.items():
            number, name = path.split(".")
            self.memory[int(number)][name] = int(value) if name == "t" else value.copy()


class SGD(Optimiser):
    """w <- w - lr·m with m <- momentum·m + g (m = g without momentum, and at first).

    `nesterov`: w <- w - lr·(g + momentum·m), the step looked ahead (Sutskever et al. 2013). `weight_decay` λ adds
    λ·w to g.

    >>> w = Tensor(0.5, requires_grad=True)
    >>> (0.5 * (w * w - 1) ** 2).backward()
    >>> SGD([w], lr=0.1).step()
    >>> float(w)
    0.575
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Schedule,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        if not 0 <= momentum < 1 or not 0 <= weight_decay < np.inf:
            raise ValueError(f"SGD needs momentum in [0, 1) and weight_decay >= 0, got {momentum} and {weight_decay}")
        if nesterov and not momentum:
            raise ValueError("nesterov looks ahead along the momentum: it needs momentum > 0")
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self.remembers = ("m",) if momentum else ()

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        if self.weight_decay:
            g = g + self.weight_decay * w
        if not self.momentum:
            return w - lr * g, {}
        m = self.momentum * memory["m"] + g if memory else g.copy()
        return w - lr * (g + self.momentum * m if self.nesterov else m), {"m": m}


class Adam(Optimiser):
    """Adam (Kingma and Ba 2015, algorithm 1), with a clock t for each parameter:

    m, v <- moving averages of g, g² (rates beta1, beta2); w <- w - lr·m̂ / (√v̂ + eps), m̂ = m / (1 - beta1^t) and
    v̂ = v / (1 - beta2^t). `weight_decay` λ adds λ·w to g; see AdamW.

    >>> w = Tensor(1.0, requires_grad=True)
    >>> (0.5 * w).backward()
    >>> Adam([w], lr=0.1).step()
    >>> round(float(w), 6)
    0.9
    """

    remembers = ("t", "m", "v")
    decoupled = False

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr)
        if not all(0 <= beta < 1 for beta in betas) or not eps >= 0 or not 0 <= weight_decay < np.inf:
            raise ValueError(
                f"{type(self).__name__} needs betas in [0, 1), eps >= 0 and weight_decay >= 0, got {betas}, {eps} and "
                f"{weight_decay}"
            )
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        (beta1, beta2), t = self.betas, memory.get("t", 0) + 1
        if self.weight_decay and self.decoupled:
            w = w * (1 - lr * self.weight_decay)
        elif self.weight_decay:
            g = g + self.weight_decay * w
        m = beta1 * memory.get("m", 0.0) + (1 - beta1) * g
        v = beta2 * memory.get("v", 0.0) + (1 - beta2) * (g * g)
        step = lr / (1 - beta1**t) * m / (np.sqrt(v / (1 - beta2**t)) + self.eps)
        return w - step, {"t": t, "m": m, "v": v}


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2): w <- w - lr·λ·w - lr·m̂/(√v̂ + eps).

    The decay does not pass through the moving averages, so it is the same for parameters with large and with small
    gradients.

    >>> w = Tensor(2.0, requires_grad=True)
    >>> (0.5 * w).backward()
    >>> AdamW([w], lr=0.1, weight_decay=0.1).step()
    >>> round(float(w), 6)
    1.88
    """

    decoupled = True

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)
