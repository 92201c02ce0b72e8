"""Checkpoints: everything that a run needs to go on, in one file that is either whole or not there.

The file is an `.npz` without pickle, so reading it runs no code: `numpy.load` opens it too. Its entries are called
`part/path`, such as `model/readout.W`; a module's random generators stand beside it, under `model:generators/`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import secrets
import stat
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import IO, Any

import numpy as np

from ..data.vocabulary import Vocabulary
from ..engine.arguments import misfits
from ..engine.signatures import Array
from ..engine.tensor import Tensor, array_of
from ..nn.module import Module
from ..optim import Optimiser

FORMAT = 2  # in format 1, an optimiser's parameters went by place, and there were no vocabularies and carried states
MARK = "tinygrad_seq format"  # no part can be called that
LONGEST_NAME = 60_000  # bytes; a zip file holds 65,535
LONGEST_STATE = 100_000  # characters of the text of a generator's state; the longest of NumPy's, MT19937, has 7,000

FilePath = str | os.PathLike[str]


def save(path: FilePath, *unnamed: Any, **parts: Any) -> None:
    """Write the parts to a file, all or nothing: `tg.save("run.npz", model=net, optimiser=adam, update=7)`.

    A part is a module (with the generators of its dropout, the words of its vocabularies and the states that it
    carries), an optimiser, a `np.random.Generator`, a tensor, an array, a number, a string, or lists, tuples and dicts
    of them, such as a carried state. What would not come back as it is, such as a masked array, is refused.

    The file is written under another name in the same folder, flushed to the disk and then renamed: at any moment the
    path holds the old checkpoint or the new one, whole. (A process that is killed while it writes leaves that other
    file, `.NAME….tmp`, behind.) A file that stood there gives the new one its mode and owner. OSError where it cannot
    be written, or where something else than a file stands, TypeError for a part of another kind; nothing has changed
    then.

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
            encoded = name.encode("utf-8", "replace")
            if "\0" in name or encoded.decode() != name or len(encoded) > LONGEST_NAME:
                raise ValueError(f"no entry of a file can be called {name!r:.100}: rename a key")
            entries[name] = array
    _write(path, entries)


