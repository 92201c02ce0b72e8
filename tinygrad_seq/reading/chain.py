"""The chain of a state: the factor by which each step multiplies the credit that goes back along it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.backward import Crosses, sweep
from ..engine.signatures import Array
from ..engine.tensor import Tensor, record_of
from .ledger import Entry, digits, heading
from .plots import plot_left
from .table import Table


def place_after(order: Sequence[Tensor], x: Tensor) -> int:
    """Where on a tape in order of recording what comes after x begins."""
    number = 0 if x.record is None else x.record.number
    return bisect_right(order, number, key=lambda t: record_of(t).number)


def factor(order: Sequence[Tensor], y: Tensor, x: Tensor, crosses: Crosses) -> Array:
    """∂y/∂x along the edges that credit may pass, as a matrix of y.size rows and x.size columns.

    Only what was recorded between the two is read, so a chain of T factors costs as much as one pass for each row.
    """
    on_the_way, between = {x}, []

    def open_edge(t: Tensor, i: int) -> bool:
        return record_of(t).inputs[i] in on_the_way and (crosses is None or crosses(t, i))

    for t in order[place_after(order, x) : place_after(order, y)]:
        if any(open_edge(t, i) for i in record_of(t).needs):
            on_the_way.add(t)
            between.append(t)

    rows = np.zeros((y.size, x.size), x.dtype)
    for k, seed in enumerate(np.eye(y.size, dtype=y.dtype)):
        g = sweep(list(between), {y: seed.reshape(y.shape)}, open_edge).get(x)
        if g is not None:
            rows[k] = np.asarray(g).reshape(-1)
    return rows


def largest_singular_value(J: Array) -> Any:
    """How much J can lengthen a vector; nan where an entry is not finite, as after an explosion."""
    return np.linalg.norm(J, 2) if np.isfinite(J).all() else J.dtype.type(np.nan)


class Chain(Table):
    """The table of `Flow.chain`, which can be plotted."""

    def plot(self, ax: Any = None, label: str | None = None) -> Any:
        """What is left of the credit against the distance, on a log scale, and dashed the bound of it.

        On `ax` if it is given (several chains on one), else on new axes; returned are the axes. Needs matplotlib.
        ValueError where no credit came to the last state.
        """
        left = [1.0, *self.column("left")]
        if None in left:
            raise ValueError(f"no credit came to the last state, so nothing can be left of it: {self.title}")
        bound = self.column("bound" if "bound" in self.columns else "product")
        return plot_left(ax, left, [1.0, *bound], label or self.title.removeprefix("Credit going back along "))


def chain(
    order: Sequence[Tensor], states: Sequence[Tensor], incoming: Array, crosses: Crosses, entry: Entry, precision: Any
) -> Chain:
    """The table of `Flow.chain`: states in the order of recording, and what arrived at the last of them."""
    last, name, matrix = states[-1], states[-1].name, states[-1].size > 1
    length = np.linalg.norm(incoming)
    arrived = sweep(list(order), {last: incoming / length if length else incoming}, crosses)
    product, bound = np.eye(last.size, dtype=last.dtype), last.dtype.type(1)
    rows: list[tuple[Any, ...]] = []
    for y, x in zip(states[:0:-1], states[-2::-1], strict=True):
        J = factor(order, y, x, crosses)
        product = product @ J
        largest = largest_singular_value(J)
        bound = bound * largest
        left = None if not length else np.linalg.norm(arrived[x]) if x in arrived else last.dtype.type(0)
        step = f"{y.step} → {'start' if x.step is None else x.step}"
        if not matrix:
            rows.append((step, J[0, 0], product[0, 0], left))
        elif entry is None:
            rows.append((step, np.linalg.norm(J), largest, largest_singular_value(product), left, bound))
        else:
            rows.append((step, J[entry], largest, product[entry], left, bound))
    factor_head, product_head = f"∂{name}/∂{name} before", "product"
    columns: tuple[str, ...] = ("from → to", factor_head, product_head, "left")
    if matrix:
        columns = (
            "from → to", heading(factor_head, last, entry), "largest σ", heading(product_head, last, entry), "left",
            "bound",
        )  # fmt: skip
    return Chain(columns, rows, f"Credit going back along {name}", precision=digits(precision, matrix))
