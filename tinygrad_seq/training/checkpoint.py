"""Checkpoints: everything that a run needs to go on, in one file that is either whole or not there.

The file is an `.npz` without pickle, so reading it runs no code: `numpy.load` opens it too. Its entries are called
`part/path`, such as `model/readout.W`; a module's random generators stand beside it, under `model:generators/`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..engine.signatures import Array
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..optim import Optimiser

FORMAT = 1
MARK = "tinygrad_seq format"  # no part can be called that

FilePath = str | os.PathLike[str]


def save(path: FilePath, *unnamed: Any, **parts: Any) -> None:
    """Write the parts to a file, all or nothing: `tg.save("run.npz", model=net, optimiser=adam, update=7)`.

    A part is a module (with the generators of its dropout), an optimiser, a `np.random.Generator`, a tensor, an
    array, a number, a string, or lists, tuples and dicts of them, such as a carried state.

    The file is written under another name in the same folder, brought to the disk and then renamed: at any moment the
    path holds the old checkpoint or the new one, whole. (A process that is killed while it writes leaves that other
    file, `.NAME….tmp`, behind.) OSError where it cannot be written, TypeError for a part of another kind; nothing has
    changed then.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
    >>> save(path, w=np.array([1.0, 2.0]), update=7)
    >>> load(path, w=np.zeros(2), update=0)
    {'w': array([1., 2.]), 'update': 7}
    """
    _check_call("save", path, unnamed)
    if not parts:
        raise ValueError('nothing to save: name the parts, as in tg.save("run.npz", model=net)')
    entries = {MARK: np.array(FORMAT)}
    for part, value in parts.items():
        if not part.isidentifier():
            raise ValueError(f"a part is called by a Python name, got {part!r}")
        for name, array in _entries(part, value):
            if name in entries:
                raise ValueError(f"two entries would be called {name}: rename one")
            entries[name] = array
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:50]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in entries.items():
                    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            reason = f"the checkpoint was not saved ({error.strerror}); what stood there before is untouched"
            raise OSError(error.errno, reason, os.fspath(path)) from error
        raise
    with contextlib.suppress(OSError):  # the new name, too, is to be on the disk, where the system can do that
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load(path: FilePath, *unnamed: Any, **parts: Any) -> dict[str, Any]:
    """Read a checkpoint back into parts like those that were saved; returns them by name.

    Modules, optimisers, generators and leaves that require a gradient are filled in place; of everything else (a
    carried state, a counter) a new one is returned, of the same structure and type as the part that is given.

    Strict: a missing, unknown or misshapen entry, and a damaged file, raise ValueError, which names all differences;
    nothing has been filled then. No file: FileNotFoundError. Without parts, the arrays as they stand in the file, as a
    dict by part: `net.load_state_dict(tg.load(path)["model"])` takes the weights alone.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
    >>> w = Tensor(0.5, requires_grad=True)
    >>> save(path, w=w, state=(np.zeros(2), 1.0), update=7)
    >>> w.data = 9.0
    >>> load(path, w=w, state=(np.ones(2), 0.0), update=0)["state"], float(w)  # w is filled in place
    ((array([0., 0.]), 1.0), 0.5)
    >>> load(path, w=w, state=(np.ones(3), 0.0), update=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...run.npz does not fit: state/0: needs (3,) float64, got (2,) float64
    """
    _check_call("load", path, unnamed)
    entries = _read(path)
    if not parts:
        found: dict[str, Any] = {}
        for name, array in entries.items():
            part, slash, rest = name.partition("/")
            if slash:
                found.setdefault(part, {})[rest] = array
            else:
                found[part] = array
        return found
    before = {part: dict(_entries(part, value)) for part, value in parts.items()}
    faults: list[str] = []
    try:
        loaded = {part: _taken(part, value, entries, faults) for part, value in parts.items()}
        faults += [f"unknown {name}" for name in entries]
        if faults:
            hint = ". Parts that are not wanted: tg.load(path)[part] takes one alone" if entries else ""
            raise ValueError(f"{os.fspath(path)} does not fit: {'; '.join(faults)}{hint}")
    except BaseException:
        for part, value in parts.items():
            _taken(part, value, before[part], [])
        raise
    return loaded


def _check_call(function: str, path: Any, unnamed: tuple[Any, ...]) -> None:
    """The path comes first, and the parts by name."""
    if unnamed or not isinstance(path, (str, os.PathLike)):
        given = ", ".join(type(argument).__name__ for argument in (path, *unnamed))
        raise TypeError(
            f'tg.{function} takes a path, and the parts by name: tg.{function}("run.npz", model=net, optimiser=adam); '
            f"got {given}"
        )


def _read(path: FilePath) -> dict[str, Array]:
    """All entries of a checkpoint. Whatever is wrong with the file, it is a ValueError and no code has run."""
    entries: dict[str, Array] = {}
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
                    raise ValueError("its entries claim to be larger than the file")
                for member in members:
                    stream = io.BytesIO(archive.read(member))
                    name = member.filename.removesuffix(".npy")
                    if name in entries:
                        raise ValueError(f"{name} stands in it twice")
                    entries[name] = np.lib.format.read_array(stream, allow_pickle=False)
                    if stream.read(1):
                        raise ValueError(f"{name} is longer than its shape says")
            version = int(entries.pop(MARK))
        except KeyError:
            raise ValueError(f"{os.fspath(path)} is no checkpoint of tg.save: it carries no format number") from None
        except Exception as error:  # a damaged file can make the readers of zip and npy say anything
            raise ValueError(f"{os.fspath(path)} is damaged or no checkpoint: {error}; use an older copy") from error
    if version > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} was written by a newer tinygrad_seq, in format {version}; this one reads up to format "
            f"{FORMAT}: upgrade it"
        )
    return entries


def _generators(module: Module) -> dict[str, np.random.Generator]:
    """The generators of a module and its parts, by the number of the part."""
    return {
        f"{k}.{name}": value
        for k, part in enumerate(module.modules())
        for name, value in vars(part).items()
        if isinstance(value, np.random.Generator)
    }


def _entries(name: str, part: Any) -> Iterator[tuple[str, Array]]:
    """What is written of a part, by name."""
    if isinstance(part, Module | Optimiser):
        for path, array in part.state_dict().items():
            yield f"{name}/{path}", array
        if isinstance(part, Module):
            for path, rng in _generators(part).items():
                yield from _entries(f"{name}:generators/{path}", rng)
    elif isinstance(part, np.random.Generator):
        yield name, np.array(json.dumps(part.bit_generator.state, default=np.ndarray.tolist))
    elif isinstance(part, Mapping | tuple | list):
        for key, inner in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _entries(f"{name}/{key}", inner)
    elif part is not None:
        array = part._array if isinstance(part, Tensor) else np.asarray(part)
        if array.dtype.kind not in "biufcU":
            raise TypeError(
                f"{name} is a {type(part).__name__}; a checkpoint holds modules, optimisers, generators, tensors, "
                "arrays, numbers, strings, and lists, tuples and dicts of them"
            )
        yield name, array


def _taken(name: str, part: Any, entries: dict[str, Array], faults: list[str]) -> Any:
    """The part, filled or made anew from its entries, which are taken out; what does not fit is added to the faults."""
    if isinstance(part, Module | Optimiser):
        start = f"{name}/"
        mine = {key: entries.pop(key) for key in list(entries) if key.startswith(start)}
        try:
            part.load_state_dict({key.removeprefix(start): array for key, array in mine.items()})
        except ValueError as error:
            faults.append(f"{name}: {error}")
        if isinstance(part, Module):
            for path, rng in _generators(part).items():
                _taken(f"{name}:generators/{path}", rng, entries, faults)
        return part
    if isinstance(part, Mapping):
        return {key: _taken(f"{name}/{key}", inner, entries, faults) for key, inner in part.items()}
    if isinstance(part, tuple | list):
        inner = [_taken(f"{name}/{k}", x, entries, faults) for k, x in enumerate(part)]
        return type(part)(*inner) if hasattr(part, "_fields") else type(part)(inner)
    if part is None:
        return None
    if name not in entries:
        faults.append(f"missing {name}")
        return part
    array = entries.pop(name)
    if isinstance(part, np.random.Generator):
        try:
            part.bit_generator.state = _like(part.bit_generator.state, json.loads(str(array)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            faults.append(f"{name}: no state of a {type(part.bit_generator).__name__} ({error})")
        return part
    want = part._array if isinstance(part, Tensor) else np.asarray(part)
    if array.shape != want.shape or (array.dtype != want.dtype and not want.dtype.kind == array.dtype.kind == "U"):
        faults.append(f"{name}: needs {want.shape} {want.dtype}, got {array.shape} {array.dtype}")
        return part
    if isinstance(part, Tensor):
        if not part.requires_grad:
            return Tensor(array, name=part.name)
        part.data = array
        return part
    return array if isinstance(part, np.ndarray) else array[()] if isinstance(part, np.generic) else array.item()


def _like(pattern: Any, value: Any) -> Any:
    """A generator's state as its bit generator wants it: arrays where it has arrays."""
    if isinstance(pattern, dict):
        return {key: _like(inner, value[key]) for key, inner in pattern.items()}
    return np.asarray(value, pattern.dtype) if isinstance(pattern, np.ndarray) else value
