"""Derivatives measured by evaluating a function a little to the side: no rule is asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..engine.backward import grad
from ..engine.recording import no_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, rebind

STEP = 1e-25  # of the complex step: its square vanishes beside 1, and nothing is subtracted


class Function:
    """f, as a function of all its variables: the inputs, and the parameters that it closes over."""

    def __init__(self, f: Callable[..., Any], inputs: Sequence[Array], parameters: Sequence[Tensor], name: str) -> None:
        self.f, self.parameters, self.name = f, list(parameters), name
        self.arrays = [*inputs, *(array_of(x) for x in parameters)]
        self.labels = [f"input {i}" for i in range(len(inputs))] + [x.label() for x in parameters]
        self.cotangents: list[Array | None] = []
        self.eps = 0.0  # of the outputs' precision
        self.scale = 0.0  # of the numbers that the outputs are made of, where that is known to be larger than they are

    @contextmanager
    def at(self, arrays: Sequence[Array]) -> Iterator[list[Tensor]]:
        """Leaves that hold these arrays; the parameters hold theirs for the time being. They may be complex."""
        n = len(arrays) - len(self.parameters)
        leaves = [Tensor(np.zeros(np.shape(a)), requires_grad=True) for a in arrays[:n]]
        for x, array in zip(leaves, arrays[:n], strict=True):
            rebind(x, np.array(array, order="C"))  # complex ones too, which nobody else may take a gradient at
        kept = [array_of(x) for x in self.parameters]
        try:
            for x, array in zip(self.parameters, arrays[n:], strict=True):
                rebind(x, array)
            yield [*leaves, *self.parameters]
        finally:
            for x, array in zip(self.parameters, kept, strict=True):
                rebind(x, array)

    def __call__(self, variables: Sequence[Tensor]) -> list[Tensor]:
        result = self.f(*variables[: len(variables) - len(self.parameters)])
        if result is None:
            raise TypeError(f"{self.name} returned None where Tensors are needed: is a return statement missing?")
        return list(_outputs(result, self.name, ""))

    def draw_cotangents(self, ys: Sequence[Tensor], rng: np.random.Generator) -> None:
        """Random weights for the outputs: of both signs, no two alike, none near 0."""
        self.cotangents = [
            rng.choice((-1.0, 1.0), y.shape) * rng.uniform(0.5, 1.5, y.shape) if y.dtype.kind == "f" else None
            for y in ys
        ]
        if all(u is None for u in self.cotangents):
            raise TypeError(f"{self.name} returns no floating-point tensor, so it has no gradient")

    def weighed(self, arrays: Sequence[Array]) -> tuple[Any, float]:
        """Σ cotangent·output, and the sum of the sizes of its terms, which its rounding error is in proportion to."""
        with no_grad(), np.errstate(all="ignore"), warnings.catch_warnings(), self.at(arrays) as variables:
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            terms = [u * array_of(y) for y, u in zip(self(variables), self.cotangents, strict=True) if u is not None]
            return sum(t.sum() for t in terms), float(sum(np.abs(t).sum() for t in terms))

    def recorded(self, ys: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The outputs that were recorded, and their cotangents as seeds."""
        live = [(y, u) for y, u in zip(ys, self.cotangents, strict=True) if u is not None and y.requires_grad]
        seeds = [u.astype(y.dtype) if y.dtype.kind == "f" else u for y, u in live]
        return [y for y, _ in live], seeds[0] if len(seeds) == 1 else seeds

    def gradients(self, variables: Sequence[Tensor], ys: Sequence[Tensor], graph: bool = False) -> list[Any]:
        """The gradient of Σ cotangent·output for each variable, as the engine gives it."""
        live, seeds = self.recorded(ys)
        if not live:
            return [Tensor(np.zeros_like(array_of(x))) if graph else np.zeros_like(array_of(x)) for x in variables]
        return list(grad(live, variables, seeds, create_graph=graph))


