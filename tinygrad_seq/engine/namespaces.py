"""What a package shows at the prompt: its public names, those in other folders loaded when they are first asked for.

A name that it does not have may have an answer: what the same thing is called here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

# By package, and for modules and optimisers by class: names from other libraries, and what to use in their place.
ANSWERS: dict[str, Mapping[str, str]] = {}


def missing(what: str, kind: str, name: str, obj: Any) -> AttributeError:
    """The error for a name that something does not have, with the answer for its kind, if there is one."""
    hint = ANSWERS.get(kind, {}).get(name)
    return AttributeError(f"{what} has no attribute {name!r}{f': use {hint}' if hint else ''}", name=name, obj=obj)


def namespace(
    package: str, public: Iterable[str], later: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package with these public names, of which `later` says where some are defined.

    `later` gives for a name the module that defines it, relative to the package; a module that is itself the public
    name stands for itself, `{"nn": "nn"}`.
    """

    def find(name: str) -> Any:
        if name in later:
            module = import_module(f".{later[name]}", package)
            found = module if later[name].split(".")[-1] == name else getattr(module, name)
            setattr(sys.modules[package], name, found)
            return found
        raise missing(f"module {package!r}", package, name, sys.modules[package])

    return find, lambda: sorted(public)
