"""What changes, what happens: each row of the table in docs/replay.md is a test here, and the table is made of them."""

import array
import collections
import contextvars
import dataclasses
import datetime
import functools
import itertools
import os
import random
import sys
import time
import types
import warnings
import weakref
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import tinygrad_seq as tg

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"
TABLE: list[tuple[str, str]] = []
X = np.array([1.0, 2.0])


def row(changes, happens):
    """A row of the table, of which the test is the proof."""
    TABLE.append((changes, happens))
    return lambda test: test


def test_the_table_of_the_page_is_made_of_these_tests():
    """Where it differs: copy the table that is printed here into the page."""
    table = "\n".join(["| what changes | what happens |", "|---|---|", *(f"| {a} | {b} |" for a, b in TABLE)])
    print(table)
    assert table in PAGE.read_text("utf-8")


@pytest.fixture
def w():
    return tg.Tensor([1.0, 3.0], requires_grad=True, name="w")


def follows(function, *changes):
    """Whether a replay gives what the function gives, after each of these changes, and plays again between them."""
    step = tg.replay(function)
    reference = lambda: function(tg.Tensor(X)).item()
    assert step(X).item() == reference()
    values = [reference()]
    for change in changes:
        change()
        assert step(X).item() == reference()
        program = step.program
        assert step(X).item() == reference() and step.program is program  # replayed
        values.append(reference())
    assert len(set(values)) == len(values)  # every change has changed something
    return step


# The rows ------------------------------------------------------------------------------------------------------------


@row("parameters are updated (`x.data = …`, an optimiser)", "they are read anew at every call")
def test_parameters_are_read_anew(w):
    step = follows(lambda x: (w * x).sum())
    program = step.program
    w.data = [5.0, 7.0]
    assert step(X).item() == 19.0 and step.program is program


@row("another shape or dtype, another plain number among the arguments",
     "a program of its own is recorded; the last 8 are kept (`programs=`), and you are told when one goes")  # fmt: skip
def test_a_program_for_each_signature(w):
    step = tg.replay(lambda x, scale: (w * x).sum() * scale, programs=2)
    for x, scale in ((X, 1.0), (X.astype(np.float32), 1.0)):
        step(x, scale)
    with pytest.warns(UserWarning, match="more than 2 signatures"):
        assert step(X, 2.0).item() == 14.0


class Net(tg.nn.Module):
    def __init__(self):
        self.parts = [tg.nn.Linear(2, 1, rng=0)]
        self.drop = tg.nn.Dropout(0.5, rng=0)
        self.scale = 1.0

    def __call__(self, x):
        return self.scaled(self.drop(self.parts[0](x))).sum()

    def scaled(self, x):
        return x * self.scale


@row("a module's mode, setting, list, tensor, method; a `requires_grad`", "recorded anew")
def test_a_module_is_noticed(monkeypatch):
    net = Net().eval()
    follows(lambda x: net(x), lambda: setattr(net, "scale", 2.0),
            lambda: net.parts.__setitem__(0, tg.nn.Linear(2, 1, rng=1)),
            lambda: setattr(net.parts[0], "W", tg.Tensor([[3.0], [1.0]], requires_grad=True)),
            lambda: monkeypatch.setattr(Net, "scaled", lambda self, x: x * 10.0),
            lambda: setattr(net, "scaled", lambda x: x * 20.0),
            lambda: monkeypatch.setattr(tg.nn.Linear, "__call__", lambda self, x: x @ self.W + 1.0),
            lambda: setattr(tg.nn.Linear, "__call__", lambda self, x: x @ self.W + 2.0))  # fmt: skip
    monkeypatch.undo()
    del net.scaled
    step = tg.replay(lambda x: net(x))
    step(X)
    net.parts[0].W.requires_grad = False
    net.zero_grad()
    step(X)
    assert net.parts[0].W.grad is None
    net.train()
    step(X)
    assert "dropout_mask" in str(step.program)


SCALE = 1.0
SETTINGS = types.ModuleType("replayed_settings")
SETTINGS.__file__ = "replayed_settings.py"
SETTINGS.SCALE, SETTINGS.INNER = 1.0, types.SimpleNamespace(scale=1.0)
sys.modules[SETTINGS.__name__] = SETTINGS


