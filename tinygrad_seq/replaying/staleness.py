"""What a recorded step takes for granted: what the names that it uses are bound to, and the attributes that it reads.

Nothing is executed to find out. From a function follow its globals, its closure, its defaults; from an object those
of its attributes whose names any of the functions uses, as a name or as a text; from a module of layers all of them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from types import CellType, CodeType, ModuleType
from typing import Any

from ..nn.module import Module


class StaleReplayError(RuntimeError):
    """A replay would give other numbers than the function itself.

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


Look = Callable[[], Sequence[Any]]
MOST = 64  # of a long list, so many entries are looked into


class Watch:
    """Looks when a step is recorded, and tells later whether anything is another object than it was."""

    def __init__(self, function: Any, wrt: Any) -> None:
        self._looks: list[Look] = []
        self._names: set[str] = set()  # that any function uses
        self._found: dict[int, Any] = {}  # what was looked at, kept alive so that no other thing has its id
        self._objects: list[Any] = []
        self._visit([wrt, function])
        names = -1
        while names != len(self._names) + len(self._found):  # what is found may use further names
            names = len(self._names) + len(self._found)
            for thing in list(self._objects):
                self._visit(_attributes(thing, self._names))
        self._looks += [functools.partial(_attributes, thing, self._names) for thing in self._objects]
        self._seen = [(look, look()) for look in self._looks]

    def changed(self) -> bool:
        for look, before in self._seen:
            now = look()
            if len(now) != len(before) or not all(map(is_, now, before)):
                return True
        return False

    def _visit(self, things: Any) -> None:
        waiting = list(things)
        while waiting:
            thing = waiting.pop()
            if id(thing) not in self._found:
                self._found[id(thing)] = thing
                waiting += self._further(thing)

    def _further(self, thing: Any) -> Sequence[Any]:
        """What is to be looked at next."""
        if isinstance(thing, functools.partial):
            return [thing.func, *thing.args, *thing.keywords.values()]
        if isinstance(thing, property):
            return [thing.fget]
        if isinstance(thing, (staticmethod, classmethod)) or inspect.ismethod(thing):
            return [thing.__func__, getattr(thing, "__self__", None)]
        if inspect.isfunction(thing):
            if _is_settled_package(thing.__module__ or ""):
                return []
            own = list(_names(thing.__code__))
            self._names.update(own)
            if "site-packages" in thing.__code__.co_filename:  # what others wrote does not change its own names
                return []
            cells, home = thing.__closure__ or (), thing.__globals__
            looks: list[Look] = [lambda: [_content(cell) for cell in cells], lambda: [home.get(name) for name in own]]
            self._looks += looks
            further = [value for look in looks for value in look()]
            return [*further, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
        if isinstance(thing, Module):
            self._looks.append(lambda: list(vars(thing).values()))
            parts = [part for value in vars(thing).values() for part in self._owned(value)]
            return [*parts, type(thing).__call__]
        if isinstance(thing, (list, tuple, dict)):  # for the objects in it; which these are is not looked at
            return list(thing.values() if isinstance(thing, dict) else thing)[:MOST]
        if (hasattr(thing, "__dict__") or hasattr(type(thing), "__slots__")) and not _is_settled(thing):
            self._objects.append(thing)
            return [type(thing).__call__] if callable(thing) and not isinstance(thing, type) else []
        return []

    def _owned(self, value: Any) -> Iterator[Any]:
        """A list or dict among a module's attributes is its own; others may be large, and are known by identity."""
        yield value
        if isinstance(value, (dict, list)) and id(value) not in self._found:
            self._found[id(value)] = value
            look: Look = lambda: list(value.values() if isinstance(value, dict) else value)
            self._looks.append(look)
            for part in look():
                yield from self._owned(part)


def _spaces(thing: Any) -> list[Any]:
    """The dictionaries in which the attributes of a thing are looked up: its own, then those of its classes."""
    classes = thing.__mro__ if isinstance(thing, type) else () if isinstance(thing, ModuleType) else type(thing).__mro__
    own = [] if isinstance(thing, type) or not hasattr(thing, "__dict__") else [vars(thing)]
    return [*own, *(vars(kind) for kind in classes if not _is_settled(kind))]


def _attributes(thing: Any, names: Any) -> list[Any]:
    """Those of a thing that are among these names, in the order of the names, without running anything of it."""
    found: dict[str, Any] = {}
    for space in _spaces(thing):
        for name in names & space.keys():
            found.setdefault(name, space[name])
    for name, value in found.items():
        if inspect.ismemberdescriptor(value):  # a slot
            found[name] = getattr(thing, name, None)
    return [found[name] for name in sorted(found)]


def _is_settled(thing: Any) -> bool:
    """Whether nobody gives it other attributes: modules and classes of NumPy, of Python and of this package, and what
    these make, but for the namespaces of Python's library."""
    if isinstance(thing, ModuleType):
        return _is_settled_package(thing.__name__)
    if isinstance(thing, type):
        return _is_settled_package(thing.__module__)
    return type(thing).__module__.partition(".")[0] in ("builtins", "numpy", "tinygrad_seq")


def _is_settled_package(module: str) -> bool:
    package = module.partition(".")[0]
    return package in ("numpy", "tinygrad_seq") or package in sys.stdlib_module_names


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function uses, and texts that may be one, in its inner functions and comprehensions too."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
        elif isinstance(part, str) and part.isidentifier():
            yield part


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is bound to the name yet
        return cell
