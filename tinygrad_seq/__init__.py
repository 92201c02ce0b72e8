"""Backpropagation through time that can be looked at: reverse-mode autograd for sequences, on NumPy alone.

    import tinygrad_seq as tg

    w = tg.Tensor(0.5, requires_grad=True, name="w")     a tensor, which remembers how it was computed
    loss = (w * 3.0 - 1.0) ** 2                          operators, and NumPy's own functions: np.tanh(w)
    tape = tg.Tape(loss); print(tape)                    what was recorded, in order
    tape.flow()[w]                                       the gradient of anything on it
    loss.backward(); w.grad                              as everywhere

Layers are in `tg.nn`, optimisers in `tg.optim`, tasks and batches in `tg.data`, checks of your own operations and cells
in `tg.testing`. `tg.replay` records a training step once and plays it again, `tg.fit` trains, `tg.save` and `tg.load`
keep it, `tg.draw` draws it. `help(tg.tanh)` has formula, shapes, errors and a checked example, as every name has.
"""

from typing import TYPE_CHECKING

from .engine import methods
from .engine.backward import grad
from .engine.compositions import (
    astype, clip, concat, cumprod, cumsum, diag, dot, einsum, flip, hstack, mean, moveaxis, outer, pad, prod, repeat,
    roll, softplus, sort, split, stack, std, take, take_along_axis, tensordot, tile, transpose, tril, triu, var, vstack,
)  # fmt: skip
from .engine.namespaces import namespace
from .engine.ops import (
    abs, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, broadcast_to, cbrt, ceil, copysign, cos,
    cosh, divide, elu, embedding, exp, exp2, expand_dims, expm1, floor, hypot, log, log10, log1p, log2, log_softmax,
    logaddexp, logsigmoid, logsumexp, matmul, max, maximum, min, minimum, mod, multiply, negative, norm, power,
    reciprocal, relu, reshape, sigmoid, sign, sin, sinh, softmax, sqrt, square, squeeze, subtract, sum, swapaxes, tan,
    tanh, where, xlogy,
)  # fmt: skip
from .engine.recompute import recompute
from .engine.recording import Part, enable_grad, no_grad, primitive, scope, step
from .engine.tensor import Record, TapeReleasedError, Tensor
from .help import pytorch_names, reference

if TYPE_CHECKING:
    from . import data, nn, optim, see, testing
    from .nn.unrolling import detach
    from .reading.jacobians import hvp, jacobian, state_jacobian
    from .reading.ledger import Use
    from .reading.table import Matrix, Table
    from .reading.tape import Flow, Tape
    from .replaying.recorder import Program, Replay, replay
    from .replaying.staleness import StaleReplayError
    from .see import Drawing, Page, draw, explore
    from .training.checkpoint import load, save
    from .training.loop import Training, fit, interruptible

for attach in (methods.attach, reference.attach, pytorch_names.attach):
    attach()  # operators, methods and NumPy's functions; reference texts; answers to PyTorch's names

concatenate = concat

__version__ = "0.2.0"
__all__ = [
    "Drawing", "Flow", "Matrix", "Page", "Part", "Program", "Record", "Replay", "StaleReplayError", "Table", "Tape",
    "TapeReleasedError", "Tensor", "Training", "Use", "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "astype", "broadcast_to", "cbrt", "ceil", "clip", "concat", "concatenate", "copysign", "cos",
    "cosh", "cumprod", "cumsum", "data", "detach", "diag", "divide", "dot", "draw", "einsum", "elu", "embedding",
    "enable_grad", "exp", "exp2", "expand_dims", "explore", "expm1", "fit", "flip", "floor", "grad", "hstack", "hvp",
    "hypot", "interruptible", "jacobian", "load", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp",
    "logsigmoid", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis", "multiply",
    "negative", "nn", "no_grad", "norm", "optim", "outer", "pad", "power", "primitive", "prod", "reciprocal",
    "recompute", "relu", "repeat", "replay", "reshape", "roll", "save", "scope", "see", "sigmoid", "sign", "sin",
    "sinh", "softmax", "softplus", "sort", "split", "sqrt", "square", "squeeze", "stack", "state_jacobian", "std",
    "step", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "testing", "tile",
    "transpose", "tril", "triu", "var", "vstack", "where", "xlogy",
]  # fmt: skip

# These folders are loaded when one of their names is first asked for: `import tinygrad_seq` stays quick.
_LATER = {name: name for name in ("data", "nn", "optim", "see", "testing")} | {
    name: module
    for module, names in {
        "nn.unrolling": ("detach",),
        "reading.jacobians": ("hvp", "jacobian", "state_jacobian"),
        "reading.ledger": ("Use",),
        "reading.table": ("Matrix", "Table"),
        "reading.tape": ("Flow", "Tape"),
        "replaying.recorder": ("Program", "Replay", "replay"),
        "replaying.staleness": ("StaleReplayError",),
        "see": ("Drawing", "Page", "draw", "explore"),
        "training.checkpoint": ("load", "save"),
        "training.loop": ("Training", "fit", "interruptible"),
    }.items()
    for name in names
}
__getattr__, __dir__ = namespace(__name__, __all__, _LATER)