@row("what a global name, a name of the closure or an import within the function stands for", "recorded anew")
def test_a_name_is_noticed(w, monkeypatch):
    scale = 1.0

    def closure():
        nonlocal scale
        scale = 5.0

    def function(x):
        import replayed_settings
        from replayed_settings import INNER

        return (w * x).sum() * SCALE * scale * replayed_settings.SCALE * INNER.scale

    follows(function, lambda: monkeypatch.setitem(globals(), "SCALE", 2.0), closure,
            lambda: setattr(SETTINGS, "SCALE", 3.0), lambda: setattr(SETTINGS.INNER, "scale", 7.0),
            lambda: setattr(SETTINGS, "INNER", types.SimpleNamespace(scale=11.0)))  # fmt: skip
    monkeypatch.setattr(SETTINGS, "SCALE", 1.0)
    monkeypatch.setattr(SETTINGS, "INNER", types.SimpleNamespace(scale=1.0))


class Base:
    factor = 1.0

    def value(self):
        return self.factor


class Odd(Base):
    def __init__(self):
        self._scale, self.gates = 1.0, {"f": 1.0}

    def value(self):
        return super().value() * self._scale

    @property
    def scale(self):
        return self._scale

    @classmethod
    def of_class(cls):
        return cls.factor

    @staticmethod
    def of_nobody():
        return 1.0

    def __mul__(self, x):
        return x * self._scale

    def __getitem__(self, name):
        return self.gates[name]

    def __enter__(self):
        return self.scale

    def __exit__(self, *exception):
        pass

    def __getattr__(self, name):
        if name.startswith("gate_"):
            return self.gates[name.removeprefix("gate_")]
        raise AttributeError(name)


@row("an attribute that the function, or a function that it calls, reads of any object or class: also by a property, "
     "a method that is replaced, `super()`, `with`, `getattr`, `__mul__` and their like; slots",
     "recorded anew")  # fmt: skip
@pytest.mark.parametrize(
    "use",
    [
        lambda odd: odd.value(), lambda odd: odd.scale * odd.factor, lambda odd: odd.of_class() * odd.scale,
        lambda odd: odd * odd.factor, lambda odd: odd["f"] * odd.factor, lambda odd: odd.gate_f * odd.factor,
        lambda odd: getattr(odd, "".join(["sc", "ale"])) * odd.factor,
        lambda odd: vars(odd)["_scale"] * type(odd).factor,
    ],
)  # fmt: skip
def test_attributes_are_noticed(w, use, monkeypatch):
    odd = Odd()

    def change():
        odd._scale, odd.gates = 2.0, {"f": 2.0}

    follows(lambda x: (w * x).sum() * use(odd), change, lambda: monkeypatch.setattr(Base, "factor", 5.0))


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("value", lambda self: 3.0), ("scale", property(lambda self: 3.0)), ("of_class", classmethod(lambda cls: 3.0)),
        ("of_nobody", staticmethod(lambda: 3.0)), ("__mul__", lambda self, x: 3.0), ("__enter__", lambda self: 3.0),
    ],
)  # fmt: skip
def test_a_patched_method_is_noticed(w, name, new, monkeypatch):
    odd = Odd()

    def function(x):
        with odd as scale:
            return (w * x).sum() * odd.value() * odd.scale * odd.of_class() * odd.of_nobody() * (odd * 1.0) * scale

    follows(function, lambda: monkeypatch.setattr(Odd, name, new))


def test_a_patched_method_of_a_base_class_and_one_that_shadows_it_are_noticed(w, monkeypatch):
    odd = Odd()
    function = lambda x: (w * x).sum() * odd.value() * odd.of_class()
    follows(function, lambda: monkeypatch.setattr(Base, "value", lambda self: 3.0))
    follows(function, lambda: setattr(odd, "value", lambda: 7.0), lambda: setattr(odd, "of_class", lambda: 9.0))


@row(
    "the class of an object, the bases of a class, a name of Python's `builtins`, the name of a tensor", "recorded anew"
)
def test_rarer_changes_are_noticed(w, monkeypatch):
    class Other(Base):
        def value(self):
            return 11.0

    class Third(Odd):
        pass

    odd, third = Odd(), Third()
    function = lambda x: (w * x).sum() * odd.value() * third.value()
    follows(function, lambda: setattr(odd, "__class__", Other), lambda: setattr(Third, "__bases__", (Other,)))
    monkeypatch.setattr("builtins.replayed_scale", 1.0, raising=False)
    function = lambda x: (w * x).sum() * replayed_scale  # noqa: F821
    follows(function, lambda: monkeypatch.setattr("builtins.replayed_scale", 2.0))
    follows(lambda x: (w * x).sum() * len(w.name), lambda: setattr(w, "name", "weight"))


