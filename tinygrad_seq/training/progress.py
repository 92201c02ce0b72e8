"""How far a run has come: what is counted, kept in a checkpoint, and shown."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Progress:
    """What a run has come to besides its weights; as a text, it goes into a checkpoint, every number exact.

    >>> progress = Progress()
    >>> progress.add({"loss": 1.0}, 1.0), progress.add({"loss": 4.0}, 2.0)
    (None, None)
    >>> progress.means(), Progress.read(progress.text()) == progress
    ({'loss': 3.0}, True)
    """

    batches: int = 0
    """How many were used."""
    rows: list[dict[str, float]] = field(default_factory=list)
    """What was reported, row by row."""
    window: dict[str, list[float]] = field(default_factory=dict)
    """Since the last row, by name: the sum, and the sum of the weights."""
    best: tuple[int, float] | None = None
    """After how many updates the validation was best, and what it was."""
    waited: int = 0
    """How many validations have not been better since."""

    def add(self, figures: Mapping[str, float], weight: float) -> None:
        """Count the loss and the figures of a batch."""
        for name, value in figures.items():
            sums = self.window.setdefault(name, [0.0, 0.0])
            sums[0] += weight * value
            sums[1] += weight

    def means(self) -> dict[str, float]:
        """The means since the last row."""
        return {name: total / weight if weight else math.nan for name, (total, weight) in self.window.items()}

    def begin(self, row: dict[str, float]) -> None:
        """Keep a row, and begin the next."""
        self.rows.append(row)
        self.window = {}

    def counts(self, update: int, value: float) -> bool:
        """Count a validation; whether it is the best so far."""
        better = self.best is None or value < self.best[1] or (value == value and math.isnan(self.best[1]))
        if better:
            self.best, self.waited = (update, value), 0
        else:
            self.waited += 1
        return better

    def text(self) -> str:
        """All of it as JSON."""
        return json.dumps(asdict(self), default=float)

    @classmethod
    def read(cls, text: str) -> Progress:
        """The progress that has this text. ValueError for another text."""
        try:
            found = json.loads(text)
            best = found["best"] and (int(found["best"][0]), float(found["best"][1]))
            batches, waited = (int(found[name]) for name in ("batches", "waited"))
            rows = [{str(name): x for name, x in row.items()} for row in found["rows"]]
            window = {str(name): [float(x), float(weight)] for name, (x, weight) in found["window"].items()}
            numbers = [x for row in rows for x in row.values()]
            if min(batches, waited) < 0 or not all(isinstance(x, int | float) for x in numbers):
                raise ValueError("its counts are wrong")
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError) as error:
            raise ValueError(f"this is not the progress of a run: {error}") from None
        return cls(batches, rows, window, best, waited)


class Teller:
    """Shows how far a run is: on a terminal one line that is rewritten, elsewhere a line for each report.

    `show`: whether; None: on a terminal only.
    """

    def __init__(self, show: bool | None, start: int, total: int | None) -> None:
        self.start, self.total = start, total
        self.rewritten = sys.stderr.isatty()
        self.shown = self.rewritten if show is None else show
        self.began = self.last = time.perf_counter()
        self.width = 0

    def tell(self, row: Mapping[str, Any], last: bool = False) -> None:
        """Show a row; between two reports only on a terminal, and not more often than the eye can follow."""
        now = time.perf_counter()
        if not self.shown or not (last or (self.rewritten and now - self.last > 0.25)):
            return
        self.last, done = now, row["update"]
        rate = (done - self.start) / max(now - self.began, 1e-9)
        line = f"update {done}" + ("" if self.total is None else f" of {self.total}")
        for name, value in row.items():
            if name != "update":
                line += f"   {name} {value:.4g}" if isinstance(value, float) else f"   {name} {value}"
        line += f"   {rate:.3g} updates per second"
        if self.total is not None:
            line += f"   {(self.total - done) / rate:.0f} s left"
        if not self.rewritten:
            print(line, file=sys.stderr)
            return
        line = line[: shutil.get_terminal_size().columns - 1]
        print(f"\r{line.ljust(self.width)}", end="", file=sys.stderr, flush=True)
        self.width = len(line)

    def end(self) -> None:
        """Leave the line."""
        if self.width:
            print(file=sys.stderr)
