"""Is a gradient right? It is compared with numbers that know nothing of the rules.

The reference is the function itself, evaluated a little to the side. Where it can be computed with complex numbers,
f(x + ih) = f(x) + ih·f'(x) + O(h²) has no difference of nearly equal numbers in it, so that h = 1e-25 gives the
derivative to the last digits (Squire and Trapp 1998). Elsewhere central differences D with Richardson extrapolation,
(64 D(h/4) - 20 D(h/2) + D(h)) / 45, leave an error of order h⁶. Outputs are weighed with random numbers: with ones,
a softmax has gradient 0 and every mistake in it is invisible.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.arguments import generator
from ..engine.recording import enable_grad, no_grad
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from .measuring import STEP, Function, Slope, central_slopes, complex_slope, entry, kink
from .mistakes import explain

COMPLEX, CENTRAL = "complex step", "central differences"
TOLERANCES = {COMPLEX: 1e-10, CENTRAL: 1e-6}
EXPLAINED = 400  # entries of a wrong gradient that are measured to find out which mistake fits


class Checked(NamedTuple):
    """What a check that passed has looked at; `worst` is the largest relative error.

    >>> checked = check_grads(lambda x: x * x, [1.0, 2.0, 3.0])
    >>> checked.method, checked.entries, checked.worst < 1e-10
    ('complex step', 3, True)
    """

    method: str
    entries: int
    worst: float

    def __str__(self) -> str:
        return f"right: {self.entries} entries by {self.method}, largest relative error {self.worst:.1e}"


class WrongGradientError(AssertionError):
    """A gradient that is not the derivative: the message shows the worst entry and the usual mistakes that fit.

    `variable`, `index`, `analytic`, `numeric` say which entry; `mistakes` is the list of what fits.

    >>> import tinygrad_seq as tg
    >>> square = tg.primitive(lambda x: x * x, lambda g, y, x: -2 * g * x, name="square")
    >>> try:
    ...     check_grads(square, [0.0, 3.0])
    ... except WrongGradientError as error:
    ...     print(error.variable, error.index, round(error.analytic / error.numeric, 6), error.mistakes[0])
    input 0 (1,) -1.0 the sign is reversed
    """

    def __init__(
        self, message: str, variable: str, index: tuple[int, ...], analytic: float, numeric: float, fits: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.mistakes: list[str] = []
        for fit in fits:
            self.add(fit)
        self.variable, self.index, self.analytic, self.numeric = variable, index, analytic, numeric

    def add(self, mistake: str) -> None:
        """One more mistake that fits, in the list and in the message."""
        self.args = (f"{self}\n  {'or' if self.mistakes else 'it looks like'}: {mistake}",)
        self.mistakes.append(mistake)


class NotDifferentiableError(ValueError):
    """The function has a kink or a jump at the point that was given: no gradient is right or wrong there.

    >>> import tinygrad_seq as tg
    >>> try:
    ...     check_grads(tg.relu, [0.0, 1.0])
    ... except NotDifferentiableError as error:
    ...     print(str(error).partition(":")[0])
    relu is not differentiable at input 0 [0] = 0
    """


class NotPureError(ValueError):
    """The function gives two results for the same inputs, or writes into them: its gradient cannot be measured.

    >>> numbers = iter([1.0, 2.0, 3.0, 4.0])
    >>> try:
    ...     check_grads(lambda x: x * next(numbers), 1.0)
    ... except NotPureError as error:
    ...     print(str(error).partition(":")[0])
    the function is not a pure function
    """


class Settings(NamedTuple):
    """How closely to look."""

    method: str
    rtol: float | None
    atol: float | None
    entries: int
    kinks: bool


def check_grads(
    f: Callable[..., Any],
    *inputs: Any,
    order: int = 1,
    method: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    rng: Any = None,
    parameters: Iterable[Tensor] | None = None,
    entries: int = 64,
    kinks: bool = False,
) -> Checked:
    """Check the derivatives of f at these inputs, up to this order; f takes and returns Tensors.

    f may return one tensor, or tuples, lists and dicts of them; all are weighed with random cotangents drawn from
    `rng` (a generator or seed; 0 if not given). `parameters`: tensors that f closes over, checked like inputs; those
    of a module are found. Up to `entries` entries of each variable are compared one by one, and all of them at once
    along a random direction. `method`: "complex" step, "central" differences, or "auto": the complex step, if central
    differences confirm it.

    An entry is right if |analytic - numeric| <= rtol·max(|analytic|, |numeric|) + atol. If not given, rtol is 1e-10
    (complex step) or 1e-6 (central differences) and atol the rounding error of f. Inputs of lower precision are
    raised to float64 for this, and their own gradient is compared with the one found there. Data that hide mistakes
    (a symmetric matrix, equal entries) are checked a second time a little aside. `kinks=True`: where f has a kink, a
    gradient between the slopes on both sides will do.

    Also checked: f gives the same result twice, recorded or not; it changes no input; a second backward pass gives
    the same; float32 in gives float32 out; from order 2 on, rules give the same on tensors as on arrays.

    >>> import tinygrad_seq as tg
    >>> check_grads(lambda x, y: tg.tanh(x * y), [0.5, -1.0], 2.0, order=2).method
    'complex step'
    >>> twice = tg.primitive(lambda x: 2 * x, lambda g, y, x: g, name="twice")
    >>> try:
    ...     check_grads(twice, [1.0, -3.0])
    ... except AssertionError as error:
    ...     print(error.mistakes[0])
    0.5 times the right gradient: half is missing (averaged over two, one of two uses, or a half too many)

    Raises WrongGradientError (an AssertionError); NotPureError and NotDifferentiableError (ValueErrors) where the
    gradient is not to blame; TypeError where f returns something else than tensors, or an input is not floating-point.
    """
    if method not in ("auto", "complex", "central"):
        raise ValueError(f'method is "auto", "complex" or "central", got {method!r}')
    if order < 1 or entries < 0:
        raise ValueError(f"check_grads needs order >= 1 and entries >= 0, got order={order}, entries={entries}")
    rng = generator(0 if rng is None else rng)
    if parameters is None:
        own = getattr(f, "parameters", None)
        parameters = own() if callable(own) else ()
    parameters = list(parameters)
    if not inputs and not parameters:
        raise TypeError("check_grads needs inputs (or parameters) to differentiate with respect to")
    name = getattr(f, "__name__", type(f).__name__).replace("<lambda>", "the function")
    function = Function(f, [_floats(x, i) for i, x in enumerate(inputs)], parameters, name)
    settings = Settings(method, rtol, atol, entries, kinks)
    checked = []
    for arrays in (function.arrays, *_aside(function, rng)):
        try:
            checked.append(_check(function, arrays, settings, rng))
        except WrongGradientError as error:
            if arrays is not function.arrays:
                error.add(
                    "right at the data that were given and wrong a little aside: they hide the mistake "
                    "(a symmetric matrix hides a missing transpose, equal entries hide a wrong axis)"
                )
            raise
        wide, higher = [_wide(a) for a in arrays], function
        for n in range(2, order + 1):
            try:
                higher = _slopes(higher, wide)
            except TypeError as error:
                error.add_note(
                    f"Derivatives of order {n} need rules that run on tensors: operators, methods, primitives"
                )
                raise
            checked.append(_check(higher, wide, settings, rng))
    methods = dict.fromkeys(c.method for c in checked)
    return Checked(" and ".join(methods), sum(c.entries for c in checked), max(c.worst for c in checked))


def _floats(x: Any, i: int) -> Array:
    array = np.array(array_of(x))
    if array.dtype.kind != "f":
        raise TypeError(
            f"check_grads needs floating-point inputs, and input {i} has dtype {array.dtype}: there is nothing to "
            "differentiate with respect to. Write 1.0 for 1; let the function close over ids, masks and labels"
        )
    return array


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.itemsize < 8 else array


def _aside(function: Function, rng: np.random.Generator) -> Iterator[list[Array]]:
    """Data that hide mistakes, moved a little: symmetric matrices (a missing transpose), equal entries."""

    def hides(a: Array) -> bool:
        square = a.ndim >= 2 and a.shape[-1] == a.shape[-2]
        return a.size > 1 and bool((a == a.flat[0]).all() or (square and (a == a.swapaxes(-1, -2)).all()))

    if not any(map(hides, function.arrays)):
        return
    moved = []
    for a in function.arrays:
        shift = np.maximum(np.abs(a), 0.5) * rng.uniform(-1 / 32, 1 / 32, a.shape)
        moved.append((a + shift).astype(a.dtype) if hides(a) else a)
    with np.errstate(all="ignore"), no_grad(), function.at(moved) as variables:
        try:
            finite = all(np.isfinite(array_of(y)).all() for y in function(variables))
        except (ValueError, IndexError, ArithmeticError):  # the function takes such data only
            finite = False
    if finite:
        yield moved


def _slopes(function: Function, arrays: Sequence[Array]) -> Function:
    """The gradient of a function, as a function of the same variables to be checked in its turn."""
    n = len(arrays) - len(function.parameters)

    def slopes(*inputs: Tensor) -> list[Any]:
        variables = [*inputs, *function.parameters]
        with enable_grad():
            return function.gradients(variables, function(variables), graph=True)

    higher = Function(slopes, arrays[:n], function.parameters, f"the gradient of {function.name}")
    higher.labels, higher.scale = function.labels, max(function.scale, function.weighed(arrays)[1])
    with function.at(arrays) as variables:
        plain = function.gradients(variables, function(variables))
        recorded = slopes(*variables[:n])
    for label, a, tensor in zip(function.labels, plain, recorded, strict=True):
        b = array_of(tensor)
        if not np.allclose(a, b, rtol=1e-11, atol=1e-13 * np.abs(a).max(initial=0), equal_nan=True):
            index = _largest(np.abs(a - b))
            raise WrongGradientError(
                f"a rule of {function.name} gives something else on tensors (create_graph=True) than on arrays\n"
                f"  {label}, entry {list(index)}: {a[index]:.12g} on arrays, {b[index]:.12g} on tensors\n"
                "  write rules with operators, methods and other primitives: they run on both",
                label, index, float(b[index]), float(a[index]), [],
            )  # fmt: skip
    return higher


def _largest(a: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(a), np.inf, a)), a.shape))


# What the engine says, and whether it keeps to the rules -------------------------------------------------------------


def _analytic(function: Function, arrays: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """The gradients as the engine gives them; warnings pass on only where all numbers are finite."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        gradients, finite = _watched(function, arrays, rng)
    for warning in said if finite else ():
        warnings.warn(warning.message, stacklevel=2)
    return gradients


