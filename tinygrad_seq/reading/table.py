"""Tables as values: what a reading answers, to be printed, compared, or carried onto a page."""

from __future__ import annotations

import csv
import html
import io
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from ..engine.signatures import Array
from .plots import plot_matrix

# What stands for a sign where the terminal cannot print it.
ASCII = str.maketrans({
    "─": "-", "→": "->", "‖": "|", "σ": "sigma", "Σ": "sum", "∂": "d", "●": "x", "·": ".", "×": "x", "−": "-",
    "—": "-", "≠": "!=", "≤": "<=", "Π": "prod", "²": "^2", "√": "sqrt ", "ȳ": "dy", "⊙": "*",
})  # fmt: skip

LATEX = {c: f"\\{c}" for c in "#$%&_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", "→": r"$\to$", "‖": r"$\Vert$", "σ": r"$\sigma$", "Σ": r"$\Sigma$", "∂": r"$\partial$",
    "●": r"$\bullet$", "·": r"$\cdot$", "×": r"$\times$", "−": "$-$", "—": "---", "≠": r"$\neq$", "≤": r"$\leq$",
    "Π": r"$\Pi$", "²": "$^2$", "√": r"$\surd$", "⊙": r"$\odot$", "…": r"\dots{}", "ρ": r"$\rho$",
    **{c: f"$_{k}$" for k, c in enumerate("₀₁₂₃₄₅₆₇₈₉")}, "₋": "$_-$",
}  # fmt: skip