def test_names_that_stand_in_texts_and_in_getters_are_noticed(w, monkeypatch):
    import importlib
    import operator

    inner = types.SimpleNamespace(part=types.SimpleNamespace(scale=1.0), value=lambda: inner.part.scale)
    get, ask = operator.attrgetter("part.scale"), operator.methodcaller("value")
    for use in (lambda: get(inner), lambda: ask(inner)):
        follows(lambda x, use=use: (w * x).sum() * use(), lambda: setattr(inner.part, "scale", inner.part.scale + 1.0))
    for use in (
        lambda: importlib.import_module("replayed_settings").SCALE,
        lambda: getattr(SETTINGS, "".join(["SC", "ALE"])),
    ):
        monkeypatch.setattr(SETTINGS, "SCALE", 1.0)
        follows(lambda x, use=use: (w * x).sum() * use(), lambda: monkeypatch.setattr(SETTINGS, "SCALE", 3.0))
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    follows(
        lambda x: (w * x).sum() * globals()["".join(["SC", "ALE"])],
        lambda: monkeypatch.setitem(globals(), "SCALE", 5.0),
    )


@row("an attribute of an object of this package (`optimiser.lr`, `optimiser.updates`)", "recorded anew")
def test_attributes_of_the_packages_own_objects_are_noticed(w):
    optimiser = tg.optim.SGD([w], lr=1.0)
    step = follows(
        lambda x: (w * x).sum() * optimiser.lr * (1 + optimiser.updates), lambda: setattr(optimiser, "lr", 2.0)
    )
    w.grad = None
    step(X)
    optimiser.step()
    assert step(X).item() == ((w.data * X).sum() * 4.0).item()


def scaled(x, scale=1.0, *, shift=0.0):
    return x * scale * scaled.power + shift


scaled.power = 1.0


@row("a default, an attribute or the code of a function", "recorded anew")
def test_functions_are_noticed(w, monkeypatch):
    other = (lambda x, scale=1.0, *, shift=0.0: x * 77.0).__code__
    changes = {"power": 2.0, "__defaults__": (3.0,), "__kwdefaults__": {"shift": 5.0}, "__code__": other}
    change = functools.partial(monkeypatch.setattr, scaled)
    follows(lambda x: scaled((w * x).sum()), *(functools.partial(change, name, new) for name, new in changes.items()))


@dataclasses.dataclass(slots=True)
class Slotted:
    scale: float = 1.0


@row("an entry of a list, a dict, a set, a deque, however many there are, and what stands in it", "recorded anew")
@pytest.mark.parametrize("many", [1, 200])
def test_entries_are_noticed(w, many):
    numbers, table, queue = [1.0] * many, {f"k{k}": 1.0 for k in range(many)}, collections.deque([1.0] * many)
    chosen, objects = {1.0}, (types.SimpleNamespace(parts=[Slotted() for _ in range(many)]),)
    function = lambda x: (
        (w * x).sum() * (numbers[-1] + sum(table.values()) + queue[-1] + sum(chosen) + objects[0].parts[-1].scale)
    )
    follows(function, lambda: numbers.__setitem__(-1, 2.0), lambda: table.__setitem__("k0", 4.0),
            lambda: queue.append(9.0), lambda: chosen.add(32.0), lambda: setattr(objects[0].parts[-1], "scale", 64.0),
            lambda: table.update(new=128.0))  # fmt: skip


@row("an array that the function reads beside its arguments is written to", "recorded anew (the bytes are compared)")
def test_arrays_are_compared_by_their_bytes(w):
    mask, scale, buffer = np.ones(2), np.array(1.0), array.array("d", [1.0])
    raw = bytearray([1])
    function = lambda x: (w * x * (mask > 0.5)).sum() * scale.item() * buffer[0] * raw[0]
    follows(function, lambda: mask.__setitem__(0, 0.0), lambda: scale.fill(3.0), lambda: buffer.__setitem__(0, 5.0),
            lambda: raw.__setitem__(0, 7))  # fmt: skip
    holder = types.SimpleNamespace(mask=np.ones((2, 2))[:, ::2])
    follows(lambda x: (w * x * holder.mask[:, 0]).sum(), lambda: holder.mask.fill(2.0))


