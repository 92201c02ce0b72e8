"""The format in which ELMo's weights were published: options and arrays, in and out.

A released model is two files: options.json, the sizes, and an HDF5 file of weights, in the layout of the TensorFlow
code that trained it (bilm-tf). `places` says where each tensor of a biLM stands in such a file; reading and writing
both go by it.

- `char_embed` (261, d): the bytes 0–255, <s>, </s>, begin and end of word, padding.
- `CNN/W_cnn_{i}` (1, k, d, count), `CNN/b_cnn_{i}`: the filters; here the rows of a window stand below one another.
- `CNN_high_{i}/W_carry`, `b_carry`, `W_transform`, `b_transform`: a highway layer; "carry" is the gate g.
- `CNN_proj/W_proj`, `b_proj`: the projection, missing where there is none.
- `RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_0`, `B`, `W_P_0`: an LSTM; the gates in the order i, g, f, o,
  and 1 is added to the forget gate's bias where it is used. `W_P_0`, its projection, is missing where there is none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...engine.signatures import Array
from ...engine.tensor import Tensor, array_of
from ..cells import LSTMCell
from ..layers import Linear
from ..stack import Stack
from .encoder import ACTIVATIONS, BEGIN_WORD, BYTE, END_WORD, FIRST_MARK, PUBLISHED_SYMBOLS, CharEncoder

HDF5, ZIP = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"  # how the files begin

# Parts of a tensor, each with the part of the array in the file that holds it.
Blocks = list[tuple[Any, Any]]
WHOLE: Blocks = [(..., ...)]
SYMBOLS: Blocks = [
    (slice(BYTE, BYTE + 256), slice(0, 256)),
    (slice(FIRST_MARK, FIRST_MARK + 2), slice(256, 258)),
    (slice(BEGIN_WORD, END_WORD + 1), slice(258, 260)),
    (slice(0, 1), slice(260, 261)),
]
GATES = "igfo"


class Place(NamedTuple):
    """Where a tensor stands in a file of weights: its name and shape there, and the blocks in which it is laid out.

    `forget`: which part of a bias the file holds without the 1 that belongs to it."""

    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    blocks: Blocks
    forget: slice | None = None

    @property
    def array(self) -> Array:
        """The tensor's array, in the shape that it has in the file."""
        whole: Array = array_of(self.tensor).reshape(self.shape)
        return whole


def places(encoder: CharEncoder, directions: tuple[Stack, Stack]) -> list[Place]:
    """The places of all tensors of a biLM, but for the softmax, which is not published."""
    return [*_places_of_encoder(encoder), *_places_of_recurrent_layers(directions)]


def _places_of_encoder(encoder: CharEncoder) -> Iterator[Place]:
    table = encoder.symbols.table
    yield Place("char_embed", table, table.shape, SYMBOLS)
    for i, ((k, count), layer) in enumerate(zip(encoder.filters, encoder.convolutions, strict=True)):
        yield from _linear(layer, f"CNN/W_cnn_{i}", f"CNN/b_cnn_{i}", (1, k, table.shape[1], count))
    for i, highway in enumerate(encoder.highways):
        yield from _linear(highway.gate, f"CNN_high_{i}/W_carry", f"CNN_high_{i}/b_carry")
        yield from _linear(highway.transform, f"CNN_high_{i}/W_transform", f"CNN_high_{i}/b_transform")
    if encoder.projection is not None:
        yield from _linear(encoder.projection, "CNN_proj/W_proj", "CNN_proj/b_proj")


def _linear(layer: Linear, W: str, b: str, shape: tuple[int, ...] | None = None) -> Iterator[Place]:
    assert layer.b is not None
    yield Place(W, layer.W, shape or layer.W.shape, WHOLE)
    yield Place(b, layer.b, layer.b.shape, WHOLE)


def _places_of_recurrent_layers(directions: tuple[Stack, Stack]) -> Iterator[Place]:
    for direction, net in enumerate(directions):
        for layer, (cell,) in enumerate(net.cells):
            at = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            mine, theirs = _columns(cell.gates, cell.d), _columns(GATES, cell.d)
            blocks: Blocks = [((..., mine[gate]), (..., theirs[gate])) for gate in GATES]
            yield Place(f"{at}/W_0", cell.A, cell.A.shape, blocks)
            yield Place(f"{at}/B", cell.b, cell.b.shape, blocks, forget=mine["f"])
            if cell.P is not None:
                yield Place(f"{at}/W_P_0", cell.P, cell.P.shape, WHOLE)


def _columns(gates: Sequence[str], d: int) -> dict[str, slice]:
    """Where each gate stands, for gates side by side."""
    return {gate: slice(k * d, (k + 1) * d) for k, gate in enumerate(gates)}


