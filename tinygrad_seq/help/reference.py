"""The reference text of every operation, attached here: `help(tg.tanh)`.

In a text, y is the result and ∂y/∂x the local rate. Inputs are tensors, arrays or numbers, and broadcast as NumPy's do
where nothing else is said; what arrives at an input is summed over the axes along which it was broadcast. dtypes are
NumPy's: Python numbers are weak, float32 stays float32. The examples know NumPy as np and this package as tg.
"""

from __future__ import annotations

import inspect

from ..engine import compositions, ops
from ..engine.tensor import Tensor

REFERENCE = {
    # Arithmetic
    "add": """a + b, elementwise: ∂y/∂a = ∂y/∂b = 1.

        >>> a, b = tg.Tensor([[1.0], [2.0]], requires_grad=True), tg.Tensor([3.0, 4.0], requires_grad=True)
        >>> tg.add(a, b).sum().backward()
        >>> a.grad.tolist(), b.grad.tolist()  # a stands in two columns, b in two rows
        ([[2.0], [2.0]], [2.0, 2.0])

        ValueError where the shapes do not broadcast.
        """,
    "subtract": """a − b, elementwise: ∂y/∂a = 1, ∂y/∂b = −1.

        >>> b = tg.Tensor(2.0, requires_grad=True)
        >>> (5 - b).item(), tg.grad(5 - b, b).item()
        (3.0, -1.0)

        ValueError where the shapes do not broadcast.
        """,
    "multiply": """a·b, elementwise: ∂y/∂a = b, ∂y/∂b = a.

        >>> w = tg.Tensor(0.5, requires_grad=True)
        >>> tg.grad(tg.multiply(w, 3.0), w).item(), tg.grad(w * w, w).item()  # two uses of w: the rates add up
        (3.0, 1.0)

        ValueError where the shapes do not broadcast.
        """,
    "divide": """a / b, elementwise: ∂y/∂a = 1/b, ∂y/∂b = −a/b².

        >>> a, b = tg.Tensor(3.0, requires_grad=True), tg.Tensor(2.0, requires_grad=True)
        >>> [g.item() for g in tg.grad(a / b, [a, b])]
        [0.5, -0.75]

        Division by 0 gives inf or nan and NumPy's warning; ValueError where the shapes do not broadcast.
        """,
    "negative": """−x, elementwise: ∂y/∂x = −1.

        >>> x = tg.Tensor(2.0, requires_grad=True)
        >>> (-x).item(), tg.grad(-x, x).item()
        (-2.0, -1.0)
        """,
    "power": """x^p, elementwise; the exponent may be a tensor: ∂y/∂x = p·x^(p−1), ∂y/∂p = x^p·ln x.

        x⁰ is constant, so its rate is 0, at x = 0 too; so is ∂y/∂p at x = 0. A negative x needs a whole p, and then
        has a rate in x as any other (in p it has none: nan).

        >>> x, p = tg.Tensor(-2.0, requires_grad=True), tg.Tensor([0.0, 1.0, 3.0])
        >>> (x**p).tolist(), tg.jacobian(x**p, x).tolist()
        ([1.0, -2.0, -8.0], [0.0, 1.0, 12.0])

        ValueError where the shapes do not broadcast, and for a negative power of integers.
        """,
    "matmul": """The matrix product a @ b over the last two axes; the axes before them are a batch and broadcast.

        (..., n, k) @ (..., k, m) gives (..., n, m): ȧ = ẏ bᵀ and ḃ = aᵀ ẏ for an incoming gradient ẏ. A vector is one
        row on the left, one column on the right, and that axis is gone from the result.

        >>> W, x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), tg.Tensor([10.0, 1.0], requires_grad=True)
        >>> y = W @ x
        >>> y.tolist(), [g.tolist() for g in tg.grad(y, [W, x], [1.0, 0.5])]
        ([12.0, 34.0], [[[10.0, 1.0], [5.0, 0.5]], [2.5, 4.0]])

        ValueError for a number (multiply with *) and for lengths k that differ.
        """,
    "dot": """The product of numbers, vectors and matrices: a·b where one is a number, else a @ b.

        With more axes, the last of a with the last but one of b, as NumPy's dot (matmul is for batches).

        >>> tg.dot(tg.Tensor([1.0, 2.0]), [3.0, 4.0]).item()
        11.0

        ValueError for lengths that differ.
        """,
    "outer": """Every product of an entry of a and one of b: a (n,), b (m,) give y (n, m), y[i, j] = a[i]·b[j].

        Other shapes are flattened first.

        >>> tg.outer(tg.Tensor([1.0, 2.0]), [3.0, 4.0]).tolist()
        [[3.0, 4.0], [6.0, 8.0]]
        """,
    "tensordot": """Products summed over `axes`: the last n axes of a with the first n of b, or two lists of axes.

        >>> a, b = tg.Tensor([[1.0, 2.0], [3.0, 4.0]]), tg.Tensor([10.0, 1.0])
        >>> tg.tensordot(a, b, 1).tolist(), tg.tensordot(a, b, ([0], [0])).tolist()
        ([12.0, 34.0], [13.0, 24.0])

        ValueError where the lengths of the summed axes differ.
        """,
    "einsum": """The sum of products that the letters say: "bi,ij->bj" is Σ_i x[b, i]·W[i, j].

        A letter missing after the arrow is summed; without an arrow, letters that stand once are kept, in
        alphabetical order. "..." stands for axes without a letter; a letter twice in one operand is its diagonal.

        >>> W = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> trace = tg.einsum("ii->", W)
        >>> trace.item(), tg.grad(trace, W).tolist()
        (5.0, [[1.0, 0.0], [0.0, 1.0]])

        ValueError where letters, operands and shapes do not fit together.
        """,
    # Elementwise functions
    "exp": """e^x, elementwise: ∂y/∂x = y.

        >>> x = tg.Tensor(0.0, requires_grad=True)
        >>> tg.exp(x).item(), tg.grad(tg.exp(x), x).item()
        (1.0, 1.0)
        """,
    "expm1": """e^x − 1, elementwise, with all digits near 0: ∂y/∂x = y + 1.

        >>> x = tg.Tensor(1e-20, requires_grad=True)
        >>> tg.expm1(x).item(), tg.grad(tg.expm1(x), x).item()
        (1e-20, 1.0)
        """,
    "log": """ln x, elementwise: ∂y/∂x = 1/x. At 0, and below, −inf and nan with NumPy's warning.

        >>> x = tg.Tensor(4.0, requires_grad=True)
        >>> tg.grad(tg.log(x), x).item()
        0.25
        """,
    "log1p": """ln(1 + x), elementwise, with all digits near 0: ∂y/∂x = 1/(1 + x).

        >>> x = tg.Tensor([1e-20, 3.0], requires_grad=True)
        >>> tg.log1p(x).tolist()[0], tg.grad(tg.log1p(x), x, 1.0).tolist()
        (1e-20, [1.0, 0.25])
        """,
    "sqrt": """√x, elementwise: ∂y/∂x = 1/(2√x), which is inf at 0 (where the norm, for one, is the better question).

        >>> x = tg.Tensor(4.0, requires_grad=True)
        >>> tg.sqrt(x).item(), tg.grad(tg.sqrt(x), x).item()
        (2.0, 0.25)
        """,
    "square": """x², elementwise: ∂y/∂x = 2x. `x ** 2` is the same operation.

        >>> x = tg.Tensor(-3.0, requires_grad=True)
        >>> tg.square(x).item(), tg.grad(x**2, x).item()
        (9.0, -6.0)
        """,
    "abs": """|x|, elementwise: ∂y/∂x = sign x, which is 0 at 0.

        >>> x = tg.Tensor([-2.0, 0.0, 3.0], requires_grad=True)
        >>> tg.abs(x).tolist(), tg.grad(abs(x), x, 1.0).tolist()
        ([2.0, 0.0, 3.0], [-1.0, 0.0, 1.0])
        """,
    "sign": """−1, 0 or 1, elementwise: the rate is 0 everywhere.

        >>> tg.sign(tg.Tensor([-2.0, 0.0, 3.0])).tolist()
        [-1.0, 0.0, 1.0]
        """,
    "sin": """sin x, elementwise, x in radians: ∂y/∂x = cos x.

        >>> x = tg.Tensor(0.0, requires_grad=True)
        >>> tg.sin(x).item(), tg.grad(tg.sin(x), x).item()
        (0.0, 1.0)
        """,
    "cos": """cos x, elementwise, x in radians: ∂y/∂x = −sin x.

        >>> x = tg.Tensor(np.pi / 2, requires_grad=True)
        >>> tg.grad(tg.cos(x), x).item()
        -1.0
        """,
    "tanh": """The hyperbolic tangent, elementwise: ∂y/∂x = 1 − y².

        It saturates: the further x is from 0, the closer y is to ±1 and the less credit passes.

        >>> x = tg.Tensor(np.log(2.0), requires_grad=True)  # tanh ln 2 = (2 − ½) / (2 + ½)
        >>> round(tg.tanh(x).item(), 12), round(tg.grad(tg.tanh(x), x).item(), 12)
        (0.6, 0.64)
        """,
    "xlogy": """x ln z, elementwise, and 0 where x = 0: ∂y/∂x = ln z, ∂y/∂z = x / z.

        Where x and z are both 0, which is the limit of p ln p, neither gets a gradient. So `-tg.xlogy(p, p).sum()` is
        the entropy of probabilities, some of which may be 0 (`tg.nn.entropy`).

        >>> x, z = tg.Tensor([0.0, 2.0], requires_grad=True), tg.Tensor([0.0, 1.0], requires_grad=True)
        >>> tg.xlogy(x, z).tolist(), [g.tolist() for g in tg.grad(tg.xlogy(x, z), [x, z], 1.0)]
        ([0.0, 0.0], [[0.0, 0.0], [0.0, 2.0]])
        """,
    "sigmoid": """σ(x) = 1 / (1 + e^−x), elementwise: ∂y/∂x = y(1 − y). Exact at ±1000, without warnings.

        >>> x = tg.Tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
        >>> tg.sigmoid(x).tolist(), tg.grad(tg.sigmoid(x), x, 1.0).tolist()
        ([0.0, 0.5, 1.0], [0.0, 0.25, 0.0])
        """,
    "logsigmoid": """ln σ(x) = −ln(1 + e^−x), elementwise: ∂y/∂x = σ(−x). Exact at ±1000, without warnings.

        >>> x = tg.Tensor([-1000.0, 1000.0], requires_grad=True)
        >>> tg.logsigmoid(x).tolist(), tg.grad(tg.logsigmoid(x), x, 1.0).tolist()
        ([-1000.0, 0.0], [1.0, 0.0])
        """,
    "softplus": """ln(1 + e^x), elementwise: ∂y/∂x = σ(x). Exact at ±1000, without warnings.

        >>> x = tg.Tensor([-1000.0, 1000.0], requires_grad=True)
        >>> tg.softplus(x).tolist(), tg.grad(tg.softplus(x), x, 1.0).tolist()
        ([0.0, 1000.0], [0.0, 1.0])
        """,
    "relu": """max(x, 0), elementwise: ∂y/∂x = 1 where x > 0, else 0 (at 0 too).

        >>> x = tg.Tensor([-2.0, 0.0, 3.0], requires_grad=True)
        >>> tg.relu(x).tolist(), tg.grad(tg.relu(x), x, 1.0).tolist()
        ([0.0, 0.0, 3.0], [0.0, 0.0, 1.0])
        """,
    "maximum": """The larger of a and b, elementwise: the rate is 1 for the larger, ½ for each where they tie.

        >>> a = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> tg.maximum(a, 2.0).tolist(), tg.grad(tg.maximum(a, 2.0), a, 1.0).tolist()
        ([2.0, 2.0, 3.0], [0.0, 0.5, 1.0])

        ValueError where the shapes do not broadcast.
        """,
    "minimum": """The smaller of a and b, elementwise: the rate is 1 for the smaller, ½ for each where they tie.

        >>> a = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> tg.minimum(a, 2.0).tolist(), tg.grad(tg.minimum(a, 2.0), a, 1.0).tolist()
        ([1.0, 2.0, 2.0], [1.0, 0.5, 0.0])

        ValueError where the shapes do not broadcast.
        """,
    "tan": """tan x, elementwise, x in radians: ∂y/∂x = 1 + y².

        >>> x = tg.Tensor(0.0, requires_grad=True)
        >>> tg.tan(x).item(), tg.grad(tg.tan(x), x).item()
        (0.0, 1.0)
        """,
    "arcsin": """The angle in −π/2..π/2 whose sine is x, elementwise: ∂y/∂x = 1/√(1 − x²).

        At ±1 the rate is inf; beyond, y is nan, with NumPy's warning.

        >>> x = tg.Tensor(0.6, requires_grad=True)
        >>> round(tg.grad(tg.arcsin(x), x).item(), 12)
        1.25
        """,
    "arccos": """The angle in 0..π whose cosine is x, elementwise: ∂y/∂x = −1/√(1 − x²).

        At ±1 the rate is −inf; beyond, y is nan, with NumPy's warning.

        >>> x = tg.Tensor(0.6, requires_grad=True)
        >>> round(tg.grad(tg.arccos(x), x).item(), 12)
        -1.25
        """,
    "arctan": """The angle in −π/2..π/2 whose tangent is x, elementwise: ∂y/∂x = 1/(1 + x²).

        >>> x = tg.Tensor(2.0, requires_grad=True)
        >>> tg.grad(tg.arctan(x), x).item()
        0.2
        """,
    "arctan2": """The angle in −π..π of the point (b, a), elementwise: ∂y/∂a = b/(a² + b²), ∂y/∂b = −a/(a² + b²).

        At the origin there is no rate: nan, with NumPy's warning.

        >>> a, b = tg.Tensor(1.0, requires_grad=True), tg.Tensor(0.0, requires_grad=True)
        >>> [g.item() for g in tg.grad(tg.arctan2(a, b), [a, b])]
        [0.0, -1.0]

        ValueError where the shapes do not broadcast.
        """,
    "sinh": """(e^x − e^−x) / 2, elementwise: ∂y/∂x = cosh x.

        >>> x = tg.Tensor(0.0, requires_grad=True)
        >>> tg.sinh(x).item(), tg.grad(tg.sinh(x), x).item()
        (0.0, 1.0)
        """,
    "cosh": """(e^x + e^−x) / 2, elementwise: ∂y/∂x = sinh x.

        >>> x = tg.Tensor(0.0, requires_grad=True)
        >>> tg.cosh(x).item(), tg.grad(tg.cosh(x), x).item()
        (1.0, 0.0)
        """,
    "arcsinh": """The x of which this is the sinh, elementwise: ∂y/∂x = 1/√(x² + 1).

        >>> x = tg.Tensor(0.75, requires_grad=True)
        >>> round(tg.grad(tg.arcsinh(x), x).item(), 12)
        0.8
        """,
    "arccosh": """The number from 0 on of which x is the cosh, elementwise: ∂y/∂x = 1/√(x² − 1). x is 1 or more.

        >>> x = tg.Tensor(1.25, requires_grad=True)
        >>> round(tg.grad(tg.arccosh(x), x).item(), 12)
        1.333333333333
        """,
    "arctanh": """The number of which x is the tanh, elementwise: ∂y/∂x = 1/(1 − x²). x is within −1..1.

        >>> x = tg.Tensor(0.5, requires_grad=True)
        >>> round(tg.grad(tg.arctanh(x), x).item(), 12)
        1.333333333333
        """,
    "exp2": """2^x, elementwise: ∂y/∂x = y·ln 2.

        >>> x = tg.Tensor(3.0, requires_grad=True)
        >>> tg.exp2(x).item(), (tg.grad(tg.exp2(x), x) / np.log(2)).item()
        (8.0, 8.0)
        """,
    "log2": """The logarithm to base 2, elementwise (bits): ∂y/∂x = 1/(x·ln 2).

        >>> x = tg.Tensor(8.0, requires_grad=True)
        >>> tg.log2(x).item(), (tg.grad(tg.log2(x), x) * np.log(2)).item()
        (3.0, 0.125)
        """,
    "log10": """The logarithm to base 10, elementwise: ∂y/∂x = 1/(x·ln 10).

        >>> x = tg.Tensor(100.0, requires_grad=True)
        >>> tg.log10(x).item(), round((tg.grad(tg.log10(x), x) * np.log(10)).item(), 12)
        (2.0, 0.01)
        """,
    "cbrt": """The cube root, elementwise, of negative numbers too: ∂y/∂x = 1/(3y²), inf at 0.

        >>> x = tg.Tensor(-8.0, requires_grad=True)
        >>> tg.cbrt(x).item(), round(tg.grad(tg.cbrt(x), x).item(), 12)
        (-2.0, 0.083333333333)
        """,
    "reciprocal": """1/x, elementwise: ∂y/∂x = −y².

        >>> x = tg.Tensor(2.0, requires_grad=True)
        >>> tg.reciprocal(x).item(), tg.grad(tg.reciprocal(x), x).item()
        (0.5, -0.25)
        """,
    "hypot": """√(a² + b²), elementwise, without overflow: ∂y/∂a = a/y, ∂y/∂b = b/y, and 0 where y = 0.

        >>> a, b = tg.Tensor(3.0, requires_grad=True), tg.Tensor(4.0, requires_grad=True)
        >>> y = tg.hypot(a, b)
        >>> y.item(), [round(g.item(), 12) for g in tg.grad(y, [a, b])]
        (5.0, [0.6, 0.8])

        ValueError where the shapes do not broadcast.
        """,
    "logaddexp": """ln(e^a + e^b), elementwise: ∂y/∂a = e^(a−y), the share of a in the sum. Exact at ±1000.

        −inf is masked out; where both are, y = −inf with gradient 0.

        >>> a, b = tg.Tensor([0.0, -np.inf], requires_grad=True), tg.Tensor([0.0, 1000.0], requires_grad=True)
        >>> y = tg.logaddexp(a, b)
        >>> y.tolist() == [np.log(2.0), 1000.0], tg.grad(y, a, 1.0).tolist()
        (True, [0.5, 0.0])

        ValueError where the shapes do not broadcast.
        """,
    "mod": """The remainder a − b·⌊a/b⌋, elementwise, with the sign of b: `a % b`. ∂y/∂a = 1, ∂y/∂b = −⌊a/b⌋.

        Where a is a multiple of b, y jumps; the rate is that of the side on which y is near 0.

        >>> a, b = tg.Tensor(7.5, requires_grad=True), tg.Tensor(2.0, requires_grad=True)
        >>> tg.mod(a, b).item(), [g.item() for g in tg.grad(a % b, [a, b])]
        (1.5, [1.0, -3.0])

        Division by 0 gives nan and NumPy's warning; ValueError where the shapes do not broadcast.
        """,
    "floor": """The whole number at or below x, elementwise: the rate is 0 everywhere.

        >>> tg.floor(tg.Tensor([-0.5, 1.5])).tolist()
        [-1.0, 1.0]
        """,
    "ceil": """The whole number at or above x, elementwise: the rate is 0 everywhere.

        >>> tg.ceil(tg.Tensor([-1.5, 0.5])).tolist()
        [-1.0, 1.0]
        """,
    "copysign": """|a| with the sign of b, elementwise: ∂y/∂a = 1 where a kept its sign, −1 where not, 0 at a = 0.

        >>> a = tg.Tensor([1.0, 2.0], requires_grad=True)
        >>> y = tg.copysign(a, [-1.0, 1.0])
        >>> y.tolist(), tg.grad(y, a, 1.0).tolist()
        ([-1.0, 2.0], [-1.0, 1.0])

        ValueError where the shapes do not broadcast.
        """,
    "elu": """x where x > 0, else e^x − 1, elementwise: ∂y/∂x = 1 where x > 0, else y + 1.

        >>> x = tg.Tensor([-np.log(2.0), 3.0], requires_grad=True)
        >>> tg.elu(x).data.round(12).tolist(), tg.grad(tg.elu(x), x, 1.0).round(12).tolist()
        ([-0.5, 3.0], [0.5, 1.0])
        """,
    "clip": """x kept within low..high, elementwise; None leaves that side open: ∂y/∂x = 1 within and on the bounds.

        Outside it is 0, and the credit goes to the bound where that is a tensor. NumPy's names for the bounds, min and
        max, are taken too.

        >>> x = tg.Tensor([-2.0, 0.5, 1.0, 3.0], requires_grad=True)
        >>> tg.clip(x, -1.0, 1.0).tolist(), tg.grad(tg.clip(x, -1.0, 1.0), x, 1.0).tolist()
        ([-1.0, 0.5, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0])
        """,
    "where": """a where the condition c holds, else b, elementwise; credit goes to the one that was taken, none to c.

        Both branches are computed, and a branch that is not taken still multiplies its own rates: 0·inf is nan. So
        make its input safe first, which takes a second where:

        >>> x = tg.Tensor([1.0, -1.0], requires_grad=True)
        >>> ok = x > 0
        >>> y = tg.where(ok, tg.log(tg.where(ok, x, 1.0)), 0.0)
        >>> y.tolist(), tg.grad(y, x, 1.0).tolist()
        ([0.0, 0.0], [1.0, 0.0])

        ValueError where the three shapes do not broadcast.
        """,
    # Reductions
    "sum": """Σx over `axis`: all axes (None), one, or a tuple of them. The gradient is given back to every entry.

        `keepdims=True` leaves the summed axes, with length 1. The sum of nothing is 0.

        >>> x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> tg.sum(x, axis=1).tolist(), tg.grad(tg.sum(x, axis=1), x, [1.0, 10.0]).tolist()
        ([3.0, 7.0], [[1.0, 1.0], [10.0, 10.0]])

        ValueError for an axis that x does not have.
        """,
    "mean": """Σx / n over the n entries along `axis` (all axes, one, or a tuple): ∂y/∂x = 1/n for each.

        >>> x = tg.Tensor([1.0, 2.0, 6.0, 7.0], requires_grad=True)
        >>> tg.mean(x).item(), tg.grad(tg.mean(x), x).tolist()
        (4.0, [0.25, 0.25, 0.25, 0.25])

        The mean of nothing is nan, with NumPy's warning. ValueError for an axis that x does not have.
        """,
    "var": """The variance Σ(x − mean)² / (n − ddof) over the n entries along `axis`: ∂y/∂x = 2(x − mean) / (n − ddof).

        >>> x = tg.Tensor([1.0, 3.0], requires_grad=True)
        >>> tg.var(x).item(), tg.var(x, ddof=1).item(), tg.grad(tg.var(x), x).tolist()
        (1.0, 2.0, [-1.0, 1.0])

        ValueError for n ≤ ddof, and for an axis that x does not have.
        """,
    "std": """The standard deviation √var over the n entries along `axis`: ∂y/∂x = (x − mean) / ((n − ddof)·y).

        Where all entries are equal, y = 0 and the gradient is 0.

        >>> x = tg.Tensor([[1.0, 3.0], [2.0, 2.0]], requires_grad=True)
        >>> y = tg.std(x, axis=1)
        >>> y.tolist(), tg.grad(y, x, 1.0).round(12).tolist()
        ([1.0, 0.0], [[-0.5, 0.5], [0.0, 0.0]])

        ValueError for n ≤ ddof, and for an axis that x does not have.
        """,
    "prod": """Πx over `axis` (all axes, one, or a tuple): ∂y/∂x = the product of the others, zeros among them or not.

        >>> x = tg.Tensor([2.0, 0.0, 3.0], requires_grad=True)
        >>> tg.prod(x).item(), tg.grad(tg.prod(x), x).tolist()
        (0.0, [0.0, 6.0, 0.0])

        The product of nothing is 1. ValueError for an axis that x does not have.
        """,
    "max": """The largest entry along `axis` (all axes, one, or a tuple): the gradient goes to it, shared among ties.

        >>> x = tg.Tensor([2.0, 1.0, 2.0], requires_grad=True)
        >>> tg.max(x).item(), tg.grad(tg.max(x), x).tolist()
        (2.0, [0.5, 0.0, 0.5])

        ValueError for no entries, and for an axis that x does not have.
        """,
    "min": """The smallest entry along `axis` (all axes, one, or a tuple): the gradient goes to it, shared among ties.

        >>> x = tg.Tensor([2.0, 1.0, 2.0], requires_grad=True)
        >>> tg.min(x).item(), tg.grad(tg.min(x), x).tolist()
        (1.0, [0.0, 1.0, 0.0])

        ValueError for no entries, and for an axis that x does not have.
        """,
    "norm": """The 2-norm ‖x‖ = √Σx² over `axis` (all axes, one, or a tuple): ∂y/∂x = x/y, and 0 where y = 0.

        Squares neither overflow nor underflow.

        >>> x = tg.Tensor([3.0, 4.0], requires_grad=True)
        >>> tg.norm(x).item(), tg.grad(tg.norm(x), x).round(12).tolist()
        (5.0, [0.6, 0.8])

        ValueError for an axis that x does not have.
        """,
    "logsumexp": """ln Σe^x over `axis` (the last; or None for all, or a tuple): ∂y/∂x = softmax(x).

        Exact at ±1000. Entries −inf are masked out; where all are, y = −inf with gradient 0.

        >>> x = tg.Tensor([[0.0, 0.0], [-np.inf, -np.inf]], requires_grad=True)
        >>> y = tg.logsumexp(x)
        >>> y.tolist() == [np.log(2.0), -np.inf], tg.grad(y, x, 1.0).tolist()
        (True, [[0.5, 0.5], [0.0, 0.0]])
        """,
    "softmax": """e^x / Σe^x along `axis` (the last): ẋ = y·(ẏ − Σ ẏ·y) for an incoming gradient ẏ.

        Exact at ±1000. Entries −inf are masked out and give 0; where all are, the row is zeros.

        >>> x = tg.Tensor([0.0, np.log(3.0), -np.inf], requires_grad=True)
        >>> y = tg.softmax(x)
        >>> y.data.round(12).tolist(), tg.grad(y, x, [-1.0, 0.0, 0.0]).round(12).tolist()
        ([0.25, 0.75, 0.0], [-0.1875, 0.1875, 0.0])
        """,
    "log_softmax": """x − logsumexp(x) along `axis` (the last): ẋ = ẏ − softmax(x)·Σẏ for an incoming gradient ẏ.

        Exact at ±1000, also where the softmax itself is 0. Entries −inf are masked out and stay −inf.

        >>> x = tg.Tensor([0.0, 1000.0, -np.inf], requires_grad=True)
        >>> y = tg.log_softmax(x)
        >>> y.tolist(), tg.grad(y, x, [1.0, 0.0, 0.0]).tolist()
        ([-1000.0, 0.0, -inf], [1.0, -1.0, 0.0])
        """,
    "cumsum": """Running sums along `axis` (None: of the flattened x); an entry's gradient is the sum of those after it.

        >>> x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> y = tg.cumsum(x)
        >>> y.tolist(), tg.grad(y, x, [1.0, 10.0, 100.0]).tolist()
        ([1.0, 3.0, 6.0], [111.0, 110.0, 100.0])

        ValueError for an axis that x does not have.
        """,
    "cumprod": """Running products along `axis` (None: of the flattened x), zeros among the factors or not.

        >>> x = tg.Tensor([2.0, 0.0, 3.0], requires_grad=True)
        >>> y = tg.cumprod(x)
        >>> y.tolist(), tg.grad(y, x, [1.0, 10.0, 100.0]).tolist()
        ([2.0, 0.0, 0.0], [1.0, 620.0, 0.0])

        ValueError for an axis that x does not have.
        """,
    "sort": """The entries in rising order along `axis` (the last; None: of the flattened x); each keeps its gradient.

        Entries that tie are in the order in which they stood, and so is their credit.

        >>> x = tg.Tensor([3.0, 1.0, 2.0], requires_grad=True)
        >>> y = tg.sort(x)
        >>> y.tolist(), tg.grad(y, x, [1.0, 10.0, 100.0]).tolist()
        ([1.0, 2.0, 3.0], [100.0, 1.0, 10.0])

        ValueError for an axis that x does not have.
        """,
    # Values moved about
    "reshape": """The same entries in the same order under another shape; one length may be −1: what is left over.

        >>> tg.reshape(tg.Tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).tolist()
        [[1.0, 2.0], [3.0, 4.0]]

        ValueError where the number of entries differs.
        """,
    "transpose": """The axes in the order `axes`; without it, in reverse order, as `x.T` has them.

        >>> tg.transpose(tg.Tensor(np.zeros((2, 3, 4))), (2, 0, 1)).shape
        (4, 2, 3)

        ValueError where `axes` does not name every axis once.
        """,
    "swapaxes": """Two axes exchanged.

        >>> tg.swapaxes(tg.Tensor(np.zeros((2, 3, 4))), -1, -2).shape
        (2, 4, 3)

        ValueError for an axis that x does not have.
        """,
    "expand_dims": """An axis of length 1 put in at place `axis` (or several, at a tuple of places) of the new shape.

        >>> tg.expand_dims(tg.Tensor(np.zeros((2, 3))), -1).shape
        (2, 3, 1)

        ValueError for a place that the new shape does not have.
        """,
    "squeeze": """The axes of length 1 taken out: all of them, or those that `axis` names.

        >>> tg.squeeze(tg.Tensor(np.zeros((1, 3, 1))), axis=0).shape
        (3, 1)

        ValueError for a named axis of another length.
        """,
    "broadcast_to": """x repeated along new axes and along axes of length 1, to this shape; gradients are summed back.

        >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
        >>> y = tg.broadcast_to(x, (3, 2))
        >>> y.shape, tg.grad(y, x, 1.0).tolist()
        ((3, 2), [3.0, 3.0])

        ValueError where x does not broadcast to it.
        """,
    "moveaxis": """An axis (or several, as two tuples) moved to another place; the others keep their order.

        >>> tg.moveaxis(tg.Tensor(np.zeros((2, 3, 4))), 0, -1).shape
        (3, 4, 2)

        ValueError for an axis that x does not have.
        """,
    "repeat": """Each entry `repeats` times (a number, or one for each) along `axis` (None: of the flattened x).

        >>> x = tg.Tensor([1.0, 2.0], requires_grad=True)
        >>> y = tg.repeat(x, [1, 2])
        >>> y.tolist(), tg.grad(y, x, [1.0, 10.0, 100.0]).tolist()
        ([1.0, 2.0, 2.0], [1.0, 110.0])

        ValueError where there are not as many numbers as entries.
        """,
    "tile": """The whole of x beside itself, `reps` times along each axis (a number: along the last).

        >>> tg.tile(tg.Tensor([1.0, 2.0]), 2).tolist(), tg.tile(tg.Tensor([1.0, 2.0]), (2, 1)).shape
        ([1.0, 2.0, 1.0, 2.0], (2, 2))
        """,
    "roll": """The entries moved on by `shift` places along `axis` (None: of the flattened x), around the end.

        >>> tg.roll(tg.Tensor([1.0, 2.0, 3.0]), 1).tolist()
        [3.0, 1.0, 2.0]

        ValueError for an axis that x does not have.
        """,
    "tril": """The lower triangle of matrices (..., n, m), up to the k-th diagonal above the main one; 0 elsewhere.

        >>> tg.tril(tg.Tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[1.0, 0.0], [3.0, 4.0]]
        """,
    "triu": """The upper triangle of matrices (..., n, m), from the k-th diagonal above the main one on; 0 elsewhere.

        >>> tg.triu(tg.Tensor([[1.0, 2.0], [3.0, 4.0]]), k=1).tolist()
        [[0.0, 2.0], [0.0, 0.0]]
        """,
    "diag": """The k-th diagonal of a matrix; of a vector, the matrix that has it as its k-th diagonal and 0 elsewhere.

        >>> tg.diag(tg.Tensor([1.0, 2.0])).tolist(), tg.diag(tg.Tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        ([[1.0, 0.0], [0.0, 2.0]], [1.0, 4.0])

        ValueError for anything but a vector or a matrix.
        """,
    "vstack": """The parts joined along the first axis, vectors as one row each.

        >>> tg.vstack([tg.Tensor([1.0, 2.0]), tg.Tensor([3.0, 4.0])]).tolist()
        [[1.0, 2.0], [3.0, 4.0]]

        ValueError for no parts, and for shapes that differ along another axis.
        """,
    "hstack": """The parts joined along the second axis; vectors and numbers end to end.

        >>> tg.hstack([tg.Tensor([1.0, 2.0]), tg.Tensor([3.0])]).tolist()
        [1.0, 2.0, 3.0]

        ValueError for no parts, and for shapes that differ along another axis.
        """,
    "take_along_axis": """The entries of x at `indices` along `axis`, an index for each place (as many axes as x).

        The entry of the right class in each row of logits (B, K), for one: `indices` is `classes[:, None]`, axis 1.

        >>> x = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> y = tg.take_along_axis(x, [[1], [0]], axis=1)
        >>> y.tolist(), tg.grad(y, x, 1.0).tolist()
        ([[2.0], [3.0]], [[0.0, 1.0], [1.0, 0.0]])

        IndexError for an index out of bounds, ValueError for indices with another number of axes.
        """,
    "flip": """The entries in reverse order along `axis`: all axes (None), one, or a tuple of them.

        >>> tg.flip(tg.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1).tolist()
        [[2.0, 1.0], [4.0, 3.0]]

        ValueError for an axis that x does not have.
        """,
    "concat": """The parts joined along an axis: (n₁, …) and (n₂, …) give (n₁ + n₂, …), and each gets its piece back.

        `concatenate` is the same function, under NumPy's name.

        >>> a, b = tg.Tensor([1.0], requires_grad=True), tg.Tensor([2.0, 3.0], requires_grad=True)
        >>> y = tg.concat([a, b])
        >>> y.tolist(), [g.tolist() for g in tg.grad(y, [a, b], [1.0, 10.0, 100.0])]
        ([1.0, 2.0, 3.0], [[1.0], [10.0, 100.0]])

        ValueError for no parts, and for shapes that differ along another axis.
        """,
    "stack": """The parts, all of one shape, joined along a new axis: T of shape (B, d) give (T, B, d).

        What stands at step t of a sequence is collected in a list and stacked at the end.

        >>> h = [tg.Tensor([1.0, 2.0]), tg.Tensor([3.0, 4.0])]
        >>> tg.stack(h).tolist(), tg.stack(h, axis=1).tolist()
        ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 3.0], [2.0, 4.0]])

        ValueError for no parts, and for shapes that differ.
        """,
    "split": """A list of pieces along `axis`: so many equal ones, or cut before each place of a list.

        >>> [part.tolist() for part in tg.split(tg.Tensor([1.0, 2.0, 3.0, 4.0]), 2)]
        [[1.0, 2.0], [3.0, 4.0]]
        >>> [part.tolist() for part in tg.split(tg.Tensor([1.0, 2.0, 3.0, 4.0]), [1, 3])]
        [[1.0], [2.0, 3.0], [4.0]]

        ValueError where the length does not divide into equal pieces.
        """,
    "pad": """`constant_values` put before and after along each axis: a number, a pair, or a pair for each axis.

        `mode` may be an entry's own: "edge", "reflect", "symmetric" or "wrap", as NumPy's; credit goes to that entry.

        >>> tg.pad(tg.Tensor([1.0, 2.0]), (2, 1)).tolist(), tg.pad(tg.Tensor([1.0, 2.0]), 1, mode="edge").tolist()
        ([0.0, 0.0, 1.0, 2.0, 0.0], [1.0, 1.0, 2.0, 2.0])

        ValueError for other modes, for negative widths and for pairs that do not fit the axes.
        """,
    "take": """The entries at `indices` along `axis` (None: of the flattened x); one taken twice gets both gradients.

        >>> x = tg.Tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> y = tg.take(x, [2, 0, 2])
        >>> y.tolist(), tg.grad(y, x, [1.0, 10.0, 100.0]).tolist()
        ([3.0, 1.0, 3.0], [10.0, 0.0, 101.0])

        IndexError for an index out of bounds; negative ones count from the end.
        """,
    "embedding": """Rows of a table (n, d): ids of any shape (...), whole numbers 0..n−1, give y (..., d).

        A row that is read several times collects all its gradients.

        >>> table = tg.Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> y = tg.embedding(table, [1, 1])
        >>> y.tolist(), tg.grad(y, table, [[1.0, 0.0], [10.0, 0.0]]).tolist()
        ([[3.0, 4.0], [3.0, 4.0]], [[0.0, 0.0], [11.0, 0.0]])

        IndexError for an id outside 0..n−1 (no id counts from the end), TypeError for ids that are not whole numbers.
        """,
    "astype": """The same numbers in another dtype; the gradient comes back in the dtype of x.

        Converted to integers, Booleans or complex numbers, x is a constant: no credit passes.

        >>> x = tg.Tensor([1.5, 2.5], requires_grad=True)
        >>> y = tg.astype(x, np.float32)
        >>> y.dtype, tg.grad(y, x, 1.0).dtype, x.astype(int).requires_grad
        (dtype('float32'), dtype('float64'), False)
        """,
}
METHODS = {
    "reshape": "The same entries under another shape, given as one tuple or length by length: `x.reshape(2, -1)`.",
    "transpose": "The axes in another order, given as one tuple or one by one; without any, in reverse order.",
    "flatten": "The same entries as one axis.",
    "T": "The axes in reverse order: of a matrix, its transpose.",
    "mT": "The last two axes exchanged: a batch of matrices, each transposed. ValueError for fewer axes.",
    "ravel": 'The same entries as one axis; `order="F"` takes them column by column.',
    "round": "The nearest whole numbers, or with so many decimals; halves to the even side. The rate is 0.",
    "diagonal": "The entries whose index along axis2 is that along axis1 plus `offset`, along a new last axis.",
    "trace": "The sum of a diagonal: see `diagonal`.",
    "all": "NumPy's all of the values, a plain result: it has no gradient.",
    "any": "NumPy's any of the values, a plain result: it has no gradient.",
    "argmax": "Where the largest entry stands (of several, the first): a plain array, without gradient.",
    "argmin": "Where the smallest entry stands (of several, the first): a plain array, without gradient.",
    "argsort": "The indices that would sort the entries: a plain array, without gradient. `tg.sort` has one.",
    "nonzero": "The indices of the entries that are not 0, a plain array for each axis.",
    "searchsorted": "Where values would go into this sorted vector: a plain array, without gradient.",
    "item": "The one entry as a Python number; ValueError for more than one.",
    "tolist": "The values as nested lists of Python numbers.",
}


def attach() -> None:
    """Give every operation its text, and those of the table the signature that their local rates tell."""
    for row in (*ops.TABLE, *compositions.TABLE):
        if row.operation.__name__ not in REFERENCE and row.numpy:
            row.operation.__doc__ = f"numpy.{row.operation.__name__} for tensors."
    for name, text in REFERENCE.items():
        function = getattr(compositions, name, None) or getattr(ops, name)
        function.__doc__ = inspect.cleandoc(text)
        if rules := getattr(function, "rules", ()):
            rule = next(rule for rule in rules if rule is not None)
            _, _, *inputs = inspect.signature(rule).parameters.values()
            function.__signature__ = inspect.Signature([p.replace(annotation=p.empty) for p in inputs])
            function.__module__ = ops.__name__
    for name, text in METHODS.items():
        method = vars(Tensor)[name]
        method.__doc__ = text
        if not isinstance(method, property):
            method.__name__, method.__qualname__ = name, f"Tensor.{name}"