@row("very much can be read: more than 10,000 entries, or 10 MB of arrays that are not read-only",
     "looked at all the same, and you are told what it costs")  # fmt: skip
def test_many_things_are_looked_at_and_told_of(w):
    table, numbers = dict.fromkeys(range(6000), 1.0), np.ones(2_000_000)
    function = lambda x: (w * x).sum() * table[5999] * numbers[-1]
    with pytest.warns(UserWarning, match=r"12,\d{3} things and 16,000,000 bytes") as told:
        tg.replay(function)(X)
    assert told[0].filename == __file__
    table = {5999: 1.0}
    numbers.flags.writeable = False
    follows(function, lambda: table.update({5999: 3.0}))  # without a warning


def test_a_profiler_goes_on_after_a_recording(w):
    import cProfile
    import pstats

    def afterwards():
        return sum(range(10))

    profile = cProfile.Profile()
    profile.enable()
    tg.replay(lambda x: (w * x).sum())(X)
    afterwards()
    profile.disable()
    assert any(name == "afterwards" for _, _, name in pstats.Stats(profile).stats)


@row("a context variable, a weak reference", "recorded anew")
def test_variables_of_other_kinds_are_noticed(w):
    variable, target = contextvars.ContextVar("scale", default=1.0), Slotted()
    follows(lambda x: (w * x).sum() * variable.get(), lambda: variable.set(2.0))
    follows(lambda x: (w * x).sum() * functools.partial(scaled, target.scale)(), lambda: setattr(target, "scale", 2.0))
    held = Odd()
    reference = weakref.ref(held)
    follows(lambda x: (w * x).sum() * reference().scale, lambda: setattr(held, "_scale", 2.0))


@row("the step itself changes what it reads, at each call (a counter)",
     "recorded anew at each call, and after ten times in a row you are told what it is")  # fmt: skip
def test_a_counter_is_followed_and_told_of(w):
    class Counter:
        calls = 0

    counter = Counter()

    def function(x):
        counter.calls += 1
        return (w * x).sum() * counter.calls

    step = tg.replay(function)
    assert [step(X).item() for _ in range(10)] == [7.0 * k for k in range(1, 11)]
    with pytest.warns(UserWarning, match=r"10 calls in a row.*\(calls of Counter\)"):
        step(X)


def test_a_parameter_that_the_step_makes_at_its_first_call_is_a_parameter():
    class Lazy(tg.nn.Module):
        def __init__(self):
            self.W = None

        def __call__(self, x):
            if self.W is None:
                self.W = tg.Tensor(np.ones(x.shape), requires_grad=True, name="W")
            return (self.W * x).sum()

    lazy = Lazy()
    step = tg.replay(lambda x: lazy(x))
    assert step(X).item() == 3.0 and lazy.W.grad.tolist() == X.tolist()
    lazy.W.data = [2.0, 2.0]
    assert step(X).item() == 6.0 and lazy.W.grad.tolist() == (2 * X).tolist()


@row("dropout and other random operations", "draw anew from their generator, in the order and number as without replay")
def test_random_operations_draw_anew():
    def losses(wrap):
        rng = np.random.default_rng(0)
        one, other = tg.nn.Dropout(0.5, rng=rng), tg.nn.Dropout(0.2, rng=rng)
        v = tg.Tensor(np.ones(20), requires_grad=True)

        def function(x):
            other(x)  # which no result needs
            return (one(other(v * x)) * np.arange(20.0)).sum()

        step = wrap(function)
        return [step(np.ones(20)).item() for _ in range(4)], rng.bit_generator.state

    assert losses(tg.replay) == losses(lambda function: lambda x: function(tg.Tensor(x)))


@row("`x > 0` inside `tg.where`", "replayed")
def test_comparisons_are_replayed(w):
    step = tg.replay(lambda x: tg.where(x > 1.5, w * x, -w * x).sum())
    assert [step(x).item() for x in (X, X[::-1])] == [5.0, -1.0]


@row("a graph that was made outside and is detached inside", "a constant, with its values at that time")
def test_a_detached_graph_is_a_constant(w):
    h = w * 2.0
    step = tg.replay(lambda x: (w * x * h.detach()).sum())
    step(X)
    w.data = [1.0, 1.0]
    assert step(X).item() == 14.0


def refused(function, message):
    with pytest.raises(RuntimeError, match=message):
        tg.replay(function)(X)