def _watched(function: Function, arrays: Sequence[Array], rng: np.random.Generator) -> tuple[list[Array], bool]:
    """The gradients, after a look at everything that a function under check must not do; and if all is finite."""
    name = function.name
    copies = [a.copy() for a in arrays]
    with function.at([a.copy() for a in arrays]) as variables:
        given = [array_of(x) for x in variables]
        ys = function(variables)
        if not function.cotangents:
            function.draw_cotangents(ys, rng)
        with no_grad():
            again = function(variables)
        shapes, others = ([(y.shape, y.dtype) for y in outputs] for outputs in (ys, again))
        if shapes != others:
            raise NotPureError(f"{name} is not a pure function: it returned {shapes}, then {others}. {PURITY}")
        for k, (y, z) in enumerate(zip(ys, again, strict=True)):
            if not np.array_equal(array_of(y), array_of(z), equal_nan=y.dtype.kind in "fc"):
                index = _largest(array_of(y) != array_of(z))
                raise NotPureError(
                    f"{name} is not a pure function: for the same inputs it gave two results (output {k}, entry "
                    f"{list(index)}: {array_of(y)[index].item()!r}, then {array_of(z)[index].item()!r}). {PURITY}"
                )
        try:
            gradients, repeated = (function.gradients(variables, ys) for _ in range(2))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            message = (
                f"a rule of {name} writes into an array that is not its own, such as g or y: it must make a new one"
            )
            raise WrongGradientError(message, "all variables", (), np.nan, np.nan, []) from error
        for label, x, array, copy in zip(function.labels, variables, given, copies, strict=True):
            if array_of(x) is not array or not np.array_equal(array, copy, equal_nan=True):
                raise NotPureError(f"{name} changed {label} in place (forward or in a rule): work on a copy")
        for label, a, b in zip(function.labels, gradients, repeated, strict=True):
            if not np.array_equal(a, b, equal_nan=True):
                index = _largest(np.abs(a - b))
                raise WrongGradientError(
                    f"two backward passes of {name} give two gradients for {label} (entry {list(index)}: "
                    f"{a[index]:.12g}, then {b[index]:.12g})",
                    label, index, float(b[index]), float(a[index]),
                    ["a rule writes into an array that is not its own, such as g or y"],
                )  # fmt: skip
        function.eps = max(float(np.finfo(y.dtype).eps) for y in ys if y.dtype.kind == "f")
    dtypes = {a.dtype for a in arrays}
    if len(dtypes) == 1 and next(iter(dtypes)).itemsize < 8:
        for k, y in enumerate(ys):
            if y.dtype.kind == "f" and y.dtype not in dtypes:
                raise AssertionError(
                    f"{name} gives dtype {y.dtype} (output {k}) for inputs of dtype {arrays[0].dtype}: an array or a "
                    "NumPy scalar of higher precision takes part. Python numbers do not promote; make constants of "
                    "x.dtype"
                )
    return gradients, all(np.isfinite(a).all() for a in (*gradients, *(array_of(y) for y in ys)))