def _write(path: FilePath, entries: Mapping[str, Array]) -> None:
    """Write a file with these entries and put it where the path leads."""
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    before = None
    with contextlib.suppress(OSError):
        before = os.stat(target)
    if before is not None and not stat.S_ISREG(before.st_mode):
        reason = f"the checkpoint was not saved: there is a {_kind(before.st_mode)} and no file"
        raise OSError(errno.EEXIST, reason, os.fspath(path))
    mode = 0o666 if before is None else stat.S_IMODE(before.st_mode) & 0o777
    temporary = os.path.join(folder, f".{name[:50]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            if before is not None:
                with contextlib.suppress(OSError, AttributeError):  # to write is not always to be allowed to give away
                    os.chown(temporary, before.st_uid, before.st_gid)
                os.chmod(temporary, mode)
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


def _kind(mode: int) -> str:
    tests = {"folder": stat.S_ISDIR, "pipe": stat.S_ISFIFO, "socket": stat.S_ISSOCK}
    return next((kind for kind, test in tests.items() if test(mode)), "device")


def load(path: FilePath, *unnamed: Any, **parts: Any) -> dict[str, Any]:
    """Read a checkpoint back into parts like those that were saved; returns them by name.

    Modules, optimisers, generators and leaves that require a gradient are filled in place; of everything else (a
    carried state, a counter) a new one is returned, of the same structure and type as the part that is given.

    Strict: a missing, unknown or misshapen entry, other words of a vocabulary, and a damaged file, raise ValueError,
    which names all differences; nothing has been filled then. No file: FileNotFoundError. Without parts, the arrays as
    they stand in the file, as a dict by part: `net.load_state_dict(tg.load(path)["model"])` takes the weights alone.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
    >>> w = Tensor(0.5, requires_grad=True)
    >>> save(path, w=w, state=(np.zeros(2), 1.0), update=7)
    >>> w.data = 9.0
    >>> load(path, w=w, state=(np.ones(2), 0.0), update=0)["state"], w.item()  # w is filled in place
    ((array([0., 0.]), 1.0), 0.5)
    >>> load(path, w=w, state=(np.ones(3), 0.0), update=0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ...run.npz does not fit: state/0: needs (3,) float64, got (2,) float64
    """
    _check_call("load", path, unnamed)
    entries, version = _read(path)
    if not parts:
        found: dict[str, Any] = {}
        for name, array in entries.items():
            part, slash, rest = name.partition("/")
            if slash:
                found.setdefault(part, {})[rest] = array
            else:
                found[part] = array
        return found
    taking = _Taking(entries, version)
    loaded = {part: taking.part(part, value) for part, value in parts.items()}
    faults = taking.faults + [f"unknown {name}" for name in entries]
    if faults:
        hint = ". Parts that are not wanted: tg.load(path)[part] takes one alone" if entries else ""
        raise ValueError(f"{os.fspath(path)} does not fit: {'; '.join(faults)}{hint}")
    for fill in taking.fills:
        fill()
    return loaded


def _check_call(function: str, path: Any, unnamed: tuple[Any, ...]) -> None:
    """The path comes first, and the parts by name."""
    if unnamed or not isinstance(path, (str, os.PathLike)):
        given = ", ".join(type(argument).__name__ for argument in (path, *unnamed))
        raise TypeError(
            f'tg.{function} takes a path, and the parts by name: tg.{function}("run.npz", model=net, optimiser=adam); '
            f"got {given}"
        )


def _read(path: FilePath) -> tuple[dict[str, Array], int]:
    """All entries of a checkpoint, and its format. Whatever is wrong with the file, it is a ValueError and no code has
    run."""
    if not stat.S_ISREG(mode := os.stat(path).st_mode):  # to open a pipe would wait for somebody to write to it
        raise ValueError(f"{os.fspath(path)} is a {_kind(mode)}, and no checkpoint")
    with open(path, "rb") as file:
        try:
            entries = _members(file)
            if MARK in entries:
                mark = entries.pop(MARK)
                if mark.shape != () or mark.dtype.kind not in "iu" or mark < 1:
                    raise ValueError(f"its format is {mark}")
                version = int(mark)
            else:
                version = 0
        except Exception as error:  # a damaged file can make the readers of zip and npy raise anything
            raise ValueError(f"{os.fspath(path)} is damaged or no checkpoint: {error}; use an older copy") from error
    if not version:
        raise ValueError(f"{os.fspath(path)} is no checkpoint of tg.save: it carries no format number")
    if version > FORMAT:
        raise ValueError(
            f"{os.fspath(path)} was written by a newer tinygrad_seq, in format {version}; this one reads up to format "
            f"{FORMAT}: upgrade it"
        )
    return entries, version


def _members(file: IO[bytes]) -> dict[str, Array]:
    """The arrays of a zip file. ValueError, or any other error, where something in it is not as it should be."""
    entries: dict[str, Array] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) != _number_of_members(file):
            raise ValueError("its list of entries is not whole")
        if sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
            raise ValueError("its entries claim to be larger than the file")
        for member in members:
            name = member.orig_filename.removesuffix(".npy")
            if member.orig_filename != member.filename:
                raise ValueError(f"{member.orig_filename!r} is no name of an entry")
            if name in entries:
                raise ValueError(f"{name} occurs twice")
            stream = io.BytesIO(archive.read(member))
            entries[name] = array = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):
                raise ValueError(f"{name} is longer than its shape says")
            if array.dtype.kind not in "biufcU":
                raise ValueError(f"{name} holds no numbers and no text, but {array.dtype}")
    for name in entries:
        part, slash, _ = name.partition("/")
        if slash and part in entries:
            raise ValueError(f"{part} is an entry, and {name} another one below it")
    return entries


def _number_of_members(file: IO[bytes]) -> int:
    """How many entries a zip file says that it has, in the record at its end. Python's reader does not compare: where a
    length in the list of entries is damaged, it may pass over some."""
    end = struct.Struct("<4s4H2LH")
    file.seek(-end.size, os.SEEK_END)
    mark, _, _, here, number, _, _, comment = end.unpack(file.read(end.size))
    if mark != b"PK\5\6" or comment or here != number:
        raise ValueError("it does not end as a zip file")
    locator = struct.Struct("<4sLQL")
    if number == 0xFFFF and file.tell() >= end.size + locator.size:  # too many for this record: there is a larger one
        file.seek(-end.size - locator.size, os.SEEK_END)
        mark, _, place, _ = locator.unpack(file.read(locator.size))
        if mark == b"PK\6\7":
            file.seek(place)
            mark, number = struct.unpack("<4s28xQ", file.read(40))
            if mark != b"PK\6\6":
                raise ValueError("it does not end as a zip file")
    return int(number)


