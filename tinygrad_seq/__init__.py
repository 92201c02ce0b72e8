"""Reverse-mode autograd for sequences, on NumPy alone: backpropagation through time that can be looked at."""

from . import data, nn, optim, testing
from . import elsewhere as elsewhere  # attaches the answers to names from elsewhere
from . import methods as methods  # attaches the operators
from . import reference as reference  # attaches the texts of the operations
from .checkpoint import load, save
from .compositions import (
    astype, clip, concat, cumsum, dot, einsum, flip, mean, outer, pad, prod, softplus, split, stack, std, take,
    transpose, var,
)  # fmt: skip
from .fit import Training, fit, interruptible
from .jacobians import hvp, jacobian, state_jacobian
from .ledger import Use
from .nn.unrolling import detach
from .ops import (
    abs, add, broadcast_to, cos, divide, embedding, exp, expand_dims, expm1, log, log1p, log_softmax, logsigmoid,
    logsumexp, matmul, max, maximum, min, minimum, multiply, negative, norm, power, relu, reshape, sigmoid, sign,
    sin, softmax, sqrt, square, squeeze, subtract, sum, swapaxes, tanh, where,
)  # fmt: skip
from .primitive import Part, enable_grad, no_grad, primitive, scope, step
from .reading import Flow, Tape
from .replay import Program, Replay, replay
from .see import Drawing, Page, draw, explore
from .table import Matrix, Table
from .tape import TapeReleasedError, grad
from .tensor import Tensor

concatenate = concat

__version__ = "0.1.0"
__all__ = [
    "Drawing", "Flow", "Matrix", "Page", "Part", "Program", "Replay", "Table", "Tape", "TapeReleasedError",
    "Tensor", "Training", "Use", "abs", "add", "astype", "broadcast_to", "clip", "concat", "concatenate", "cos",
    "cumsum", "data", "detach", "divide", "dot", "draw", "einsum", "embedding", "enable_grad", "exp", "expand_dims",
    "explore", "expm1", "fit", "flip", "grad", "hvp", "interruptible", "jacobian", "load", "log", "log1p",
    "log_softmax", "logsigmoid", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum", "multiply",
    "negative", "nn", "no_grad", "norm", "optim", "outer", "pad", "power", "primitive", "prod", "relu", "replay",
    "reshape", "save", "scope", "sigmoid", "sign", "sin", "softmax", "softplus", "split", "sqrt", "square",
    "squeeze", "stack", "state_jacobian", "std", "step", "subtract", "sum", "swapaxes", "take", "tanh", "testing",
    "transpose", "var", "where",
]  # fmt: skip
