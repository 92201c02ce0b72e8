"""Sentences as arrays: the distinct words of a batch, and a batch in the form that a replay can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ...data.vocabulary import Mark, Word, words_of
from ...engine.signatures import Array

Each = TypeVar("Each")
Sentences: TypeAlias = Sequence[Sequence[Word]]


def sentences_of(batch: Any) -> list[list[Word]]:
    """A list of sentences, each a list of words, if that is what it is."""
    if isinstance(batch, str) or not isinstance(batch, Sequence):
        raise TypeError(f"a batch is a list of sentences, each a list of words; got {type(batch).__name__}")
    for k, sentence in enumerate(batch):
        if isinstance(sentence, (str, bytes)) or not isinstance(sentence, (Sequence, np.ndarray)):
            raise TypeError(
                f"a sentence is a list of words, but sentence {k} is a {type(sentence).__name__}: split it first"
            )
    return [words_of(sentence) for sentence in batch]


class Directions(NamedTuple, Generic[Each]):
    """One of something for each direction."""

    forward: Each
    backward: Each


def placed(batch: Sentences) -> tuple[list[Word], Array, Array]:
    """The distinct words of a batch, <s> and </s> first; which of them stands where in the sentences between their
    marks, (T + 2, B), T the longest sentence, </s> also at padding; and the sentences' lengths without the marks."""
    sentences = sentences_of(batch)
    if not sentences:
        raise ValueError("a batch needs at least one sentence")
    place: dict[Word, int] = {Mark.BEGIN: 0, Mark.END: 1}
    rows = [[place.setdefault(word, len(place)) for word in sentence] for sentence in sentences]
    lengths = np.array([len(row) for row in rows], np.intp)
    places = np.full((lengths.max() + 2, len(rows)), 1, np.intp)
    places[0] = 0
    for b, row in enumerate(rows):
        places[1 : len(row) + 1, b] = row
    return list(place), places, lengths


def filled_up(array: Array, shape: Any, padding: int = 0) -> Array:
    """An array of this shape that begins as the given one and holds `padding` beyond its ends."""
    whole = np.full(shape, padding, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole


class Frame(NamedTuple):
    """A batch as arrays and nothing else, so that a replay can take it; `BiLM.frames` makes them.

    It may be larger than its sentences need. Padding changes no loss, no feature and no gradient.
    """

    words: tuple[Any, ...]
    """The distinct words, <s> and </s> first, as `encoder.spell` writes them and `encoder.rows` reads them."""
    inputs: Directions[Any]
    """(T + 1, B) each, (T + 2, B) for a biLM with marks: which of the words a direction reads, step after step."""
    lengths: Any
    """(B,), the number of words of each sentence, without the marks; -2 (no word, no mark) where a row is padding."""
    at: Any
    """(n,): which of the predictions, those of all sentences step by step, are made. All that count are among them."""
    targets: Directions[Any]
    """(n,) each: the class that is to be predicted there, -1 where the prediction does not count."""

    @classmethod
    def of(
        cls, spelled: Any, classes: Array, places: Array, lengths: Array, marks: bool = False, sizes: Any = None
    ) -> Frame:
        """From what `placed` gives, its words spelled and their classes. `marks`: the last mark is read, too. `sizes`
        to fill it up to: those of the places, how many predictions are made, and those of what is spelled."""
        real = np.arange(len(places) - 1)[:, None] < lengths + 1
        n = real.sum()
        if sizes is not None:
            T, B, n, *rest = sizes
            places, real, lengths = filled_up(places, (T, B)), filled_up(real, (T - 1, B)), filled_up(lengths, (B,), -2)
            further = iter(rest)
            spelled = tuple(filled_up(array, [next(further) for _ in array.shape]) for array in spelled)
        steps = np.arange(len(places))[:, None]
        turned = places[np.maximum(lengths + 1 - steps, 0), np.arange(len(lengths))]  # from each row's own </s>
        at = np.sort(np.argsort(~real, axis=None, kind="stable")[:n])
        targets = [np.where(real, classes[read[1:]], -1).ravel()[at] for read in (places, turned)]
        read = len(places) if marks else -1
        return cls(spelled, Directions(places[:read], turned[:read]), lengths, at, Directions(*targets))


def by_length(sentences: Sentences, batch: int, ordered: bool = False) -> list[Array]:
    """The numbers of the sentences in groups of at most `batch`: of like length, the shortest first, or as given."""
    if batch < 1:
        raise ValueError(f"a batch has at least one sentence, got {batch}")
    order = (
        np.arange(len(sentences)) if ordered else np.argsort([len(sentence) for sentence in sentences], kind="stable")
    )
    return [order[start : start + batch] for start in range(0, len(order), batch)]