# Weights -------------------------------------------------------------------------------------------------------------


@contextmanager
def opened(weights: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What messages call these weights, and the arrays by name: of an HDF5 or .npz file, or of a mapping."""
    if isinstance(weights, Mapping):
        yield "the mapping of weights", dict(_flat(weights))
        return
    if not isinstance(weights, str | os.PathLike):
        raise TypeError(f"weights are a path (HDF5 or .npz), or a mapping of arrays; got {type(weights).__name__}")
    what = os.fspath(weights)
    with open(weights, "rb") as file:
        beginning = file.read(len(HDF5))
        file.seek(0)
        if beginning == HDF5:
            reader: Callable[[], Any] = partial(_h5py(what).File, weights, "r")
        elif beginning[: len(ZIP)] == ZIP:
            reader = partial(np.load, file, allow_pickle=False)
        else:
            raise ValueError(f"{what} is neither HDF5 nor .npz, by its first bytes {beginning!r}")
        with _damage_named(what, "it cannot be opened"):
            source = reader()
        with source:
            with _damage_named(what, "its entries cannot be listed"):
                arrays = dict(_flat(source)) if beginning == HDF5 else source  # an .npz reads each when it is asked
            yield what, arrays


def _h5py(what: str) -> Any:
    try:
        import h5py
    except ImportError:
        raise ImportError(f"{what} is an HDF5 file, which needs h5py: pip install 'tinygrad-seq[elmo]'") from None
    return h5py


@contextmanager
def _damage_named(what: Any, how: str) -> Iterator[None]:
    """A damaged file can make its reader say anything: it becomes a ValueError that names the file."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what} is damaged ({how}: {error}); fetch it again") from error


