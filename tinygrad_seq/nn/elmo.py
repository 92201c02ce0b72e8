"""ELMo, small and faithful: representations of words from two language models (Peters et al. 2018).

A word becomes a row that knows nothing of its sentence (CharEncoder, or WordEncoder as the baseline). Two stacks of
recurrent layers read the rows of a sentence, one from each end, and learn to predict the next word (BiLM). What the
layers hold at a word is then mixed by a task, with a softmax over the layers (ScalarMix, Elmo).

The recurrence is that of `recurrent`, forward stacks both: the backward model is the same machine on the sentence
turned round. With s = [<s>, w_1 … w_N, </s>], a model reads s[:-1] and predicts s[1:], so that the forward
prediction of w_k has read w_1 … w_k-1 and the backward one w_N … w_k+1; the feature of w_k is what both hold after
reading w_k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..compositions import concat, stack
from ..ops import embedding, less, maximum, relu, sigmoid, where
from ..primitive import enable_grad, no_grad, scope
from ..reading import Tape
from ..signatures import Array
from ..structure import map_state
from ..table import Matrix, Table
from ..tensor import CONTEXT, Tensor
from .init import generator
from .layers import Dropout, Embedding, Linear, tensor
from .loss import cross_entropy
from .module import Module
from .recurrent import GRU, LSTM, RNN, Stack
from .sentences import Directions, Frame, Mark, Sentences, Vocabulary, Word, by_length, checked_word, placed

# A row for a word, whatever its sentence -----------------------------------------------------------------------------

# The symbols of a word: nothing (padding), the 256 bytes, begin and end of word, the marks.
BYTE, BEGIN_WORD, END_WORD, FIRST_MARK = 1, 257, 258, 259
SYMBOLS = FIRST_MARK + len(Mark)


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
    maximum over the windows that the word has; then relu, `highways` Highway layers, and a projection to `width`. A
    word shorter than k has one window, filled up with zeros. A mark (<s>, </s>, <unk>) is a symbol of its own, which
    no string can contain. Longer words count up to their symbol number `longest`, the end symbol among them, as in
    the original, which has longest=50, embedding=16, filters ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256),
    (6, 512), (7, 1024)) and width=512. No word is unknown, and none depends on the words beside it.

    >>> encoder = CharEncoder(4, filters=((1, 3), (2, 5)), rng=0)
    >>> encoder(["key", "schlüssel", ""]).shape
    (3, 4)
    """

    def __init__(
        self,
        width: int,
        filters: Sequence[tuple[int, int]] = ((1, 16), (2, 32), (3, 64), (4, 64)),
        embedding: int = 16,
        highways: int = 2,
        longest: int = 50,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not filters or any(k < 1 or count < 1 for k, count in filters):
            raise ValueError(f"filters are pairs (width >= 1, count >= 1), got {filters!r}")
        if longest < 3:
            raise ValueError(f"a word needs at least 3 symbols (begin, a byte, end), got longest={longest}")
        rng = generator(rng)
        self.width, self.longest, self.filters = width, longest, [(k, count) for k, count in filters]
        self.symbols = Embedding(SYMBOLS, embedding, padding=0, rng=rng, dtype=dtype)
        self.convolutions = [Linear(k * embedding, count, rng=rng, dtype=dtype) for k, count in self.filters]
        channels = sum(count for _, count in self.filters)
        self.highways = [Highway(channels, rng=rng, dtype=dtype) for _ in range(highways)]
        self.projection = Linear(channels, width, rng=rng, dtype=dtype)

    def spell(self, words: Sequence[Word]) -> tuple[Array, Array]:
        """The symbols of each word, (n, longest word) filled up with 0, and how many each has, (n,)."""
        spelled = []
        for word in words:
            if isinstance(word, Mark):
                inner = [FIRST_MARK + list(Mark).index(word)]
            else:
                inner = [
                    BYTE + byte for byte in checked_word(word).encode("utf-8", "surrogatepass")[: self.longest - 2]
                ]
            spelled.append([BEGIN_WORD, *inner, END_WORD])
        counts = np.array([len(symbols) for symbols in spelled], np.intp)
        widest = max(k for k, _ in self.filters)
        ids = np.zeros((len(spelled), max([widest, *counts.tolist()])), np.intp)
        for row, symbols in zip(ids, spelled, strict=True):
            row[: len(symbols)] = symbols
        return ids, counts

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
            found = convolution(windows.reshape(n * starts, -1)).reshape(n, starts, count)
            exists = less(np.arange(starts), maximum(counts - k + 1, 1)[:, None])
            features.append(where(exists[..., None], found, -np.inf).max(1))
        x = relu(concat(features, -1))
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def __repr__(self) -> str:
        return (
            f"CharEncoder({self.width}, filters={self.filters}, embedding={self.symbols.table.shape[1]}, "
            f"highways={len(self.highways)}, longest={self.longest})"
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


# Two language models -------------------------------------------------------------------------------------------------


STACKS: dict[str, Any] = {"lstm": LSTM, "gru": GRU, "rnn": RNN}


class BiLM(Module):
    """A forward and a backward language model that share the token layer (`encoder`) and the softmax.

    log p(w_k | w_1 … w_k-1) and log p(w_k | w_k+1 … w_N), each by a stack of its own of `layers` recurrent layers,
    from h = `cell`(rows of the words), logits = h W + b over the vocabulary (Peters et al. 2018, section 3.1; ½ of
    their sum is the loss). `hidden` units in each layer, projected to `projection` if given (LSTM); `residual`: from
    the second layer on, a layer's input is added to its output. The width d of a layer's output (the projection, or
    else `hidden`) must be the encoder's: layers that are to be mixed have one width. `cell_clip`, `projection_clip`
    as in LSTMCell (the original: 3); `dropout`: on every layer's input and on the input of the softmax, in training.
    Further options go to the cells.

    `encoder`: anything that has a `width` and gives (n, width) when called with n words.

    A batch is a list of sentences, each a list of words; they may differ in length, and none reads another. An empty
    sentence has a target in each direction, its end and its begin, and no features. A batch may also be a frame, which
    a replay can take (`frames`).

    `stateful=True`: every call starts from the states in which the last one ended (their values; no credit), as the
    original did; then a result depends on the calls before, all batches have the same number of sentences, and
    `reset()` begins anew.

    >>> sentences = [["the", "train", "arrived"], ["we", "train", "models", "here"]]
    >>> bilm = BiLM(CharEncoder(6, rng=0), Vocabulary.of(sentences), hidden=8, projection=6, rng=0)
    >>> bilm.layers(sentences).shape, len(bilm.vocabulary)
    ((3, 4, 2, 12), 9)
    """

    def __init__(
        self,
        encoder: Any,
        vocabulary: Vocabulary,
        hidden: int,
        layers: int = 2,
        projection: int | None = None,
        residual: bool = True,
        cell: str = "lstm",
        dropout: float = 0.0,
        stateful: bool = False,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        **options: Any,
    ) -> None:
        if cell not in STACKS:
            raise ValueError(f"cell is one of {', '.join(STACKS)}, got {cell!r}")
        if projection is not None:
            if cell != "lstm":
                raise ValueError(f'only the LSTM has a projection, and cell is {cell!r}: leave it out, or use "lstm"')
            options["projection"] = projection
        width = hidden if projection is None else projection
        if encoder.width != width:
            raise ValueError(
                f"the encoder gives rows of width {encoder.width} and the layers of width {width}, which could not be "
                f"mixed: give the encoder width {width}, or project with projection={encoder.width}"
            )
        rng = generator(rng)

        def direction() -> Stack:
            between = dropout if layers > 1 else 0.0
            net: Stack = STACKS[cell](
                width, hidden, layers=layers, dropout=between, residual=residual, rng=rng, dtype=dtype, **options
            )
            return net

        self.encoder, self.vocabulary, self.width, self.stateful = encoder, vocabulary, width, stateful
        self.forward, self.backward = direction(), direction()
        self.dropout = Dropout(dropout, rng)
        self.softmax = Linear(width, len(vocabulary), rng=rng, dtype=dtype)
        self._carried: Any = None  # how many sentences, and their states as arrays: no part of the model

    @property
    def depth(self) -> int:
        """The number of layers that a task can mix: the token layer and the recurrent ones."""
        return len(self.forward.cells) + 1

    def reset(self) -> None:
        """Forget the states that a stateful model carries."""
        self._carried = None

    def frames(self, batches: Iterable[Sentences], shapes: int = 8) -> list[Frame]:
        """The batches as arrays of at most so many different shapes, in the order given: what a replay can take.

        `step = tg.replay(bilm.loss, wrt=bilm, programs=shapes)` records a program for each shape, and `step(frame)`
        replays it. Batches of like length are filled up to one shape: in sentences, steps, distinct words, symbols and
        predictions. Losses and gradients are those of the batch, to rounding (though dropout draws for padding too).
        More shapes are less padding, and more programs; with one for each batch nothing is filled up.

        The encoder must have the two halves of `encoder(words)`: `spell(words)`, a tuple of arrays with the words
        along the first axis, in which 0 fills up, and `rows(*arrays)`, which takes arrays or tensors of them.

        >>> vocabulary = Vocabulary(["we", "train", "models"])
        >>> bilm = BiLM(WordEncoder(vocabulary, 2, rng=0), vocabulary, hidden=2, rng=0)
        >>> batches = [["we", "train"]], [["train"], ["models"]]
        >>> frames = bilm.frames(batches, shapes=1)
        >>> [frame.targets.forward.tolist() for frame in frames]
        [[3, -1, 4, 1], [4, 5, 1, 1]]
        >>> [bool(np.isclose(bilm.loss(a).item(), bilm.loss(b).item())) for a, b in zip(frames, batches)]
        [True, True]

        Raises TypeError for an encoder without `spell` and `rows`, ValueError for no batch or no shape.
        """
        if not (hasattr(self.encoder, "spell") and hasattr(self.encoder, "rows")):
            raise TypeError(
                f"a frame holds words as arrays: give {type(self.encoder).__name__} the methods spell(words) -> arrays "
                "and rows(*arrays) -> (n, width), as CharEncoder has them, or pass the sentences themselves"
            )
        parts, sizes = [], []
        for batch in batches:
            words, places, lengths = placed(batch)
            spelled = self.encoder.spell(words)
            parts.append((spelled, self.vocabulary.ids(words), places, lengths))
            further = [n for array in spelled for n in array.shape]
            sizes.append([*places.shape, lengths.sum() + len(lengths), *further])
        if not parts or shapes < 1:
            raise ValueError(f"frames need at least one batch and one shape, got {len(parts)} and shapes={shapes}")
        shared = np.array(sizes)
        like = np.lexsort((shared[:, 3], shared[:, 0]))  # by their steps, and then by their distinct words
        for group in np.array_split(like, min(shapes, len(like))):
            shared[group] = shared[group].max(0)
        return [Frame.of(*part, sizes=size) for part, size in zip(parts, shared.tolist(), strict=True)]

    def _framed(self, batch: Sentences | Frame) -> tuple[Frame, Tensor]:
        """A batch as a frame, and the rows of its words."""
        if isinstance(batch, Frame):
            return batch, self.encoder.rows(*batch.words)
        words, places, lengths = placed(batch)
        return Frame.of((), self.vocabulary.ids(words), places, lengths), self.encoder(words)

    def _read(self, frame: Frame, rows: Tensor, stateful: bool) -> list[list[Tensor]]:
        """Each direction's layers, (T + 1, B, d) in the order of reading."""
        B, starts = len(frame.lengths), [None, None]
        # Padding stands after a row's end, where nothing real reads on. Only a state to go on from must know of it.
        lengths = frame.lengths + 1 if stateful else None
        if stateful and CONTEXT.get().tracing:
            raise RuntimeError(
                "a stateful biLM keeps its states to itself, and a replay would begin with the same ones each time: "
                "replay one with stateful=False, or train this one without tg.replay"
            )
        if stateful and self._carried is not None:
            before, arrays = self._carried
            if before != B:
                raise ValueError(
                    f"a stateful biLM goes on with the {before} sentences of its last batch, got {B}: keep to one "
                    "batch size, or call reset()"
                )
            starts = map_state(Tensor, arrays)
        read, ends = [], []
        for k, net in enumerate((self.forward, self.backward)):
            xs = self.dropout(embedding(rows, frame.inputs[k]))
            with scope(Directions._fields[k]):
                outputs, end = net(xs, starts[k], lengths, every_layer=True)
            read.append(outputs)
            ends.append(end)
        if stateful:
            self._carried = B, map_state(lambda x: np.array(x._array), ends)
        return read

    def _predict(self, frame: Frame, rows: Tensor, stateful: bool) -> list[Tensor]:
        """Each direction's logits where the frame asks for them, step by step of all sentences: (n, words)."""
        predictions = []
        for layers in self._read(frame, rows, stateful):
            top = layers[-1].reshape(-1, self.width)
            predictions.append(self.softmax(self.dropout(top if len(frame.at) == len(top) else top[frame.at])))
        return predictions

    def losses(self, batch: Sentences | Frame) -> Directions[Tensor]:
        """-log p of each direction in nats, averaged over the words of the batch and one mark for each sentence."""
        frame, rows = self._framed(batch)
        padding = -1 if isinstance(batch, Frame) else None  # of sentences, no prediction is made that does not count
        predictions = self._predict(frame, rows, self.stateful)
        return Directions(*map(partial(cross_entropy, ignore_index=padding), predictions, frame.targets))

    def loss(self, batch: Sentences | Frame) -> Tensor:
        """½ (forward + backward): a scalar, in nats for each word."""
        forward, backward = self.losses(batch)
        return 0.5 * (forward + backward)

    def perplexity(self, sentences: Sentences, batch: int = 32) -> Directions[float]:
        """exp of the average loss of each direction over a corpus, `batch` sentences at a time; nothing is recorded.

        A model that knows nothing has the size of the vocabulary; no honest one falls below exp(entropy) of its text.
        """
        if not sentences:
            raise ValueError("the perplexity of a corpus needs at least one sentence")
        total, words, was_training = np.zeros(2), 0, self.training
        self.eval()
        try:
            with no_grad():
                for group in by_length(sentences, batch, ordered=self.stateful):
                    part = [sentences[i] for i in group]
                    targets = sum(len(sentence) + 1 for sentence in part)
                    total += targets * np.array([float(x) for x in self.losses(part)])
                    words += targets
        finally:
            self.train(was_training)
        forward, backward = np.exp(total / words).tolist()
        return Directions(forward, backward)

    def layers(self, batch: Sentences | Frame) -> Tensor:
        """What every layer holds at each word: (layers + 1, T, B, 2d), zero at padding.

        First the token layer, twice side by side; then each recurrent layer, the forward state after reading the word
        beside the backward state after reading it. The marks are left out.
        """
        frame, rows = self._framed(batch)
        words = embedding(rows, frame.inputs.forward[1:])
        T, B, _ = words.shape
        real = less(np.arange(T)[:, None], frame.lengths)
        # the backward model reads word k (from 0) of a row at its own step N - k
        steps = maximum(frame.lengths - np.arange(T)[:, None], 0)
        found = [concat([words, words], -1)]
        for forward, backward in zip(*self._read(frame, rows, self.stateful), strict=True):
            found.append(concat([forward[1:], backward[steps, np.arange(B)]], -1))
        whole = stack(found)
        if isinstance(real, np.ndarray) and real.all():
            return whole
        return where(real[..., None], whole, 0.0)

    def visibility(self, batch: Sentences) -> Directions[Matrix]:
        """Which prediction can depend on which word: a row for every word that a direction predicts, a column for
        every word and mark of the batch, sentence after sentence. Read off the recorded graph of the predictions
        (`Tape.visibility`), whatever the weights; of a stateful model, as if it began anew.

        >>> vocabulary = Vocabulary(["we", "train", "models"])
        >>> bilm = BiLM(WordEncoder(vocabulary, 2, rng=0), vocabulary, hidden=2, rng=0)
        >>> print(bilm.visibility([["we", "train", "models"]]).backward)
        The backward prediction of the row can depend on the column where ●
                <s>  we  train  models  </s>
        ──────  ───  ──  ─────  ──────  ────
        <s>       ·   ●      ●       ●     ●
        we        ·   ·      ●       ●     ●
        train     ·   ·      ·       ●     ●
        models    ·   ·      ·       ·     ●
        """
        distinct, places, lengths = placed(batch)
        at = np.argwhere(np.arange(len(places)) < lengths[:, None] + 2)  # (sentence, position) of each row
        words = [distinct[places[t, b]] for b, t in at]
        own = np.zeros_like(places)  # every position a row and a class of its own
        own[at[:, 1], at[:, 0]] = np.arange(len(at))
        frame = Frame.of((), np.arange(len(at)), own, lengths)
        names = [word.value if isinstance(word, Mark) else word for word in words]
        with enable_grad():
            rows = Tensor(self.encoder(words)._array, requires_grad=True)
            predictions = self._predict(frame, rows, stateful=False)
        found = []
        for logits, predicted, direction in zip(predictions, frame.targets, Directions._fields, strict=True):
            order = np.argsort(predicted)
            seen = Tape(logits).visibility(logits, rows)[order]
            title = f"The {direction} prediction of the row can depend on the column where ●"
            found.append(Matrix(np.asarray(seen), [names[i] for i in predicted[order]], names, title))
        return Directions(*found)


# What a task makes of them -------------------------------------------------------------------------------------------


class ScalarMix(Module):
    """γ Σ_j softmax(s)_j · layer_j (Peters et al. 2018, equation 1): layers (n, T, ..., d) give (T, ..., d).

    s starts at 0, γ at 1. `use`: which of the n layers are mixed, all if not given ([-1]: the top layer alone).
    `learn=False`: s stays at 0 (the average) and only γ is learnt. `layer_norm`: each layer is first brought to mean 0
    and variance 1 over all entries of a sentence (its words and their features), padding left out. (The original
    takes them over the whole batch, so that a sentence's features depend on its batch mates; with one sentence in the
    batch both are the same.) `real` (T, ...): False at padding, where the result is 0.

    >>> mix = ScalarMix(3)
    >>> mix.weights.data, mix.gamma.data = np.log([1.0, 2.0, 5.0]), 2.0
    >>> mix(np.array([1.0, 2.0, 6.0]).reshape(3, 1, 1)).tolist()
    [[8.75]]

    Raises ValueError where the number of layers is not n, and where `real` has another shape.
    """

    def __init__(
        self,
        n: int,
        layer_norm: bool = False,
        use: Sequence[int] | None = None,
        learn: bool = True,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.n, self.layer_norm = n, layer_norm
        self.use = list(range(n)) if use is None else [range(n)[j] for j in use]
        if not self.use:
            raise ValueError("a mix needs at least one layer")
        self.weights = Tensor(np.zeros(len(self.use), dtype), requires_grad=learn, name="s")
        self.gamma = Tensor(np.ones((), dtype), requires_grad=True, name="gamma")

    def __call__(self, layers: Any, real: Any = None) -> Tensor:
        layers = tensor(layers)
        if layers.ndim < 2 or len(layers) != self.n:
            raise ValueError(f"this mix takes {self.n} layers, shape ({self.n}, T, ..., d), got {layers.shape}")
        if real is not None:
            real = real if isinstance(real, Tensor) else np.asarray(real, bool)
            if real.shape != layers.shape[1:-1]:
                raise ValueError(f"real needs the shape {layers.shape[1:-1]} of the positions, got {real.shape}")
        if len(self.use) < self.n:
            layers = layers[np.array(self.use)]
        if real is not None:
            real = real[..., None]
            layers = where(real, layers, 0.0)
        if self.layer_norm:
            layers = normalised(layers, real)
        shape = layers.shape[1:]
        return self.gamma * (self.weights.softmax() @ layers.reshape(len(layers), -1)).reshape(shape)

    def penalty(self) -> Tensor:
        """Σ s²: times a small number, it draws the weights towards the average of the layers."""
        return self.weights.square().sum()

    def table(self) -> Table:
        """Each layer's weight s, its softmax, and the gradient of s if there is one; the same of γ."""
        shares = self.weights.detach().softmax()._array
        slopes = [None] * len(self.use) if self.weights.grad is None else self.weights.grad
        rows = [(str(j), *row) for j, *row in zip(self.use, self.weights._array, shares, slopes, strict=True)]
        rows.append(("γ", self.gamma._array, None, self.gamma.grad))
        return Table(("layer", "s", "softmax", "gradient"), rows, "The mixture of the layers", foot=1, precision=4)

    def __repr__(self) -> str:
        return f"ScalarMix({self.n}, layer_norm={self.layer_norm}, use={self.use}, learn={self.weights.requires_grad})"


def normalised(layers: Tensor, real: Any, eps: float = 1e-12) -> Tensor:
    """(n, T, ..., d), each layer of each sentence at mean 0 and variance 1 over the entries of its real positions;
    padding, which must be 0, does not count."""
    T, d = layers.shape[1], layers.shape[-1]
    count = T * d if real is None else maximum(real.sum(0, keepdims=True) * d, 1).astype(layers.dtype)
    axes = (1, layers.ndim - 1)
    centred = layers - layers.sum(axes, keepdims=True) / count
    if real is not None:
        centred = where(real, centred, 0.0)
    return centred / (centred.square().sum(axes, keepdims=True) / count + eps).sqrt()


class Elmo(Module):
    """A biLM as a task uses it: `elmo(batch)` is a list of `mixes` tensors (T, B, 2d), zero at padding.

    Each is a ScalarMix of its own over the biLM's layers (`mixes`: their number, or the ScalarMix modules themselves),
    with `dropout` on it in training. `frozen` (the default, and the paper's recipe): the biLM is frozen and stays in
    evaluation mode, no graph is built through it, and only mixes and task learn; a gradient asked of its parameters
    raises (`elmo.bilm.freeze(False)` trains it again). `remember(corpus)` computes the features of all sentences once,
    for training over many epochs.

    >>> sentences = [["the", "train", "arrived"], ["we", "train", "models", "here"]]
    >>> bilm = BiLM(CharEncoder(6, rng=0), Vocabulary.of(sentences), hidden=6, rng=0)
    >>> elmo = Elmo(bilm, layer_norm=True)
    >>> (features,) = elmo(sentences)
    >>> features.shape, list(elmo.named_parameters())
    ((4, 2, 12), ['mixes.0.weights', 'mixes.0.gamma'])
    """

    def __init__(
        self,
        bilm: BiLM,
        mixes: int | Sequence[ScalarMix] = 1,
        layer_norm: bool = False,
        dropout: float = 0.0,
        frozen: bool = True,
        rng: Any = None,
    ) -> None:
        self.bilm = bilm
        if isinstance(mixes, int):
            mixes = [ScalarMix(bilm.depth, layer_norm, dtype=bilm.softmax.W.dtype) for _ in range(mixes)]
        self.mixes = list(mixes)
        if wrong := [mix.n for mix in self.mixes if mix.n != bilm.depth]:
            raise ValueError(f"the biLM has {bilm.depth} layers with the token layer, but a mix takes {wrong[0]}")
        self.dropout = Dropout(dropout, rng)
        self._remembered: dict[tuple[str, ...], Array] = {}
        if frozen:
            bilm.freeze()

    @property
    def frozen(self) -> bool:
        """Whether the biLM learns nothing: none of its parameters requires a gradient."""
        return not self.bilm.parameters()

    def remember(self, sentences: Sentences, batch: int = 32) -> None:
        """Compute the layers of these sentences once; later calls take them from memory while the biLM is frozen.

        They take (layers + 1)·2d numbers for each word; `forget()` frees them, and is due when the biLM has changed.
        ValueError for one that is stateful, or not frozen.
        """
        if not self.frozen or self.bilm.stateful:
            raise ValueError("only the features of a frozen and stateless biLM stay what they are")
        new = [words for words in dict.fromkeys(map(tuple, sentences)) if words not in self._remembered]
        for group in by_length(new, batch):
            part = [new[i] for i in group]
            layers = self.layers(part).data
            for b, sentence in enumerate(part):
                self._remembered[sentence] = layers[:, : len(sentence), b].copy()

    def forget(self) -> None:
        """Drop what `remember` has computed."""
        self._remembered.clear()

    def layers(self, batch: Sentences | Frame) -> Tensor:
        """The biLM's layers (layers + 1, T, B, 2d), from memory where every sentence of the batch is remembered."""
        if self.frozen:
            self.bilm.eval()
        asked = self.frozen and self._remembered and not isinstance(batch, Frame)
        if not (asked and all(tuple(words) in self._remembered for words in batch)):
            return self.bilm.layers(batch)
        known = [self._remembered[tuple(sentence)] for sentence in batch]
        whole = np.zeros(
            (self.bilm.depth, max(part.shape[1] for part in known), len(known), 2 * self.bilm.width), known[0].dtype
        )
        for b, part in enumerate(known):
            whole[:, : part.shape[1], b] = part
        return Tensor(whole)

    def __call__(self, batch: Sentences | Frame) -> list[Tensor]:
        layers = self.layers(batch)
        lengths = batch.lengths if isinstance(batch, Frame) else np.array([len(sentence) for sentence in batch])
        real = less(np.arange(layers.shape[1])[:, None], lengths)
        return [self.dropout(mix(layers, real)) for mix in self.mixes]
