"""What a task makes of a biLM's layers: a softmax mixture of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...data.vocabulary import Word
from ...engine import numerics
from ...engine.arguments import array_from
from ...engine.ops import less, maximum, where
from ...engine.signatures import Array
from ...engine.tensor import Tensor, array_of
from ...reading.table import Table
from ..layers import Dropout, standardised, tensor
from ..module import Module
from .bilm import BiLM
from .sentences import Frame, Sentences, by_length, sentences_of

# Over what a layer is brought to mean 0 and variance 1: whether over a batch, and whether its marks count.
LAYER_NORMS = {"sentence": (False, False), "batch": (True, True), "batch words": (True, False)}


class ScalarMix(Module):
    """γ Σ_j softmax(s)_j · layer_j (Peters et al. 2018, equation 1): layers (n, T, ..., d) give (T, ..., d).

    s starts at 0, γ at 1. `use`: which of the n layers are mixed, all if not given ([-1]: the top layer alone).
    `learn=False`: both are fixed, which gives the average. `real` (T, ...): False at padding, where the result is 0.

    `layer_norm`: each layer is first brought to mean 0 and variance 1, padding left out:

    - "sentence" (or True): over the words of a sentence and their features. Batch mates do not change a sentence.
    - "batch": over all words and marks of the batch and their features, as AllenNLP does.
    - "batch words": over all words of the batch, without the marks, as bilm-tf does.

    `counted` (T, ...): which positions count for mean and variance, all real ones if not given. This is how `Elmo`
    tells words from marks.

    >>> mix = ScalarMix(3)
    >>> mix.weights.data, mix.gamma.data = np.log([1.0, 2.0, 5.0]), 2.0
    >>> mix(np.array([1.0, 2.0, 6.0]).reshape(3, 1, 1)).tolist()
    [[8.75]]

    Raises ValueError where the number of layers is not n, and where `real` has another shape.
    """

    def __init__(
        self,
        n: int,
        layer_norm: bool | str = False,
        use: Sequence[int] | None = None,
        learn: bool = True,
        dtype: DTypeLike = np.float64,
    ) -> None:
        if not (isinstance(layer_norm, bool) or layer_norm in LAYER_NORMS):
            raise ValueError(f"layer_norm is False, True or one of {', '.join(LAYER_NORMS)}; got {layer_norm!r}")
        self.n, self.layer_norm = n, "sentence" if layer_norm is True else layer_norm
        self.use = list(range(n)) if use is None else [range(n)[j] for j in use]
        if not self.use:
            raise ValueError("a mix needs at least one layer")
        self.weights = Tensor(np.zeros(len(self.use), dtype), requires_grad=learn, name="s")
        self.gamma = Tensor(np.ones((), dtype), requires_grad=learn, name="gamma")

    def __call__(self, layers: Any, real: Any = None, counted: Any = None) -> Tensor:
        layers = tensor(layers)
        if layers.ndim < 2 or len(layers) != self.n:
            raise ValueError(f"this mix takes {self.n} layers, shape ({self.n}, T, ..., d), got {layers.shape}")
        real, counted = (self._positions(given, layers) for given in (real, counted))
        if len(self.use) < self.n:
            layers = layers[np.array(self.use)]
        if real is not None:
            layers = where(real, layers, 0.0)
        if self.layer_norm:
            whole_batch, _ = LAYER_NORMS[self.layer_norm]
            axes = tuple(range(1, layers.ndim)) if whole_batch else (1, layers.ndim - 1)
            layers = normalised(layers, real if counted is None else counted, axes)
            if real is not None:
                layers = where(real, layers, 0.0)
        shape = layers.shape[1:]
        return self.gamma * (self.weights.softmax() @ layers.reshape(len(layers), -1)).reshape(shape)

    @staticmethod
    def _positions(given: Any, layers: Tensor) -> Any:
        """Positions (T, ...) as (T, ..., 1), if they are those of the layers."""
        if given is None:
            return None
        given = given if isinstance(given, Tensor) else array_from(given, "real", bool)
        if given.shape != layers.shape[1:-1]:
            raise ValueError(f"real needs the shape {layers.shape[1:-1]} of the positions, got {given.shape}")
        return given[..., None]

    def penalty(self) -> Tensor:
        """Σ s²: times a small number, it draws the weights towards the average of the layers."""
        return self.weights.square().sum()

    def table(self) -> Table:
        """Each layer's weight s, its softmax, and the gradient of s if there is one; the same of γ."""
        s = array_of(self.weights)
        slopes = [None] * len(self.use) if self.weights.grad is None else self.weights.grad
        rows = [(str(j), *row) for j, *row in zip(self.use, s, numerics.softmax(s), slopes, strict=True)]
        rows.append(("γ", array_of(self.gamma), None, self.gamma.grad))
        return Table(("layer", "s", "softmax", "gradient"), rows, "The mixture of the layers", foot=1, precision=4)

    def __repr__(self) -> str:
        learn = self.weights.requires_grad
        return f"ScalarMix({self.n}, layer_norm={self.layer_norm!r}, use={self.use}, learn={learn})"


