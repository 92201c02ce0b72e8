"""The training loop, for those who do not want to write it: progress, checkpoints, and a clean way to stop."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.arguments import whole_number
from ..engine.recording import no_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..nn.module import Module
from ..nn.unrolling import detach
from ..optim import Optimiser, clip_grad_norm
from ..reading.plots import plot_training
from ..reading.table import Table
from ..reading.tape import Tape
from ..replaying.recorder import Replay
from ..replaying.recorder import replay as replayed
from .checkpoint import FilePath, load, save
from .progress import Progress, Teller


class Training(NamedTuple):
    """What a run came to.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(1.0, requires_grad=True)
    >>> run = tg.fit(lambda x: w * x, [2.0, 4.0], tg.optim.SGD([w], lr=0.5), evaluate=w.item, every=1)
    >>> run.updates, run.losses, run.evaluations, run.interrupted
    (2, [2.0, 0.0], [(1, 0.0), (2, -2.0)], False)
    >>> print(run.table())
    update  loss  evaluation
    ──────  ────  ──────────
         1     2           0
         2     0          -2
    """

    updates: int
    """Made in all, those before a resumption included."""
    losses: list[float]
    """Of each update that was made now."""
    evaluations: list[tuple[int, Any]]
    """After how many updates, and what `evaluate` returned then."""
    state: Any
    """What the last step carried on."""
    interrupted: bool
    """Whether Ctrl-C ended it."""
    figures: list[dict[str, float]]
    """Of each update that was made now, what the step returned besides its loss."""
    rows: list[dict[str, float]]
    """For each report, those before a resumption included: the number of updates, the mean loss and figures since the
    report before, and what was found by `validate` and `evaluate`."""
    best: tuple[int, float] | None
    """After how many updates `validate` found the least, and what it was; with `patience`, the weights are those."""

    def table(self) -> Table:
        """A row for each report: updates, mean loss and figures, validation, evaluation."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        lines = [[row.get(name) for name in columns] for row in self.rows]
        return Table(columns or ("update", "loss"), lines, precision=4)

    def to_csv(self, path: FilePath) -> None:
        """Write the table as a CSV file, every number as exact as it is."""
        Path(path).write_text(replace(self.table(), precision=None).to_csv(), "utf-8", newline="")

    def plot(self, ax: Any = None) -> Any:
        """The loss of each update that was made now, their running mean, and the evaluations that are numbers.

        On `ax` if it is given, else on new axes; returned are the axes. Needs matplotlib (the extra `plot`).
        """
        return plot_training(ax, self.updates - len(self.losses) + 1, self.losses, self.evaluations)

    def _repr_html_(self) -> str:
        return self.table().to_html()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within, Ctrl-C breaks in nowhere: it is noted, and asked for between two updates. A second one breaks in.

    >>> with interruptible() as stopped:
    ...     for update in range(3):
    ...         if stopped():
    ...             break
    >>> update
    2
    """
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # signals arrive nowhere else
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield lambda: bool(noted)
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


def fit(
    step: Callable[..., Any],
    batches: Iterable[Any] | Callable[[int], Any],
    optimiser: Optimiser | Sequence[Optimiser],
    *,
    updates: int | None = None,
    state: Any = None,
    clip: float = math.inf,
    accumulate: int = 1,
    rows: Callable[..., float] | None = None,
    evaluate: Callable[[], Any] | None = None,
    until: Callable[[Any], bool] | None = None,
    validate: Callable[[], Any] | None = None,
    patience: int | None = None,
    every: int = 100,
    on_update: Callable[[int, dict[str, float]], Any] | None = None,
    checkpoint: FilePath | None = None,
    resume: bool = False,
    model: Any = None,
    replay: bool = False,
    show: bool | None = None,
) -> Training:
    """Train: for each batch, the step's loss backward, the gradients clipped to the norm `clip`, the optimiser's step.

    `step(*batch)` returns the loss, or (loss, figures) with a dict of numbers to be watched. With a `state`,
    `step(*batch, state)` returns (loss, state) or (loss, state, figures), and the state is detached and carried on:
    truncated BPTT. A `state` that is a function is called with the number of batches before each one: what it returns
    is where that batch begins, None to go on (at 0 it returns the first state). Several optimisers each make a step.

    `batches` are tuples of arrays: an iterable, or a function of the number of batches before. It ends with them, after
    so many `updates` in all, when `until(evaluation)` is true, when `patience` is over, or by Ctrl-C after the update
    that is being made; nothing that was learnt is lost. Gradients from before do not count.

    `accumulate`: so many batches make one update, with the gradient of all of them as one batch, exactly; where they
    differ in size, `rows(*batch)` says how much each counts (in the means of losses and figures too).

    `replay`: the step is recorded once and replayed (`tg.replay`, whose conditions it must meet: what changes from
    batch to batch comes in as an argument): the same numbers, faster. A step that is under `tg.replay` already, with
    options of its own, is taken as it is.

    Every so many updates (and at the end) `evaluate()` and `validate()` are called without recording, `checkpoint` is
    written, and a line of progress is shown where `show` says so or standard error is a terminal (there it is one line,
    rewritten). `validate()` returns a number, or a dict whose first number counts, the less the better: after
    `patience` validations without a better one training ends, and with `patience` the best weights are put back at the
    end. `on_update(update, figures)` is called after each update, the gradients still in `grad`.

    With `resume`, a checkpoint that is there is taken up, and the run goes on bitwise: batches that were used are
    passed over. It holds `model`: give the module (or a list or dict of modules), for its dropout, the states that it
    carries and what it does not train; else the module whose method the step is, if it has all parameters, or the
    optimiser's parameters by name.

    ValueError where no parameter of an optimiser gets a gradient. FloatingPointError where a loss or a gradient is not
    finite, before anything is updated: it names the update, the parameter, and the time step at which it began.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(1.0, requires_grad=True, name="w")
    >>> run = tg.fit(lambda x: (w * x - 1.0) ** 2, [2.0, 2.0, 2.0], tg.optim.SGD([w], lr=0.1))
    >>> [round(loss, 6) for loss in run.losses], round(w.item(), 6)
    ([1.0, 0.04, 0.0016], 0.504)
    """
    optimisers = [optimiser] if isinstance(optimiser, Optimiser) else list(optimiser)
    parameters = _parameters(optimisers)
    every, accumulate = whole_number("fit", "every", every, 1), whole_number("fit", "accumulate", accumulate, 1)
    if patience is not None and (whole_number("fit", "patience", patience, 1) < 1 or validate is None):
        raise ValueError("fit needs for patience a validate, which says how good the weights are")
    if (resume and checkpoint is None) or (until is not None and evaluate is None):
        raise ValueError("fit needs for resume a checkpoint to resume from, and for until an evaluate")
    if replay and not isinstance(step, Replay):
        step = replayed(step)
    total = -(-len(batches) // accumulate) if updates is None and isinstance(batches, Sized) else updates
    start_of = state if callable(state) else None
    if start_of is not None and (state := start_of(0)) is None:
        raise ValueError("fit needs from state(0) the state that the first batch begins with, got None")
    model = _model_of(step, parameters) if model is None else model
    progress, weights, done = Progress(), dict(_tensors(model)), 0
    parts = {"model": model, "optimiser": optimiser if isinstance(optimiser, Optimiser) else optimisers}
    found = checkpoint if resume and checkpoint is not None and os.path.exists(checkpoint) else None
    entries = {} if found is None else load(found)
    if found is not None:
        if "update" not in entries:
            raise ValueError(f"{os.fspath(found)} is no checkpoint of tg.fit: it does not say after which update")
        done = whole_number("fit", "update of the checkpoint", entries["update"], 0)
        progress = Progress.read(str(entries["progress"])) if "progress" in entries else Progress(batches=done)
    stream = map(batches, count(progress.batches)) if callable(batches) else iter(batches)
    if not callable(batches):
        for _ in islice(stream, progress.batches):
            pass
    best: dict[str, Array] = {}
    if found is not None:  # only now: passing batches over may have moved a generator, which is set back here
        if set(entries.get("model", ())) == {str(k) for k in range(len(parameters))}:
            parts["model"] = list(parameters.values())  # version 0.1 kept them by place
        more: dict[str, Any] = {"progress": ""} if "progress" in entries else {}
        if "best" in entries:
            more["best"] = {name: array_of(x) for name, x in weights.items()}
        loaded = load(found, **parts, **more, state=state, update=0)
        state, best, parts["model"] = loaded["state"], loaded.get("best", {}), model
    _zero_grad(optimisers)  # of what was left by a run that an error ended
    limit, losses, figures, evaluations = math.inf if updates is None else updates, [], [], []
    teller, all_rows, over = Teller(show, done, total), list(progress.rows), False

    def write() -> None:
        if checkpoint is not None:
            kept = {"best": best} if best else {}
            save(checkpoint, **parts, state=state, update=done, progress=progress.text(), **kept)

    def report(regular: bool) -> None:
        nonlocal best, over
        row = {"update": done} | progress.means()
        if not regular:  # a run that goes on from here will not look at itself here
            write()
        with no_grad():
            if validate is not None:
                looked = _validation(validate())
                row |= looked
                if progress.counts(done, next(iter(looked.values()))):
                    best = {name: array_of(x) for name, x in weights.items()} if patience is not None else {}
            if evaluate is not None:
                evaluations.append((done, evaluate()))
                if isinstance(evaluations[-1][1], int | float | np.number):
                    row["evaluation"] = float(evaluations[-1][1])
                over = until is not None and regular and bool(until(evaluations[-1][1]))
        all_rows.append(row)
        if regular:
            progress.begin(row)
            write()
        shown = row if "evaluation" in row or evaluate is None else row | {"evaluation": evaluations[-1][1]}
        teller.tell(shown, last=True)

    with interruptible() as stopped:
        while not (stopped() or over or done >= limit or (patience is not None and progress.waited >= patience)):
            group = [batch if isinstance(batch, tuple) else (batch,) for batch in islice(stream, accumulate)]
            if not group:
                break
            counted = [1.0 if rows is None else _weight(rows(*batch)) for batch in group]
            sums: dict[Tensor, Array] = {}
            looked: list[dict[str, float]] = []
            for batch, weight in zip(group, counted, strict=True):
                if start_of is not None and (begin := start_of(progress.batches)) is not None:
                    state = begin
                inputs = batch if state is None else (*batch, state)
                found_now, state = _gradients(step, inputs, state is not None, parameters.values(), done)
                looked.append(found_now)
                progress.batches += 1
                progress.add(found_now, weight)
                if len(group) > 1:
                    _add_share(sums, parameters.values(), weight / (math.fsum(counted) or 1.0))
            for x, g in sums.items():
                x.grad = np.asarray(g, x.dtype)
            _check_reached(optimisers)
            try:
                clip_grad_norm(parameters, clip)
            except FloatingPointError as error:
                raise FloatingPointError(f"update {done + 1}: {error}{_beginning(step, inputs)}") from None
            for one in optimisers:
                one.step()
            done += 1
            means = {name: _mean([x[name] for x in looked], counted) for name in looked[0]}  # KeyError: not all have it
            if on_update is not None:
                on_update(done, dict(means))
            _zero_grad(optimisers)
            losses.append(means.pop("loss"))
            figures.append(means)
            if done % every == 0:
                report(regular=True)
            else:
                teller.tell({"update": done} | progress.means())
        if done > teller.start and done % every:
            report(regular=False)
        interrupted = stopped()
    teller.end()
    if patience is not None and best:
        for name, x in weights.items():
            x.data = best[name]
    return Training(done, losses, evaluations, state, interrupted, figures, all_rows, progress.best)


def _parameters(optimisers: Sequence[Optimiser]) -> dict[str, Tensor]:
    """The parameters of all optimisers by name; of several, the number of the optimiser stands before."""
    if not optimisers or any(not isinstance(one, Optimiser) for one in optimisers):
        kinds = ", ".join(type(one).__name__ for one in optimisers)
        raise TypeError(f"fit needs an optimiser, or a list of optimisers, got a list of {kinds or 'none'}")
    found = {
        f"{k}.{name}" if len(optimisers) > 1 else name: x
        for k, one in enumerate(optimisers)
        for name, x in one.named_parameters().items()
    }
    if len(set(found.values())) < len(found):
        raise ValueError("a parameter belongs to one optimiser, but two of these have the same")
    return found


def _zero_grad(optimisers: Sequence[Optimiser]) -> None:
    for one in optimisers:
        one.zero_grad()


def _check_reached(optimisers: Sequence[Optimiser]) -> None:
    for one in optimisers:
        if all(x.grad is None for x in one.parameters):
            names = ", ".join(list(one.named_parameters())[:5])
            raise ValueError(
                "the loss reaches no parameter of the optimiser, so that nothing would be learnt: give it those that "
                f"the step computes with, and none that is frozen; it has {names}"
            )


def _model_of(step: Callable[..., Any], parameters: dict[str, Tensor]) -> Any:
    """The module whose method the step is, if it holds all parameters; else the parameters by name."""
    function = step.__wrapped__ if isinstance(step, Replay) else step  # type: ignore[attr-defined]
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module) and set(parameters.values()) <= set(owner.tensors().values()):
        return owner
    return parameters


def _tensors(model: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model, or of lists and dicts of models, by name."""
    if isinstance(model, Tensor):
        yield path, model
    elif isinstance(model, Module):
        model = model.tensors()
    if isinstance(model, list | tuple | Mapping):
        for key, part in model.items() if isinstance(model, Mapping) else enumerate(model):
            yield from _tensors(part, f"{path}.{key}" if path else str(key))


