"""Modules: plain objects whose tensors, in the order of definition, are their state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..engine.arguments import misfits
from ..engine.namespaces import missing
from ..engine.signatures import Array, with_answers
from ..engine.tensor import Tensor, array_of


class Module:
    """Base of layers and models: every Tensor, Module, list, tuple or dict of them among the attributes is found.

    A parameter is a tensor that requires a gradient. Names are paths, `layers.0.A`, in the order in which the
    attributes were first set; a tensor found under two names is tied: one parameter, listed once. A recorded
    result, kept in an attribute to be looked at, is no part of the state.

    TypeError for what would silently not be trained: a parameter replaced by a result or a constant, and parameters in
    a set, a deque or an object that is no module.

    >>> import tinygrad_seq as tg
    >>> class Line(tg.nn.Module):
    ...     def __init__(self):
    ...         self.slope = tg.Tensor(2.0, requires_grad=True)
    ...         self.offset = tg.Tensor(1.0, requires_grad=True)
    ...     def __call__(self, x):
    ...         return self.slope * x + self.offset
    >>> line = Line()
    >>> list(line.state_dict()), line(3.0).item()
    (['slope', 'offset'], 7.0)
    """

    training: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):  # options by the names of other libraries are answered
            type.__setattr__(cls, "__init__", with_answers(vars(cls)["__init__"]))

    if not TYPE_CHECKING:  # for type checkers there are the attributes that are set

        def __getattr__(self, name: str) -> Any:
            raise missing(f"{type(self).__name__!r} object", "Module", name, self)

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if isinstance(value, Tensor) and isinstance(old, Tensor) and _trainable(old) and not _trainable(value):
            raise TypeError(
                f"{type(self).__name__}.{name} is a parameter, and {value.label()} in its place would not be trained: "
                f"for new values rebind its data, .{name}.data = ...; to tie it to another parameter, use that one "
                "where it is needed, as in h @ emb.table.T; for another parameter give a Tensor with requires_grad=True"
            )
        super().__setattr__(name, value)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """What the module computes: see the text of its class."""
        raise TypeError(f"{type(self).__name__} does not say what it computes: define __call__ (there is no forward)")

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the state by its path; tied tensors appear under each of their names."""
        found: dict[str, Tensor] = {}
        for path, x in _walk(self, "", ()):
            if isinstance(x, Tensor) and x.operation is None and found.setdefault(path, x) is not x:
                raise ValueError(f"two tensors of {type(self).__name__} have the name {path}: rename a key")
        known = set(found.values())
        for module in self.modules():
            for key, value in vars(module).items():
                if not known.issuperset(_hidden(value)):
                    raise TypeError(
                        f"the parameters in {type(module).__name__}.{key} ({type(value).__name__}) would be neither "
                        "trained nor saved: keep them in a list, a tuple, a dict or a class derived from tg.nn.Module"
                    )
        return found

    def modules(self) -> list[Module]:
        """This module and all that are part of it."""
        return list(dict.fromkeys([self, *(x for _, x in _walk(self, "", ()) if isinstance(x, Module))]))

    def named_parameters(self) -> dict[str, Tensor]:
        """The tensors that require a gradient, by path; a tied one under its first name."""
        first: dict[Tensor, str] = {}
        for path, x in self.tensors().items():
            if x.requires_grad:
                first.setdefault(x, path)
        return {path: x for x, path in first.items()}

    def parameters(self) -> list[Tensor]:
        """The tensors that require a gradient, each once."""
        return list(self.named_parameters().values())

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for x in self.tensors().values():
            x.zero_grad()

    def freeze(self, frozen: bool = True) -> Self:
        """Stop training: no parameter requires a gradient any more. `freeze(False)` makes those trainable again that a
        `freeze` (of this module, or of one that it is part of) has stopped; what was a constant stays one."""
        for module in self.modules():
            tensors = module.tensors()
            before = vars(module).get("_frozen", ())
            if frozen:
                module._frozen = tuple(
                    dict.fromkeys([*before, *(path for path, x in tensors.items() if _trainable(x))])
                )
            else:
                module._frozen = ()
                for path in before:
                    if path in tensors:
                        tensors[path].requires_grad = True
        if frozen:
            for x in self.parameters():
                x.requires_grad = False
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode (dropout draws) here and in every part; `train(False)` is `eval()`."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode: dropout is the identity."""
        return self.train(False)

    def state_dict(self) -> dict[str, Array]:
        """Copies of all values by path: training on does not change them."""
        return {path: np.array(x.data) for path, x in self.tensors().items()}

    def load_state_dict(self, arrays: Mapping[str, Any]) -> None:
        """Rebind every tensor to these values. Strict: the same names, shapes and dtypes, or ValueError naming each
        difference, and nothing is changed."""
        self.prepared(arrays)()

    def prepared(self, arrays: Mapping[str, Any]) -> Callable[[], None]:
        """What rebinds every tensor when it is called, and cannot fail then. Errors as `load_state_dict`."""
        if not isinstance(arrays, Mapping):
            raise TypeError(
                f"load_state_dict takes a dict of arrays by path, got {type(arrays).__name__}; of a file of tg.save, "
                "tg.load(path, model=net) fills a module"
            )
        mine = self.tensors()
        values = {path: np.asarray(array) for path, array in arrays.items()}
        faults = misfits({path: array_of(x) for path, x in mine.items()}, values)
        seen: dict[Tensor, str] = {}
        for path, x in mine.items():
            first = seen.setdefault(x, path)
            pair = [values[name] for name in (path, first) if name in values and values[name].shape == x.shape]
            if len(pair) == 2 and not np.array_equal(pair[0], pair[1], equal_nan=True):
                faults.append(f"{path} is tied to {first}, but the values differ")
        if faults:
            raise ValueError(f"the state does not fit {type(self).__name__}: {'; '.join(faults)}")
        arrays = {path: values[path].astype(x.dtype) for path, x in mine.items()}

        def rebind() -> None:
            for path, x in mine.items():
                x.data = arrays[path]

        return rebind

    def carried(self) -> Sequence[Array]:
        """What the module carries from call to call besides its tensors: arrays that a checkpoint keeps. A stateful
        model says them here, and takes them up in `carry`."""
        return ()

    def carry(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """What takes up carried arrays when it is called, and cannot fail then; ValueError where they do not fit."""
        if arrays:
            raise ValueError(f"{type(self).__name__} carries nothing, got {len(arrays)} arrays")
        return lambda: None

    @recursive_repr()
    def __repr__(self) -> str:
        shown = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        parts = [f"{key}={x.shape if isinstance(x, Tensor) else repr(x)}" for key, x in shown.items()]
        return f"{type(self).__name__}({', '.join(p for p in parts if p)})"


def _walk(x: Any, path: str, above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """All tensors and modules under x, with their paths, in the order of definition."""
    if isinstance(x, Tensor) or (isinstance(x, Module) and above):
        yield path, x
    if any(x is y for y in above):
        return  # a part that refers back to its whole
    items: Any = ()
    if isinstance(x, Module):
        items = vars(x).items()
    elif isinstance(x, Mapping):
        items = x.items()
    elif isinstance(x, (list, tuple)):
        items = enumerate(x)
    for key, value in items:
        if isinstance(value, (Tensor, Module, Mapping, list, tuple)):
            yield from _walk(value, f"{path}.{key}" if path else str(key), (*above, x))


def _trainable(x: Tensor) -> bool:
    return x.requires_grad and x.operation is None


def _hidden(value: Any) -> Iterator[Tensor]:
    """The parameters in an attribute that `_walk` does not come to: in a set, a deque, an object that is no module."""
    if isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _hidden(part)
    elif not isinstance(value, (Tensor, Module, type)):
        inner: list[Any] = list(value) if isinstance(value, (set, frozenset, deque)) else []
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):  # a replay or a loop may keep a module for itself, under a name with _
            inner += [x for name, x in attributes.items() if isinstance(x, Tensor) or not name.startswith("_")]
        for part in inner:
            if isinstance(part, (Tensor, Module)):
                yield from (x for _, x in _walk([part], "", ()) if isinstance(x, Tensor) and _trainable(x))