PURITY = (
    "The gradient is not to blame: draw random numbers outside (or from a generator made anew at each call), and "
    "return a state instead of keeping it"
)


# Comparison ----------------------------------------------------------------------------------------------------------


def _check(function: Function, arrays: Sequence[Array], settings: Settings, rng: np.random.Generator) -> Checked:
    analytic, wide = _analytic(function, arrays, rng), [_wide(a) for a in arrays]
    if all(a is b for a, b in zip(arrays, wide, strict=True)):
        return _compare_all(function, wide, analytic, settings, rng)
    exact = _analytic(function, wide, rng)
    checked = _compare_all(function, wide, exact, settings, rng)
    _, size = function.weighed(wide)
    for k, (label, a, b) in enumerate(zip(function.labels, analytic, exact, strict=True)):
        eps = max(float(np.finfo(x.dtype).eps) for x in arrays)
        floor = 256 * eps * max(np.abs(b).max(initial=0), size / max(np.abs(wide[k]).max(initial=0), 1))
        with np.errstate(over="ignore"):
            right = np.abs(a - b) <= 256 * eps * np.abs(b) + floor
        wrong = ~right & ~(np.isinf(a) & (np.abs(b) > np.finfo(a.dtype).max))  # what cannot be represented
        if wrong.any():
            index = _largest(np.abs(a - b))
            raise WrongGradientError(
                f"the gradient of {function.name} for {label} loses its digits in {a.dtype}\n"
                f"  entry {list(index)}: {a[index]:.8g} in {a.dtype}, {b[index]:.8g} in float64 at the same inputs",
                label, index, float(a[index]), float(b[index]), ["cancellation or overflow in the rule"],
            )  # fmt: skip
    return checked