def number(x: Any, precision: int | None = None) -> str:
    """A number as short as it is exact in its own dtype, or with so many significant digits; -0.0 is 0.

    True and False are the marks ● and ·, None is a dash, and text is itself.

    >>> number(1.0), number(-0.0), number(0.5**16), number(np.float32(0.1)), number(2 / 3, precision=3)
    ('1', '0', '1.52587890625e-05', '0.1', '0.667')
    """
    if x is None or isinstance(x, str):
        return "—" if x is None else x
    if isinstance(x, np.ndarray):
        x = x[()]
    if isinstance(x, (bool, np.bool_)):
        return "●" if x else "·"
    if not isinstance(x, (float, np.floating)):
        return str(x)
    text = str(x) if precision is None else f"{float(x):.{precision}g}"
    return "0" if x == 0 else text.removesuffix(".0")


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under named columns. A value: `rows` are the numbers themselves, and printing them changes nothing.

    Numbers print as short as they are exact; `precision` sets a number of significant digits instead
    (`dataclasses.replace(table, precision=4)`). The last `foot` rows, such as a sum, are set
    apart by a line. Signs that the terminal's encoding lacks are spelled in ASCII. In a notebook it shows as HTML.

    >>> table = Table(("step", "h"), [(1, 1.0), (2, -0.5), (3, 0.25)], title="A state")
    >>> print(table)
    A state
    step      h
    ────  ─────
       1   1
       2  -0.5
       3   0.25
    >>> table.column("h")
    (1.0, -0.5, 0.25)
    >>> print(table.to_markdown())
    **A state**
    <BLANKLINE>
    | step | h |
    | ---: | ---: |
    | 1 | 1 |
    | 2 | -0.5 |
    | 3 | 0.25 |

    Raises ValueError where a row is not as long as the columns are many.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    foot: int = 0
    precision: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a table with the columns {self.columns} got a row of {len(row)} entries: {row}")

    def __repr__(self) -> str:
        return str(self)

    def column(self, name: str) -> tuple[Any, ...]:
        """The entries under one heading, from top to bottom."""
        if name not in self.columns:
            raise ValueError(f"the table has the columns {', '.join(map(repr, self.columns))}; got {name!r}")
        return tuple(row[self.columns.index(name)] for row in self.rows)

    def texts(self) -> list[list[str]]:
        """Every entry as it prints."""
        return [[number(x, self.precision).replace("\n", " ") for x in row] for row in self.rows]

    def to_text(self, ascii: bool = False) -> str:
        """For a terminal: columns aligned, numbers at their decimal points."""
        heads, lines = list(self.columns), self.texts()
        if ascii:
            heads = [head.translate(ASCII) for head in heads]
            lines = [[text.translate(ASCII) for text in line] for line in lines]
        columns = [
            _aligned(head, [line[k] for line in lines], [_has_point(row[k]) for row in self.rows], self._numeric(k))
            for k, head in enumerate(heads)
        ]
        rule = "  ".join(("-" if ascii else "─") * len(column[0]) for column in columns)
        printed = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
        cut = len(printed) - self.foot
        printed = [printed[0], rule, *printed[1:cut], *([rule] * bool(self.foot)), *printed[cut:]]
        title = self.title.translate(ASCII) if ascii else self.title
        return "\n".join([title, *printed] if title else printed)

    def __str__(self) -> str:
        return printable(self.to_text(), self.to_text(ascii=True))

    def to_markdown(self) -> str:
        """A pipe table, with the title as a bold line above it."""
        sides = ["---:" if self._numeric(k) else "---" for k in range(len(self.columns))]
        lines = [list(self.columns), sides, *self.texts()]
        rows = [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines]
        return "\n".join([f"**{self.title}**", "", *rows] if self.title else rows)

    def to_csv(self) -> str:
        """Comma-separated, a heading line first; numbers as they print, marks as 1 and 0."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            plain = ["" if x is None else int(x) if isinstance(x, (bool, np.bool_)) else x for x in row]
            writer.writerow([number(x, self.precision) for x in plain])
        return out.getvalue()

    def to_latex(self) -> str:
        """A tabular with the rules of the package booktabs, numbers to the right; the title is a comment before it."""
        sides = "".join("r" if self._numeric(k) else "l" for k in range(len(self.columns)))
        rows = [" & ".join(map(latex, line)) + r" \\" for line in self.texts()]
        cut = len(rows) - self.foot
        lines = [
            *([f"% {' '.join(self.title.split())}"] if self.title else []),
            rf"\begin{{tabular}}{{{sides}}}", r"\toprule",
            " & ".join(map(latex, self.columns)) + r" \\", r"\midrule", *rows[:cut],
            *([r"\midrule"] if self.foot else []), *rows[cut:], r"\bottomrule", r"\end{tabular}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def to_html(self) -> str:
        """A table element, numbers to the right."""
        heads = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        sides = [' style="text-align:right"' if self._numeric(k) else "" for k in range(len(self.columns))]
        rows = [
            "".join(f"<td{side}>{html.escape(text)}</td>" for side, text in zip(sides, line, strict=True))
            for line in self.texts()
        ]
        cut = len(rows) - self.foot
        parts = [
            f"<caption>{html.escape(self.title)}</caption>" if self.title else "",
            f"<thead><tr>{heads}</tr></thead>",
            f"<tbody>{''.join(f'<tr>{row}</tr>' for row in rows[:cut])}</tbody>",
            f"<tfoot>{''.join(f'<tr>{row}</tr>' for row in rows[cut:])}</tfoot>" if self.foot else "",
        ]
        return f"<table>{''.join(parts)}</table>"

    _repr_html_ = to_html

    def _numeric(self, k: int) -> bool:
        return any(row[k] is not None and type(row[k]) is not str for row in self.rows)


class Matrix(np.ndarray[Any, Any]):
    """A matrix whose rows and columns have names: an array in every other respect. It prints as a table.

    >>> seen = Matrix(np.array([[True, False], [True, True]]), ["y1", "y2"], ["x1", "x2"])
    >>> print(seen)
        x1  x2
    ──  ──  ──
    y1   ●   ·
    y2   ●   ●
    >>> bool(seen[0, 1]), int(seen.sum())
    (False, 3)
    """

    labels: tuple[tuple[str, ...], tuple[str, ...]] | None
    title: str

    def __new__(cls, array: Array, rows: Iterable[str], columns: Iterable[str], title: str = "") -> Matrix:
        matrix = np.asarray(array).view(cls)
        matrix.labels, matrix.title = (tuple(rows), tuple(columns)), title
        return matrix

    def __array_finalize__(self, source: Any) -> None:
        self.labels, self.title = None, ""  # the names are the whole matrix's, not its parts'

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]  # what is computed from it is a plain array, or number, again

    def table(self, precision: int | None = None) -> Table:
        """The matrix as a table, the names of the rows in the first column. ValueError for a part of a matrix."""
        if self.labels is None:
            raise ValueError("the names belong to the whole matrix; this is a part of it, or was computed from it")
        rows, columns = self.labels
        array = np.asarray(self)
        lines = [(name, *row) for name, row in zip(rows, array, strict=True)]
        return Table(("", *columns), lines, self.title, precision=precision)

    def __str__(self) -> str:
        return np.asarray(self).__str__() if self.labels is None else str(self.table())

    def plot(self, ax: Any = None) -> Any:
        """A field for each entry, dark where it is true; of numbers by size. Returns the axes; needs matplotlib.

        ValueError for a part of a matrix, which has no names.
        """
        if self.labels is None:
            raise ValueError("the names belong to the whole matrix; this is a part of it, or was computed from it")
        return plot_matrix(ax, np.asarray(self), *self.labels, self.title)

    def to_latex(self) -> str:
        """The matrix as a tabular in LaTeX (with the package booktabs)."""
        return self.table().to_latex()

    def to_markdown(self) -> str:
        """The matrix as a table in Markdown."""
        return self.table().to_markdown()

    def to_csv(self) -> str:
        """The matrix as comma-separated values, with the names of rows and columns."""
        return self.table().to_csv()

    def _repr_html_(self) -> str | None:
        return None if self.labels is None else self.table().to_html()


def printable(text: str, plain: str) -> str:
    """The text if standard output can print it, else the plain one."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return plain.encode(encoding, "backslashreplace").decode(encoding)
    return text