def _weight(given: Any) -> float:
    weight = float(array_of(given))
    if not 0 <= weight < math.inf:
        raise ValueError(f"rows(*batch) says how much a batch counts, a finite number >= 0, got {weight}")
    return weight


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / (math.fsum(weights) or 1.0)


def _add_share(sums: dict[Tensor, Array], parameters: Iterable[Tensor], share: float) -> None:
    """Take the gradients away, and add so much of them to the sums."""
    for x in parameters:
        if x.grad is not None:
            g = x.grad * share
            sums[x] = sums[x] + g if x in sums else g
            x.zero_grad()


def _validation(found: Any) -> dict[str, float]:
    """What `validate` returned, under the names of columns."""
    named = found if isinstance(found, Mapping) else {"": found}
    try:
        numbers = {f"validation {name}".strip(): float(array_of(x)) for name, x in named.items()}
    except (TypeError, ValueError):
        numbers = {}
    if not numbers:
        raise TypeError(f"validate returns a number, or a dict of numbers whose first one counts, got {found!r:.80}")
    return numbers


def _gradients(
    step: Callable[..., Any], inputs: tuple[Any, ...], stateful: bool, parameters: Iterable[Tensor], done: int
) -> tuple[dict[str, float], Any]:
    """The loss and the figures of one step, and the carried state; its gradients are in `grad`."""
    loss, state, figures = _results(step(*inputs), stateful)
    value = loss.item()
    if not math.isfinite(value):
        raise FloatingPointError(f"update {done + 1}: the loss is {value}{_beginning(step, inputs)}")
    try:
        numbers = {name: float(array_of(x)) for name, x in figures.items()}
    except (TypeError, ValueError) as error:
        raise TypeError(f"figures are single numbers by name: {error}; got {', '.join(figures)}") from None
    untouched = all(x.grad is None for x in parameters)
    if loss.requires_grad or (untouched and not isinstance(step, Replay)):  # else a replay has seen to it
        loss.backward()
    return {"loss": value} | numbers, detach(state)


