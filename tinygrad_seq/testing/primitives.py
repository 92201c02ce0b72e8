"""Is an operation right? Every rule, on arrays and on tensors, broadcast, in float32, and as the adjoint it must be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import generator
from ..engine.backward import grad
from ..engine.recording import Part
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from .gradients import Checked, WrongGradientError, check_grads


def check_primitive(
    operation: Callable[..., Any],
    *inputs: Any,
    order: int = 2,
    rng: Any = None,
    kinks: bool = False,
    broadcast: bool = True,
    **options: Any,
) -> Checked:
    """Check an operation made by `tg.primitive` at these inputs (random ones of shape (2, 3) if none are given).

    What `check_grads` checks, for every input that has a rule, in float64 and float32; the same with inputs that the
    operation broadcasts (one row, one column, 0-d) and with empty ones, as far as it takes them (not with
    `broadcast=False`); and of the rules themselves, called on arrays: they change neither g nor y nor the inputs, are
    linear in g, keep float32, and are adjoint to the derivative that they have on tensors, ⟨v, J w⟩ = ⟨Jᵀv, w⟩.
    `options` are passed on.

    >>> import tinygrad_seq as tg
    >>> softsign = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)) ** 2, name="softsign")
    >>> check_primitive(softsign, [0.3, -1.2]).entries > 2
    True
    >>> wrong = tg.primitive(lambda x: x / (1 + abs(x)), lambda g, y, x: g / (1 + abs(x)), name="softsign")
    >>> try:
    ...     check_primitive(wrong, [1.0])
    ... except AssertionError as error:
    ...     print(error.mistakes[0])
    2 times the right gradient: counted twice (zero_grad forgotten, or a square's 2 left over)

    Raises what `check_grads` raises, and TypeError for something that is no primitive.
    """
    if not hasattr(operation, "rules"):
        raise TypeError(
            f"{getattr(operation, '__name__', operation)!r} is not made by tg.primitive, so it has no rules of its "
            "own: check_grads is for functions"
        )
    rng = generator(0 if rng is None else rng)
    given = [np.array(array_of(x)) for x in inputs] or _examples(operation, rng, options)
    checked = [_check(operation, given, options, order, rng, kinks)]
    variants = _variants(operation, given, options) if broadcast else ()
    checked += [_check(operation, arrays, options, 1, rng, kinks) for arrays in variants]
    methods = dict.fromkeys(name for c in checked for name in c.method.split(" and "))
    return Checked(" and ".join(methods), sum(c.entries for c in checked), max(c.worst for c in checked))


def _examples(operation: Any, rng: np.random.Generator, options: Any) -> list[Array]:
    """Random inputs of shape (2, 3): of both signs if the operation takes them, else positive."""
    sizes = [rng.uniform(0.3, 1.7, (2, 3)) for _ in operation.rules]
    signs = [rng.choice((-1.0, 1.0), (2, 3)) for _ in operation.rules]
    for arrays in ([a * b for a, b in zip(sizes, signs, strict=True)], sizes):
        y = _tried(operation, arrays, options)
        if y is not None and np.isfinite(y).all():
            return arrays
    raise TypeError(
        f"{operation.__name__} does not take inputs of shape (2, 3): give check_primitive some that it takes"
    )


def _tried(operation: Any, arrays: Sequence[Array], options: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return operation(*(a.copy() for a in arrays), **options)
    except (ValueError, TypeError, IndexError):
        return None


def _differentiable(operation: Any, arrays: Sequence[Array]) -> list[int]:
    """Which inputs have a rule."""
    if operation.every is not None:
        return [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    return [i for i in range(min(len(arrays), len(operation.rules))) if operation.rules[i] is not None]


def _variants(operation: Any, arrays: Sequence[Array], options: Any) -> Iterator[list[Array]]:
    """One input at a time with fewer rows or columns, as far as the operation broadcasts it; all without rows."""
    for k in _differentiable(operation, arrays):
        a = arrays[k]
        if not a.ndim or not a.size:
            continue
        smaller = {b.shape: b for b in (a[0], a[:1], a[..., :1], a.reshape(-1)[0])}
        for b in smaller.values():
            variant = [*arrays[:k], np.array(b), *arrays[k + 1 :]]
            if b.shape != a.shape and _tried(operation, variant, options) is not None:
                yield variant
    empty = [a[:0] if a.ndim else a for a in arrays]
    if any(a.ndim for a in arrays) and _tried(operation, empty, options) is not None:
        yield empty


def _check(
    operation: Any, arrays: Sequence[Array], options: Any, order: int, rng: np.random.Generator, kinks: bool
) -> Checked:
    which = _differentiable(operation, arrays)

    def of_floats(*floats: Any) -> Any:
        inputs: list[Any] = list(arrays)
        for i, x in zip(which, floats, strict=True):
            inputs[i] = x
        return operation(*inputs, **options)

    of_floats.__name__ = operation.__name__
    floats = [arrays[i] for i in which]
    single = [a.astype(np.float32) for a in floats]
    checked = [check_grads(of_floats, *floats, order=order, rng=rng, kinks=kinks)]
    if all(np.isfinite(a).all() for a in single):
        checked.append(check_grads(of_floats, *single, rng=rng, kinks=kinks))
    _check_rules(operation, list(arrays), which, options, rng)
    _check_adjoint(of_floats, floats, rng)
    methods = dict.fromkeys(c.method for c in checked)
    return Checked(" and ".join(methods), sum(c.entries for c in checked), max(c.worst for c in checked))


def _check_rules(
    operation: Any, arrays: list[Array], which: Sequence[int], options: Any, rng: np.random.Generator
) -> None:
    """The rules by themselves, called on arrays."""
    name = operation.__name__
    y = np.asarray(operation.forward(*arrays, **options))
    g, other = (rng.uniform(-1, 1, y.shape).astype(y.dtype) for _ in range(2))
    sums = _contributions(operation, g + 2 * other, y, arrays, which, options)
    first, second = (_contributions(operation, seed, y, arrays, which, options) for seed in (g, other))
    for i, a, b, c in zip(which, sums, first, second, strict=True):
        expected = b + 2 * c
        size = np.abs(b).max(initial=0) + 2 * np.abs(c).max(initial=0)
        if a.shape != expected.shape or not np.allclose(a, expected, rtol=1e-9, atol=1e-12 * size, equal_nan=True):
            raise WrongGradientError(
                f"the rule of {name} for input {i} is not linear in g: rule(g + 2 g') is not rule(g) + 2 rule(g')",
                f"input {i}", (), np.nan, np.nan, ["g is squared, clipped, or not used in every term"],
            )  # fmt: skip
    single = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays]
    small = np.asarray(operation.forward(*single, **options))
    if small.dtype == np.float32:
        for i, c in zip(
            which, _contributions(operation, g.astype(np.float32), small, single, which, options), strict=True
        ):
            if c.dtype != np.float32:
                raise AssertionError(
                    f"the rule of {name} for input {i} gives dtype {c.dtype} where g, y and all inputs are float32: an "
                    "array or a NumPy scalar of higher precision takes part in it. Python numbers do not promote"
                )


def _contributions(
    operation: Any, g: Array, y: Array, arrays: Sequence[Array], which: Sequence[int], options: Any
) -> list[Array]:
    """What the rules give for each input; a part stands in its place."""
    kept = [a.copy() for a in (g, y, *arrays)]
    with np.errstate(all="ignore"):
        if operation.every is not None:
            given = operation.every(g, y, *arrays, **options)
        else:
            given = [rule and rule(g, y, *arrays, **options) for rule in operation.rules]
    names = ("g", "y", *(f"input {i}" for i in range(len(arrays))))
    for what, before, after in zip(names, kept, (g, y, *arrays), strict=True):
        if not np.array_equal(before, after, equal_nan=after.dtype.kind in "fc"):
            raise WrongGradientError(
                f"a rule of {operation.__name__} writes into {what}, which is not its own: it must make a new array",
                what, (), np.nan, np.nan, [],
            )  # fmt: skip
    whole = []
    for i in which:
        c = given[i]
        if isinstance(c, Part):
            place = np.zeros(arrays[i].shape, np.asarray(c.value).dtype)
            place[c.index] += c.value
            c = place
        whole.append(np.asarray(c))
    return whole


def _check_adjoint(f: Callable[..., Any], arrays: Sequence[Array], rng: np.random.Generator) -> None:
    """⟨v, J w⟩ = ⟨Jᵀv, w⟩, with J w as the derivative of Jᵀg by g: what the rules are on tensors, turned round."""
    xs = [Tensor(a, requires_grad=True) for a in arrays]
    y = f(*xs)
    if not y.requires_grad:
        return
    g = Tensor(rng.uniform(-1, 1, y.shape), requires_grad=True)
    v, ws = rng.uniform(-1, 1, y.shape), [rng.uniform(-1, 1, a.shape) for a in arrays]
    backward = grad(y, xs, v)
    recorded = [(c, w) for c, w in zip(grad(y, xs, g, create_graph=True), ws, strict=True) if c.requires_grad]
    forward = grad([(c * w).sum() for c, w in recorded], g) if recorded else np.zeros(y.shape)
    left, right = float((v * forward).sum()), float(sum((c * w).sum() for c, w in zip(backward, ws, strict=True)))
    size = float(sum(np.abs(c * w).sum() for c, w in zip(backward, ws, strict=True)))
    if not abs(left - right) <= max(1e-10, 256 * float(np.finfo(y.dtype).eps)) * size:
        raise WrongGradientError(
            f"the rules of {getattr(f, '__name__', 'f')} are not adjoint to what they are on tensors: <v, J w> is "
            f"{left:.12g}, <Jᵀv, w> is {right:.12g}",
            "all inputs", (), left, right, ["g leaves the graph inside a rule, or takes part in it in another way"],
        )  # fmt: skip
