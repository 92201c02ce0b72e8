"""Charts of readings: of arrays and names, on axes that are given or made; what can be plotted calls these.

They need matplotlib (the extra `plot`), which is imported when a chart is asked for, and not before. They stand here
and not with the drawings, so that a chain, a matrix and a tape have their charts as methods without importing upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ..engine.signatures import Array

# Told apart by people who do not see all colours (Okabe and Ito 2008), and by their marks where there is no colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
FEW = 8  # units that are told apart as lines; more of them are a field of colours


def axes_for(ax: Any, wide: float = 6.4, high: float = 4.0) -> Any:
    """The axes that are given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'tinygrad-seq[plot]'") from None
    return pyplot.subplots(figsize=(wide, high), layout="constrained")[1]


def look_of(ax: Any) -> dict[str, Any]:
    """Colour and mark of the next curve on these axes: none that is there already."""
    k = sum(line.get_label()[:1] != "_" for line in ax.lines)
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKS[k % len(MARKS)], "markersize": 4}


def plot_left(ax: Any, left: Sequence[Any], bound: Sequence[Any], label: str) -> Any:
    """What is left of a credit after 0, 1, 2 ... steps back, on a log scale; its bound dashed in the same colour."""
    ax = axes_for(ax)
    look = look_of(ax) | {"marker": None if len(left) > 30 else look_of(ax)["marker"]}
    for values, style, name in ((left, {}, label), (bound, {"linestyle": "--", "marker": None, "lw": 1}, "_bound")):
        values = np.abs(np.asarray(values, float))
        seen = np.where((values > 0) & np.isfinite(values), values, np.nan)
        ax.plot(np.arange(len(values)), seen, label=name, **look | style)
    ax.set(xlabel="steps back", ylabel="what is left of the credit (dashed: the bound)", yscale="log")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_matrix(ax: Any, matrix: Array, rows: Sequence[str], columns: Sequence[str], title: str) -> Any:
    """A field for each entry: of truths dark where they hold; of numbers by colour, those about zero both ways."""
    ax = axes_for(ax, 1.8 + max(4.0, min(0.3 * len(columns), 9.0)), 1.4 + max(2.0, min(0.3 * len(rows), 8.0)))
    values = np.asarray(matrix)
    if values.dtype.kind == "b":
        image = ax.imshow(values, cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="none")
    else:
        largest = np.abs(values[np.isfinite(values)]).max(initial=0) or 1.0
        signed = bool((values < 0).any())
        scale = {"cmap": "PuOr_r", "vmin": -largest} if signed else {"cmap": "cividis", "vmin": 0}
        image = ax.imshow(values, vmax=largest, aspect="auto", interpolation="none", **scale)
        ax.figure.colorbar(image, ax=ax)
    for axis, names in ((ax.xaxis, columns), (ax.yaxis, rows)):
        every = 1 + len(names) // 30
        axis.set_ticks(range(0, len(names), every), [plain(name) for name in names[::every]])
    if sum(map(len, columns)) > 60:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_title(plain(title), fontsize="medium", wrap=True)
    return ax


def plot_units(ax: Any, steps: Sequence[int], values: Array, name: str, said: str) -> Any:
    """A tensor over time: a line for each of a few units; of many, a row of colours for each."""
    ax = axes_for(ax)
    values = np.asarray(values).reshape(len(steps), -1)
    units = values.shape[1]
    if units > FEW:
        signed = bool((values < 0).any())
        largest = np.abs(values[np.isfinite(values)]).max(initial=0) or 1.0
        edges = {"extent": (steps[0] - 0.5, steps[-1] + 0.5, units - 0.5, -0.5)}
        scale = {"cmap": "PuOr_r", "vmin": -largest} if signed else {"cmap": "cividis", "vmin": 0}
        image = ax.imshow(values.T, vmax=largest, aspect="auto", interpolation="none", **edges, **scale)
        ax.figure.colorbar(image, ax=ax, label=plain(name))
        ax.set(xlabel="step", ylabel="unit", title=plain(said))
        return ax
    for k, line in enumerate(values.T):
        label = plain(name if units == 1 else f"{name}[{k}]")
        look = look_of(ax) | ({"marker": None} if len(steps) > 30 else {})
        ax.plot(steps, line, label=label, **look)
    ax.set(xlabel="step", ylabel=plain(name), title=plain(said))
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def plot_training(ax: Any, first: int, losses: Sequence[float], evaluations: Sequence[tuple[int, Any]]) -> Any:
    """The loss of each update, their running mean, and beside it what was evaluated."""
    ax = axes_for(ax)
    updates = first + np.arange(len(losses))
    window = max(len(losses) // 40, 1)
    ax.plot(updates, losses, color=COLOURS[5], lw=1, alpha=0.6 if window > 1 else 1.0, label="loss")
    if window > 1:
        means = np.convolve(losses, np.ones(window) / window, "valid")
        ax.plot(updates[window - 1 :], means, color=COLOURS[0], lw=2, label=f"mean of {window}")
    ax.set(xlabel="update", ylabel="loss")
    positive = [loss for loss in losses if loss > 0]
    if len(positive) == len(losses) > 0 and max(positive) > 30 * min(positive):
        ax.set_yscale("log")
    ax.grid(alpha=0.3)
    numbers = [(k, float(value)) for k, value in evaluations if np.ndim(value) == 0 and _is_number(value)]
    handles = list(ax.get_lines())
    if numbers:
        other = ax.twinx()
        handles += other.plot(*zip(*numbers, strict=True), color=COLOURS[1], marker="o", ls=":", label="evaluation")
        other.set_ylabel("evaluation")
    ax.legend(handles=handles)
    return ax


def _is_number(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "fiub"


def plain(text: str) -> str:
    """A name as it is: no formula between dollar signs, and nothing that no font has."""
    return "".join(c if c.isprintable() else " " for c in text).replace("$", r"\$")