def _results(result: Any, stateful: bool) -> tuple[Tensor, Any, Mapping[str, Any]]:
    """Loss, state and figures of what a step returned."""
    parts = list(result) if isinstance(result, tuple) else [result]
    state = parts.pop(1) if stateful and len(parts) in (2, 3) else None
    figures = parts.pop() if len(parts) == 2 and isinstance(parts[1], Mapping) else {}
    if len(parts) != 1 or not isinstance(parts[0], Tensor) or (stateful and state is None) or "loss" in figures:
        kinds = ", ".join(type(x).__name__ for x in (result if isinstance(result, tuple) else [result]))
        needed = "(loss, state), or (loss, state, figures)" if stateful else "its loss, or (loss, figures)"
        raise TypeError(
            f"a step {'with' if stateful else 'without'} state= returns {needed}: the loss a tensor, figures a dict of "
            f"numbers, none called loss; got {kinds}"
        )
    return parts[0], state, figures


def _beginning(step: Callable[..., Any], inputs: tuple[Any, ...]) -> str:
    """Where on the tape a step stops being finite: the step is made once more, to look at it."""
    with np.errstate(all="ignore"):
        result = (step._function if isinstance(step, Replay) else step)(*inputs)
        loss = result[0] if isinstance(result, tuple) else result
        if not loss.requires_grad:
            return ""
        tape = Tape(loss)
        for t in tape:
            values = array_of(t)
            if np.isnan(values).any() or np.isposinf(values).any():
                return f"; the first value that is not finite is {t.label()}"
        flow = tape.flow()
        for t in reversed(tape):
            if not np.isfinite(flow[t]).all():
                return f"; on the way back the gradient is first not finite at {t.label()}"
    return ""