def normalised(layers: Tensor, counted: Any, axes: tuple[int, ...], eps: float = 1e-12) -> Tensor:
    """(n, T, ..., d), each layer at mean 0 and variance 1 along these axes, by the positions that are counted."""
    if counted is None:
        count: Any = math.prod(layers.shape[axis] for axis in axes)
    else:
        positions = tuple(axis - 1 for axis in axes)
        count = maximum(counted.sum(positions, keepdims=True) * layers.shape[-1], 1)
        count = count.astype(np.promote_types(layers.dtype, np.float32))
    return numerics.rounded(standardised(layers, axes, count, eps, counted), layers.dtype)


class Elmo(Module):
    """A biLM as a task uses it: `elmo(batch)` is a list of `mixes` tensors (T, B, 2d), zero at padding.

    Each is a ScalarMix of its own over the biLM's layers (`mixes`: their number, or the ScalarMix modules themselves),
    with `dropout` on it in training; `layer_norm` as there. `keep_marks=True`: the marks of a sentence have features,
    too, (T + 2, B, 2d); for that, and for layer_norm="batch", the biLM must read them (`BiLM(marks=True)`).

    `frozen` (the default, and the paper's recipe): the biLM is frozen and stays in evaluation mode, no graph is built
    through it, and only mixes and task learn; a gradient asked of its parameters raises (`elmo.bilm.freeze(False)`
    trains it again). `remember(corpus)` computes the features of all sentences once, for training over many epochs.

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
        layer_norm: bool | str = False,
        dropout: float = 0.0,
        frozen: bool = True,
        keep_marks: bool = False,
        rng: Any = None,
    ) -> None:
        self.bilm, self.keep_marks = bilm, keep_marks
        if isinstance(mixes, int):
            mixes = [ScalarMix(bilm.depth, layer_norm, dtype=bilm.dtype) for _ in range(mixes)]
        self.mixes = list(mixes)
        if wrong := [mix.n for mix in self.mixes if mix.n != bilm.depth]:
            raise ValueError(f"the biLM has {bilm.depth} layers with the token layer, but a mix takes {wrong[0]}")
        if self._reads_marks and not bilm.marks:
            asked = "keep_marks=True" if keep_marks else 'layer_norm="batch"'
            raise ValueError(f"{asked} needs a biLM that reads the marks of a sentence: BiLM(marks=True)")
        self.dropout = Dropout(dropout, rng)
        self._remembered: dict[tuple[Word, ...], Array] = {}
        self._weights: list[Array] = []  # with which that was computed
        if frozen:
            bilm.freeze()

    @property
    def frozen(self) -> bool:
        """Whether the biLM learns nothing: none of its parameters requires a gradient."""
        return not self.bilm.parameters()

    @property
    def _reads_marks(self) -> bool:
        return self.keep_marks or any(LAYER_NORMS.get(str(mix.layer_norm)) == (True, True) for mix in self.mixes)

    def remember(self, sentences: Sentences, batch: int = 32) -> None:
        """Compute the layers of these sentences once; later calls take them from memory while the biLM is frozen.

        They take (layers + 1)·2d numbers for each word; `forget()` frees them. They are forgotten by themselves when
        the biLM's weights have changed. ValueError for one that is stateful, or not frozen.
        """
        if not self.frozen or self.bilm.stateful:
            raise ValueError("only the features of a frozen and stateless biLM stay what they are")
        known = self._known()
        new = [words for words in dict.fromkeys(map(tuple, sentences_of(sentences))) if words not in known]
        marks = 2 * self._reads_marks
        for group in by_length(new, batch):
            part = [new[i] for i in group]
            layers = self._layers(part).data
            for b, sentence in enumerate(part):
                known[sentence] = layers[:, : len(sentence) + marks, b].copy()

    def forget(self) -> None:
        """Drop what `remember` has computed."""
        self._remembered.clear()

    def _known(self) -> dict[tuple[Word, ...], Array]:
        """What is remembered, unless it was computed with other weights: to rebind a tensor's data is to have them."""
        weights = [array_of(x) for x in self.bilm.tensors().values()]
        if len(weights) != len(self._weights) or any(map(is_not, weights, self._weights)):
            self.forget()
            self._weights = weights
        return self._remembered

    def layers(self, batch: Sentences | Frame) -> Tensor:
        """The biLM's layers (layers + 1, T, B, 2d), with `keep_marks` (layers + 1, T + 2, B, 2d); from memory where
        every sentence of the batch is remembered."""
        layers = self._layers(batch)
        _, words = self._positions(batch, layers.shape[1])
        return self._without_marks(layers, words)

    def _layers(self, batch: Sentences | Frame) -> Tensor:
        """The layers, with those of the marks if anything here reads them."""
        if self.frozen:
            self.bilm.eval()
        marks = self._reads_marks
        if not self._remembered or not self.frozen or isinstance(batch, Frame):
            return self.bilm.layers(batch, marks)
        known, sentences = self._known(), list(map(tuple, sentences_of(batch)))
        if not all(words in known for words in sentences):
            return self.bilm.layers(batch, marks)
        parts = [known[words] for words in sentences]
        whole = np.zeros(
            (self.bilm.depth, max(part.shape[1] for part in parts), len(parts), 2 * self.bilm.width), self.bilm.dtype
        )
        for b, part in enumerate(parts):
            whole[:, : part.shape[1], b] = part
        return Tensor(whole)

    def _positions(self, batch: Sentences | Frame, T: int) -> tuple[Any, Any]:
        """Where something real stands in what `_layers` gives, (T, B), and where it is a word."""
        lengths = batch.lengths if isinstance(batch, Frame) else np.array([len(sentence) for sentence in batch])
        row = np.arange(T)[:, None]
        if not self._reads_marks:
            real = less(row, lengths)
            return real, real
        return less(row, lengths + 2), less(row, lengths + 1) & (row >= 1)

    def _without_marks(self, x: Tensor, words: Any) -> Tensor:
        """(..., T + 2, B, d) as (..., T, B, d), unless the marks are kept, or were not read."""
        if self.keep_marks or not self._reads_marks:
            return x
        return where(words[1:-1, :, None], x[..., 1:-1, :, :], 0.0)

    def __call__(self, batch: Sentences | Frame) -> list[Tensor]:
        layers = self._layers(batch)
        real, words = self._positions(batch, layers.shape[1])
        mixed = []
        for mix in self.mixes:
            _, marks_count = LAYER_NORMS.get(str(mix.layer_norm), (False, False))
            x = mix(layers, real, real if marks_count else words)
            mixed.append(self.dropout(self._without_marks(x, words)))
        return mixed
