"""Words, or characters, and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from ..engine.signatures import Array


class Mark(Enum):
    """What stands in a sentence besides words. No strings: a text may hold the word "<s>" and mean it.

    >>> Vocabulary(["<s>"]).ids([Mark.BEGIN, "<s>"]).tolist()
    [0, 3]
    """

    BEGIN = "<s>"
    END = "</s>"
    UNKNOWN = "<unk>"


Word: TypeAlias = str | Mark


class Vocabulary:
    """The words that have a number, after the three marks <s>, </s> and <unk>; every other word is unknown.

    >>> vocabulary = Vocabulary(["blue", "key"])
    >>> vocabulary.ids(["key", "lock", "blue"]).tolist(), len(vocabulary)
    ([4, 2, 3], 5)

    Of characters: `Vocabulary.of(list(line) for line in lines)`, and `vocabulary.ids(list("key"))`.

    `text` is what to keep, the words, one on a line (`tg.save` keeps it of every vocabulary that a module holds);
    `Vocabulary.read(text)` is the same vocabulary.

    Raises ValueError for a word that is given twice, is empty or has a line break, TypeError for what is no string, and
    for one string where a list of words is meant.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.entries: list[Word] = [*Mark, *words_of(words)]
        if broken := [word for word in self.entries if isinstance(word, str) and (not word or "\n" in word)]:
            raise ValueError(f"a word of a vocabulary fills one line, got {broken[0]!r}")
        self._place = {word: i for i, word in enumerate(self.entries)}
        if len(self._place) < len(self.entries):
            twice = [word for word, n in Counter(self.entries).items() if n > 1]
            raise ValueError(f"a vocabulary has each word once; given more than once: {twice[:5]}")

    @classmethod
    def of(cls, sentences: Iterable[Iterable[str]], least: int = 1) -> Vocabulary:
        """The words that occur at least so often, the most frequent first (equally frequent ones alphabetically).

        >>> Vocabulary.of([["a", "rose", "is", "a", "rose"]], least=2).entries[3:]
        ['a', 'rose']
        """
        if isinstance(sentences, str):
            raise TypeError(f"a list of sentences is needed, each a list of words; got the string {shown(sentences)}")
        counts = Counter(word for sentence in sentences for word in words_of(sentence) if isinstance(word, str))
        return cls(sorted((word for word, n in counts.items() if n >= least), key=lambda word: (-counts[word], word)))

    @classmethod
    def read(cls, text: str) -> Vocabulary:
        """The vocabulary that has this `text`."""
        return cls(text.split("\n") if text else [])

    @property
    def text(self) -> str:
        """The words, one on a line, without the marks."""
        return "\n".join(word for word in self.entries if isinstance(word, str))

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, word: object) -> bool:
        return word in self._place

    def ids(self, words: Iterable[Word]) -> Array:
        """The number of each word, (n,); that of <unk> for a word that has none."""
        unknown = self._place[Mark.UNKNOWN]
        return np.array([self._place.get(word, unknown) for word in words_of(words)], np.intp)

    def words(self, ids: Iterable[int]) -> list[str]:
        """The words with these numbers, marks as `<s>`. IndexError for a number that no word has."""
        found = []
        for i in ids:
            if not 0 <= i < len(self):
                raise IndexError(f"this vocabulary has the ids 0..{len(self) - 1}, got {i}")
            entry = self.entries[i]
            found.append(entry.value if isinstance(entry, Mark) else entry)
        return found

    def __repr__(self) -> str:
        return f"Vocabulary({len(self) - len(Mark)} words)"


def checked_word(word: Any) -> Any:
    if not isinstance(word, (str, Mark)):
        raise TypeError(f"a word is a str, got {type(word).__name__} {word!r}; for ids there is vocabulary.words(ids)")
    return word


def words_of(words: Iterable[Any]) -> list[Word]:
    """A list of words, if that is what it is: of a string, Python would give the characters."""
    if isinstance(words, (str, bytes)):
        raise TypeError(
            f"a list of words is needed, got the string {shown(words)}: split it first, or write [{shown(words)}] for "
            "one word"
        )
    return [checked_word(word) for word in words]


def shown(text: Any) -> str:
    """A string as a message shows it: its beginning, if it is long."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
