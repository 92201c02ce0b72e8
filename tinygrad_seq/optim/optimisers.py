"""Optimisers. Parameters are rebound, never written in place: recorded graphs stay untouched.

An optimiser's rule is a pure function of arrays, (parameter, gradient, memory, rate) -> (parameter, memory). All rules
of a step are computed before the first parameter changes, so that an error leaves everything as it was.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..engine.arguments import misfits
from ..engine.namespaces import missing
from ..engine.signatures import Array, with_answers
from ..engine.tensor import Tensor, array_of
from ..engine.tree import rebind
from .parameters import Parameters, named
from .schedules import Schedule

Memory = dict[str, Any]


class Optimiser:
    """What optimisers share: the parameters by name, the learning rate, and a memory and a clock for each parameter.

    `parameters`: a module (`Adam(net)`), a dict of them (`Adam({"decoder": net, "w": w})`) or a list of tensors;
    `named_parameters()` shows by what names memory, checkpoints and messages know them. Or a list of groups with
    options of their own: `Adam([{"parameters": net}, {"parameters": head, "lr": 0.1}], lr=0.01)`; where names occur in
    several groups, the number of the group stands before them. What a group does not say is the optimiser's, and both
    may be changed between updates: `optimiser.lr`, `optimiser.groups[1]["lr"]`.

    `lr` is a number, or a function of the number of updates made before (see the schedules). A parameter whose
    gradient is None is left alone, and so are its memory and its clock; where all are None, `step` warns. Write one of
    your own by giving `rule` and the names of the arrays that it `remembers`.

    ValueError for no parameters (or a generator that was used up), a parameter given twice (a tied one is listed once
    by `module.parameters()`), one that was computed or requires no gradient, and for a rate that is negative or not
    finite. TypeError for an option that it does not have.

    >>> class SignDescent(Optimiser):
    ...     def rule(self, w, g, memory, lr):
    ...         return w - lr * np.sign(g), memory
    >>> w = Tensor([1.0, 2.0], requires_grad=True, name="w")
    >>> optimiser = SignDescent([w], lr=0.25)
    >>> (3.0 * w[0] - w[1]).backward()
    >>> optimiser.step()
    >>> w.tolist(), optimiser
    ([0.75, 2.25], SignDescent(lr=0.25, parameters: 1, updates: 1))
    """

    remembers: tuple[str, ...] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):  # options by the names of other libraries are answered
            type.__setattr__(cls, "__init__", with_answers(vars(cls)["__init__"]))

    if not TYPE_CHECKING:  # for type checkers there are the attributes that are set

        def __getattr__(self, name: str) -> Any:
            raise missing(f"{type(self).__name__!r} object", "Optimiser", name, self)

    def __init__(self, parameters: Parameters | list[dict[str, Any]], lr: float | Schedule, **options: Any) -> None:
        self.lr, self.updates = lr, 0
        vars(self).update(options)
        if not isinstance(parameters, (Tensor, str, Mapping)) and hasattr(parameters, "__iter__"):
            parameters = list(parameters)
        groups: list[Any] = [{"parameters": parameters}]
        if isinstance(parameters, list) and any(isinstance(group, Mapping) for group in parameters):
            groups = parameters
        self.groups: list[dict[str, Any]] = []
        parts = []
        for group in groups:
            if not isinstance(group, Mapping) or "parameters" not in group:
                raise TypeError(
                    'a group of parameters is a dict, {"parameters": net, "lr": 0.1}, got '
                    f"{f'one with {list(group)}' if isinstance(group, Mapping) else type(group).__name__}"
                )
            parts.append(named(group["parameters"]))
            own = {option: value for option, value in group.items() if option != "parameters"}
            if unknown := own.keys() - {"lr", *options}:
                known = ", ".join(["lr", *options])
                raise TypeError(f"{self._kind} has no option {', '.join(sorted(unknown))}; a group may have {known}")
            self.groups.append({"parameters": list(parts[-1].values())} | own)
        several = sum(map(len, parts)) > len(set().union(*parts))
        self._parameters: dict[str, Tensor] = {}
        self._group_of: dict[Tensor, int] = {}
        for k, part in enumerate(parts):
            for name, x in part.items():
                self._accept(f"{k}.{name}" if several else name, x, k)
        if not self._parameters:
            raise ValueError(
                "an optimiser needs parameters; the list is empty (a generator that was used up, or a frozen module)"
            )
        self.memory: dict[str, Memory] = {name: {} for name in self._parameters}
        self.check()
        for k in range(len(self.groups)):  # refused now if something in it is wrong
            _ = self._of(k).rate

    def _accept(self, name: str, x: Tensor, group: int) -> None:
        if x in self._group_of:
            raise ValueError(f"parameter {name} ({x.label()}) is given twice; module.parameters() lists each once")
        if x.operation is not None:
            raise ValueError(f"parameter {name} is {x.label()}; only leaves can be trained")
        if not x.requires_grad:
            raise ValueError(
                f"parameter {name} ({x.label()}) requires no gradient and would never change: leave it out, or set "
                "requires_grad=True (a frozen module: freeze(False))"
            )
        self._parameters[name], self._group_of[x] = x, group

    @property
    def _kind(self) -> str:
        return type(self).__name__

    def _of(self, group: int) -> Self:
        """This optimiser with the options of one group."""
        options = self.groups[group]
        if len(options) == 1:
            return self
        one = copy(self)
        vars(one).update({option: value for option, value in options.items() if option != "parameters"})
        one.check()
        return one

    def check(self) -> None:
        """ValueError where the options do not go together."""

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters, each once."""
        return list(self._parameters.values())

    def named_parameters(self) -> dict[str, Tensor]:
        """All parameters, by the names under which they are remembered."""
        return dict(self._parameters)

    @property
    def rate(self) -> float:
        """The learning rate of the next update (of a group with a rate of its own: that is another)."""
        rate = float(self.lr(self.updates) if callable(self.lr) else self.lr)
        if not 0 <= rate < np.inf:
            raise ValueError(f"the learning rate is a finite number >= 0, got {rate} for update {self.updates}")
        return rate

    def __repr__(self) -> str:
        groups = f", groups: {len(self.groups)}" if len(self.groups) > 1 else ""
        return f"{self._kind}(lr={self.rate:g}, parameters: {len(self._parameters)}{groups}, updates: {self.updates})"

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for x in self._parameters.values():
            x.zero_grad()

    def step(self) -> None:
        """Update every parameter that has a gradient; an error changes nothing."""
        rules = [(one, one.rate) for one in map(self._of, range(len(self.groups)))]
        changes = []
        for name, x in self._parameters.items():
            g = x.grad
            if g is not None:
                if g.shape != x.shape:
                    raise ValueError(f"the gradient of parameter {name} has shape {g.shape}, not {x.shape}")
                one, rate = rules[self._group_of[x]]
                w = array_of(x)
                if w.dtype.char == "e":
                    w, g = w.astype(np.float32), g.astype(np.float32)
                new, memory = one.rule(w, g, self.memory[name], rate)
                new = np.asarray(new, x.dtype, order="C")
                if new.shape != x.shape:
                    raise ValueError(f"the rule of {self._kind} gave parameter {name} {x.shape} the shape {new.shape}")
                changes.append((name, x, new, memory))
        if not changes:
            warnings.warn(
                f"no parameter of this {self._kind} has a gradient, so the step changes nothing: call backward() "
                "first, and give the optimiser the parameters that the loss is computed from",
                stacklevel=2,
            )
        for name, x, new, memory in changes:
            rebind(x, new)
            self.memory[name] = memory
        self.updates += 1

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        """The new value of the parameter w for its gradient g, and the new memory; the first memory is empty.

        Both are new objects, which share nothing with w, g and the old memory.
        """
        raise NotImplementedError(f"{self._kind} defines no rule(w, g, memory, lr)")

    def state_dict(self) -> dict[str, Array]:
        """Copies of all that is remembered: `updates`, and `readout.W.m` for the m of the parameter readout.W."""
        state = {"updates": np.array(self.updates)}
        for name, memory in self.memory.items():
            state |= {f"{name}.{what}": np.array(value) for what, value in memory.items()}
        return state

    def load_state_dict(self, arrays: Mapping[str, Any]) -> None:
        """Take up a state. Strict: exactly the names, shapes and dtypes of this optimiser's memory (all of it or none
        for each parameter), or ValueError naming each difference, and nothing is changed. States of version 0.1, which
        know the parameters by their places (`0.m`), are taken by place."""
        self.prepared(arrays)()

    def prepared(self, arrays: Mapping[str, Any]) -> Callable[[], None]:
        """What takes up this state when it is called, and cannot fail then. ValueError as `load_state_dict`."""
        given = {self._of_today(path): np.asarray(value) for path, value in arrays.items()}
        wanted = {"updates": np.array(self.updates)}
        memories: dict[str, Memory] = {name: {} for name in self._parameters}
        paths: dict[str, tuple[str, str]] = {}
        for name, x in self._parameters.items():
            of_this = {f"{name}.{what}": (name, what) for what in self._of(self._group_of[x]).remembers}
            if any(path in given for path in of_this):
                like = np.zeros(x.shape, _wide(x))
                wanted |= {path: np.array(0) if what == "t" else like for path, (_, what) in of_this.items()}
                paths |= of_this
        faults = misfits(wanted, given)
        if not faults:
            counts = {"updates": 0} | {path: 1 for path, (_, what) in paths.items() if what == "t"}
            faults = [f"{path} is {given[path]}" for path, least in counts.items() if given[path] < least]
        if faults:
            raise ValueError(f"the state does not fit {self._kind}: {'; '.join(sorted(faults))}")
        updates = int(given["updates"])
        for path, (name, what) in paths.items():
            memories[name][what] = int(given[path]) if what == "t" else given[path].astype(wanted[path].dtype)

        def take_up() -> None:
            self.updates, self.memory = updates, memories

        return take_up

    def _of_today(self, path: str) -> str:
        """The name of an entry; in version 0.1 the place of the parameter stood for its name."""
        place = re.fullmatch(r"(\d{1,9})\.(\w+)", path)
        if place is None or path.rpartition(".")[0] in self._parameters or int(place[1]) >= len(self._parameters):
            return path
        return f"{list(self._parameters)[int(place[1])]}.{place[2]}"


