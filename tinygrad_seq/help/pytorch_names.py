"""Names that people bring along from PyTorch and NumPy, and what stands in their place: attached here as answers.

To ask for one raises AttributeError, which says what to use; `hasattr`, and `dir` of a tensor, know nothing of it. Only
names that have a true equivalent are here. A tensor's answers are attributes of its base class, because a `__getattr__`
would slow down every look at a tensor; that of a module is asked only for what the module has not.
"""

from __future__ import annotations

from typing import NoReturn

from ..engine.namespaces import ANSWERS
from ..engine.signatures import Signatures
from ..engine.tensor import Tensor

_ITSELF = "x itself, which is immutable"
_READING = "tg.Tape(loss).flow()[x], the gradient of any tensor on the tape"

TENSOR = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "pow": "x ** p",
    "matmul": "x @ y", "mm": "x @ y", "bmm": "x @ y",
    "clone": _ITSELF, "contiguous": _ITSELF, "copy": _ITSELF,
    "cpu": "x itself: everything is on the CPU", "to": "x.astype(dtype); everything is on the CPU",
    "float": "x.astype(np.float32)", "double": "x.astype(np.float64)", "half": "x.astype(np.float16)",
    "long": "x.astype(np.int64)",
    "clamp": "x.clip(low, high)", "masked_fill": "tg.where(mask, value, x)",
    "expand": "tg.broadcast_to(x, shape)", "unsqueeze": "tg.expand_dims(x, axis), or x[..., None]",
    "permute": "x.transpose(axes)", "t": "x.T", "view": "x.reshape(shape)",
    "split": "tg.split(x, sections, axis)", "flip": "tg.flip(x, axis)",
    "dim": "x.ndim", "numel": "x.size", "nelement": "x.size",
    "numpy": "x.data, which is read-only; np.array(x.data) is a copy",
    "grad_fn": "x.operation", "is_leaf": "x.operation is None", "requires_grad_": "x.requires_grad = True",
    "register_hook": _READING, "retain_grad": _READING,
}  # fmt: skip

MODULES = {
    "tinygrad_seq": {
        "array": "tg.Tensor", "from_numpy": "tg.Tensor(array)",
        "zeros": "tg.Tensor(np.zeros(shape))", "ones": "tg.Tensor(np.ones(shape))",
        "arange": "tg.Tensor(np.arange(n))", "eye": "tg.Tensor(np.eye(n))",
        "randn": "tg.Tensor(rng.standard_normal(shape)), with rng = np.random.default_rng(seed)",
        "rand": "tg.Tensor(rng.random(shape)), with rng = np.random.default_rng(seed)",
        "manual_seed": "rng=seed, given to whatever draws; there is no global generator",
        "float32": "np.float32", "float64": "np.float64", "int64": "np.int64", "long": "np.int64",
        "cat": "tg.concat(parts, axis)", "unsqueeze": "tg.expand_dims(x, axis)", "clamp": "tg.clip(x, low, high)",
        "permute": "tg.transpose(x, axes)", "mm": "tg.matmul", "bmm": "tg.matmul",
        "argmax": "np.argmax(x.data, axis); it has no gradient",
        "autograd": "tg.grad, tg.jacobian, tg.hvp; for gradcheck tg.testing.check_grads",
    },
    "tinygrad_seq.nn": {
        "Parameter": "tg.Tensor(values, requires_grad=True)",
        "ModuleList": "a list among the module's attributes", "ModuleDict": "a dict among the module's attributes",
        "functional": "tg.softmax and its like, and for losses tg.nn.cross_entropy, tg.nn.mse",
        "CrossEntropyLoss": "tg.nn.cross_entropy(logits, targets)", "MSELoss": "tg.nn.mse(prediction, target)",
        "BCEWithLogitsLoss": "tg.nn.bce_with_logits(logits, targets)",
        "Tanh": "tg.tanh", "Sigmoid": "tg.sigmoid", "ReLU": "tg.relu", "Softmax": "tg.softmax",
        "utils": "tg.optim.clip_grad_norm to clip, tg.data.batch_by_length to pad",
    },
    "tinygrad_seq.optim": {
        "Optimizer": "tg.optim.Optimiser", "clip_grad_norm_": "tg.optim.clip_grad_norm",
        "lr_scheduler": "lr=schedule, such as tg.optim.cosine(lr, updates)",
    },
}  # fmt: skip


class Elsewhere:
    """A name that a tensor has elsewhere: asked for, it says what stands in its place here."""

    def __init__(self, name: str, here: str) -> None:
        self._name, self._here = name, here.format(name=name)
        self.__doc__ = f"Not there: use {self._here}."

    def __get__(self, x: Tensor | None, kind: type[Tensor]) -> NoReturn:
        raise AttributeError(f"{kind.__name__} has no {self._name!r}: use {self._here}", name=self._name, obj=x)


def _names(x: Tensor) -> list[str]:
    """What `dir` and the completion of an editor show."""
    return [name for name in object.__dir__(x) if name not in TENSOR]


def attach() -> None:
    """Let tensors and packages answer to these names."""
    for name, here in TENSOR.items():
        setattr(Signatures, name, Elsewhere(name, here))
    setattr(Tensor, "__dir__", _names)  # noqa: B010 (no part of the signatures)
    ANSWERS.update(MODULES)