class Judge(NamedTuple):
    """Measures a slope and says whether the engine's agrees with it."""

    function: Function
    arrays: Sequence[Array]
    method: str
    rtol: float

    def __call__(self, direction: Sequence[Any], analytic: float, size: float, floor: float) -> tuple[bool, Slope]:
        """`size`: what the tolerance is relative to; `floor`: the rounding error that no measurement is free of."""
        if self.method == COMPLEX:
            slope = complex_slope(self.function, self.arrays, direction)
            return abs(analytic - slope.value) <= self.rtol * max(size, abs(slope.value)) + floor + STEP, slope
        measured = []
        for slope in central_slopes(self.function, self.arrays, direction):
            measured.append(slope)
            scale, quiet = max(size, abs(slope.value)), 16 * measured[0].noise + floor
            allowed = self.rtol * scale + floor + 4 * min(slope.error, quiet)
            if slope.error <= 1e-6 * scale + quiet and abs(analytic - slope.value) <= allowed:
                return True, slope
        for slope in measured:  # close to a kink, or where f is steep, nothing better can be had
            if abs(analytic - slope.value) <= 4 * slope.error <= 4e-3 * max(size, abs(slope.value)):
                return True, slope
        return False, min(measured, key=lambda s: s.error, default=Slope(np.nan, np.inf))


def _choose(function: Function, arrays: Sequence[Array], method: str, floor: float, rng: np.random.Generator) -> str:
    if method != "auto":
        return COMPLEX if method == "complex" else CENTRAL
    direction = [rng.uniform(0.5, 1.5, a.shape) for a in arrays]
    try:
        slope = complex_slope(function, arrays, direction).value
    except Exception:  # whatever a function may do with numbers that it does not expect
        return CENTRAL
    confirmed, _ = Judge(function, arrays, CENTRAL, 1e-5)(direction, slope, abs(slope), floor)
    return COMPLEX if confirmed else CENTRAL