def shortened(rows: Sequence[Sequence[Any]], foot: int = 0, most: int = 60) -> list[Sequence[Any]]:
    """Rows for a notebook: of very many the first and the last, and between them how many are left out."""
    body, feet = list(rows[: len(rows) - foot]), list(rows[len(rows) - foot :])
    if len(body) > most:
        said = f"… {len(body) - most} rows left out; print it to read all"
        gap = ["", "", said, *[""] * (len(body[0]) - 3)]
        body = [*body[: most // 2], gap, *body[-(most // 2) :]]
    return [*body, *feet]


def latex(text: str) -> str:
    """A text as LaTeX shows it: its own signs spelled out, those of mathematics as formulas.

    >>> print(latex("∂L/∂w_0 = -1.5e-05 & 3%"))
    $\\partial$L/$\\partial$w\\_0 = $-1.5\\times10^{-5}$ \\& 3\\%
    """
    if match := re.fullmatch(r"(.*?)(-?\d+(?:\.\d+)?)e([+-]\d+)(.*)", text, re.DOTALL):
        before, mantissa, exponent, after = match.groups()
        return latex(before) + rf"${mantissa}\times10^{{{int(exponent)}}}$" + latex(after)
    if re.fullmatch(r"-\d+(\.\d+)?", text):
        return f"${text}$"
    return "".join(LATEX.get(c, c if c.isprintable() else " ") for c in text)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Lines of text, each column as wide as it needs; an empty column takes no room."""
    columns = [[*column] for column in zip_longest(*rows, fillvalue="")]
    widths = [max(map(len, column)) for column in columns]
    kept = [[text.ljust(n) for text in column] for column, n in zip(columns, widths, strict=True) if n]
    return "\n".join("  ".join(line).rstrip() for line in zip(*kept, strict=True))


def _aligned(head: str, texts: list[str], pointed: list[bool], numeric: bool) -> list[str]:
    """One column, its heading first, every line of the same width; numbers stand at their decimal points."""
    if any(pointed):
        points = [_point(text) if has else 0 for text, has in zip(texts, pointed, strict=True)]
        left = max(points)
        texts = [" " * (left - p) + text if has else text for text, p, has in zip(texts, points, pointed, strict=True)]
        right = max(len(text) for text, has in zip(texts, pointed, strict=True) if has)
        texts = [text.ljust(right) if has else text for text, has in zip(texts, pointed, strict=True)]
    width = max(map(len, [head, *texts]))
    return [text.rjust(width) if numeric else text.ljust(width) for text in (head, *texts)]


def _has_point(x: Any) -> bool:
    return not isinstance(x, (str, bool, np.bool_))


def _point(text: str) -> int:
    """Where the decimal point stands, or would stand."""
    return min(k for k in (text.find("."), text.find("e"), len(text)) if k >= 0)