def _wide(x: Tensor) -> np.dtype[Any]:
    """In what an update is computed and remembered: for float16 ("e"), whose squares overflow at 256, in float32."""
    return np.promote_types(x.dtype, np.float32)


class SGD(Optimiser):
    """w <- w - lr·m with m <- momentum·m + g (m = g without momentum, and at first).

    `nesterov`: w <- w - lr·(g + momentum·m), the step looked ahead (Sutskever et al. 2013). `weight_decay` λ adds
    λ·w to g.

    >>> w = Tensor(0.5, requires_grad=True)
    >>> (0.5 * (w * w - 1) ** 2).backward()
    >>> SGD([w], lr=0.1).step()
    >>> w.item()
    0.575
    """

    momentum: float
    nesterov: bool
    weight_decay: float

    def __init__(
        self,
        parameters: Parameters | list[dict[str, Any]],
        lr: float | Schedule,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)

    def check(self) -> None:
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < np.inf:
            raise ValueError(
                f"SGD needs momentum in [0, 1) and weight_decay >= 0, got {self.momentum} and {self.weight_decay}"
            )
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov looks ahead along the momentum: it needs momentum > 0")
        self.remembers = ("m",) if self.momentum else ()

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
    >>> round(w.item(), 6)
    0.9
    """

    remembers = ("t", "m", "v")
    decoupled = False
    betas: tuple[float, float]
    eps: float
    weight_decay: float

    def __init__(
        self,
        parameters: Parameters | list[dict[str, Any]],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def check(self) -> None:
        betas, eps, decay = self.betas, self.eps, self.weight_decay
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas) or not eps >= 0 or not 0 <= decay < np.inf:
            raise ValueError(
                f"{self._kind} needs two betas in [0, 1), eps >= 0 and weight_decay >= 0, got {betas}, {eps}, {decay}"
            )

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
    >>> round(w.item(), 6)
    1.88
    """

    decoupled = True

    def __init__(
        self,
        parameters: Parameters | list[dict[str, Any]],
        lr: float | Schedule = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)


