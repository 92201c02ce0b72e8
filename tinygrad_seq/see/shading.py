"""A text as its own chart: each character, or token, shaded by how much a prediction depends on it."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..reading.plots import axes_for, plain
from ..reading.table import number

# What the largest weight is shaded with, a positive and a negative one; the ink stands out from both by 4.5 to 1.
POSITIVE, NEGATIVE, INK = (245, 158, 66), (110, 170, 235), "#1a1a1a"
LINE = 64  # letters in a line of a chart


class Shaded:
    """A text with a weight for each of its parts; in a notebook it shows itself. Made by `tg.see.text`.

    `parts` and `weights` are what it was made of. `html()` is an HTML element, `plot(ax=None)` a chart (the extra
    `plot`), `save(path)` writes .html.

    >>> Shaded("ab", np.array([1.0, -0.5])).html().count("underline")
    1
    """

    def __init__(self, parts: Sequence[str], weights: Array) -> None:
        self.parts, self.weights = tuple(parts), weights

    def html(self) -> str:
        """A paragraph, a span for each part; what a weight is stands in its title."""
        joint = " " if any(len(part) > 1 for part in self.parts) else ""
        spans = joint.join(
            f'<span title="{html.escape(_said(part, w))}" style="background:{_colour(share)}'
            f'{_underline(w)}">{html.escape(_printable(part))}</span>'
            for part, w, share in zip(self.parts, self.weights, self._shares(), strict=True)
        )
        return (
            f'<p style="background:#fff;color:{INK};font:1.05rem/1.9 ui-monospace,monospace;white-space:pre-wrap;'
            f'padding:.6em">{spans}</p>'
        )

    _repr_html_ = html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a page of its own. ValueError for another suffix than .html."""
        if Path(path).suffix not in (".html", ".htm"):
            raise ValueError(f"a shaded text is saved as .html, got {os.fspath(path)!r}")
        page = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>A text</title>{self.html()}</html>\n'
        Path(path).write_text(page, encoding="utf-8")

    def plot(self, ax: Any = None) -> Any:
        """The text on matplotlib axes, which it returns; lines are broken where they are full."""
        lines = self._lines()
        ax = axes_for(ax, 8.0, 0.6 + 0.34 * len(lines))
        shares, gap = self._shares(), any(len(part) > 1 for part in self.parts)
        for row, line in enumerate(lines):
            x = 0
            for k in line:
                part = _printable(self.parts[k]).replace("\n", "↵")
                ax.barh(row, len(part), left=x, height=0.9, color=_colour(shares[k]), edgecolor="none")
                under = {"lw": 0.8, "color": INK} if self.weights[k] < 0 else {"lw": 0}
                ax.plot([x, x + len(part)], [row + 0.36] * 2, **under)
                for j, letter in enumerate(part):
                    ax.text(x + j + 0.5, row, plain(letter), ha="center", va="center", family="monospace", color=INK)
                x += len(part) + gap
        ax.set(xlim=(0, max(LINE, 1)), ylim=(len(lines) - 0.5, -0.5))
        ax.set_axis_off()
        return ax

    def _shares(self) -> Array:
        """The weights as parts of the largest; nan where one is not finite."""
        finite = np.where(np.isfinite(self.weights), self.weights, np.nan)
        largest = np.nanmax(np.abs(finite), initial=0.0) if finite.size else 0.0
        return finite / largest if largest > 0 else finite

    def _lines(self) -> list[list[int]]:
        lines: list[list[int]] = [[]]
        x, gap = 0, any(len(part) > 1 for part in self.parts)
        for k, part in enumerate(self.parts):
            if lines[-1] and x + len(part) > LINE:
                start = next((j + 1 for j in reversed(lines[-1]) if self.parts[j].isspace()), k)  # not within a word
                lines += [[j for j in lines[-1] if j >= start]]
                lines[-2] = [j for j in lines[-2] if j < start]
                x = sum(len(self.parts[j]) + gap for j in lines[-1])
            lines[-1].append(k)
            x += len(part) + gap
            if part == "\n":
                lines.append([])
                x = 0
        return lines

    def __repr__(self) -> str:
        return f"Shaded({len(self.parts)} parts; .html(), .plot() or .save(path))"


def text(text: str | Sequence[str], weights: Any) -> Shaded:
    """The text itself as a chart: each character (of a list of tokens each token) is shaded by its weight.

    A weight may be how much a chosen prediction depends on the character: the norm of the gradient that came to it.
    The largest gets the full colour; negative ones are blue and underlined; what is not finite is struck out.

    >>> import tinygrad_seq as tg
    >>> xs = tg.Tensor([[1.0], [0.0], [2.0]], requires_grad=True)
    >>> loss = (xs * np.array([[0.5], [0.0], [-2.0]])).sum()
    >>> shaded = tg.see.text("abc", tg.Tape(loss).flow()[xs][:, 0])
    >>> shaded.weights.tolist(), shaded.html().count("<span")
    ([0.5, 0.0, -2.0], 3)

    ValueError where the weights are not one for each character or token; TypeError where the parts are no strings.
    """
    parts = list(text)
    if strangers := [type(part).__name__ for part in parts if not isinstance(part, str)]:
        raise TypeError(f"a text is a string, or a list of tokens that are strings; got {', '.join(set(strangers))}")
    array = np.asarray(array_of(weights) if isinstance(weights, Tensor) else weights, float)
    if array.shape != (len(parts),):
        kind = "characters" if isinstance(text, str) else "tokens"
        raise ValueError(
            f"the weights need one entry for each of the {len(parts)} {kind}, shape ({len(parts)},), got "
            f"{array.shape}; of a gradient with a row for each take the norm: np.linalg.norm(g, axis=-1)"
        )
    return Shaded(parts, array.copy())


def _colour(share: float) -> str:
    if not np.isfinite(share):
        return "#d0d0d0"
    full = POSITIVE if share >= 0 else NEGATIVE
    return "#" + "".join(f"{round(255 + (c - 255) * abs(share)):02x}" for c in full)


def _underline(w: float) -> str:
    return ";text-decoration:line-through" if not np.isfinite(w) else ";text-decoration:underline" if w < 0 else ""


def _said(part: str, w: float) -> str:
    return f"{_printable(part)!r}: {number(float(w), 4)}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