def _compare_all(
    function: Function,
    arrays: Sequence[Array],
    analytic: Sequence[Array],
    settings: Settings,
    rng: np.random.Generator,
) -> Checked:
    """All outputs together; where kinks are allowed, some by themselves, for "between the slopes" does not add up."""
    if not settings.kinks:
        return _compare(function, arrays, analytic, settings, rng)
    together, checked = function.cotangents, [Checked("no outputs", 0, 0.0)]
    places = [(k, j) for k, u in enumerate(together) if u is not None for j in range(u.size)]
    for k, j in rng.permutation(places)[:8].tolist():
        alone = [None if u is None else np.zeros(u.shape) for u in together]
        weights, kept = alone[k], together[k]
        if weights is not None and kept is not None:
            weights.flat[j] = kept.flat[j]
        function.cotangents = alone
        with function.at(arrays) as variables:
            gradients = function.gradients(variables, function(variables))
        checked.append(_compare(function, arrays, gradients, settings, rng))
    function.cotangents = together
    methods = dict.fromkeys(c.method for c in checked[1:] or checked)
    return Checked(" and ".join(methods), sum(c.entries for c in checked), max(c.worst for c in checked))


def _compare(
    function: Function,
    arrays: Sequence[Array],
    analytic: Sequence[Array],
    settings: Settings,
    rng: np.random.Generator,
) -> Checked:
    total, size = function.weighed(arrays)
    size = max(size, function.scale)
    if not np.isfinite(total):
        raise NotDifferentiableError(f"{function.name} is not finite at these inputs, so it has no gradient there")
    noise = 64 * function.eps * size
    method = _choose(function, arrays, settings.method, noise, rng)
    rtol = TOLERANCES[method] if settings.rtol is None else settings.rtol
    judge = Judge(function, arrays, method, rtol)
    looked, worst = 0, 0.0
    all_floors = [_rounding(x, a, noise, rtol, settings.atol) for x, a in zip(arrays, analytic, strict=True)]
    for k, (x, a, floors) in enumerate(zip(arrays, analytic, all_floors, strict=True)):
        wrong = []
        chosen = range(x.size) if x.size <= settings.entries else rng.choice(x.size, settings.entries, replace=False)
        for j in chosen:
            index = tuple(int(i) for i in np.unravel_index(j, x.shape))
            mine, floor = float(a[index]), float(floors[index])
            right, slope = judge(entry(arrays, k, index), mine, abs(mine), floor)
            looked += 1
            if right:
                worst = max(worst, _relative(mine, slope.value, floor))
            else:
                wrong.append((index, slope))
        if wrong:
            _refuse(judge, k, analytic, wrong, len(chosen), settings, floors)
    floor = max((float(f.max()) for f in all_floors if f.size), default=0.0)
    for _ in range(4 if settings.kinks else 1):
        direction = [rng.choice((-1.0, 1.0), a.shape) * rng.uniform(0.5, 1.5, a.shape) for a in arrays]
        terms = np.concatenate([(a * v).ravel() for a, v in zip(analytic, direction, strict=True)])
        right, slope = judge(direction, float(terms.sum()), float(np.abs(terms).sum()), floor)
        if not right:
            _refuse_direction(judge, direction, analytic, float(terms.sum()), slope, settings, all_floors)
    return Checked(method, looked, worst)


def _rounding(x: Array, analytic: Array, noise: float, rtol: float, atol: float | None) -> Array:
    """For each entry, the difference that rounding may make: that of f over the entry, and that of its neighbours."""
    if atol is not None:
        return np.full(x.shape, atol)
    largest = float(np.abs(analytic[np.isfinite(analytic)]).max(initial=0))
    return noise / np.clip(np.abs(x), 1e-3, 1) + 1e-3 * rtol * largest


def _relative(analytic: float, numeric: float, floor: float = 0.0) -> float:
    """The relative error; none where only rounding is left to compare."""
    size = max(abs(analytic), abs(numeric))
    if not size > floor:
        return 0.0 if np.isfinite(size) else np.inf
    return abs(analytic - numeric) / size