class RMSprop(Optimiser):
    """RMSprop (Hinton 2012, lecture 6e): the gradient over the root of the moving average of its squares,

    v <- alpha·v + (1 - alpha)·g² and w <- w - lr·g / (√v + eps). `centered`: √(v - mean²), with a moving average of g
    too (Graves 2013). `momentum`: m <- momentum·m + g / (√v + eps), and w <- w - lr·m. `weight_decay` λ adds λ·w to g.

    >>> w = Tensor(1.0, requires_grad=True)
    >>> (0.5 * w).backward()
    >>> RMSprop([w], lr=0.1, alpha=0.75).step()
    >>> round(w.item(), 6)
    0.8
    """

    alpha: float
    eps: float
    weight_decay: float
    momentum: float
    centered: bool

    def __init__(
        self,
        parameters: Parameters | list[dict[str, Any]],
        lr: float | Schedule = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(
            parameters, lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered
        )

    def check(self) -> None:
        alpha, eps, decay, momentum = self.alpha, self.eps, self.weight_decay, self.momentum
        if not 0 <= alpha < 1 or not 0 <= momentum < 1 or not eps >= 0 or not 0 <= decay < np.inf:
            raise ValueError(
                f"RMSprop needs alpha and momentum in [0, 1), eps >= 0 and weight_decay >= 0, got {alpha}, {momentum}, "
                f"{eps} and {decay}"
            )
        self.remembers = ("v", *["mean"] * bool(self.centered), *["m"] * bool(momentum))

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        if self.weight_decay:
            g = g + self.weight_decay * w
        new = {"v": self.alpha * memory.get("v", 0.0) + (1 - self.alpha) * (g * g)}
        spread = new["v"]
        if self.centered:
            new["mean"] = mean = self.alpha * memory.get("mean", 0.0) + (1 - self.alpha) * g
            spread = np.maximum(spread - mean * mean, 0)  # which rounding could take below 0
        step = g / (np.sqrt(spread) + self.eps)
        if self.momentum:
            new["m"] = step = self.momentum * memory.get("m", 0.0) + step
        return w - lr * step, new


class Adagrad(Optimiser):
    """Adagrad (Duchi, Hazan and Singer 2011): v <- v + g² from v = `initial` on, and w <- w - lr·g / (√v + eps).

    Each entry has a rate of its own, which falls as its gradients add up: for rows of an embedding that seldom occur.
    `weight_decay` λ adds λ·w to g. (PyTorch's lr_decay is a schedule: `lr=lambda n: lr / (1 + n * decay)`.)

    >>> w = Tensor(1.0, requires_grad=True)
    >>> (0.5 * w).backward()
    >>> Adagrad([w], lr=0.1).step()
    >>> round(w.item(), 6)
    0.9
    """

    remembers = ("v",)
    eps: float
    weight_decay: float
    initial: float

    def __init__(
        self,
        parameters: Parameters | list[dict[str, Any]],
        lr: float | Schedule = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        initial: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, eps=eps, weight_decay=weight_decay, initial=initial)

    def check(self) -> None:
        eps, decay, initial = self.eps, self.weight_decay, self.initial
        if not eps >= 0 or not 0 <= decay < np.inf or not 0 <= initial < np.inf:
            raise ValueError(
                f"Adagrad needs eps >= 0, weight_decay >= 0 and initial >= 0, got {eps}, {decay} and {initial}"
            )

    def rule(self, w: Array, g: Array, memory: Memory, lr: float) -> tuple[Array, Memory]:
        if self.weight_decay:
            g = g + self.weight_decay * w
        v = memory.get("v", self.initial) + g * g
        return w - lr * g / (np.sqrt(v) + self.eps), {"v": v}
