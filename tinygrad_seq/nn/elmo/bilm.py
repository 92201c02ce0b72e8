"""Two language models, one from each end of a sentence (Peters et al. 2018).

Two stacks of recurrent layers read the rows of a sentence, one from each end, and learn to predict the next word. Both
are ordinary forward stacks (`nn.stack`): the backward model is the same network, run on the reversed sentence. With
s = [<s>, w_1 … w_N, </s>], a model reads s[:-1] and predicts s[1:], so the forward prediction of w_k depends on
w_1 … w_k-1 and the backward one on w_N … w_k+1. The feature of w_k is the state of both after reading w_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...data.vocabulary import Mark, Vocabulary
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
from ..init import undrawn
from ..layers import Dropout, Linear
from ..loss import cross_entropy
from ..module import Module
from ..stack import GRU, LSTM, RNN, Stack
from . import published
from .encoder import CharEncoder
from .sentences import Directions, Frame, Sentences, by_length, filled_up, placed

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

    A batch is a list of sentences, each a list of words; they may differ in length, and do not affect each other. An
    empty sentence has one target in each direction (its end, its begin) and no features. A batch may also be a frame,
    which a replay can take (`frames`).

    `vocabulary=None`: no softmax. Such a biLM gives layers, and refuses to give a loss.

    `stateful=True`: every call starts from the final states of the last one (their values; no credit), as the original
    did. A result then depends on the calls before it, all batches need the same number of sentences, and `reset()`
    goes back to zeros.

    `marks=True`: both models read <s> w_1 … w_N </s> to the end, as published inference does; otherwise the last mark
    is only predicted. Losses and features of words do not depend on it. The features of the marks do, and so do the
    states that a stateful biLM carries: row k of a batch continues the last sentence in row k, whatever the batch
    sizes, and a new row starts from zeros.

    `BiLM.published(options, weights)` reads ELMo's released weights, `to_published` and `published_options` write them.

    >>> sentences = [["the", "train", "arrived"], ["we", "train", "models", "here"]]
    >>> bilm = BiLM(CharEncoder(6, rng=0), Vocabulary.of(sentences), hidden=8, projection=6, rng=0)
    >>> bilm.layers(sentences).shape, len(bilm.vocabulary)
    ((3, 4, 2, 12), 9)
    """

    def __init__(
        self,
        encoder: Any,
        vocabulary: Vocabulary | None,
        hidden: int,
        layers: int = 2,
        projection: int | None = None,
        residual: bool = True,
        cell: str = "lstm",
        dropout: float = 0.0,
        stateful: bool = False,
        marks: bool = False,
        rng: Any = None,
        dtype: DTypeLike = np.float64,
        **options: Any,
    ) -> None:
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise TypeError(f"a vocabulary is a tg.nn.Vocabulary(words), or None, got {type(vocabulary).__name__}")
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

        def direction(name: str) -> Stack:
            between = dropout if layers > 1 else 0.0
            with scope(name):  # where its activations stand, too: forward.layer0
                net: Stack = STACKS[cell](
                    width, hidden, layers=layers, dropout=between, residual=residual, rng=rng, dtype=dtype, **options
                )
            return net

        self.encoder, self.vocabulary, self.width = encoder, vocabulary, width
        self.stateful, self.marks = stateful, marks
        self.forward, self.backward = map(direction, Directions._fields)
        self.dropout = Dropout(dropout, rng)
        self.softmax = None if vocabulary is None else Linear(width, len(vocabulary), rng=rng, dtype=dtype)
        self._carried: Any = None  # how many sentences, and their states as arrays: no part of the model
        self._published_biases: dict[str, Array] = {}

    @classmethod
    def published(
        cls,
        options: Any,
        weights: Any,
        dtype: DTypeLike = np.float32,
        stateful: bool = False,
        vocabulary: Vocabulary | None = None,
        softmax: Linear | None = None,
        rng: Any = None,
    ) -> BiLM:
        """A biLM with published weights, in evaluation mode, that reads sentences as the published code does.

        `options`: a path to a JSON file, or what it says as a dict. `weights`: a path to an HDF5 file (the release
        format; needs the extra `elmo`) or to an .npz, or a mapping of arrays by their names there. Its encoder is
        CharEncoder(padded=True), and it has marks=True. `stateful` as in BiLM; the published code always is.

        The softmax was not published. To go on training, give a `vocabulary`, whose softmax is drawn with `rng` (or a
        `softmax` that has been trained: Linear(width, len(vocabulary))), and call `train()`.

        Strict: each array is used once, and what is missing, left over, not finite or of another shape is named in a
        ValueError. So is a file that is damaged. ImportError for an HDF5 file without h5py.

        >>> vocabulary = Vocabulary(["we", "train", "models"])
        >>> encoder = CharEncoder(2, filters=((1, 3),), padded=True, rng=0, dtype=np.float32)
        >>> trained = BiLM(encoder, vocabulary, hidden=4, projection=2, marks=True, rng=0, dtype=np.float32)
        >>> bilm = BiLM.published(trained.published_options(), trained.to_published())
        >>> bool((bilm.layers([["we", "train"]]).data == trained.layers([["we", "train"]]).data).all())
        True
        """
        with published.opened(weights) as (what, arrays):
            of_encoder, of_layers = published.sizes(options, arrays)
            with undrawn():
                encoder = CharEncoder(**of_encoder, dtype=dtype)
                bilm = cls(encoder, None, **of_layers, stateful=stateful, marks=True, dtype=dtype)
            model = published.places(encoder, (bilm.forward, bilm.backward))
            bilm._published_biases = published.fill(model, what, arrays)
        if vocabulary is None and softmax is not None:
            raise ValueError("a softmax needs the vocabulary whose words its columns stand for: give vocabulary=...")
        if vocabulary is not None:
            bilm.vocabulary = vocabulary
            bilm.softmax = softmax or Linear(bilm.width, len(vocabulary), rng=rng, dtype=dtype)
            if bilm.softmax.W.shape != (bilm.width, len(vocabulary)):
                raise ValueError(
                    f"the softmax of this biLM is Linear({bilm.width}, {len(vocabulary)}), for the {len(vocabulary)} "
                    f"entries of the vocabulary, got one of {bilm.softmax.W.shape}"
                )
        return bilm.eval()

    def to_published(self) -> dict[str, Array]:
        """The weights by their names in a published file, without the softmax: what `published` reads.

        The arrays that `published` has read come back to the last bit. (Those of a forget gate's bias b are b - 1,
        which is exact for b >= ½ and otherwise has the absolute precision of numbers near 1.) ValueError for a biLM of
        another architecture.
        """
        published.check_publishable(self.encoder, (self.forward, self.backward))
        return published.gathered(published.places(self.encoder, (self.forward, self.backward)), self._published_biases)

    def published_options(self) -> dict[str, Any]:
        """The sizes as published options say them (options.json), for the weights of `to_published`."""
        published.check_publishable(self.encoder, (self.forward, self.backward))
        return published.told(self.encoder, self.forward)

    @property
    def depth(self) -> int:
        """The number of layers that a task can mix: the token layer and the recurrent ones."""
        return len(self.forward.cells) + 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the recurrent layers."""
        dtype: np.dtype[Any] = self.forward.cells[0][0].A.dtype
        return dtype

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
            parts.append((spelled, self._classes(words), places, lengths))
            further = [n for array in spelled for n in array.shape]
            sizes.append([*places.shape, lengths.sum() + len(lengths), *further])
        if not parts or shapes < 1:
            raise ValueError(f"frames need at least one batch and one shape, got {len(parts)} and shapes={shapes}")
        shared = np.array(sizes)
        like = np.lexsort((shared[:, 3], shared[:, 0]))  # by their steps, and then by their distinct words
        for group in np.array_split(like, min(shapes, len(like))):
            shared[group] = shared[group].max(0)
        return [Frame.of(*part, self.marks, size) for part, size in zip(parts, shared.tolist(), strict=True)]

    def _classes(self, words: list[Any]) -> Array:
        return np.zeros(len(words), np.intp) if self.vocabulary is None else self.vocabulary.ids(words)

    def _framed(self, batch: Sentences | Frame) -> tuple[Frame, Tensor]:
        """A batch as a frame, and the rows of its words."""
        if isinstance(batch, Frame):
            return batch, self.encoder.rows(*batch.words)
        words, places, lengths = placed(batch)
        return Frame.of((), self._classes(words), places, lengths, self.marks), self.encoder(words)

    def _read(self, frame: Frame, rows: Tensor, stateful: bool, marks: bool = False) -> list[list[Tensor]]:
        """Each direction's layers in the order of reading, (T + 1, B, d), or (T + 2, B, d) to the last mark. It is
        read for its own features and for the state that is carried on; nothing else depends on it."""
        starts, lengths = [None, None], None
        steps = len(frame.inputs.forward) - (self.marks and not (marks or stateful))
        if stateful:
            if CONTEXT.get().tracing:
                raise RuntimeError(
                    "a stateful biLM keeps its states to itself, and a replay would begin with the same ones each "
                    "time: replay one with stateful=False, or train this one without tg.replay"
                )
            starts = self._starts(len(frame.lengths))
            # Padding stands after a row's end, where nothing real reads on: only a state to go on from must know of it.
            lengths = np.maximum(frame.lengths + (2 if self.marks else 1), 1)
        read, ends = [], []
        for k, net in enumerate((self.forward, self.backward)):
            xs = self.dropout(embedding(rows, frame.inputs[k][:steps]))
            with scope(Directions._fields[k]):
                outputs, end = net(xs, starts[k], lengths, every_layer=True)
            read.append(outputs)
            ends.append(end)
        if stateful:
            self._carry(ends, frame.lengths)
        return read

    def _starts(self, B: int) -> Any:
        """The states of both directions from which a stateful biLM goes on with B sentences."""
        if self._carried is None:
            return [None, None]
        before, arrays = self._carried
        if before != B and not self.marks:
            raise ValueError(
                f"a stateful biLM goes on with the {before} sentences of its last batch, got {B}: keep to one "
                "batch size, or call reset()"
            )
        return map_state(lambda rows: Tensor(filled_up(rows[:B], (B, *rows.shape[1:]))), arrays)

    def _carry(self, ends: Any, lengths: Array) -> None:
        """Keep the states in which the rows of a batch have ended; rows that it did not have keep theirs."""
        arrays = map_state(lambda rows: np.array(array_of(rows)), ends)
        before, old = self._carried or (0, arrays)
        B, some = max(before, len(lengths)), lengths >= 0

        def kept(new: Array, old: Array) -> Array:
            whole = filled_up(old[:before], (B, *new.shape[1:]))
            whole[: len(new)][some] = new[some]
            return whole

        self._carried = B, map_state(kept, arrays, old)

    def _predict(self, frame: Frame, rows: Tensor, stateful: bool) -> list[Tensor]:
        """Each direction's logits where the frame asks for them, step by step of all sentences: (n, words). Without a
        softmax, what it would read."""
        predictions = []
        for layers in self._read(frame, rows, stateful):
            top = layers[-1].reshape(-1, self.width)
            top = self.dropout(top if len(frame.at) == len(top) else top[frame.at])
            predictions.append(top if self.softmax is None else self.softmax(top))
        return predictions

    def losses(self, batch: Sentences | Frame) -> Directions[Tensor]:
        """-log p of each direction in nats, averaged over the words of the batch and one mark for each sentence."""
        if self.softmax is None:
            raise ValueError(
                "this biLM has no softmax and predicts no word: it gives layers, and no loss or perplexity. Make one "
                "with a vocabulary; for published weights, BiLM.published(options, weights, vocabulary=...)"
            )
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

    def layers(self, batch: Sentences | Frame, marks: bool = False) -> Tensor:
        """What every layer holds at each word: (layers + 1, T, B, 2d), zero at padding.

        First the token layer, twice side by side; then each recurrent layer, the forward state after reading the word
        beside the backward state after reading it. `marks=True`: at <s> and </s>, too, (layers + 1, T + 2, B, 2d); for
        that the biLM must read both (ValueError).
        """
        if marks and not self.marks:
            raise ValueError("only a biLM that reads both marks of a sentence has features of them: BiLM(marks=True)")
        frame, rows = self._framed(batch)
        first, last = (0, None) if marks else (1, -1 if self.marks else None)
        words = embedding(rows, frame.inputs.forward[first:last])
        T, B, _ = words.shape
        row = np.arange(T)[:, None]
        real = less(row, frame.lengths + 2 if marks else frame.lengths)
        # what stands at place p of <s> w_1 … w_N </s>, the backward model reads at its own step N + 1 - p
        steps = maximum(frame.lengths + 1 - first - row, 0)
        found = [concat([words, words], -1)]
        for forward, backward in zip(*self._read(frame, rows, self.stateful, marks), strict=True):
            found.append(concat([forward[first : first + T], backward[steps, np.arange(B)]], -1))
        whole = stack(found)
        if isinstance(real, np.ndarray) and real.all():
            return whole
        return where(real[..., None], whole, 0.0)

    def visibility(self, batch: Sentences) -> Directions[Matrix]:
        """Which prediction can depend on which word: a row for every word that a direction predicts, a column for
        every word and mark of the batch, sentence after sentence. Read off the recorded graph of the predictions
        (`Tape.visibility`), whatever the weights; of a stateful model, from zeros.

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
        frame = Frame.of((), np.arange(len(at)), own, lengths, self.marks)
        names = [word.value if isinstance(word, Mark) else word for word in words]
        with enable_grad():
            rows = Tensor(array_of(self.encoder(words)), requires_grad=True)
            predictions = self._predict(frame, rows, stateful=False)
        found = []
        for logits, predicted, direction in zip(predictions, frame.targets, Directions._fields, strict=True):
            order = np.argsort(predicted)
            seen = Tape(logits).visibility(logits, rows)[order]
            title = f"The {direction} prediction of the row can depend on the column where ●"
            found.append(Matrix(np.asarray(seen), [names[i] for i in predicted[order]], names, title))
        return Directions(*found)