@row("a value is read: `float(x)`, `if x > 0`, `.item()`, `.data`, `print(x)`, `.grad`, a tape, a Jacobian, "
     "`state_dict()`, a copy; or set: `.data`, `.grad`", "refused while recording, with the tensor's name")  # fmt: skip
def test_values_are_refused(w):
    for read in (lambda x: x[0].item(), lambda x: x.data, str, lambda x: w.grad, lambda x: tg.jacobian(w * x, w)):
        refused(lambda x, read=read: (read(x), (w * x).sum())[1], "was read while a replay was recorded")


@row("a Boolean index `x[mask]`, where the mask is computed or an argument",
     "refused: `tg.where(mask, x, 0.0)` keeps the shape")  # fmt: skip
def test_boolean_indices_are_refused(w):
    refused(lambda x: (w * x)[x > 1].sum(), "Keep the shape")


@row("a replay within a replay; a graph from outside that requires a gradient", "refused")
def test_replays_and_graphs_from_outside_are_refused(w):
    inner, h = tg.replay(lambda x: (w * x).sum()), w * 2.0
    refused(lambda x: inner(x) + (w * x).sum(), "__wrapped__")
    refused(lambda x: (h * x).sum(), "outside of the step")


RNG, STATE = np.random.default_rng(0), np.random.RandomState(0)


@row("numbers drawn outside of tensor operations, or from a generator made in the step (`rng.random()`, `random`, "
     "`np.random`)", "refused")  # fmt: skip
@pytest.mark.parametrize(
    "draw",
    [
        lambda: RNG.random(), lambda: STATE.rand(), random.random, lambda: np.random.rand(),  # noqa: NPY002
        lambda: np.random.default_rng().random(),
    ],
)  # fmt: skip
def test_draws_are_refused(w, draw):
    refused(lambda x: (w * x).sum() * draw(), "drawn|random numbers")
    refused(lambda x: tg.nn.Dropout(0.5, rng=0)(w * x).sum(), "made in the step")


def test_a_generator_stands_where_it_stood_when_a_refused_recording_is_over():
    rng = np.random.default_rng(0)
    v = tg.Tensor([1.0, 1.0], requires_grad=True)
    refused(lambda x: (v * x).sum() * rng.random(), "drawn")
    again = np.random.default_rng(0)
    again.random()
    assert rng.bit_generator.state == again.bit_generator.state


@row("a clock, `os.environ`, the system's random numbers, a file that is opened", "refused")
@pytest.mark.parametrize(
    "read",
    [time.time, time.perf_counter, lambda: datetime.datetime.now().timestamp(), lambda: len(os.environ["PATH"]),
     lambda: len(os.getenv("HOME", "")), lambda: os.urandom(1)[0],
     lambda: open(__file__).close() or 1.0],
)  # fmt: skip
def test_clocks_are_refused(w, read):
    refused(lambda x: (w * x).sum() * read(), "was called|was read|was asked|was opened")


@row("an iterator or a generator that was made outside (`next(numbers)`)", "refused")
@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([1.0, 2.0]),
        lambda: itertools.count(1.0),
        lambda: iter(range(3)),
        lambda: iter("ab"),
        lambda: (k for k in (1.0, 2.0)),
    ],
)
def test_iterators_are_refused(w, make):
    numbers = make()
    refused(lambda x: (w * x).sum() * (next(numbers) and 1.0), "take what it gives next before the step")


@row("an operation of your own whose result has another shape for other numbers", "`StaleReplayError` at that call")
def test_another_shape_is_refused_when_it_comes(w):
    positive = tg.primitive(lambda x: x[x > 0], lambda g, y, x: tg.where(x > 0, 1.0, 0.0), name="positive")
    step = tg.replay(lambda x: positive(w * x).sum())
    step(X)
    with pytest.raises(tg.StaleReplayError, match="positive gives shape"):
        step(-X)


@row("what a rule of an operation of your own reads", "recorded anew")
def test_what_rules_read_is_noticed(w, monkeypatch):
    rate = [1.0]
    odd = tg.primitive(lambda x: x * 1.0, lambda g, y, x: g * rate[0] * SCALE, name="odd")
    step = tg.replay(lambda x: (odd(w) * x).sum())
    for change in (
        lambda: None,
        lambda: rate.__setitem__(0, 5.0),
        lambda: monkeypatch.setitem(globals(), "SCALE", 7.0),
    ):
        change()
        w.grad = None
        step(X)
        assert w.grad.tolist() == (X * rate[0] * SCALE).tolist()