def _generators(module: Module) -> dict[str, np.random.Generator]:
    """The generators of a module and its parts, by the number of the part."""
    return {path: value for path, value in _attributes(module) if isinstance(value, np.random.Generator)}


def _vocabularies(module: Module) -> dict[str, Array]:
    """The words of the vocabularies of a module and its parts, as bytes, by the number of the part."""
    return {
        path: np.frombuffer(value.text.encode("utf-8", "surrogatepass"), np.uint8)
        for path, value in _attributes(module)
        if isinstance(value, Vocabulary)
    }


def _attributes(module: Module) -> Iterator[tuple[str, Any]]:
    for k, part in enumerate(module.modules()):
        for name, value in vars(part).items():
            yield f"{k}.{name}", value


def _entries(name: str, part: Any) -> Iterator[tuple[str, Array]]:
    """What is written of a part, by name."""
    if isinstance(part, Module | Optimiser):
        for path, array in part.state_dict().items():
            yield f"{name}/{path}", array
        if isinstance(part, Module):
            for path, rng in _generators(part).items():
                yield from _entries(f"{name}:generators/{path}", rng)
            for path, words in _vocabularies(part).items():
                yield f"{name}:vocabularies/{path}", words
            for k, module in enumerate(part.modules()):
                for i, array in enumerate(module.carried()):
                    yield f"{name}:carried/{k}.{i}", np.array(array)
    elif isinstance(part, np.random.Generator):
        yield name, np.array(json.dumps(part.bit_generator.state, default=np.ndarray.tolist))
    elif _is_container(part):
        for key, inner in part.items() if isinstance(part, Mapping) else enumerate(part):
            yield from _entries(f"{name}/{key}", inner)
    elif part is not None:
        yield name, _array(name, part)


def _is_container(part: Any) -> bool:
    """Whether it is a list, a tuple or a dict that can be made anew from what is in it."""
    return type(part) in (list, tuple, dict, OrderedDict) or (isinstance(part, tuple) and hasattr(part, "_fields"))


def _array(name: str, part: Any) -> Array:
    """A tensor, array, number or text as an array; TypeError for what would come back as something else."""
    kept = (bool, int, float, complex, str, np.ndarray, np.memmap, Tensor)
    array = np.asarray(array_of(part) if type(part) in kept or isinstance(part, np.generic) else None)
    if array.dtype.kind not in "biufcU" or (isinstance(part, str) and array.item() != part):
        raise TypeError(
            f"{name} is a {type(part).__name__}; a checkpoint holds modules, optimisers, generators, tensors, "
            "arrays, numbers, strings, and lists, tuples and dicts of them"
        )
    return array


