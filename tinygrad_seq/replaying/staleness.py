"""What a recorded step takes for granted, and whether it has changed since.

While the step is recorded, the functions that run are seen as they are called. The names that they use lead to what
they read: global names, closures, defaults; of any object, module or class the attributes of these names; of a list, a
dict or a set everything. All that is kept as it was when it was first seen, and looked at again at each call: the same
objects must stand there, and the same bytes in arrays.

What cannot be looked at again is refused: clocks, the environment, numbers drawn outside tensor operations, iterators.
"""

from __future__ import annotations

import array
import datetime
import dis
import gc
import os
import random
import sys
import time
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, cached_property, partial
from inspect import ismemberdescriptor
from itertools import chain
from operator import attrgetter, call, is_, itemgetter, methodcaller
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.context import requires_of
from ..engine.tensor import Tensor, record_of
from ..nn.module import Module

MANY = 10_000  # things to look at, which take about a fifth of a millisecond at each call: this is said
LARGE = 10_000_000  # bytes of arrays, likewise

END = object()
# Whose the code is that runs. What the engine and NumPy read does not change; of the rest of this package and of Python
# the attributes are followed; of all other code the global names too.
NOBODYS, OURS, YOURS = 0, 1, 2
PYTHON, NUMPY, PACKAGE = (
    f"{Path(file).parent}{os.sep}" for file in (os.__file__, np.__file__, str(Path(__file__).parent))
)
SETTLED = (NUMPY, "<frozen", *(f"{PACKAGE}{folder}{os.sep}" for folder in ("engine", "reading", "replaying")))

ATOMS = {str, bytes, int, float, complex, bool, type(None), type(...), range, slice, types.CodeType, np.dtype, np.ufunc}
KEPT = (list, dict, set, deque, types.MappingProxyType)  # what stands in them can change
HELD = (tuple, frozenset)  # what stands in these cannot, but it can change itself
ARRAYS = (np.ndarray, bytearray, memoryview, array.array)
GENERATORS = (np.random.Generator, np.random.RandomState)
CLOCKS = {
    getattr(kind, name)
    for kind, names in {
        time: "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns",
        datetime.datetime: "now utcnow today", datetime.date: "today",
    }.items()
    for name in names.split()
}  # fmt: skip
ENVIRONMENT = type(os.environ).__getitem__.__code__
ANY_NAME = {"vars", "dir", "__dict__", "__getattribute__", "attrgetter", "setattr", "delattr"}


class StaleReplayError(RuntimeError):
    """A replay gives other numbers than the function itself, by something that it does not watch.

    `check=n` finds it, and an operation whose result changes its shape with the numbers.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor([3.0, 2.0, -1.0], requires_grad=True)
    >>> positive = tg.primitive(lambda x: x[x > 0], lambda g, y, x: tg.where(x > 0, 1.0, 0.0), name="positive")
    >>> step = tg.replay(lambda x: positive(w * x).sum())
    >>> float(step(np.ones(3)))
    5.0
    >>> try:
    ...     step(-np.ones(3))
    ... except tg.StaleReplayError as error:
    ...     print(str(error).partition(":")[0])
    positive gives shape (1,) now and gave (2,) when the replay was recorded
    """


class Space(NamedTuple):
    """The attributes of something, where they stand, and as they were when it was first seen."""

    owner: Any
    attributes: Mapping[str, Any]
    before: dict[str, Any]


class Slots(Mapping[str, Any]):
    """What stands in the slots of an object, as if it were a dict."""

    def __init__(self, thing: Any, names: list[str]) -> None:
        self._thing, self._names = thing, names

    def __getitem__(self, name: str) -> Any:
        if name in self._names and hasattr(self._thing, name):
            return getattr(self._thing, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if hasattr(self._thing, name))

    def __len__(self) -> int:
        return len(list(self))


class Looks:
    """Things of one kind that are looked at at each call: where, what was there, and what that is called."""

    def __init__(self) -> None:
        self.places: list[Any] = []
        self.before: list[Any] = []
        self.labels: list[str] = []

    def add(self, places: Iterable[Any], before: Iterable[Any], labels: Iterable[str]) -> None:
        self.places += places
        self.before += before
        self.labels += labels