@row("an exception in your function", "it reaches you; nothing half recorded is kept")
def test_an_exception_leaves_nothing(w):
    def function(x):
        raise KeyError("mine")

    step = tg.replay(function)
    with pytest.raises(KeyError, match="mine"):
        step(X)
    assert len(step._recordings) == 0 and w.grad is None and sys.getprofile() is None


@row("overflow, division by zero and invalid values",
     "warn or raise as `np.errstate` says, with or without native runs")  # fmt: skip
@pytest.mark.parametrize("native", [None, False])
def test_floating_point_errors_are_heard(w, native):
    step = tg.replay(lambda x: (w * 0.0 + 1.0 / x).sum(), native=native)
    for _ in range(2):
        step(X)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        step(X * 0)
    with np.errstate(divide="warn"), pytest.warns(RuntimeWarning, match="divide by zero"):
        step(X * 0)


@row("calls from several threads", "wait for one another")
def test_threads_wait(w):
    from concurrent.futures import ThreadPoolExecutor

    step = tg.replay(lambda x: (w * x).sum())
    with ThreadPoolExecutor(4) as pool:
        assert [y.item() for y in pool.map(lambda k: step(X * k), range(8))] == [7.0 * k for k in range(8)]


@row(
    "`copy.copy(step)`, `copy.deepcopy(step)`", "a replay of the same or of the copied function, with nothing recorded"
)
def test_copies_are_replays(w):
    import copy

    step = tg.replay(lambda x: (w * x).sum())
    step(X)
    assert "0 programs" in repr(copy.deepcopy(step)) and copy.copy(step)(X).item() == 7.0


# State of many kinds, at random -----------------------------------------------------------------------------------


def _closure():
    value = 1.0

    def write(new):
        nonlocal value
        value = new

    return lambda: value, write


def _attribute(thing, name):
    return lambda: getattr(thing, name), lambda new: setattr(thing, name, new)


def _item(thing, key):
    return lambda: thing[key], lambda new: thing.__setitem__(key, new)


def _counted():
    """Each reading changes it."""
    thing = types.SimpleNamespace(count=0, value=1.0)

    def read():
        thing.count += 1
        return thing.value * thing.count

    return read, lambda new: setattr(thing, "value", new)


def _default():
    def read(value=[1.0]):  # noqa: B006
        return value[0]

    return read, lambda new: setattr(read, "__defaults__", ([new],))


def _property():
    odd = Odd()
    return lambda: odd.scale, lambda new: setattr(odd, "_scale", new)


def _method():
    odd = Odd()
    return lambda: odd.value(), lambda new: setattr(odd, "value", lambda: new)


HOLDERS = {
    "closure": _closure,
    "attribute": lambda: _attribute(types.SimpleNamespace(k=1.0), "k"),
    "slot": lambda: _attribute(Slotted(), "scale"),
    "class": lambda: _attribute(type("Kind", (), {"k": 1.0}), "k"),
    "property": _property,
    "list": lambda: _item([0.0, 1.0], 1),
    "dict": lambda: _item({"k": 1.0}, "k"),
    "deque": lambda: _item(collections.deque([1.0]), 0),
    "array": lambda: _item(np.ones(3), 2),
    "module": lambda: _attribute(Net(), "scale"),
    "default": _default,
    "counted": _counted,
    "method": _method,
}


@given(
    names=st.lists(st.sampled_from(sorted(HOLDERS)), min_size=1, max_size=3),
    changes=st.lists(st.tuples(st.integers(0, 3), st.floats(-2, 2)), max_size=4),
)
def test_a_step_with_state_of_any_kind_gives_what_the_function_gives(names, changes):
    def made():
        """The same twice: one to be played, one to be called as it is."""
        weight, holders = tg.Tensor([1.0, 3.0], requires_grad=True), [HOLDERS[name]() for name in names]
        reads = [read for read, _ in holders]
        return lambda x: tg.tanh(weight * x).sum() * sum(read() for read in reads), [write for _, write in holders]

    (function, writes), (twin, twin_writes) = made(), made()
    step = tg.replay(function)
    for k, new in [(0, 1.0), *changes]:
        writes[k % len(names)](new)
        twin_writes[k % len(names)](new)
        for _call in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is recorded anew again and again
                assert step(X).item() == twin(tg.Tensor(X)).item()