def _flat(arrays: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Arrays by their full names, RNN_0/RNN/…: groups stand for mappings of their own."""
    for name, entry in arrays.items():
        if isinstance(entry, Mapping):
            yield from _flat(entry, f"{above}{name}/")
        else:
            yield f"{above}{name}", entry


def fill(model: list[Place], what: str, arrays: Mapping[str, Any]) -> dict[str, Array]:
    """Read every array into its place; returns the forget gates' biases as the file has them, by name.

    ValueError, which names each difference, unless every array has a place, and every place an array of its shape. The
    tensors are written to in place, so nothing else may use them yet.
    """
    expected = {place.name for place in model}
    faults = [f"missing {name}" for name in sorted(expected - set(arrays))]
    faults += [f"unknown {name}" for name in sorted(set(arrays) - expected)]
    biases = {}
    for place in model:
        if place.name not in arrays:
            continue
        with _damage_named(what, place.name):
            given = arrays[place.name]
            given = array_of(given) if hasattr(given, "dtype") else np.asarray(given)
        if given.shape != place.shape or given.dtype.kind != "f":
            faults.append(f"{place.name}: needs {place.shape} of floats, got {given.shape} {given.dtype}")
        elif not faults:
            whole = place.array
            with _damage_named(what, place.name), np.errstate(over="ignore"):
                for mine, theirs in place.blocks:
                    whole[mine] = given[theirs]
            if not np.isfinite(whole).all():
                faults.append(f"{place.name} has entries that are no finite {whole.dtype} numbers")
            if place.forget is not None:
                biases[place.name] = whole[place.forget].copy()
                whole[place.forget] += 1
    if faults:
        raise ValueError(f"{what} does not hold the weights of these options: {'; '.join(faults)}")
    return biases


def gathered(model: list[Place], biases: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a file, by name: what `fill` reads. `biases` is what it has returned, if the weights came from
    there: b - 1 is not always the number that b was made of."""
    arrays = {}
    for place in model:
        whole = place.array
        if place.forget is not None:
            whole = whole.copy()
            b = whole[place.forget]
            read = biases.get(place.name, b - 1)
            whole[place.forget] = np.where(read + 1 == b, read, b - 1)
        array = arrays[place.name] = np.empty_like(whole)
        for mine, theirs in place.blocks:
            array[theirs] = whole[mine]
    return arrays


# Options -------------------------------------------------------------------------------------------------------------


def sizes(options: Any, names: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What CharEncoder and BiLM are called with for these options (a path to a JSON file, or a dict).

    `names` are those of the weights: where a projection would change no width, they say whether there is one.
    """
    what, told = _told(options)
    cnn, lstm = _Section(what, told, "char_cnn"), _Section(what, told, "lstm")
    if told.get("bidirectional", True) is not True:
        raise ValueError(f"{what}: a biLM has two directions, and bidirectional is {told['bidirectional']!r}")
    if (symbols := cnn.whole("n_characters")) not in (PUBLISHED_SYMBOLS, PUBLISHED_SYMBOLS + 1):  # in training; after
        raise ValueError(f"{what}: char_cnn.n_characters is 261 or 262, got {symbols}")
    width, hidden = lstm.whole("projection_dim"), lstm.whole("dim")
    filters = cnn.filters()
    encoder = {
        "width": width,
        "filters": filters,
        "embedding": _Section(what, cnn.entries, "embedding").whole("dim"),
        "highways": cnn.whole("n_highway", 0, least=0),
        "longest": cnn.whole("max_characters_per_token"),
        "padded": True,
        "activation": cnn.one_of("activation", tuple(ACTIVATIONS)),
        "projection": sum(count for _, count in filters) != width or "CNN_proj/W_proj" in names,
    }
    projected = width != hidden or "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0" in names
    bilm = {
        "hidden": hidden,
        "layers": lstm.whole("n_layers", 1),
        "projection": width if projected else None,
        "residual": lstm.one_of("use_skip_connections", (True, False)),
        "cell_clip": lstm.bound("cell_clip"),
        "projection_clip": lstm.bound("proj_clip") if projected else None,
    }
    return encoder, bilm


def _told(options: Any) -> tuple[str, Mapping[str, Any]]:
    """What messages call these options, and what they say."""
    what = "the options"
    if isinstance(options, str | os.PathLike):
        what = os.fspath(options)
        try:
            with open(options, encoding="utf-8") as file:
                options = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{what} is no JSON file: {error}") from None
    if not isinstance(options, Mapping):
        raise TypeError(f"{what}: a path to a JSON file or a dict is needed, got {type(options).__name__}")
    return what, options


class _Section:
    """A part of the options, which says by name what is missing in it, or no number."""

    def __init__(self, what: str, options: Mapping[str, Any], name: str) -> None:
        entries = options.get(name)
        if not isinstance(entries, Mapping):
            raise ValueError(
                f"{what}: the published options have the section {name!r}, got {entries!r} (only biLMs that read "
                "characters were published)"
            )
        self.what, self.name, self.entries = what, name, entries

    def _refused(self, key: str, needed: str, value: Any) -> ValueError:
        return ValueError(f"{self.what}: {self.name}.{key} is {needed}, got {value!r}")

    def whole(self, key: str, default: int | None = None, least: int = 1) -> int:
        value = self.entries.get(key, default)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._refused(key, f"a whole number >= {least}", value)
        return value

    def bound(self, key: str) -> float | None:
        value = self.entries.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
            raise self._refused(key, "a positive number, or null", value)
        return value

    def one_of(self, key: str, known: tuple[Any, ...]) -> Any:
        value = self.entries.get(key)
        if value not in known:
            raise self._refused(key, f"one of {', '.join(map(repr, known))}", value)
        return value

    def filters(self) -> list[tuple[int, int]]:
        value = self.entries.get("filters")
        pairs = value if isinstance(value, list | tuple) else ()
        if not pairs or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise self._refused("filters", "a list of pairs (width, count)", value)
        if not all(type(n) is int and n > 0 for pair in pairs for n in pair):
            raise self._refused("filters", "a list of pairs of whole numbers > 0", value)
        return [(k, count) for k, count in pairs]


def told(encoder: CharEncoder, net: Stack) -> dict[str, Any]:
    """The options of a biLM, as `sizes` reads them."""
    cell = net.cells[0][0]
    return {
        "lstm": {
            "dim": cell.d,
            "projection_dim": cell.hidden,
            "n_layers": len(net.cells),
            "cell_clip": cell.cell_clip,
            "proj_clip": cell.projection_clip,
            "use_skip_connections": net.residual,
        },
        "char_cnn": {
            "embedding": {"dim": encoder.symbols.table.shape[1]},
            "filters": [list(pair) for pair in encoder.filters],
            "n_highway": len(encoder.highways),
            "n_characters": PUBLISHED_SYMBOLS + 1,
            "max_characters_per_token": encoder.longest,
            "activation": encoder.activation,
        },
    }


def check_publishable(encoder: Any, directions: tuple[Stack, Stack]) -> None:
    """ValueError for a biLM that the published format cannot describe, with the reasons."""
    faults = []
    if not isinstance(encoder, CharEncoder) or not encoder.padded:
        faults.append("its encoder is not CharEncoder(padded=True)")
    faults += [
        f"{cell!r} is no LSTM with a forget gate that starts from zeros"
        for net in directions
        for (cell,) in net.cells
        if not isinstance(cell, LSTMCell) or not cell.forget_gate or cell.h0 is not None
    ]
    if faults:
        raise ValueError(f"this biLM is not of the published architecture: {'; '.join(faults)}")