class Watch:
    """Sees what a step reads while it is recorded (`with watch:`), and tells later whether any of it has changed."""

    def __init__(self, function: Any, wrt: Any) -> None:
        self.generators: list[Any] = []
        self._positions: list[Any] = []  # of the generators, when they were first seen
        self._refusals: list[str] = []
        self._codes: dict[int, tuple[types.CodeType, int]] = {}  # what has run, and whose it is
        self._names: set[str] = set()  # that the code uses that has run
        self._asked: set[str] = set()  # those of attributes, by your code: they may appear later
        self._any_name = False  # whether your code reads attributes whose names it computes
        self._found: dict[int, Any] = {}  # what was reached, kept alive so that no other thing has its id
        self._spaces: list[Space] = []
        self._classes: dict[type, Space] = {}
        # What is looked at at each call, and what was there: names that are taken out of a dict, several at once; what
        # is read one by one, off a thing; lists, views of dicts and the like, which are gone through again.
        self._taken, self._read, self._standing = Looks(), Looks(), Looks()
        self._tensors: list[Tensor] = []
        self._arrays: list[tuple[Callable[[], bytes], bytes]] = []
        self._guests: dict[int, Any] = {}  # arguments of what has run: many are made meanwhile
        self._global_positions = _global_positions()
        self._reach([wrt, function])

    # While the step is recorded ---------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()  # code that is called back by a collection is none of the step's
        self._profiler = sys.getprofile()
        sys.setprofile(self._see)

    def __exit__(self, *exception: object) -> None:
        resume = getattr(self._profiler, "enable", None)  # of cProfile, which cannot be set as it is
        sys.setprofile(None if resume else self._profiler)
        if resume:
            resume()
        if self._collecting:
            gc.enable()

    def _see(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """Python calls this whenever a function is called and returns."""
        if event == "call":
            code, whose = self._codes.get(id(frame.f_code)) or self._see_code(frame)
            if whose != NOBODYS:
                self._guests.update((id(x), x) for x in frame.f_locals.values() if _is_guest(type(x)))  # type: ignore[arg-type]
            if code is ENVIRONMENT and self._asked_by_you(frame):
                self._refusals.append("os.environ was read: read it before the step")
        elif event == "c_call":
            if argument in CLOCKS and _whose(frame.f_code) == YOURS and not _installed(frame.f_code.co_filename):
                self._refusals.append(f"{argument.__qualname__}() was called: measure time around the step")
            elif argument is open and _whose(frame.f_code) == YOURS and not _installed(frame.f_code.co_filename):
                self._refusals.append("a file was opened: read it before the step")
            elif argument is os.urandom and self._asked_by_you(frame):
                self._refusals.append("the system was asked for random numbers: give a generator a seed")

    def _see_code(self, frame: types.FrameType) -> tuple[types.CodeType, int]:
        """A function runs for the first time: what do its names lead to?"""
        code, home, builtin = frame.f_code, frame.f_globals, frame.f_builtins
        whose = NOBODYS if home.get("__name__", "").startswith("namedtuple_") else _whose(code)
        self._codes[id(code)] = code, whose
        if whose == YOURS:
            self._asked |= _attributes_in(code)
            for names, place in ((code.co_names, home), ([x for x in code.co_names if x not in home], builtin)):
                names = [name for name in names if place is home or name in builtin]
                self._take(place, names, {name: place.get(name) for name in names}, code.co_name)
            if "globals" in code.co_names:
                self._stands(home.values(), f"the module of {code.co_name}")
            if not self._any_name and _computes_names(code):
                self._any_name = True
                self._learn(self._names)
        if whose != NOBODYS:
            self._learn({code.co_name, *_names(code)} - self._names)
        if whose == YOURS:
            self._reach([*map(home.get, code.co_names), *_imported(code, home)])
        return code, whose

    def _learn(self, names: set[str]) -> None:
        """Code uses these names: where do they lead to from what was reached so far?"""
        self._names = self._names | names
        for space in list(self._spaces):
            self._reach([space.before[name] for name in self._relevant(space, names)])

    def _asked_by_you(self, frame: types.FrameType | None) -> bool:
        """Whether it was your code that called what called ... what runs in this frame."""
        while frame is not None and (frame.f_code.co_filename.startswith((PYTHON, "<frozen"))):
            frame = frame.f_back
        return frame is not None and _whose(frame.f_code) == YOURS

    # What can be reached ----------------------------------------------------------------------------------------------

    def _reach(self, things: Iterable[Any]) -> None:
        waiting = [x for x in things if type(x) not in ATOMS]
        while waiting:
            thing = waiting.pop()
            if id(thing) not in self._found:
                self._found[id(thing)] = thing
                waiting += [x for x in self._inside(thing) if type(x) not in ATOMS]

    def _inside(self, thing: Any) -> Iterable[Any]:
        """Note how a thing is looked at again, and return what it leads to."""
        if isinstance(thing, Tensor):
            self._read.add([(requires_of, thing)], [requires_of(thing)], [f"requires_grad of {thing.label()}"])
            self._tensors.append(thing)
        elif isinstance(thing, ARRAYS):
            if not _is_settled(thing):
                read = thing.tobytes if hasattr(thing, "tobytes") else partial(bytes, thing)
                self._arrays.append((read, read()))
            return thing.ravel().tolist() if isinstance(thing, np.ndarray) and thing.dtype.hasobject else ()
        elif isinstance(thing, GENERATORS):
            self.generators.append(thing)
            self._positions.append(position(thing))
        elif _gives(type(thing)):
            self._refusals.append(f"a {type(thing).__name__} can be read: take what it gives next before the step")
        elif isinstance(thing, types.FunctionType):
            return self._inside_function(thing)
        elif isinstance(thing, types.ModuleType):
            if _whose_file(getattr(thing, "__file__", None) or "<frozen") == YOURS:
                self._space(thing, vars(thing))
        elif isinstance(thing, type):
            for kind in thing.__mro__:
                self._see_class(kind)
            return [type(thing)] if type(thing) is not type else ()
        elif isinstance(thing, types.MethodType | types.BuiltinMethodType):
            return [getattr(thing, "__func__", None), thing.__self__]
        elif isinstance(thing, partial):
            return [thing.func, thing.args, thing.keywords]
        elif isinstance(thing, property | staticmethod | classmethod | cached_property):
            return [getattr(thing, name, None) for name in ("fget", "__func__", "func")]
        elif isinstance(thing, attrgetter | methodcaller):
            names = {part for name in thing.__reduce__()[1] if isinstance(name, str) for part in name.split(".")}
            self._asked |= names
            self._learn(names)
        elif isinstance(thing, ContextVar):
            return self._call("a context variable", partial(thing.get, None))
        elif isinstance(thing, weakref.ref):
            return self._call("a weak reference", thing)
        else:
            return [*self._contents(thing), *self._attributes(thing), type(thing)]
        return ()

    def _inside_function(self, function: types.FunctionType) -> Iterable[Any]:
        """What is in the closure and the defaults of a function. Only your functions get others."""
        code, cells = function.__code__, function.__closure__ or ()
        contents = [_content(cell) for cell in cells]
        if _whose(code) == YOURS and not function.__globals__.get("__name__", "").startswith("namedtuple_"):
            labels = [f"{name} in the closure of {code.co_name}" for name in code.co_freevars]
            self._read.add([(_CONTENT, cell) for cell in cells], contents, labels)
            for part in (_CODE, _DEFAULTS, _KEYWORD_DEFAULTS):
                contents.append(part(function))
                self._read.add([(part, function)], contents[-1:], [f"the code or a default of {code.co_name}"])
            self._space(function, vars(function))
        return contents

    def _contents(self, thing: Any) -> Iterable[Any]:
        """What stands in a list, a dict, a set or a tuple."""
        if isinstance(thing, HELD):
            return thing
        if not isinstance(thing, KEPT):
            return ()
        if isinstance(thing, Mapping):
            return [*self._stands(thing, "a dict"), *self._stands(thing.values(), "a dict", list(thing))]
        return self._stands(thing, f"a {type(thing).__name__}")

    def _attributes(self, thing: Any) -> Iterable[Any]:
        """Those of an object: of a module of layers all are looked at, for it is asked for all of its tensors."""
        kind = type(thing)
        if _whose_class(kind) == YOURS:
            self._read.add([(type, thing)], [kind], [f"the class of a {kind.__name__}"])
        own = getattr(thing, "__dict__", None)
        if isinstance(own, dict) and kind.__module__.partition(".")[0] != "numpy":
            if isinstance(thing, Module):
                return self._stands(own.values(), kind.__name__, list(own))
            self._space(thing, own)
        if _whose_class(kind) != NOBODYS:
            slots = [name for base in kind.__mro__ for name, x in vars(base).items() if ismemberdescriptor(x)]
            if slots:
                self._follow(Space(thing, Slots(thing, slots), dict(Slots(thing, slots))))
        return ()

    def _see_class(self, kind: type) -> None:
        if kind not in self._classes and _whose_class(kind) != NOBODYS:
            if _whose_class(kind) == YOURS:
                self._read.add([(_ORDER, kind)], [_ORDER(kind)], [f"the base classes of {kind.__name__}"])
            self._classes[kind] = Space(kind, vars(kind), dict(vars(kind)))
            self._follow(self._classes[kind])

    def _space(self, owner: Any, attributes: dict[str, Any]) -> None:
        self._follow(Space(owner, attributes, dict(attributes)))

    def _follow(self, space: Space) -> None:
        """Attributes are looked at when all names are known; those whose names are known now lead on."""
        self._spaces.append(space)
        self._reach([space.before[name] for name in self._relevant(space, self._names)])

    def _relevant(self, space: Space, names: set[str]) -> Iterable[str]:
        every = self._any_name and not isinstance(space.owner, types.ModuleType)
        return list(space.before) if every else names & space.before.keys()

    def _stands(self, entries: Iterable[Any], where: str, names: Sequence[Any] = ()) -> Sequence[Any]:
        """Note something that can be iterated again, and return what is in it now."""
        now = list(entries)
        labels = [f"{name} in {where}" for name in names] if len(names) < MANY else []
        self._standing.add([entries, (END,)], [*now, END], [*(labels or [f"an entry of {where}"] * len(now)), where])
        return now

    def _call(self, label: str, read: Callable[[], Any]) -> Sequence[Any]:
        self._read.add([(call, read)], [read()], [label])
        return self._read.before[-1:]

    # When it has been recorded ----------------------------------------------------------------------------------------

    def sees_rules(self, results: Iterable[Tensor]) -> bool:
        """Whether there are operations of your own among these: what their rules read is followed when they run."""
        operations = {t.record.operation for t in results if t.record is not None}
        rules = [rule for operation in operations for rule in (*operation.rules, operation.every)]
        yours = [x for x in rules if isinstance(x, types.FunctionType) and _whose(x.__code__) == YOURS]
        self._reach(yours)
        return bool(yours)

    def close(self, leaves: Iterable[Tensor], draws: Sequence[Tensor]) -> None:
        """The step has been recorded. RuntimeError if it read what cannot be looked at again."""
        self._check_draws(draws)
        known = len(self.generators)
        self._reach([*self._living_guests(), *self._lost(), *leaves])
        del self.generators[known:]  # those that were made meanwhile
        if self._refusals:
            raise RuntimeError(
                f"while a replay was recorded, {'; '.join(dict.fromkeys(self._refusals))}. A replay would have the "
                "same each time: pass what changes as an argument"
            )
        for space in self._spaces:
            self._choose(space)
        if "name" in self._asked:
            self._read.add(
                [(_NAME, x) for x in self._tensors], map(_NAME, self._tensors), ["name"] * len(self._tensors)
            )
        self._all = self._taken, self._read, self._standing
        self._before = list(chain.from_iterable(looks.before for looks in self._all))
        self._columns = [*zip(*self._taken.places, strict=True)] or [(), ()]
        self._columns += [*zip(*self._read.places, strict=True)] or [(), ()]
        size = sum(len(before) for _, before in self._arrays)
        if len(self._before) > MANY or size > LARGE:
            warnings.warn(
                f"a replayed step can read {len(self._before):,} things and {size:,} bytes of arrays that may change, "
                "and each call looks at all of them: pass large tables as arguments, or make their arrays read-only "
                "(array.flags.writeable = False)",
                stacklevel=6,
            )
        self._found, self._codes, self._spaces, self._classes, self._tensors = {}, {}, [], {}, []

    def _living_guests(self) -> list[Any]:
        """Arguments of functions that somebody still holds: the others were made meanwhile, and nobody reads them."""
        for _ in range(3):  # some hold others
            for key in list(self._guests):
                if sys.getrefcount(self._guests[key]) == 2:  # held here, and by this look
                    del self._guests[key]
        living, self._guests = list(self._guests.values()), {}
        return living

    def _lost(self) -> Iterator[Any]:
        """Functions that have run and were not reached by any name: their closures are to be watched too."""
        yours = [code for code, whose in self._codes.values() if whose == YOURS]
        inner = {id(part) for code in yours for part in code.co_consts}
        reached = {id(x.__code__) for x in self._found.values() if isinstance(x, types.FunctionType)}
        lost = [c for c in yours if c.co_freevars and id(c) not in reached and id(c) not in inner]
        return (x for x in (gc.get_referrers(*lost) if lost else ()) if isinstance(x, types.FunctionType))

    def _check_draws(self, draws: Sequence[Tensor]) -> None:
        """Every draw must be an operation, which a replay makes anew: they are all made again, from the start."""
        records = [record_of(t) for t in draws]
        values = [value for record in records for value in record.options.values()]
        if any(isinstance(x, GENERATORS) and all(x is not g for g in self.generators) for x in values):
            self._refusals.append("numbers were drawn from a generator that is made in the step: make it before")
        now = [position(g) for g in self.generators]
        if not same(now, self._positions):
            put_back(self.generators, self._positions)
            for record in records:
                record.operation.forward(*record.values, **record.options)
            accounted = same(now, [position(g) for g in self.generators])
            put_back(self.generators, now)
            if not accounted:
                self._refusals.append("numbers were drawn from a generator outside of tensor operations")
        if not same(_global_positions(), self._global_positions):
            self._refusals.append("numbers were drawn from a generator of the whole process")

    def _choose(self, space: Space) -> None:
        """Which attributes of something are looked at again: those whose names were used, and may be asked for."""
        owner, attributes, before = space
        label = getattr(owner, "__name__", type(owner).__name__)
        names = self._asked | (before.keys() if self._any_name else self._used(space))
        if isinstance(owner, type):
            bases = [self._used(self._classes[kind]) for kind in owner.__mro__[1:] if kind in self._classes]
            names = self._used(space).union(*bases, self._asked)
            if self._any_name and _whose_class(owner) == YOURS:
                names |= before.keys()
            if _whose_class(owner) == OURS:  # names that it could get are seen by their number
                names &= before.keys()
                self._read.add([(len, attributes)], [len(before)], [f"the attributes of {label}"])
        self._take(attributes, sorted(names), before, label)

    def _take(self, attributes: Mapping[str, Any], names: Sequence[str], before: Mapping[str, Any], owner: str) -> None:
        """Note names, to be looked up in a dict."""
        there = [name for name in names if name in attributes]
        if there:
            take = itemgetter(*there) if len(there) > 1 else itemgetter(*there, *there)
            there = there if len(there) > 1 else there * 2
            self._taken.add(
                [(take, attributes)], [before.get(name) for name in there], [f"{name} of {owner}" for name in there]
            )
        absent = [name for name in names if name not in attributes]
        self._read.add(
            [(attributes.get, name) for name in absent],
            [before.get(name) for name in absent],
            [f"{name} of {owner}" for name in absent],
        )

    def _used(self, space: Space) -> set[str]:
        """The names that the code uses which has run; not those of methods that have not."""
        return {
            name
            for name in self._names & space.before.keys()
            if not isinstance(x := space.before[name], types.FunctionType) or id(x.__code__) in self._codes
        }

    # At each call -----------------------------------------------------------------------------------------------------

    def changed(self) -> bool:
        """Whether anything is another object than it was, or an array holds other bytes."""
        try:
            if not all(map(is_, self._now(), self._before)):
                return True
        except (KeyError, ValueError):  # a name is bound to nothing any more
            return True
        return bool(self._arrays) and any(read() != before for read, before in self._arrays)

    def _now(self) -> Iterator[Any]:
        """All that is looked at, as it is now."""
        takers, dicts, readers, things = self._columns
        taken, read = chain.from_iterable(map(call, takers, dicts)), map(call, readers, things)
        return chain(taken, read, chain.from_iterable(self._standing.places))

    def what(self) -> str:
        """What has changed, in words."""
        labels = chain.from_iterable(looks.labels for looks in self._all)
        try:
            for label, now, before in zip(labels, self._now(), self._before, strict=False):
                if now is not before:
                    return label
        except (KeyError, ValueError):
            return "a name that is bound to nothing any more"
        return "the bytes of an array"


# Generators -----------------------------------------------------------------------------------------------------------


def position(generator: Any) -> Any:
    """Where a generator of random numbers stands."""
    legacy = isinstance(generator, np.random.RandomState)
    return generator.get_state(legacy=False) if legacy else generator.bit_generator.state


def put_back(generators: Sequence[Any], positions: Sequence[Any]) -> None:
    """Let generators go on from there."""
    for generator, position in zip(generators, positions, strict=True):
        if isinstance(generator, np.random.RandomState):
            generator.set_state(position)
        else:
            generator.bit_generator.state = position


def same(a: Any, b: Any) -> bool:
    """Whether two positions, of one or of several generators, are the same."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)


def _global_positions() -> list[Any]:
    """Where the generators stand that the whole process shares."""
    loaded = sys.modules.get("numpy.random")
    return [random.getstate(), loaded.get_state(legacy=False) if loaded else None]


# Code -----------------------------------------------------------------------------------------------------------------


@cache
def _whose_file(file: str) -> int:
    if file.startswith(SETTLED):
        return NOBODYS
    return OURS if file.startswith(PACKAGE) or (file.startswith(PYTHON) and not _installed(file)) else YOURS


def _installed(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def _whose(code: types.CodeType) -> int:
    return _whose_file(code.co_filename)


def _whose_class(kind: type) -> int:
    folders = kind.__module__.split(".")
    if folders[0] == "tinygrad_seq":
        return NOBODYS if "engine" in folders else OURS
    return NOBODYS if folders[0] in ("builtins", "numpy") or folders[0] in sys.stdlib_module_names else YOURS


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that a function uses, and texts that may be one."""
    yield from code.co_names
    yield from (part for part in code.co_consts if isinstance(part, str) and part.isidentifier())


def _attributes_in(code: types.CodeType) -> set[str]:
    """The names of attributes that a function reads or sets, and texts that may be one."""
    attributes = {x.argval for x in dis.get_instructions(code) if x.opname.endswith(("_ATTR", "_METHOD"))}
    return {
        *attributes,
        *(part for part in code.co_consts if isinstance(part, str) and part.isidentifier()),
    }


def _computes_names(code: types.CodeType) -> bool:
    """Whether a function may read attributes whose names do not stand in it."""
    if ANY_NAME.intersection(code.co_names):
        return True
    asked: list[Any] | None = None  # within getattr(...): its arguments so far, of which texts alone are of interest
    for instruction in dis.get_instructions(code) if {"getattr", "hasattr"}.intersection(code.co_names) else ():
        operation = instruction.opname
        if operation.startswith("LOAD") and instruction.argval in ("getattr", "hasattr"):
            asked = []
        elif asked is None or operation in ("PUSH_NULL", "PRECALL", "CACHE") or operation.endswith("_ATTR"):
            pass
        elif operation.startswith("LOAD"):
            asked.append(instruction.argval if operation == "LOAD_CONST" else None)
        elif operation == "CALL" and isinstance((asked + [None, None])[1], str):
            asked = None
        else:  # anything more complicated
            return True
    return asked is not None


def _imported(code: types.CodeType, home: Mapping[str, Any]) -> list[Any]:
    """The modules that import statements within a function name."""
    if "import_module" in code.co_names:
        return [sys.modules[x] for x in code.co_consts if isinstance(x, str) and x in sys.modules]
    if dis.opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return []
    package = home.get("__package__") or ""
    paths = [path for name in code.co_names for path in (name, f"{package}.{name}".rstrip("."), package)]
    return [sys.modules[path] for path in paths if path in sys.modules]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is bound to the name yet
        return END


_CONTENT, _NAME, _ORDER = map(attrgetter, ("cell_contents", "name", "__mro__"))
_CODE, _DEFAULTS, _KEYWORD_DEFAULTS = map(attrgetter, ("__code__", "__defaults__", "__kwdefaults__"))


# Things ---------------------------------------------------------------------------------------------------------------


@cache
def _is_guest(kind: type) -> bool:
    """Whether an argument of a function may be an object with attributes that are to be watched."""
    others = (Tensor, *ARRAYS, *KEPT, *HELD, *GENERATORS, types.FunctionType, types.ModuleType)
    return kind not in ATOMS and not _gives(kind) and not issubclass(kind, others)


def _gives(kind: type) -> bool:
    """Whether it is an iterator of Python's own: where it stands cannot be seen."""
    return hasattr(kind, "__next__") and kind.__module__ in ("builtins", "itertools")


def _is_settled(thing: Any) -> bool:
    """Whether an array cannot be written to, by no view of it."""
    while isinstance(thing, np.ndarray) and not thing.flags.writeable:
        thing = thing.base
    return thing is None or isinstance(thing, bytes)
