"""Names that people bring along from PyTorch, NumPy, micrograd, Keras and JAX, and what stands in their place here.

To ask for one raises AttributeError (an option: TypeError), which says what to use; `hasattr`, and `dir` of a tensor,
know nothing of it. Only names that have a true equivalent are here. A tensor's answers are attributes of its base
class, because a `__getattr__` would slow down every look at a tensor; that of a module is asked only for what the
module has not. Tables by who is asked: TENSOR, MODULES, CLASSES, OPTIONS.
"""

from __future__ import annotations

from typing import NoReturn

from ..engine import compositions, methods, ops, signatures
from ..engine.namespaces import ANSWERS
from ..engine.signatures import Signatures
from ..engine.tensor import Tensor
from .reference import REFERENCE

_ITSELF = "x itself, which is immutable"
_REBIND = "x.data = new values, for a leaf; a result is a new tensor"
_LEAF = "x.data = new values, and x.zero_grad() for the gradient"
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
    "add_": _REBIND, "sub_": _REBIND, "mul_": _REBIND, "div_": _REBIND, "copy_": _REBIND, "fill_": _REBIND,
    "clamp_": _REBIND, "normal_": _REBIND, "uniform_": _REBIND, "zero_": _LEAF, "detach_": "x.detach()",
    "fill": _REBIND, "put": "tg.where(mask, new, x)", "resize": "x.reshape(shape)", "partition": "tg.sort(x, axis)",
    "neg": "-x", "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    "chunk": "tg.split(x, sections, axis)", "unbind": "list(x), the parts along the first axis",
    "gather": "tg.take_along_axis(x, indices, axis)", "index_select": "x.take(indices, axis)",
    "masked_select": "x[mask]", "expand_as": "tg.broadcast_to(x, y.shape)", "view_as": "x.reshape(y.shape)",
    "type_as": "x.astype(y.dtype)", "type": "x.astype(dtype)", "int": "x.astype(int)", "bool": "x.astype(bool)",
    "repeat_interleave": "x.repeat(repeats, axis)", "topk": "x.argsort(axis) and tg.take_along_axis(x, indices, axis)",
    "cuda": "x itself: everything is on the CPU", "device": "x itself: everything is on the CPU",
    "real": "x itself, which is real", "conj": "x itself, which is real", "block_until_ready": "x itself",
    "at": "tg.where(mask, new, x)", "children": "x.record, and its inputs", "parents": "x.record, and its inputs",
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
        "tensor": "tg.Tensor(values)", "as_tensor": "tg.Tensor(values)", "asarray": "tg.Tensor(values)",
        "Value": "tg.Tensor(number, requires_grad=True)", "Variable": "tg.Tensor(values, requires_grad=True)",
        "argmax": "np.argmax(x, axis), which has no gradient", "argmin": "np.argmin(x, axis), which has no gradient",
        "isnan": "np.isnan(x)", "allclose": "np.allclose(x, y)", "round": "np.round(x, decimals)", "randint":
        "rng.integers(high, size=shape), with rng = np.random.default_rng(seed)", "gather": "tg.take_along_axis(x, "
        "indices, axis)", "chunk": "tg.split(x, sections, axis)", "mul": "tg.multiply", "sub": "tg.subtract",
        "div": "tg.divide", "neg": "tg.negative", "pow": "tg.power", "ravel": "x.ravel()", "flatten": "x.flatten()",
        "diff": "np.diff(x)", "median": "np.median(x, axis)", "jit": "tg.replay", "value_and_grad": "tg.grad(loss, xs)",
        "vjp": "tg.grad(y, x, seed)", "jacrev": "tg.jacobian(y, x)", "hessian": "tg.hvp for products with it",
        "vmap": "leading axes, which every cell and layer takes", "compile": "tg.replay", "scan": "tg.nn.unroll",
        "Module": "tg.nn.Module", "inference_mode": "tg.no_grad", "set_grad_enabled": "tg.no_grad, tg.enable_grad",
        "Sequential": "tg.nn.Sequential", "layers": "tg.nn", "optimizers": "tg.optim", "losses": "tg.nn.cross_entropy",
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
        "Dense": "tg.nn.Linear(m, d)", "SimpleRNN": "tg.nn.RNN(m, d)",
        "Bidirectional": "tg.nn.LSTM(m, d, bidirectional=True)",
        "LayerNormalization": "tg.nn.LayerNorm(width)", "L1Loss": "tg.abs(x - y).mean()", "NLLLoss":
        "tg.nn.cross_entropy(logits, targets)", "LogSoftmax": "tg.log_softmax",
        "ELU": "tg.elu", "Softplus": "tg.softplus",
        "scan": "tg.nn.unroll(cell, xs)",
    },
    "tinygrad_seq.optim": {
        "Optimizer": "tg.optim.Optimiser", "clip_grad_norm_": "tg.optim.clip_grad_norm",
        "lr_scheduler": "lr=schedule, such as tg.optim.cosine(lr, updates)",
        "StepLR": "lr=tg.optim.step_decay(...)", "CosineAnnealingLR": "lr=tg.optim.cosine(lr, updates)",
        "clip_grad_value_": "tg.optim.clip_grad_value", "adam": "tg.optim.Adam", "sgd": "tg.optim.SGD",
    },
}  # fmt: skip

