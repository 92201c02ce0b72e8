"""A program as a person writes it, for a type checker: what is inferred, and lines that must be refused.

An unused `type: ignore` is an error to the checker, so a line that is no longer refused is seen.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import tinygrad_seq as tg

x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, name="x")
y = tg.tanh(x)

# Operators, and arrays on either side
assert_type(y, tg.Tensor)
assert_type(2.0 * x + 1, tg.Tensor)
assert_type(np.ones(2) * y, tg.Tensor)
assert_type(np.ones(2) - y, tg.Tensor)
assert_type(y @ np.ones((2, 2)), tg.Tensor)
assert_type(x > 0, NDArray[np.bool_])
z: tg.Tensor = np.tanh(y)  # NumPy declares Any for arrays of other libraries

# Attributes and methods
assert_type(x.shape, tuple[int, ...])
assert_type(x.ndim, int)
assert_type(x.sum().item(), float)
assert_type(x.sum(axis=0), tg.Tensor)
assert_type(x.T, tg.Tensor)
assert_type(x[0], tg.Tensor)

# Functions
assert_type(tg.mean(x), tg.Tensor)
assert_type(tg.mean(np.ones(3)).dtype, np.dtype[np.float64])
assert_type(tg.sum(x, axis=1, keepdims=True), tg.Tensor)
assert_type(tg.add(1.0, x), tg.Tensor)
assert_type(tg.concat([x, y], axis=-1), tg.Tensor)
assert_type(tg.stack([x, y]), tg.Tensor)
assert_type(tg.split(x, 2), list[tg.Tensor])
assert_type(tg.tensordot(np.ones((2, 2)), x), tg.Tensor)
assert_type(tg.softmax(x), tg.Tensor)

# Gradients
assert_type(tg.grad(y, x, 1.0), NDArray[Any])
assert_type(tg.grad(y.sum(), [x, y]), list[NDArray[Any]])
assert_type(tg.grad(y.sum(), x, create_graph=True), tg.Tensor)
assert_type(tg.jacobian(y, x), NDArray[Any])

# The tape
with tg.step(1):
    h = (x * y).sum().named("h")
tape = tg.Tape(h)
assert_type(tape.find("h", 1), tg.Tensor)
assert_type(tape.find("h"), list[tg.Tensor])

# Layers
net = tg.nn.LSTM(2, 3)
xs = np.ones((4, 1, 2))
assert_type(net(xs)[0], tg.Tensor)
assert_type(net(xs, every_layer=True)[0], list[tg.Tensor])


# Replays take and return what the function does
def loss_of(xs: NDArray[np.float64], scale: float = 1.0) -> tg.Tensor:
    return scale * net(xs)[0].sum()


@tg.replay(check=1)
def features_of(xs: NDArray[np.float64]) -> tuple[tg.Tensor, tg.Tensor]:
    return net(xs)[0].sum(), net(xs)[0]


step = tg.replay(loss_of, wrt=net)
assert_type(step(xs, scale=0.5), tg.Tensor)
assert_type(features_of(xs), tuple[tg.Tensor, tg.Tensor])

# What is refused
if x.requires_grad is False:
    tg.tanh()  # type: ignore[call-overload]
    tg.add(x, x, x)  # type: ignore[call-overload]
    tg.tanh(x, foo=1)  # type: ignore[call-overload]
    tg.sum(x, dim=1)  # type: ignore[call-overload]
    tg.mean(x, dim=1)  # type: ignore[call-arg]
    x.sum(dim=1)  # type: ignore[call-arg]
    tg.concat(x, x)  # type: ignore[call-overload]
    step("text")  # type: ignore[arg-type]
    tape.find(1)  # type: ignore[call-overload]
    x.shape = (4,)  # type: ignore[misc]