def _outputs(result: Any, name: str, path: str) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        for key, part in result.items():
            yield from _outputs(part, name, f"{path}[{key!r}]")
    elif isinstance(result, (tuple, list)):
        for i, part in enumerate(result):
            yield from _outputs(part, name, f"{path}[{i}]")
    elif result is not None:  # an empty place in a state
        raise TypeError(
            f"{name} returned {type(result).__name__} {f'at {path} ' if path else ''}where Tensors are needed: "
            "float(), .data, .item() and np.asarray leave the graph"
        )


class Slope(NamedTuple):
    """A derivative as it was measured, how far it may be off, and how far by rounding alone."""

    value: float
    error: float = 0.0
    noise: float = 0.0


def along(direction: Sequence[Any], arrays: Sequence[Array], h: complex) -> list[Array]:
    """The variables, moved by h along a direction (None: this variable stays)."""
    return [a if v is None else a + h * v for a, v in zip(arrays, direction, strict=True)]


def entry(arrays: Sequence[Array], k: int, index: tuple[int, ...]) -> list[Array | None]:
    """The direction of one entry of variable k."""
    direction: list[Array | None] = [None] * len(arrays)
    one = np.zeros(arrays[k].shape)
    one[index] = 1
    direction[k] = one
    return direction


def complex_slope(function: Function, arrays: Sequence[Array], direction: Sequence[Any]) -> Slope:
    """Im f(x + ihv) / h: exact to rounding where f is analytic."""
    value, _ = function.weighed([a.astype(complex) for a in along(direction, arrays, 1j * STEP)])
    if not np.iscomplexobj(value):
        raise TypeError(f"{function.name} gives real numbers for complex ones")
    return Slope(float(np.imag(value) / STEP))


def central_slopes(function: Function, arrays: Sequence[Array], direction: Sequence[Any]) -> Iterator[Slope]:
    """Richardson's extrapolation with ever smaller steps: the first is the most exact one, the later ones serve where
    a kink or the end of the domain is near."""
    moving = [(a, v) for a, v in zip(arrays, direction, strict=True) if v is not None]
    largest = max(float(np.abs(v).max(initial=0)) for _, v in moving)
    around = max(float(np.abs(a[v != 0]).max(initial=1)) for a, v in moving)
    start = 2.0 ** np.round(np.log2(function.eps ** (1 / 7) * around / largest)) if largest else 1.0
    for shrink in range(9):
        differences, noise = [], 0.0
        for h in (start / 16.0**shrink / n for n in (1, 2, 4)):
            above, size = function.weighed(along(direction, arrays, h))
            below, _ = function.weighed(along(direction, arrays, -h))
            differences.append(float(above - below) / (2 * h))
            noise = 4 * function.eps * max(size, function.scale) / h
        if np.isfinite(differences).all():
            first, second, third = differences
            coarse, fine = (4 * second - first) / 3, (4 * third - second) / 3
            best = (16 * fine - coarse) / 15
            yield Slope(best, abs(best - fine) + noise, noise)


def kink(function: Function, arrays: Sequence[Array], direction: Sequence[Any]) -> tuple[float, float] | None:
    """The slopes to the left and to the right where they differ however small the step: f has a kink here. Where f
    jumps, any slope lies between them: from -inf to inf."""
    here, size = function.weighed(arrays)
    sides = []
    for h in (1e-5, 1e-7):
        right = float(function.weighed(along(direction, arrays, h))[0] - here) / h
        left = float(here - function.weighed(along(direction, arrays, -h))[0]) / h
        sides.append((left, right))
    if not np.isfinite(sides[1]).all():
        return sides[1]
    noise = 100 * function.eps * max(size, function.scale) / 1e-7
    if any(abs(near) > max(30 * abs(far), noise) for far, near in zip(*sides, strict=True)):
        return -np.inf, np.inf
    gaps = [abs(right - left) for left, right in sides]
    bent = gaps[1] > 0.3 * gaps[0] and gaps[1] > noise + 1e-3 * max(map(abs, sides[1]))
    return sides[1] if bent else None
