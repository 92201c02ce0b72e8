"""What a recorded step takes for granted: the values of the names that a function uses, and the attributes of modules
and of other objects that it can read."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from operator import is_
from types import CellType, CodeType, ModuleType
from typing import Any

from .nn.module import Module


class Watch:
    """Looks at them when a step is recorded, and tells later whether anything is another object than it was."""

    def __init__(self, function: Any, wrt: Any) -> None:
        self._seen: list[tuple[Callable[[], Sequence[Any]], Sequence[Any]]] = []
        self._known: set[Any] = set()
        self._look_into(wrt)
        self._look_into(function)

    def changed(self) -> bool:
        for look, before in self._seen:
            now = look()
            if len(now) != len(before) or not all(map(is_, now, before)):
                return True
        return False

    def _look_into(self, thing: Any, owned: bool = False) -> None:
        """`owned`: a list or dict among a module's attributes; others may be large, and are known by identity only."""
        if id(thing) in self._known:
            return
        self._known.add(id(thing))
        if isinstance(thing, functools.partial):
            for part in (thing.func, *thing.args, *thing.keywords.values()):
                self._look_into(part)
        elif inspect.ismethod(thing):
            self._look_into(thing.__self__)
            self._look_into(thing.__func__)
            self._attributes(thing.__self__, _names(thing.__func__.__code__))
        elif inspect.isfunction(thing):
            if not (thing.__module__ or "").startswith("tinygrad_seq."):  # whose own names do not change
                cells, names, home = thing.__closure__ or (), _names(thing.__code__), thing.__globals__
                for value in self._keep(lambda: [_content(cell) for cell in cells]):
                    self._attributes(value, names)
                for value in self._keep(lambda: [home.get(name) for name in names]):
                    self._attributes(value, names)
        elif isinstance(thing, Module) or (
            callable(thing) and hasattr(thing, "__dict__") and not isinstance(thing, type)
        ):
            self._keep(lambda: list(vars(thing).values()), owned=True)
            self._look_into(type(thing).__call__)
        elif owned and isinstance(thing, (dict, list)):
            self._keep(lambda: list(thing.values() if isinstance(thing, dict) else thing), owned=True)

    def _attributes(self, thing: Any, names: Sequence[str]) -> None:
        """Those of an object, a class or a Python module that a function can read, because it uses their names; and
        theirs. A method that it calls is looked into as a function is."""
        key = id(thing), tuple(names)
        plain = hasattr(thing, "__dict__") and (not callable(thing) or isinstance(thing, type))
        if key in self._known or not plain or (isinstance(thing, ModuleType) and _is_settled(thing)):
            return
        self._known.add(key)
        own, shared = vars(thing), {} if isinstance(thing, (type, ModuleType)) else vars(type(thing))
        values = self._keep(lambda: [own.get(name, shared.get(name)) for name in names])
        for value in values:
            if inspect.isfunction(value) and not isinstance(thing, ModuleType):
                self._attributes(thing, _names(value.__code__))
            elif not isinstance(value, ModuleType):
                self._attributes(value, names)

    def _keep(self, look: Callable[[], Sequence[Any]], owned: bool = False) -> Sequence[Any]:
        values = look()
        self._seen.append((look, values))
        for value in values:
            self._look_into(value, owned)
        return values


def _is_settled(module: ModuleType) -> bool:
    """Whether nobody gives a Python module other contents: it is NumPy's, Python's or this package's."""
    package = module.__name__.partition(".")[0]
    return package in ("numpy", "tinygrad_seq") or package in sys.stdlib_module_names


def _names(code: CodeType) -> list[str]:
    """The names that a function uses, in its inner functions and comprehensions too."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [*code.co_names, *(name for part in inner for name in _names(part))]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is bound to the name yet
        return cell
