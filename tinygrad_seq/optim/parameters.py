"""Which parameters are meant, and by what name each is known: in memories, checkpoints and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from ..engine.tensor import Tensor
from ..nn.module import Module

Parameters: TypeAlias = "Module | Mapping[str, Any] | Iterable[Tensor]"


def named(parameters: Parameters) -> dict[str, Tensor]:
    """The parameters by name.

    Those of a module go by their paths, `cells.0.0.A`. In a dict of modules, tensors, lists and dicts, the key comes
    first: `decoder.readout.W`; a tied tensor stands under its first name. Those of a list go by their own names, with
    their scope, where no two are the same (`layer0.A`), and else by place and shape: `1 (2, 3)`.

    TypeError for what is none of these, or holds something else; ValueError where two would have one name.

    >>> import tinygrad_seq as tg
    >>> line, w = tg.nn.Linear(2, 3, rng=0), tg.Tensor(1.0, requires_grad=True)
    >>> list(named({"line": line, "w": w})), list(named([line.W, w]))
    (['line.W', 'line.b', 'w'], ['W', '1 ()'])
    """
    if isinstance(parameters, Module):
        return parameters.named_parameters()
    if isinstance(parameters, Mapping):
        found: dict[str, Tensor] = {}
        for key, part in parameters.items():
            inner = {"": part} if isinstance(part, Tensor) else named(part)
            for path, x in inner.items():
                name = f"{key}.{path}" if path else str(key)
                if found.setdefault(name, x) is not x:
                    raise ValueError(f"two parameters would be called {name}: rename a key")
        first: dict[Tensor, str] = {}
        for name, x in found.items():
            first.setdefault(x, name)
        return {name: x for x, name in first.items()}
    if isinstance(parameters, (Tensor, str)) or not isinstance(parameters, Iterable):
        raise TypeError(
            "parameters come as a module, net; as a list of tensors, [w] or net.parameters(); or as a dict of them, "
            f'{{"net": net, "w": w}}; got {type(parameters).__name__}'
        )
    listed = list(parameters)
    for x in listed:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"parameters are tensors, got {type(x).__name__} in the list: give a module itself, several as a dict, "
                '{"net": net, "readout": readout}'
            )
    own = [f"{x.scope}.{x.name}".lstrip(".") if x.name else "" for x in listed]
    alike = Counter(own)
    return {
        name if name and alike[name] == 1 else f"{k} {x.shape}": x
        for k, (name, x) in enumerate(zip(own, listed, strict=True))
    }