def _refuse(
    judge: Judge,
    k: int,
    analytic: Sequence[Array],
    wrong: Sequence[tuple[tuple[int, ...], Slope]],
    looked: int,
    settings: Settings,
    floors: Array,
) -> None:
    """Raise what explains the entries that differ: a kink, a function that cannot be measured, a wrong gradient."""
    function, arrays, a = judge.function, judge.arrays, analytic[k]
    label, faults = function.labels[k], []
    bent = ""
    for index, slope in wrong:
        sides = kink(function, arrays, entry(arrays, k, index))
        if sides is None or not _between(float(a[index]), sides, float(floors[index])):
            faults.append((index, slope))
        elif not settings.kinks:
            slopes = f"the slope is {sides[0]:.6g} on the left and {sides[1]:.6g} on the right"
            bent = bent or (
                f"{label}{_place(index)} = {float(arrays[k][index]):.6g}: "
                f"{'it jumps there' if np.isinf(sides).all() else slopes}, the gradient says {float(a[index]):.6g}"
            )
    if not faults:
        if bent:
            raise NotDifferentiableError(
                f"{function.name} is not differentiable at {bent}. Check it at least 1e-3 away from kinks and ties, or "
                "let kinks=True accept what lies between"
            )
        return
    index, slope = max(faults, key=lambda fault: _relative(float(a[fault[0]]), fault[1].value))
    mine = float(a[index])
    if abs(mine - slope.value) <= slope.error or np.isnan(slope.value):
        raise NotDifferentiableError(
            f"{function.name} cannot be measured at {label}{_place(index)}: differences say {slope.value:.6g} ± "
            f"{slope.error:.1g}. It may be too steep, noisy or not finite nearby"
        )
    fits = []
    if a.size <= EXPLAINED:
        right = np.empty(a.shape)
        for place in np.ndindex(a.shape):
            mine_there, floor = float(a[place]), float(floors[place])
            right[place] = judge(entry(arrays, k, place), mine_there, abs(mine_there), floor)[1].value
        fits = explain(function, arrays, k, a, right)
    message = (
        f"the gradient of {function.name} is wrong for {label}, shape {a.shape}\n"
        f"  worst entry{_place(index)}: analytic {mine:.12g}, numeric {slope.value:.12g}, "
        f"relative error {_relative(mine, slope.value):.2g}\n"
        f"  {len(faults)} of {looked} entries differ{_together(a.shape, faults)} "
        f"({judge.method}, tolerance {judge.rtol:.0e})"
    )
    raise WrongGradientError(message, label, index, mine, slope.value, fits)


def _refuse_direction(
    judge: Judge,
    direction: Sequence[Array],
    analytic: Sequence[Array],
    mine: float,
    slope: Slope,
    settings: Settings,
    all_floors: Sequence[Array],
) -> None:
    """The gradient is wrong along a random direction: look for the entry, among those that were not compared."""
    function, arrays = judge.function, judge.arrays
    sides = kink(function, arrays, direction)
    floor = max((float(f.max()) for f in all_floors if f.size), default=0.0)
    if sides is not None and settings.kinks and _between(mine, sides, floor):
        return
    for k, (a, floors) in enumerate(zip(analytic, all_floors, strict=True)):
        if a.size > settings.entries:
            wrong = []
            for place in np.ndindex(a.shape):
                mine_there = float(a[place])
                right, found = judge(entry(arrays, k, place), mine_there, abs(mine_there), float(floors[place]))
                if not right:
                    wrong.append((place, found))
            if wrong:
                _refuse(judge, k, analytic, wrong, a.size, settings, floors)
    if sides is not None and not settings.kinks:
        raise NotDifferentiableError(f"{function.name} has a kink here: {sides[0]:.6g} on one side, {sides[1]:.6g}")
    raise WrongGradientError(
        f"the gradient of {function.name} is wrong along a direction through all variables: analytic {mine:.12g}, "
        + (f"numeric {slope.value:.12g}" if sides is None else f"the slopes on both sides are {sides}")
        + "\n  every entry by itself may be a slope, together they are none: are ties shared so that the shares add up "
        "to the whole?" * (sides is not None),
        "all variables", (), mine, slope.value, [],
    )  # fmt: skip


def _between(mine: float, sides: tuple[float, float], floor: float) -> bool:
    if not np.isfinite(sides).all():
        return True  # there is no slope at all, so none is wrong
    low, high = sorted(sides)
    slack = 1e-4 * max(abs(low), abs(high)) + floor
    return low - slack <= mine <= high + slack


def _place(index: tuple[int, ...]) -> str:
    return f" {list(index)}" if index else ""


def _together(shape: tuple[int, ...], faults: Sequence[tuple[tuple[int, ...], Slope]]) -> str:
    """Where the entries that differ lie, if they lie together."""
    for axis, n in enumerate(shape):
        places = {index[axis] for index, _ in faults}
        if n > 1 and len(places) == 1 and len(faults) > 1:
            return f", all of them at index {places.pop()} of axis {axis}"
    return ""