class _Taking:
    """Parts are made from entries, which are taken out. What does not fit is noted, and what is to be filled in place
    is prepared: nothing changes before all is known to fit."""

    def __init__(self, entries: dict[str, Array], version: int) -> None:
        self.entries, self.version = entries, version
        self.faults: list[str] = []
        self.fills: list[Callable[[], None]] = []

    def below(self, start: str) -> dict[str, Array]:
        """The entries whose names begin so, without it, taken out."""
        return {key.removeprefix(start): self.entries.pop(key) for key in list(self.entries) if key.startswith(start)}

    def prepare(self, name: str, prepared: Callable[[Any], Callable[[], None]], given: Any) -> None:
        try:
            self.fills.append(prepared(given))
        except ValueError as error:
            self.faults.append(f"{name}: {error}")

    def part(self, name: str, part: Any) -> Any:
        """The part itself, to be filled, or a new one like it."""
        if isinstance(part, Module | Optimiser):
            self.prepare(name, part.prepared, self.below(f"{name}/"))
            if isinstance(part, Module):
                self._beside(name, part)
            return part
        if _is_container(part):
            if isinstance(part, dict):
                return type(part)((key, self.part(f"{name}/{key}", x)) for key, x in part.items())
            inner = [self.part(f"{name}/{k}", x) for k, x in enumerate(part)]
            return type(part)(*inner) if hasattr(part, "_fields") else type(part)(inner)
        if part is None:
            return None
        if not isinstance(part, np.random.Generator):
            want = _array(name, part)
        if name not in self.entries:
            self.faults.append(f"missing {name}")
            return part
        array = self.entries.pop(name)
        if isinstance(part, np.random.Generator):
            self.prepare(name, lambda text: _with_state(part, text), array)
            return part
        if type(part) is int and array.dtype.kind in "iu":
            want = want.astype(array.dtype)  # a Python integer has no width
        if faults := misfits({name: want}, {name: array}):
            self.faults += faults
            return part
        if want.dtype.kind != "U":
            array = array.astype(want.dtype)
        if isinstance(part, Tensor):
            if not part.requires_grad:
                return Tensor(array, name=part.name)

            def fill() -> None:
                part.data = array

            self.fills.append(fill)
            return part
        return array if isinstance(part, np.ndarray) else array[()] if isinstance(part, np.generic) else array.item()

    def _beside(self, name: str, module: Module) -> None:
        """What stands beside the tensors of a module: generators, vocabularies, carried states."""
        for path, rng in _generators(module).items():
            self.part(f"{name}:generators/{path}", rng)
        for path, words in _vocabularies(module).items():
            found = self.entries.pop(f"{name}:vocabularies/{path}", None)
            if found is None and self.version > 1:
                self.faults.append(f"missing {name}:vocabularies/{path}")
            elif found is not None and not np.array_equal(found, words):
                attribute = path.partition(".")[2]
                self.faults.append(
                    f"{name}: its {attribute} has other words, or the same in another order, than the weights were "
                    f'learnt with; these are bytes(tg.load(path)["{name}:vocabularies"]["{path}"]).decode()'
                )
        carried: dict[int, dict[int, Array]] = {}
        for path in [key for key in self.entries if key.startswith(f"{name}:carried/")]:
            place = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", path.removeprefix(f"{name}:carried/"))
            if place is not None:  # else it stays, as unknown
                carried.setdefault(int(place[1]), {})[int(place[2])] = self.entries.pop(path)
        for k, part in enumerate(module.modules()):
            arrays = carried.pop(k, {})
            if sorted(arrays) == list(range(len(arrays))):
                self.prepare(name, part.carry, [arrays[i] for i in range(len(arrays))])
            else:
                self.faults.append(f"{name}: the carried states {sorted(arrays)} of part {k} are not whole")
        self.faults += [f"unknown {name}:carried/{k}.{i}" for k, arrays in carried.items() for i in arrays]


def _with_state(rng: np.random.Generator, text: Array) -> Callable[[], None]:
    """What gives a generator this state when it is called. ValueError where it is none: some that have the right form,
    but a place outside an array, would end the process."""
    generator, kind = rng.bit_generator, type(rng.bit_generator).__name__
    try:
        if text.shape != () or text.dtype.kind != "U" or text.itemsize > 4 * LONGEST_STATE:
            raise ValueError("it is no text, or too long")
        state = _like(generator.state, json.loads(str(text)))
        trial = deepcopy(generator)
        trial.state = state
        if json.dumps(trial.state, default=np.ndarray.tolist) != json.dumps(state, default=np.ndarray.tolist):
            raise ValueError("it would not be taken up as it is")
    except Exception as error:  # for a hostile state, NumPy's setters raise anything
        raise ValueError(f"no state of a {kind} ({error})") from error

    def fill() -> None:
        generator.state = state

    return fill


def _like(pattern: Any, value: Any, largest: int = 2**128 - 1) -> Any:
    """A generator's state as its bit generator wants it: arrays where it has arrays, places within them."""
    if isinstance(pattern, dict):
        if not isinstance(value, dict) or value.keys() != pattern.keys():
            raise ValueError(f"it needs the keys {', '.join(pattern)}")
        length = max([len(x) for x in pattern.values() if isinstance(x, np.ndarray)], default=0)
        most = {"pos": length, "buffer_pos": length, "has_uint32": 1, "uinteger": 2**32 - 1}
        return {key: _like(inner, value[key], most.get(key, largest)) for key, inner in pattern.items()}
    if isinstance(pattern, np.ndarray):
        if not isinstance(value, list) or len(value) != len(pattern):
            raise ValueError(f"it needs {len(pattern)} numbers")
        most_of_it = int(np.iinfo(pattern.dtype).max)
        return np.array([_like(0, x, most_of_it) for x in value], pattern.dtype)
    if isinstance(pattern, int | np.integer):
        if type(value) is not int or not 0 <= value <= largest:
            raise ValueError(f"it needs a whole number in 0..{largest}")
        return value
    if value != pattern:
        raise ValueError(f"it is one of {value!r:.40}")
    return value
