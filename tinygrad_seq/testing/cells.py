"""Is a recurrent cell right? Its gradient, and the laws that a cell over time obeys, on random sequences.

A cell is whatever has `initial_state(batch_shape)` and `cell(x, state) -> (h, state)`. What it must do can be said
without knowing its equations: time can be cut and joined, rows of a batch and steps of padding do not touch one
another, a hidden unit has no number, and a state is all that is remembered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import signature
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

try:
    from hypothesis import HealthCheck, Phase, given, reject, settings
    from hypothesis import strategies as st
except ImportError:
    raise ImportError("check_cell needs hypothesis: pip install 'tinygrad-seq[test]'") from None

from ..engine.backward import grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of, rebind
from ..engine.tree import leaves, map_state
from ..nn.module import Module
from ..nn.unrolling import detach, unroll
from ..reading.tape import Tape
from ..replaying.recorder import replay
from ..training.checkpoint import load, save
from .gradients import NotDifferentiableError, check_grads


class BrokenLawError(AssertionError):
    """A law that a recurrent cell does not keep: `law` is its name, the message says what differs.

    >>> import tinygrad_seq as tg
    >>> class Unsaved(tg.nn.RNNCell):
    ...     def __init__(self, m, d, rng=None):
    ...         super().__init__(m, d, rng=rng)
    ...         self.scale = self.A.data.sum()  # no tensor, so no part of the state
    ...     def __call__(self, x, state):
    ...         h, state = super().__call__(x, state)
    ...         return h * self.scale, state
    >>> try:
    ...     check_cell(Unsaved, examples=5)
    ... except BrokenLawError as error:
    ...     print(error.law)
    saving
    """

    def __init__(self, law: str, message: str) -> None:
        super().__init__(f"the law of {law}: {message}")
        self.law = law


class CheckedCell(NamedTuple):
    """Which laws a cell keeps, on how many random examples, and which did not apply to it, with the reason.

    >>> import tinygrad_seq as tg
    >>> checked = check_cell(tg.nn.RNNCell, examples=2, skip=["saving", "replay"])
    >>> checked.kept[:3], checked.examples
    (('gradient', 'uses', 'crossing'), 2)
    """

    kept: tuple[str, ...]
    examples: int
    left_out: Mapping[str, str]

    def __str__(self) -> str:
        kept = f"keeps {len(self.kept)} laws on {self.examples} examples: {', '.join(self.kept)}"
        return kept + "".join(f"\nleft out: {law} ({reason})" for law, reason in self.left_out.items())


def check_cell(
    cell: Any, width: int | None = None, examples: int | None = None, skip: Collection[str] = ()
) -> CheckedCell:
    """Check a recurrent cell, or a factory called as factory(m, d, rng=...), on random sequences and weights.

    The laws, by name:

    - gradient: that of outputs and final state, by input, state and all parameters, is the derivative.
    - uses: the contributions of a parameter's uses, added in the order of the pass, are its gradient, bit for bit.
    - crossing: the gradient is that of truncated BPTT plus what the credit that crossed the boundary gives.
    - carrying: T steps are k steps and then T - k, with the state carried over.
    - units: hidden units permuted in weights and state are outputs permuted. (A parameter's axis is taken for the
      units if its length fits: d, several times d, or the joined rows of [x, h] or [h, x].)
    - rows: rows of a batch do not see each other, in values and in gradients.
    - padding: neither valid outputs nor gradients know what stands at padding, or that there is any.
    - reversal: reading the reversed sequence from its end gives the same outputs, reversed.
    - saving: what was saved and loaded gives the same numbers, and so does the carried state.
    - replay: a state that is used again gives the same numbers, and so does `tg.replay`, bit for bit.

    `width`: that of the inputs, if a cell given as an instance has no attribute `m`. `examples`: how many are drawn (a
    fifth of hypothesis' max_examples if not given). `skip`: laws that are not meant to hold.

    >>> import tinygrad_seq as tg
    >>> print(check_cell(tg.nn.GRUCell, examples=2))
    keeps 10 laws on 2 examples: gradient, uses, crossing, carrying, units, rows, padding, reversal, saving, replay

    Raises BrokenLawError or WrongGradientError (AssertionErrors) with the simplest example that was found; TypeError
    for something that is no cell; ValueError for an unknown law.
    """
    if unknown := set(skip) - LAWS.keys():
        raise ValueError(f"the laws are {', '.join(LAWS)}; there is no {', '.join(sorted(unknown))}")
    if examples is None:
        examples = max(1, settings().max_examples // 5)
    make = _factory(cell, width)
    laws = {name: law for name, law in LAWS.items() if name not in skip}
    left_out = dict.fromkeys(skip, "skipped")
    drawn = 0
    broken: list[str] = []  # while hypothesis looks for a simpler example, only this law is tried

    @settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
        report_multiple_bugs=False,
    )
    @given(_examples(make))
    def cell_keeps_the_laws(example: Example) -> None:
        nonlocal drawn
        drawn += 1
        for name in broken or laws:
            try:
                laws[name](example)
            except NotApplicableError as reason:
                left_out.setdefault(name, str(reason))
            except (AssertionError, ValueError, TypeError, RuntimeError):
                broken[:] = [name]
                raise

    cell_keeps_the_laws()
    return CheckedCell(tuple(name for name in laws if name not in left_out), drawn, left_out)


class NotApplicableError(Exception):
    """A law that says nothing about this cell."""


def _factory(cell: Any, width: int | None) -> Callable[[int, int, np.random.Generator], Any]:
    """How to make a cell of given widths; an instance is what it is."""
    if not isinstance(cell, type) and hasattr(cell, "initial_state") and callable(cell):
        m = getattr(cell, "m", None) if width is None else width
        if m is None:
            raise TypeError(f"say how wide the inputs of {type(cell).__name__} are: check_cell(cell, width=3)")
        return lambda _m, _d, _rng: (cell, m)
    if not callable(cell):
        raise TypeError(
            "check_cell needs a cell (with initial_state and __call__) or a factory of cells, got "
            f"{type(cell).__name__}"
        )
    try:
        parameters = signature(cell).parameters
        seeded = "rng" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    except ValueError:
        seeded = False

    def make(m: int, d: int, rng: np.random.Generator) -> Any:
        made = cell(m, d, rng=rng) if seeded else cell(m, d)
        if not hasattr(made, "initial_state") or not callable(made):
            raise TypeError(f"the factory gave {type(made).__name__}, which lacks initial_state or __call__")
        for x in parameters_of(made):  # zero biases and orthogonal matrices hide mistakes
            x.data = (array_of(x) + 0.3 * rng.standard_normal(x.shape)).astype(x.dtype)
        return made, m

    return make


def parameters_of(cell: Any) -> list[Tensor]:
    """The tensors of a cell that require a gradient; of one that is no module, those among its attributes."""
    if isinstance(cell, Module):
        return cell.parameters()
    return [x for x in vars(cell).values() if isinstance(x, Tensor) and x.requires_grad]


def weights_of(cell: Any) -> list[Tensor]:
    """The floating-point tensors of a cell, fixed ones too: a reservoir's weights are none of its parameters."""
    found = cell.tensors().values() if isinstance(cell, Module) else vars(cell).values()
    return list(dict.fromkeys(x for x in found if isinstance(x, Tensor) and x.record is None and x.dtype.kind == "f"))


# Examples ------------------------------------------------------------------------------------------------------------


class Example:
    """A cell, a sequence for it, a state to start from, and unequal weights for everything that comes out.

    `make()` gives another cell of the same kind; k is a step at which time may be cut.
    """

    def __init__(self, cell: Any, make: Callable[[], Any], xs: Array, lengths: Array, k: int, seed: int) -> None:
        self.cell, self.make, self.xs, self.lengths, self.k, self.seed = cell, make, xs, lengths, k, seed
        rng = np.random.default_rng(seed)
        T, B, _ = self.xs.shape
        start = self.cell.initial_state((B,))
        self.state = map_state(lambda x: (array_of(x) + rng.uniform(-0.9, 0.9, x.shape)).astype(x.dtype), start)
        h, _ = self.cell(Tensor(self.xs[0]), self.tensors())
        self.weights = rng.choice((-1.0, 1.0), (T, *h.shape)) * rng.uniform(0.5, 1.5, (T, *h.shape))
        self.last_weights = map_state(lambda x: rng.uniform(-1, 1, x.shape), self.state)
        self.parameters = parameters_of(self.cell)
        self.tolerance = 1e-10 if h.dtype.itemsize == 8 else 1e-4

    def __repr__(self) -> str:
        T, B, m = self.xs.shape
        return f"Example({self.cell!r}, T={T}, B={B}, m={m}, lengths={self.lengths.tolist()}, seed={self.seed})"

    def tensors(self, state: Any = None, requires_grad: bool = False) -> Any:
        """A state as leaves."""
        return map_state(lambda x: Tensor(x, requires_grad=requires_grad), self.state if state is None else state)

    def loss(self, outputs: Tensor, state: Any, steps: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """Outputs and final state, weighed; of some steps or rows alone."""
        total = (outputs * self.weights[steps, rows]).sum()
        for x, weights in zip(leaves(state), leaves(map_state(lambda w: Tensor(w), self.last_weights)), strict=True):
            total = total + (x * array_of(weights)[rows]).sum()
        return total

    def differ(self, mine: Any, right: Any) -> bool:
        a, b = (np.asarray(array_of(x)) for x in (mine, right))
        if a.shape != b.shape:
            return True
        return not np.allclose(a, b, rtol=self.tolerance, atol=self.tolerance * np.abs(b).max(initial=0))

    def compare(self, law: str, what: str, mine: Any, right: Any) -> None:
        """Raise where two tensors, arrays or states differ by more than rounding."""
        for a, b in zip(leaves(mine), leaves(right), strict=True):
            if self.differ(a, b):
                raise BrokenLawError(law, f"{what}\n{_differences(array_of(a), array_of(b))}")

    def gradients(self, loss: Tensor, xs: list[Tensor]) -> list[Array]:
        return list(grad(loss, xs)) if loss.requires_grad else [np.zeros(x.shape) for x in xs]


def _differences(a: Array, b: Array) -> str:
    if a.shape != b.shape:
        return f"  shapes {a.shape} and {b.shape}"
    index = np.unravel_index(np.argmax(np.nan_to_num(np.abs(a - b), nan=np.inf)), a.shape)
    place = f"entry {[int(i) for i in index]} of shape {a.shape}"
    return f"  {place}: {float(a[index]):.12g} and {float(b[index]):.12g}"


def _examples(make: Callable[[int, int, np.random.Generator], Any]) -> st.SearchStrategy[Example]:
    @st.composite
    def examples(draw: st.DrawFn) -> Example:
        m, d, seed = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(0, 999))
        cell, m = make(m, d, np.random.default_rng(seed))
        T, B = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        rng = np.random.default_rng(seed + 1)
        xs = (rng.choice((-1.0, 1.0), (T, B, m)) * rng.uniform(0.1, 1.5, (T, B, m))).astype(_dtype(cell))
        lengths = np.array(draw(st.lists(st.integers(1, T), min_size=B, max_size=B)))
        other = lambda: make(m, d, np.random.default_rng(seed + 2))[0]
        return Example(cell, other, xs, lengths, draw(st.integers(0, T)), seed)

    return examples()


def _dtype(cell: Any) -> Any:
    return next((x.dtype for x in leaves(cell.initial_state(()))), np.dtype(np.float64))


# Laws ----------------------------------------------------------------------------------------------------------------


def gradient(e: Example) -> None:
    flat = list(leaves(e.tensors()))

    def unrolled(xs: Tensor, *state: Tensor) -> Any:
        parts = iter(state)
        return unroll(e.cell, xs, map_state(lambda _: next(parts), e.state) if state else None)

    start = flat if e.seed % 2 else []  # by turns from a state that is given, and from the cell's own
    unrolled.__name__ = f"{type(e.cell).__name__} over {len(e.xs)} steps"
    try:
        check_grads(unrolled, e.xs, *start, parameters=e.parameters, entries=6, rng=e.seed)
    except NotDifferentiableError:
        reject()


def uses(e: Example) -> None:
    loss = e.loss(*unroll(e.cell, e.xs))  # from the cell's own start: it may have parameters
    if not loss.requires_grad:
        raise NotApplicableError("it has no parameters")
    flow = Tape(loss).flow()
    for x, g in zip(e.parameters, e.gradients(loss, e.parameters), strict=True):
        if x not in flow.tape:
            continue
        total: Any = np.zeros_like(g)
        for k, use in enumerate(flow.uses(x).in_order_of_arrival()):
            total = total + use.contribution if k else use.contribution
        if not np.array_equal(total, g):
            raise BrokenLawError("uses", f"the uses of {x.label()} do not add up to its gradient, bit for bit")


def crossing(e: Example) -> None:
    T = len(e.xs)
    k = min(max(e.k, 1), T - 1)
    if not e.parameters:
        raise NotApplicableError("the cell has no parameters")
    if T < 2:
        return
    tape = Tape(e.loss(*unroll(e.cell, e.xs, e.tensors())))
    flow, cut = tape.flow(), tape.flow(cut=[(k, k + 1)])
    credit = flow.crossing(k, k + 1)
    crossed: dict[Tensor, Array] = {}
    if credit:
        sent = Tape(*credit).flow(seed=list(credit.values()) if len(credit) > 1 else next(iter(credit.values())))
        crossed = {x: sent[x] for x in e.parameters if x in sent.tape}
    first, state = unroll(e.cell, e.xs[:k], e.tensors())
    rest, last = unroll(e.cell, e.xs[k:], detach(state))
    truncated = e.loss(rest, last, slice(k, None)) + (first * e.weights[:k]).sum()
    where = f"between steps {k} and {k + 1}"
    for x, g in zip(e.parameters, e.gradients(truncated, e.parameters), strict=True):
        if x in tape:
            e.compare("crossing", f"{x.label()}: credit cut {where} is not that of truncated BPTT", cut[x], g)
            both = cut[x] + crossed.get(x, np.zeros(x.shape))
            e.compare("crossing", f"{x.label()}: what crosses {where} and the cut credit are not all", both, flow[x])


def carrying(e: Example) -> None:
    outputs, last = unroll(e.cell, e.xs, e.tensors())
    first, state = unroll(e.cell, e.xs[: e.k], e.tensors())
    second, end = unroll(e.cell, e.xs[e.k :], state)
    joined = np.concatenate([array_of(first), array_of(second)])
    what = f"{len(e.xs)} steps are not {e.k} steps and then the rest with the state carried over"
    e.compare("carrying", what, joined, outputs)
    e.compare("carrying", f"{what}: the final state", end, last)
    in_two = e.loss(second, end, slice(e.k, None)) + (first * e.weights[: e.k]).sum()
    pairs = zip(*(e.gradients(y, e.parameters) for y in (in_two, e.loss(outputs, last))), strict=True)
    for x, (a, b) in zip(e.parameters, pairs, strict=True):
        e.compare("carrying", f"{what}: the gradient of {x.label()}", a, b)


def units(e: Example) -> None:
    m, rng = e.xs.shape[-1], np.random.default_rng(e.seed)
    places = {x.shape[-1]: _all_moved(x.shape[-1], rng) for x in leaves(e.tensors())}
    outputs, last = unroll(e.cell, e.xs, e.tensors())

    def moved(x: Array) -> Any:
        return x[..., places.get(x.shape[-1], slice(None))]

    expected, end = moved(array_of(outputs)), map_state(lambda x: moved(array_of(x)), last)
    weights = weights_of(e.cell)
    axes = [(x, axis) for x in weights for axis in range(x.ndim)]
    ways = [list(_ways(x.shape[axis], axis == x.ndim - 1, m, places)) for x, axis in axes]
    kept = {x: array_of(x) for x in weights}
    nearest: Any = None
    try:
        for way in islice(product(*ways), 200):
            arrays = dict(kept)
            for (x, axis), order in zip(axes, way, strict=True):
                arrays[x] = np.take(arrays[x], order, axis)
            for x, array in arrays.items():
                rebind(x, array)
            mine, mine_end = unroll(e.cell, e.xs, e.tensors(map_state(moved, e.state)))
            pairs = [(mine, expected), *zip(leaves(mine_end), leaves(end), strict=True)]
            if not any(e.differ(a, b) for a, b in pairs):
                return
            nearest = nearest or (array_of(mine), expected)
    finally:
        for x, array in kept.items():
            rebind(x, array)
    raise BrokenLawError(
        "units",
        "hidden units permuted, in weights and state, do not permute the outputs: a unit is told from the others, or "
        "the weights are laid out in a way that this law does not know (skip it then)\n" + _differences(*nearest),
    )


def _all_moved(n: int, rng: np.random.Generator) -> Array:
    """An order of n places in which none stays where it is (of one place there is none)."""
    order, moved = rng.permutation(n), np.empty(n, int)
    moved[order] = np.roll(order, 1)
    return moved


def _ways(n: int, last: bool, m: int, places: Mapping[int, Array]) -> Iterator[Array]:
    """What an axis of length n may be, the likeliest first, as the order that its entries take."""
    here = np.arange(n)
    if n == m:
        yield here
    if n in places:
        yield places[n]
        if not last:  # as many rows as units, but perhaps one for each gate
            yield here
    joined = [
        order
        for d, p in places.items()
        if n == m + d
        for order in (np.concatenate([np.arange(m), m + p]), np.concatenate([p, d + np.arange(m)]))
    ]
    blocks = [np.concatenate([k * d + p for k in range(n // d)]) for d, p in places.items() if n > d and n % d == 0]
    yield from (*blocks, *joined) if last else (*joined, *blocks)
    if n != m and n not in places and not joined and not blocks:
        yield here


def padding(e: Example) -> None:
    T = len(e.xs)
    padded = np.arange(T)[:, None] >= e.lengths
    for garbage, reverse in ((1e6, False), (np.nan, True)):
        xs = Tensor(np.where(padded[..., None], garbage, e.xs).astype(e.xs.dtype), requires_grad=True)
        outputs, last = unroll(e.cell, xs, e.tensors(), e.lengths, reverse)
        if array_of(outputs)[padded].any():
            raise BrokenLawError("padding", "outputs at padding are not 0")
        mine = e.gradients(e.loss(outputs, last), [xs, *e.parameters])
        if mine[0][padded].any():
            raise BrokenLawError("padding", "the gradient of the input at padding is not 0")
        right = [np.zeros_like(g) for g in mine]
        for b, n in enumerate(e.lengths.tolist()):
            row = slice(b, b + 1)
            alone = Tensor(e.xs[:n, row], requires_grad=True)
            short, end = unroll(
                e.cell, alone, e.tensors(map_state(lambda x, row=row: x[row], e.state)), reverse=reverse
            )
            what = (
                f"row {b} of length {n}, padded to {T}, is not what it is alone{' (read backward)' if reverse else ''}"
            )
            e.compare("padding", what, array_of(outputs)[:n, row], short)
            e.compare("padding", f"{what}: final state", map_state(lambda x, row=row: array_of(x)[row], last), end)
            first, *others = e.gradients(e.loss(short, end, slice(n), row), [alone, *e.parameters])
            right[0][:n, row] = first
            right[1:] = [one + other for one, other in zip(right[1:], others, strict=True)]
        for name, one, other in zip(["the input", *(x.label() for x in e.parameters)], mine, right, strict=True):
            e.compare("padding", f"the gradient of {name} knows of the padding", one, other)


def rows(e: Example) -> None:
    B = e.xs.shape[1]
    xs, state = Tensor(e.xs, requires_grad=True), e.tensors(requires_grad=True)
    outputs, _ = unroll(e.cell, xs, state)
    for b in range(B if B > 1 else 0):
        others = np.arange(B) != b
        changed = np.where(others[:, None], -2 * e.xs + 0.25, e.xs)
        moved = map_state(
            lambda x, others=others: np.where(others.reshape(-1, *(1,) * (x.ndim - 1)), 0.5 - x, x), e.state
        )
        again, _ = unroll(e.cell, changed.astype(e.xs.dtype), e.tensors(map_state(lambda x: x, moved)))
        e.compare(
            "rows", f"the outputs of row {b} depend on the other rows", array_of(again)[:, b], array_of(outputs)[:, b]
        )
        wanted = [xs, *leaves(state)]
        seed = (outputs[:, b] * e.weights[:, b]).sum()
        for x, g in zip(wanted, e.gradients(seed, wanted), strict=True):
            seen = g[:, others] if x is xs else g[others]
            if seen.any():
                raise BrokenLawError("rows", f"credit of row {b} reaches other rows")


def reversal(e: Example) -> None:
    outputs, last = unroll(e.cell, e.xs, e.tensors())
    backward, end = unroll(e.cell, e.xs[::-1], e.tensors(), reverse=True)
    e.compare(
        "reversal",
        "reversed and read from its end, the sequence gives other outputs",
        array_of(backward)[::-1],
        outputs,
    )
    e.compare("reversal", "reversed and read from its end, the sequence ends in another state", end, last)
    turned = e.xs.copy()
    for b, n in enumerate(e.lengths.tolist()):
        turned[:n, b] = e.xs[:n, b][::-1]
    outputs, _ = unroll(e.cell, e.xs, e.tensors(), e.lengths)
    backward, _ = unroll(e.cell, turned, e.tensors(), e.lengths, reverse=True)
    for b, n in enumerate(e.lengths.tolist()):
        e.compare(
            "reversal",
            f"row {b}, reversed within its length",
            array_of(backward)[:n, b][::-1],
            array_of(outputs)[:n, b],
        )


def saving(e: Example) -> None:
    if not isinstance(e.cell, Module):
        raise NotApplicableError("it is no tg.nn.Module")
    outputs, last = unroll(e.cell, e.xs, e.tensors())
    kept = e.cell.state_dict()
    copy = e.make()
    copy.load_state_dict(kept)
    if copy is not e.cell:
        for x in parameters_of(copy):
            x.data = array_of(x) + 1
        copy.load_state_dict(kept)
    again, end = unroll(copy, e.xs, e.tensors())
    e.compare("saving", "load_state_dict(state_dict()) gives other outputs", again, outputs)
    if e.seed % 4 == 0:  # a file is brought to the disk: not each time
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "cell.npz")
            save(path, cell=e.cell, state=detach(last))
            loaded = load(path, cell=copy, state=detach(map_state(lambda x: x * 0, last)))["state"]
        e.compare("saving", "tg.save and tg.load change the carried state", loaded, last)
        end = loaded
    exact = zip(leaves(unroll(copy, e.xs, end)), leaves(unroll(e.cell, e.xs, last)), strict=True)
    for a, b in exact:
        if not np.array_equal(array_of(a), array_of(b)):
            raise BrokenLawError(
                "saving", f"what was loaded goes on with other numbers\n{_differences(array_of(a), array_of(b))}"
            )


def replaying(e: Example) -> None:
    outputs, last = unroll(e.cell, e.xs, e.tensors())
    for _ in range(2):
        again = list(leaves(unroll(e.cell, e.xs, e.tensors())))
        for a, b in zip(again, leaves((outputs, last)), strict=True):
            if not np.array_equal(array_of(a), array_of(b), equal_nan=True):
                raise BrokenLawError(
                    "replay",
                    "the same sequence from the same state gives other numbers: the cell remembers something, or draws "
                    f"random numbers\n{_differences(array_of(a), array_of(b))}",
                )
    if not e.parameters:
        return
    step = replay(lambda xs, state: e.loss(*unroll(e.cell, xs, state)), wrt=e.parameters)
    before = [x.grad for x in e.parameters]
    try:
        for xs in (e.xs, 0.5 - e.xs):
            loss = e.loss(*unroll(e.cell, xs, e.tensors()))
            for x in e.parameters:
                x.grad = None
            played = step(xs, e.state)
            if not np.array_equal(array_of(played), array_of(loss)):
                raise BrokenLawError("replay", f"tg.replay: loss {played.item()!r} instead of {loss.item()!r}")
            for x, g in zip(e.parameters, e.gradients(loss, e.parameters), strict=True):
                if x.grad is None or not np.array_equal(x.grad, g):
                    raise BrokenLawError("replay", f"tg.replay: another gradient of {x.label()}")
    finally:
        for x, kept in zip(e.parameters, before, strict=True):
            x.grad = kept


LAWS: dict[str, Callable[[Example], None]] = {
    "gradient": gradient, "uses": uses, "crossing": crossing, "carrying": carrying, "units": units, "rows": rows,
    "padding": padding, "reversal": reversal, "saving": saving, "replay": replaying,
}  # fmt: skip
