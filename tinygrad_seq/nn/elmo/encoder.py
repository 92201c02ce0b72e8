"""A row for a word, whatever its sentence: from its characters, or from a table of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...data.vocabulary import Mark, Vocabulary, Word, words_of
from ...engine.arguments import generator, whole_number
from ...engine.compositions import concat
from ...engine.ops import less, maximum, relu, sigmoid, tanh, where
from ...engine.signatures import Array
from ...engine.tensor import Tensor
from ..layers import Embedding, Linear, tensor
from ..module import Module

# The symbols of a word: padding (0), the 256 bytes, begin and end of word, the marks.
BYTE, BEGIN_WORD, END_WORD, FIRST_MARK = 1, 257, 258, 259
SYMBOLS = FIRST_MARK + len(Mark)
# The published code has no symbol for <unk>, which comes last, and knows these strings as the marks of a sentence.
PUBLISHED_SYMBOLS = SYMBOLS - 1
PUBLISHED_MARKS: dict[Word, Word] = {"<S>": Mark.BEGIN, "</S>": Mark.END, Mark.UNKNOWN: "<UNK>"}

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": relu, "tanh": tanh}


class Highway(Module):
    """y = g·relu(x W + b) + (1 - g)·x with the gate g = σ(x W_g + b_g) (Srivastava et al. 2015): x, y (..., width).

    `carry_bias` is the initial b_g: negative, so that at first most of x is carried through.

    >>> layer = Highway(3, carry_bias=-np.inf, rng=0)
    >>> layer([1.0, -2.0, 3.0]).tolist()
    [1.0, -2.0, 3.0]
    """

    def __init__(self, width: int, carry_bias: float = -2.0, rng: Any = None, dtype: DTypeLike = np.float64) -> None:
        rng = generator(rng)
        self.transform = Linear(width, width, rng=rng, dtype=dtype)
        self.gate = Linear(width, width, rng=rng, dtype=dtype)
        assert self.gate.b is not None
        self.gate.b.data = np.full(width, carry_bias, dtype)

    def __call__(self, x: Any) -> Tensor:
        x = tensor(x)
        g = sigmoid(self.gate(x))
        return g * relu(self.transform(x)) + (1 - g) * x


class CharEncoder(Module):
    """A row for every word from its characters alone: `encoder(words)` is (len(words), width).

    The UTF-8 bytes of a word, between a begin and an end symbol, are embedded (n, `embedding`); for each
    (k, count) in `filters`, `count` filters of width k are products with all windows of k symbols, and each keeps its
    maximum over the windows that the word has; then `activation` ("relu" or "tanh"), `highways` Highway layers, and a
    projection to `width` (`projection=False`: none, and `width` is the number of filters). A word shorter than k has
    one window, filled up with zeros. A mark (<s>, </s>, <unk>) is a symbol of its own, which no string can contain.
    Longer words count up to their symbol number `longest`, the end symbol among them, as in the original, which has
    longest=50, embedding=16, filters ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)) and
    width=512. No word is unknown, and none depends on the words beside it.

    `padded=True`: words as the published code reads them, which released weights need. Every word is filled up to
    `longest` symbols with a padding symbol that is learned like any other, and all windows count, those in the padding
    too. The strings "<S>" and "</S>" are the marks; there is none for <unk>, which is spelled like a word.

    >>> encoder = CharEncoder(4, filters=((1, 3), (2, 5)), rng=0)
    >>> encoder(["key", "schlüssel", ""]).shape
    (3, 4)

    Raises ValueError for sizes that do not fit one another, TypeError where no list of words is given.
    """

    def __init__(
        self,
        width: int,
        filters: Sequence[tuple[int, int]] = ((1, 16), (2, 32), (3, 64), (4, 64)),
        embedding: int = 16,
        highways: int = 2,
        longest: int = 50,
        padded: bool = False,
        activation: str = "relu",
        projection: bool = True,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not filters or any(k < 1 or count < 1 for k, count in filters):
            raise ValueError(f"filters are pairs (width >= 1, count >= 1), got {filters!r}")
        longest = whole_number("CharEncoder", "longest (a begin, a byte and an end, at least)", longest, 3)
        highways = whole_number("CharEncoder", "highways", highways, 0)
        self.filters = [(k, count) for k, count in filters]
        self.widest, channels = max(k for k, _ in self.filters), sum(count for _, count in self.filters)
        if padded and self.widest > longest:
            raise ValueError(f"a filter of width {self.widest} has no window in words of longest={longest} symbols")
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is one of {', '.join(ACTIVATIONS)}; got {activation!r}")
        if not projection and width != channels:
            raise ValueError(f"without a projection the width is the number of filters, {channels}; got {width}")
        rng = generator(rng)
        self.width, self.longest, self.padded, self.activation = width, longest, padded, activation
        symbols, padding = (PUBLISHED_SYMBOLS, None) if padded else (SYMBOLS, 0)
        self.symbols = Embedding(symbols, embedding, padding=padding, rng=rng, dtype=dtype)
        self.convolutions = [Linear(k * embedding, count, rng=rng, dtype=dtype) for k, count in self.filters]
        self.highways = [Highway(channels, rng=rng, dtype=dtype) for _ in range(highways)]
        self.projection = Linear(channels, width, rng=rng, dtype=dtype) if projection else None

    def spell(self, words: Sequence[Word]) -> tuple[Array, Array]:
        """The symbols of each word, (n, longest word) filled up with 0, and how many each has, (n,)."""
        spelled = [[BEGIN_WORD, *self._inner(word), END_WORD] for word in words_of(words)]
        counts = np.array([len(symbols) for symbols in spelled], np.intp)
        columns = max([self.widest, *counts.tolist()])
        if self.padded:  # one window of padding alone stands for all of them: they are equal, and so is their maximum
            columns = min(columns + self.widest, self.longest)
        ids = np.zeros((len(spelled), columns), np.intp)
        for row, symbols in zip(ids, spelled, strict=True):
            row[: len(symbols)] = symbols
        return ids, counts

    def _inner(self, word: Word) -> list[int]:
        """The symbols between the begin and the end of a word."""
        if self.padded:
            word = PUBLISHED_MARKS.get(word, word)
        if isinstance(word, Mark):
            return [FIRST_MARK + list(Mark).index(word)]
        half_a_character = "ignore" if self.padded else "surrogatepass"
        return [BYTE + byte for byte in word.encode("utf-8", half_a_character)[: self.longest - 2]]

    def __call__(self, words: Sequence[Word]) -> Tensor:
        return self.rows(*self.spell(words))

    def rows(self, ids: Any, counts: Any) -> Tensor:
        """The rows of words that are spelled so, (n, width)."""
        n, length = ids.shape
        characters = self.symbols(ids)
        features = []
        for (k, count), convolution in zip(self.filters, self.convolutions, strict=True):
            starts = length - k + 1
            windows = concat([characters[:, j : j + starts] for j in range(k)], -1)
            found = (windows.reshape(n * starts, -1) @ convolution.W).reshape(n, starts, count)
            if not self.padded:
                exists = less(np.arange(starts), maximum(counts - k + 1, 1)[:, None])
                found = where(exists[..., None], found, -np.inf)
            features.append(found.max(1) + convolution.b)  # equal to the maximum of sums: rounding keeps the order
        x = ACTIVATIONS[self.activation](concat(features, -1))
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)

    def __repr__(self) -> str:
        told = {"padded": self.padded, "activation": self.activation, "projection": self.projection is not None}
        usual = {"padded": False, "activation": "relu", "projection": True}
        options = "".join(f", {key}={value!r}" for key, value in told.items() if value != usual[key])
        return (
            f"CharEncoder({self.width}, filters={self.filters}, embedding={self.symbols.table.shape[1]}, "
            f"highways={len(self.highways)}, longest={self.longest}{options})"
        )


class WordEncoder(Module):
    """A row for every word from a table: `encoder(words)` is (len(words), width). Unknown words share one row.

    >>> encoder = WordEncoder(Vocabulary(["blue", "key"]), 4, rng=0)
    >>> bool((encoder(["lock"]).data == encoder(["door"]).data).all())
    True
    """

    def __init__(self, vocabulary: Vocabulary, width: int, rng: Any = None, dtype: DTypeLike = np.float64) -> None:
        self.vocabulary, self.width = vocabulary, width
        self.rows = Embedding(len(vocabulary), width, rng=rng, dtype=dtype)

    def spell(self, words: Sequence[Word]) -> tuple[Array]:
        """The number of each word, (n,): what `rows`, the table, looks up."""
        return (self.vocabulary.ids(words),)

    def __call__(self, words: Sequence[Word]) -> Tensor:
        return self.rows(*self.spell(words))
