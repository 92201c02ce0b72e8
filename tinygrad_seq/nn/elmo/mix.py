"""What a task makes of a biLM's layers: a softmax mixture of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...engine.ops import less, maximum, where
from ...engine.signatures import Array
from ...engine.tensor import Tensor, array_of
from ...reading.table import Table
from ..layers import Dropout, tensor
from ..module import Module
from .bilm import BiLM
from .sentences import Frame, Sentences, by_length


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
        self._weights: list[Array] = []  # with which that was computed
        if frozen:
            bilm.freeze()

    @property
    def frozen(self) -> bool:
        """Whether the biLM learns nothing: none of its parameters requires a gradient."""
        return not self.bilm.parameters()

    def remember(self, sentences: Sentences, batch: int = 32) -> None:
        """Compute the layers of these sentences once; later calls take them from memory while the biLM is frozen.

        They take (layers + 1)·2d numbers for each word; `forget()` frees them. Where the biLM has got other weights
        since, they are forgotten by themselves.
        ValueError for one that is stateful, or not frozen.
        """
        if not self.frozen or self.bilm.stateful:
            raise ValueError("only the features of a frozen and stateless biLM stay what they are")
        self._forget_others()
        new = [words for words in dict.fromkeys(map(tuple, sentences)) if words not in self._remembered]
        for group in by_length(new, batch):
            part = [new[i] for i in group]
            layers = self.layers(part).data
            for b, sentence in enumerate(part):
                self._remembered[sentence] = layers[:, : len(sentence), b].copy()

    def forget(self) -> None:
        """Drop what `remember` has computed."""
        self._remembered.clear()

    def _forget_others(self) -> None:
        """Forget what was computed with other weights: these are arrays that nobody writes to, but rebound."""
        weights = [array_of(x) for x in self.bilm.tensors().values()]
        if len(weights) != len(self._weights) or any(a is not b for a, b in zip(weights, self._weights, strict=True)):
            self.forget()
        self._weights = weights

    def layers(self, batch: Sentences | Frame) -> Tensor:
        """The biLM's layers (layers + 1, T, B, 2d), from memory where every sentence of the batch is remembered."""
        if self.frozen:
            self.bilm.eval()
        if self._remembered:
            self._forget_others()
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
