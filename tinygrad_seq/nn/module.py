"""Modules: plain objects whose tensors, in the order of definition, are their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from reprlib import recursive_repr
from typing import Any, Self

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor


class Module:
    """Base of layers and models: every Tensor, Module, list, tuple or dict of them among the attributes is found.

    A parameter is a tensor that requires a gradient. Names are paths, `layers.0.A`, in the order in which the
    attributes were first set; a tensor found under two names is tied: one parameter, listed once. A recorded
    result, kept in an attribute to be looked at, is no part of the state.

    >>> import tinygrad_seq as tg
    >>> class Line(tg.nn.Module):
    ...     def __init__(self):
    ...         self.slope = tg.Tensor(2.0, requires_grad=True)
    ...         self.offset = tg.Tensor(1.0, requires_grad=True)
    ...     def __call__(self, x):
    ...         return self.slope * x + self.offset
    >>> line = Line()
    >>> list(line.state_dict()), float(line(3.0))
    (['slope', 'offset'], 7.0)
    """

    training: bool = True

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """What the module computes: see the text of its class."""
        raise TypeError(f"{type(self).__name__} does not say what it computes: define __call__ (there is no forward)")

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor of the state by its path; tied tensors appear under each of their names."""
        found: dict[str, Tensor] = {}
        for path, x in _walk(self, "", ()):
            if isinstance(x, Tensor) and x._operation is None and found.setdefault(path, x) is not x:
                raise ValueError(f"two tensors of {type(self).__name__} have the name {path}: rename a key")
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
        """Stop training: no parameter requires a gradient any more (`freeze(False)` makes all floats trainable)."""
        for x in self.tensors().values():
            if x.dtype.kind == "f":
                x.requires_grad = not frozen
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
        if not isinstance(arrays, Mapping):
            raise TypeError(
                f"load_state_dict takes a dict of arrays by path, got {type(arrays).__name__}; of a file of tg.save, "
                "tg.load(path, model=net) fills a module"
            )
        mine = self.tensors()
        faults = [f"missing {path}" for path in mine if path not in arrays]
        faults += [f"unknown {path}" for path in arrays if path not in mine]
        values = {path: np.asarray(arrays[path]) for path in mine if path in arrays}
        seen: dict[Tensor, str] = {}
        for path, value in values.items():
            x = mine[path]
            if (value.shape, value.dtype) != (x.shape, x.dtype):
                faults.append(f"{path}: needs {x.shape} {x.dtype}, got {value.shape} {value.dtype}")
            elif x in seen and not np.array_equal(value, values[seen[x]], equal_nan=True):
                faults.append(f"{path} is tied to {seen[x]}, but the values differ")
            seen.setdefault(x, path)
        if faults:
            raise ValueError(f"the state does not fit {type(self).__name__}: {'; '.join(faults)}")
        for path, value in values.items():
            mine[path].data = value

    @recursive_repr()
    def __repr__(self) -> str:
        parts = [f"{key}={_brief(value)}" for key, value in vars(self).items() if not key.startswith("_")]
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


def _brief(value: Any) -> str:
    return f"{value.shape}" if isinstance(value, Tensor) else repr(value)
