"""Losses, and the entropy: exact far out in the tails, because they are made of log_softmax and logsigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import ops
from ..engine.arguments import indices_from
from ..engine.numerics import rounded, widened
from ..engine.ops import weighted
from ..engine.recording import primitive
from ..engine.signatures import Axis
from ..engine.tensor import Tensor
from .layers import tensor

REDUCTIONS = ("mean", "sum", "none")


def _classes(targets: Any, k: int, ignore_index: int | None) -> Any:
    """Targets as indices, ignored ones as 0; checked at every call (and at every replay)."""
    ignored = np.zeros(targets.shape, bool) if ignore_index is None else targets == ignore_index
    wrong = (targets < 0) | (targets >= k)
    if (wrong & ~ignored).any():
        raise IndexError(f"classes lie in 0..{k - 1}, got {targets[wrong & ~ignored][0]}")
    return np.where(ignored, 0, targets)


_checked_classes = primitive(_classes, None, name="classes")


def _in_range(targets: Any) -> Any:
    if ((targets < 0) | (targets > 1)).any():
        raise ValueError(f"targets lie in 0..1, got {targets.min()}..{targets.max()}: of labels -1, 1 take labels > 0")
    return targets.copy()


_checked_targets = primitive(_in_range, lambda g, y, targets: g, name="targets")


def _reduced(losses: Any, count: Any, reduction: str) -> Any:
    """Their sum or mean, that of float16 taken in float32."""
    if reduction == "none":
        return losses
    total = widened(losses).sum()
    return rounded(total / count if reduction == "mean" else total, losses.dtype)


def floats(x: Any) -> Tensor:
    """x as a tensor of floats: integers as float64, whose differences and squares do not wrap."""
    x = tensor(x)
    return x.astype(float) if x.dtype.kind in "biu" else x


def _check(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is one of {REDUCTIONS}, got {reduction!r}")


def cross_entropy(logits: Any, targets: Any, ignore_index: int | None = None, reduction: str = "mean") -> Tensor:
    """-log softmax(logits)[target], averaged over the targets that count: logits (..., K), targets (...) of ints.

    Targets equal to `ignore_index` count for nothing; where none counts, the loss is 0 with gradient 0. IndexError
    for a class outside 0..K-1, ValueError for shapes that do not fit. In nats: divide by ln 2 for bits.

    >>> import tinygrad_seq as tg
    >>> round(tg.nn.cross_entropy([[0.0, 0.0], [9.0, 9.0]], [1, 0]).item(), 6)  # log 2: two classes, equally likely
    0.693147
    """
    logits = tensor(logits)
    targets = targets if isinstance(targets, Tensor) else indices_from(targets, "cross_entropy")
    _check(reduction)
    if targets.dtype.kind not in "iu":
        raise TypeError(
            f"cross_entropy needs integer classes, got dtype {targets.dtype} and shape {targets.shape}: take "
            + ("targets.argmax(-1) of one-hot rows" if targets.shape == logits.shape else "targets.astype(int)")
        )
    if logits.ndim == 0 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"cross_entropy needs one class for each row of logits: targets of shape {logits.shape[:-1]} for logits of "
            f"shape {logits.shape}, got {targets.shape}"
        )
    k = logits.shape[-1]
    ids = _checked_classes(targets, k=k, ignore_index=ignore_index).reshape((-1,))
    chosen = ops.log_softmax(logits).reshape((-1, k))[np.arange(targets.size), ids].reshape(targets.shape)
    if ignore_index is None:
        return _reduced(-chosen, max(targets.size, 1), reduction)
    counted = ops.not_equal(targets, ignore_index)
    losses = ops.where(counted, -chosen, 0.0)
    count = ops.maximum(ops.astype(ops.sum(counted), dtype=np.promote_types(losses.dtype, np.float32)), 1)
    return _reduced(losses, count, reduction)


def entropy(p: Any, axis: Axis = -1) -> Tensor:
    """-Σ p ln p along axis, of probabilities: in nats; 0 ln 0 counts as 0, with gradient 0 (a masked softmax has it).

    >>> import tinygrad_seq as tg
    >>> round(tg.nn.entropy(tg.softmax([0.0, 0.0, -np.inf])).item(), 4)  # ln 2: two that are equally likely
    0.6931
    """
    p = floats(p)
    return -ops.xlogy(p, p).sum(axis)


def bce_with_logits(logits: Any, targets: Any, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy of σ(logits), -(t log σ(x) + (1 - t) log σ(-x)): same shapes, targets t in 0..1.

    ValueError for other shapes, and for targets outside 0..1.

    >>> import tinygrad_seq as tg
    >>> tg.nn.bce_with_logits([-50.0, 1000.0], [1.0, 1.0], reduction="sum").item()
    50.0
    """
    logits, targets = floats(logits), tensor(targets)
    _check(reduction)
    if logits.shape != targets.shape:
        raise ValueError(f"bce_with_logits needs targets of shape {logits.shape}, got {targets.shape}")
    targets = floats(_checked_targets(targets))
    hit, missed = ops.logsigmoid(logits), ops.logsigmoid(-logits)  # -inf at an infinite logit
    losses = -(weighted(hit, targets) + weighted(missed, 1 - targets))
    return _reduced(losses, max(losses.size, 1), reduction)


def mse(prediction: Any, target: Any, reduction: str = "mean") -> Tensor:
    """(prediction - target)², averaged; both of the same shape (nothing is broadcast silently).

    >>> import tinygrad_seq as tg
    >>> tg.nn.mse([1.0, 2.0], [0.0, 0.0]).item()
    2.5
    """
    prediction, target = floats(prediction), floats(target)
    _check(reduction)
    if prediction.shape != target.shape:
        raise ValueError(
            f"mse needs a target of the prediction's shape {prediction.shape}, got {target.shape}: reshape one of them"
        )
    losses = (prediction - target).square()
    return _reduced(losses, max(losses.size, 1), reduction)
