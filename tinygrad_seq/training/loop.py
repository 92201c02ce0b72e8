"""The training loop, for those who do not want to write it: progress, checkpoints, and a clean way to stop."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ..engine.recording import no_grad
from ..engine.tensor import Tensor, array_of
from ..nn.module import Module
from ..nn.unrolling import detach
from ..optim import Optimiser, clip_grad_norm
from ..reading.tape import Tape
from ..replaying.recorder import Replay
from ..replaying.recorder import replay as replayed
from .checkpoint import FilePath, load, save


class Training(NamedTuple):
    """What a run came to.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(1.0, requires_grad=True)
    >>> run = tg.fit(lambda x: w * x, [2.0, 4.0], tg.optim.SGD([w], lr=0.5), evaluate=w.item, every=1)
    >>> run.updates, run.losses, run.evaluations, run.interrupted
    (2, [2.0, 0.0], [(1, 0.0), (2, -2.0)], False)
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
    optimiser: Optimiser,
    *,
    updates: int | None = None,
    state: Any = None,
    clip: float = math.inf,
    evaluate: Callable[[], Any] | None = None,
    until: Callable[[Any], bool] | None = None,
    every: int = 100,
    checkpoint: FilePath | None = None,
    resume: bool = False,
    model: Any = None,
    replay: bool = False,
    show: bool | None = None,
) -> Training:
    """Train: for each batch, the step's loss backward, the gradients clipped to the norm `clip`, the optimiser's step.

    `step(*batch)` returns the loss; with a `state`, `step(*batch, state)` returns (loss, state), and the state is
    detached and carried on: truncated BPTT. `batches` are tuples of arrays: an iterable, or a function of the number
    of updates made before. It ends with them, after so many `updates` in all, when `until(evaluation)` is true, or by
    Ctrl-C after the update that is being made; nothing that was learnt is lost. Gradients from before do not count.

    `replay`: the step is recorded once and replayed (`tg.replay`, whose conditions it must meet: what changes from
    batch to batch comes in as an argument): the same numbers, sooner. A step that is under `tg.replay` already, with
    options of its own, is taken as it is.

    Every so many updates (and at the end) `evaluate()` is called without recording, `checkpoint` is written, and, to a
    terminal or where `show` says so, a line of progress. With `resume`, a checkpoint that is there is taken up, and
    the run goes on bitwise: batches that were used are passed over. It holds `model`: give the module (or a list or
    dict of modules), for its dropout, the states that it carries and what it does not train; else the module whose
    method the step is, if it has all parameters, or the optimiser's parameters by name.

    ValueError where no parameter of the optimiser gets a gradient. FloatingPointError where a loss or a gradient is not
    finite, before anything is updated: it names the update, the parameter, and the time step at which it began.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(1.0, requires_grad=True, name="w")
    >>> run = tg.fit(lambda x: (w * x - 1.0) ** 2, [2.0, 2.0, 2.0], tg.optim.SGD([w], lr=0.1))
    >>> [round(loss, 6) for loss in run.losses], round(w.item(), 6)
    ([1.0, 0.04, 0.0016], 0.504)
    """
    if replay and not isinstance(step, Replay):
        step = replayed(step)
    total = len(batches) if updates is None and isinstance(batches, Sized) else updates
    if every < 1 or (resume and checkpoint is None) or (until is not None and evaluate is None):
        raise ValueError(f"fit needs every >= 1, got {every}; a checkpoint to resume from; and for until an evaluate")
    done, losses = 0, list[float]()
    evaluations = list[tuple[int, Any]]()
    if model is None:
        model = _model_of(step, optimiser)
    parts = {"model": model, "optimiser": optimiser}
    found = checkpoint if resume and checkpoint is not None and os.path.exists(checkpoint) else None
    if found is not None:
        entries = load(found)
        done = int(entries["update"])
        if set(entries.get("model", ())) == {str(k) for k in range(len(optimiser.parameters))}:
            parts["model"] = optimiser.parameters  # version 0.1 kept them by place
    stream = map(batches, count(done)) if callable(batches) else iter(batches)
    if not callable(batches):
        for _ in zip(range(done), stream, strict=False):
            pass
    if found is not None:  # only now: passing batches over may have moved a generator, which is set back here
        state = load(found, **parts, state=state, update=0)["state"]
    optimiser.zero_grad()  # of what was left by a run that an error ended
    end = object()
    limit, start, before = math.inf if updates is None else updates, time.perf_counter(), done

    def report() -> None:
        line = f"update {done}" + (f" of {total}" if total is not None else "")
        line += f"   loss {np.mean(losses[-every:]):.4g}"
        if evaluate is not None:
            with no_grad():
                evaluations.append((done, evaluate()))
            line += f"   evaluation {evaluations[-1][1]}"
        if checkpoint is not None:
            save(checkpoint, **parts, state=state, update=done)
        rate = (done - before) / (time.perf_counter() - start)
        line += f"   {rate:.3g} updates per second"
        if show:
            print(line + (f"   {(total - done) / rate:.0f} s left" if total is not None else ""), file=sys.stderr)

    with interruptible() as stopped:
        while not stopped() and done < limit and (batch := next(stream, end)) is not end:
            inputs = batch if isinstance(batch, tuple) else (batch,)
            loss, carried = _gradients(step, inputs if state is None else (*inputs, state), optimiser, clip, done)
            optimiser.step()
            optimiser.zero_grad()
            state, done = detach(carried), done + 1
            losses.append(loss)
            if done % every == 0:
                report()
                if until is not None and until(evaluations[-1][1]):
                    break
        if done > before and done % every:
            report()
        return Training(done, losses, evaluations, state, stopped())


def _model_of(step: Callable[..., Any], optimiser: Optimiser) -> Any:
    """The module whose method the step is, if it holds all parameters; else the optimiser's parameters."""
    function = step.__wrapped__ if isinstance(step, Replay) else step  # type: ignore[attr-defined]
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Module) and set(optimiser.parameters) <= set(owner.tensors().values()):
        return owner
    return optimiser.named_parameters()


def _gradients(
    step: Callable[..., Any], inputs: tuple[Any, ...], optimiser: Optimiser, clip: float, done: int
) -> tuple[float, Any]:
    """The loss and the carried state of one step, its gradients ready in `grad`: finite, and clipped."""
    result = step(*inputs)
    loss, state = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(loss, Tensor):
        raise TypeError(f"a step returns its loss as a tensor, or (loss, state); got {type(loss).__name__}")
    try:
        if not math.isfinite(loss.item()):
            raise FloatingPointError(f"the loss is {loss.item()}")
        untouched = all(x.grad is None for x in optimiser.parameters)
        if loss.requires_grad or (untouched and not isinstance(step, Replay)):  # else a replay has seen to it
            loss.backward()
        if all(x.grad is None for x in optimiser.parameters):
            names = ", ".join(list(optimiser.named_parameters())[:5])
            raise ValueError(
                "the loss reaches no parameter of the optimiser, so that nothing would be learnt: give it those that "
                f"the step computes with, and none that is frozen; it has {names}"
            )
        clip_grad_norm(optimiser.named_parameters(), clip)
    except FloatingPointError as error:
        raise FloatingPointError(f"update {done + 1}: {error}{_beginning(step, inputs)}") from None
    return loss.item(), state


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
