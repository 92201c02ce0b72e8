"""Optimisers. Parameters are rebound, never written in place: recorded graphs stay untouched.

An optimiser's rule is a pure function of arrays, (parameter, gradient, memory, rate) -> (parameter, memory). All rules
of a step are computed before the first parameter changes, so that an error leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor
from .clipping import parameters_of
from .schedules import Schedule

Memory = dict[str, Any]


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