CLASSES = {
    "Module": {
        "forward": "net(xs), and define __call__ instead", "to": "arrays of the right dtype: dtype= when it is made",
        "cuda": "it as it is: everything is on the CPU", "cpu": "it as it is: everything is on the CPU",
        "children": "net.modules()", "named_modules": "net.modules()", "named_children": "net.modules()",
        "register_buffer": "an attribute: a Tensor without requires_grad is saved and not trained",
        "register_parameter": "an attribute: tg.Tensor(values, requires_grad=True)",
        "requires_grad_": "net.freeze(), or net.freeze(False)", "apply": "for module in net.modules(): ...",
        "get_weights": "net.state_dict()", "set_weights": "net.load_state_dict(state)", "weight": "net.tensors()",
        "trainable_variables": "net.parameters()", "trainable_weights": "net.parameters()", "weights": "net.tensors()",
        "compile": "tg.fit(step, batches, optimiser)", "fit": "tg.fit(step, batches, optimiser)",
        "weight_ih_l0": "net.cells[0][0], whose weights have names: cell.A, cell.b, and a gate's by name",
        "flatten_parameters": "nothing: there is nothing to flatten",
    },
    "Optimiser": {
        "param_groups": "optimiser.groups", "add_param_group": "a list of groups when it is made",
        "minimize": "loss.backward(), then optimiser.step()", "apply_gradients": "optimiser.step()",
        "update": "optimiser.step()",
    },
}  # fmt: skip

_FIRST = "m here, the number of input features"
_SECOND = "d here, the number of units"
_TIME = "no option here: time always comes first, (T, B, m); x.swapaxes(0, 1) turns (B, T, m) about"
_CPU = "no option here: everything is on the CPU"
OPTIONS = {
    "dim": "axis= here, as in NumPy", "keepdim": "keepdims= here, as in NumPy", "dims": "axis= here, as in NumPy",
    "input_size": _FIRST, "in_features": _FIRST, "input_dim": _FIRST, "input_shape": _FIRST,
    "hidden_size": _SECOND, "out_features": _SECOND, "units": _SECOND, "features": _SECOND,
    "num_layers": "layers= here", "batch_first": _TIME, "time_major": _TIME,
    "num_embeddings": "n here, the number of rows", "embedding_dim": "d here, the width of a row",
    "output_dim": "d here, the width of a row", "padding_idx": "padding= here", "mask_zero": "padding=0 here",
    "normalized_shape": "width here, the length of the last axis", "proj_size": "projection= here",
    "nonlinearity": "activation= here", "use_bias": "bias= here", "elementwise_affine": "always so here",
    "return_sequences": "no option here: net(xs) gives all outputs and the state", "return_state":
    "no option here: net(xs) gives all outputs and the state", "stateful": "no option here: the state is passed in and "
    "returned", "go_backwards": "reverse=True of tg.nn.unroll", "unit_forget_bias": "forget_bias=1.0 here",
    "device": _CPU, "requires_grad_": "requires_grad= here", "params": "parameters here, the first argument",
    "learning_rate": "lr= here", "beta1": "betas=(beta1, beta2) here", "beta_1": "betas=(beta1, beta2) here",
    "beta_2": "betas=(beta1, beta2) here", "epsilon": "eps= here", "amsgrad": "no option here", "foreach":
    "no option here", "decay": "weight_decay= here", "inplace": "no option here: a tensor is immutable",
    "label_smooth": "label_smoothing= here", "end_dim": "x.reshape(shape)", "dtype": "x.astype(dtype), before",
}  # fmt: skip
# Operations that are no methods here, as in NumPy.
TENSOR |= {
    row.operation.__name__: f"tg.{row.operation.__name__}(x)"
    for row in (*ops.TABLE, *compositions.TABLE)
    if row.operation.__name__ in REFERENCE and row.operation.__name__ not in {*methods.METHODS, *TENSOR, "where"}
}


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
    ANSWERS.update(MODULES | CLASSES)
    signatures.OPTIONS.update(OPTIONS)
