"""Two language models, one from each end of a sentence (Peters et al. 2018).

Two stacks of recurrent layers read the rows of a sentence, one from each end, and learn to predict the next word. The
recurrence is that of `nn.stack`, forward stacks both: the backward model is the same machine on the sentence
turned round. With s = [<s>, w_1 … w_N, </s>], a model reads s[:-1] and predicts s[1:], so that the forward
prediction of w_k has read w_1 … w_k-1 and the backward one w_N … w_k+1; the feature of w_k is what both hold after
reading w_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...engine.arguments import generator, misfits
from ...engine.compositions import concat, stack
from ...engine.context import CONTEXT
from ...engine.ops import embedding, less, maximum, where
from ...engine.recording import enable_grad, no_grad, scope
from ...engine.signatures import Array
from ...engine.tensor import Tensor, array_of
from ...engine.tree import leaves, map_state
from ...reading.table import Matrix
from ...reading.tape import Tape
from ..layers import Dropout, Linear
from ..loss import cross_entropy
from ..module import Module
from ..stack import GRU, LSTM, RNN, Stack
from .sentences import Directions, Frame, Mark, Sentences, Vocabulary, by_length, placed

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

    def carried(self) -> list[Array]:
        """The states of a stateful model, as arrays: they go into a checkpoint."""
        return [] if self._carried is None else [array_of(x) for x in leaves(self._carried[1])]

    def carry(self, arrays: Sequence[Array]) -> Callable[[], None]:
        taken: Any = None
        if arrays and self.stateful:
            B, given = len(arrays[0]) if arrays[0].ndim else 0, iter(arrays)
            start = [net.initial_state((B,)) for net in (self.forward, self.backward)]
            wanted = {str(k): array_of(x) for k, x in enumerate(leaves(start))}
            if faults := misfits(wanted, {str(k): array for k, array in enumerate(arrays)}):
                raise ValueError(f"these are no states of this biLM: {'; '.join(faults)}")
            taken = B, map_state(lambda x: next(given).astype(x.dtype), start)
        elif arrays:
            raise ValueError("a biLM with stateful=False carries no states")

        def take_up() -> None:
            self._carried = taken

        return take_up

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
            self._carried = B, map_state(lambda x: np.array(array_of(x)), ends)
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
