"""A batch in parts: each part has a program of its own, and they run in threads.

The parts' losses and gradients are added in their order, always the same, so that the same numbers come out each time:
those of the whole batch to rounding. That holds for a loss that is a sum over the rows of the batch, which is looked at
when the step is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..engine.tree import flattened, rebuilt
from .reference import difference


class Playable(Protocol):
    """What has been recorded and can be played."""

    parameters: list[Tensor]
    program: Any
    first: list[Array]
    generators: list[Any]
    memory: list[Array]
    draws: bool
    names: list[str]
    gradients: slice

    def outdated(self) -> str: ...
    def play(self, arrays: Sequence[Any]) -> list[Array]: ...
    def delivered(self, values: list[Array]) -> Any: ...


class Shards:
    """The recordings of the parts of a batch; played, they give what one recording of the whole would give."""

    def __init__(
        self,
        record: Callable[[Any, list[Any]], Playable],
        signature: Any,
        arrays: list[Any],
        axes: Sequence[int | None],
        n: int,
        whole: Callable[[Sequence[Tensor]], list[Array]],
    ) -> None:
        self._axes = axes
        rows = {array_of(x).shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None}
        if len(rows) != 1:
            raise ValueError(f"shards are parts of one batch; along these axes the arguments have {sorted(rows)} rows")
        (rows_before,) = rows
        self._ends = [rows_before * k // n for k in range(n + 1)]
        self._parts: list[Playable] = []
        for part in self._divided(arrays):
            self._parts.append(record(flattened(rebuilt(signature, iter(part)), []), part))
        first = self._parts[0]
        self.parameters, self.program, self.names, self.gradients = (
            first.parameters, first.program, first.names, first.gradients,
        )  # fmt: skip
        self.generators: list[Any] = []
        self.memory = [buffer for part in self._parts for buffer in part.memory]
        if any(part.draws for part in self._parts):
            raise ValueError(
                "a step in shards draws no random numbers, for which part drew first would be chance: draw the masks "
                "before the step, of the whole batch, and pass them as arguments, with their axes"
            )
        if any(part.parameters != self.parameters for part in self._parts):
            raise ValueError("the parts of the batch reach different parameters: name them, wrt=net")
        self._ready = False
        self._threads = ThreadPoolExecutor(max(len(self._parts) - 1, 1), "replay")
        reference = whole(self.parameters)
        self._joins = [
            self._axis_of(name, y, [part.first[k] for part in self._parts])
            for k, (name, y) in enumerate(zip(self.names, reference, strict=True))
        ]
        self.first = self._joined([part.first for part in self._parts])
        if fault := difference(self.names, self.first, reference, False, self.gradients):
            raise ValueError(
                f"added over {len(self._parts)} parts of the batch, {fault}: shards are for a loss that is a sum over "
                "rows. Of a mean, write the sum divided by the number of rows of the whole batch, passed as a number: "
                "losses.sum() / rows; and add what is not of the rows (a penalty) outside of the step"
            )

    def _divided(self, arrays: Sequence[Any]) -> list[list[Any]]:
        """The arguments of each part: views."""
        parts = []
        for start, end in zip(self._ends[:-1], self._ends[1:], strict=True):
            if end > start or self._ends[-1] == 0:
                parts.append([
                    x if axis is None else array_of(x)[(*(slice(None),) * axis, slice(start, end))]
                    for x, axis in zip(arrays, self._axes, strict=True)
                ])  # fmt: skip
            if self._ends[-1] == 0:
                break
        return parts

    def _axis_of(self, name: str, whole: Array, parts: Sequence[Array]) -> int | None:
        """Along which axis the parts of a result are joined; None: they are added."""
        if name == "loss" or name.startswith("the gradient"):
            return None
        for axis in range(whole.ndim):
            rest = [(*x.shape[:axis], *x.shape[axis + 1 :]) for x in (whole, *parts)]
            fits = len(set(rest)) == 1 and whole.shape[axis] == sum(x.shape[axis] for x in parts)
            if fits and (len(parts) == 1 or whole.shape != parts[0].shape):
                return axis
        if len(parts) == 1:
            return None
        raise ValueError(
            f"{name} has shape {whole.shape} for the whole batch and {parts[0].shape} for a part of it: in shards a "
            "step returns, beside the loss, what has a row for each row of the batch"
        )

    def _joined(self, parts: Sequence[Sequence[Array]]) -> list[Array]:
        """The results of the whole from those of the parts, in their order."""
        joined = []
        for axis, *values in zip(self._joins, *parts, strict=True):
            if axis is not None:
                joined.append(np.concatenate(values, axis))
                continue
            total = values[0]
            for value in values[1:]:
                total = np.asarray(total + value, total.dtype)
            joined.append(total)
        return joined

    def outdated(self) -> str:
        """What has changed that the recordings took for granted, in words."""
        return next(filter(None, (part.outdated() for part in self._parts)), "")

    def play(self, arrays: Sequence[Any]) -> list[Array]:
        """Run all parts, the first in this thread, and join their results."""
        divided, errors = self._divided(arrays), np.geterr()

        def run(part: Playable, arguments: list[Any]) -> list[Array]:
            with np.errstate(**errors):  # which every thread has of its own
                return part.play(arguments)

        pairs = list(zip(self._parts, divided, strict=True))
        if not self._ready:  # a program is prepared at its first run: one after the other
            self._ready = True
            return self._joined([run(*pair) for pair in pairs])
        waiting = [self._threads.submit(run, *pair) for pair in pairs[1:]]
        try:
            first = run(*pairs[0])
        finally:
            wait(waiting)
        return self._joined([first, *(each.result() for each in waiting)])

    def delivered(self, values: list[Array]) -> Any:
        return self._parts[0].delivered(values)
