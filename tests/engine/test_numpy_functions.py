"""NumPy's functions on tensors: NumPy's own value, shape and dtype, and gradients to the second order.

Every expression is evaluated twice, on arrays by NumPy and on tensors by the table; the name of a test is the
expression.
"""

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinygrad_seq as tg
from tinygrad_seq.engine import methods, numpy_functions
from tinygrad_seq.testing import check_grads

# x, y: (2, 3), p positive, u within -1..1, b above 1; v (4,), m (3, 3), c (2, 3, 4), s a number
SHAPES = {
    "x": (2, 3),
    "y": (2, 3),
    "p": (2, 3),
    "u": (2, 3),
    "b": (2, 3),
    "v": (4,),
    "m": (3, 3),
    "c": (2, 3, 4),
    "s": (),
}


def expressions(text: str) -> list[str]:
    return text.split()


DIFFERENTIABLE = expressions("""
np.negative(x) np.exp(x) np.expm1(x) np.log(p) np.log1p(p) np.log2(p) np.log10(p) np.exp2(x) np.sqrt(p) np.square(x)
np.cbrt(p) np.reciprocal(p) np.abs(x) np.absolute(x) np.fabs(x) np.sign(x) np.sin(x) np.cos(x) np.tan(u) np.arcsin(u)
np.arccos(u) np.arctan(x) np.sinh(x) np.cosh(x) np.tanh(x) np.arcsinh(x) np.arccosh(b) np.arctanh(u) np.deg2rad(x)
np.rad2deg(x) np.radians(x) np.degrees(x) np.floor(x) np.ceil(x) np.trunc(x) np.rint(x) np.round(x) np.round(x,1)
np.around(x,decimals=-1) np.positive(x) np.conjugate(x) np.real(x) np.copy(x) np.nan_to_num(x)
np.nan_to_num(x,nan=1.0,posinf=2.0) np.tanh(x,dtype=np.float64)

np.add(x,y) np.subtract(x,y) np.multiply(x,y) np.divide(x,b) np.true_divide(x,b) np.power(p,x) np.power(x,2)
np.maximum(x,y) np.minimum(x,y) np.arctan2(x,y) np.hypot(x,y) np.logaddexp(x,y) np.logaddexp2(x,y) np.mod(x,b)
np.remainder(x,b) np.floor_divide(x,b) np.copysign(x,y) np.add(x,s) np.add(x,1) np.add(x,y,dtype=np.float32)
np.divmod(x,b)[0] np.divmod(x,b)[1] np.clip(x,-0.5,0.75) np.clip(x,a_min=-0.5,a_max=None) np.clip(x,None,y)
np.where(x>0,x,y)

np.sum(x) np.sum(x,axis=1) np.sum(x,0,keepdims=True) np.sum(c,axis=(0,-1)) np.sum(x,dtype=np.float64)
np.sum(x,out=None) np.mean(x) np.mean(x,axis=(0,1)) np.mean(x,1,keepdims=True) np.mean(x,dtype=np.float64)
np.var(x,axis=1) np.var(x,ddof=1) np.var(c,(0,2),keepdims=True) np.std(x,axis=0) np.std(x,axis=1,ddof=1) np.prod(x)
np.prod(x,axis=1) np.prod(c,axis=(0,2),keepdims=True) np.max(x) np.max(x,axis=1) np.amax(x,axis=0,keepdims=True)
np.min(c,axis=(0,1)) np.amin(x) np.ptp(x) np.ptp(x,axis=1,keepdims=True) np.average(x) np.average(x,axis=1)
np.average(x,weights=p) np.average(x,axis=0,weights=[1.0,3.0]) np.average(x,1,p,returned=True)[1]
np.average(c,axis=(2,0),weights=np.ones((4,2))) np.median(x) np.median(x,axis=0) np.median(x,axis=1,keepdims=True)
np.median(c,axis=(0,2)) np.median(v) np.cumsum(x) np.cumsum(x,axis=1) np.cumprod(x) np.cumprod(c,axis=-1) np.diff(v)
np.diff(c,n=2,axis=2) np.diff(x,axis=0) np.diff(x,prepend=0.5) np.diff(x,append=y,axis=0) np.trapezoid(x)
np.trapezoid(x,dx=0.5,axis=0) np.trapezoid(x,x=np.array([0.0,1.0,4.0])) np.trapezoid(x,y)

np.matmul(x,m) np.dot(x,m) np.dot(v,v) np.dot(s,x) np.dot(x,2.0) np.dot(c,np.ones((2,4,3))) np.inner(x,y)
np.inner(v,v) np.inner(s,x) np.vdot(x,y) np.outer(v,x) np.tensordot(x,m,1) np.tensordot(c,x,axes=([0,1],[0,1]))
np.tensordot(x,y) np.tensordot(v,v,axes=0) np.kron(x,m) np.kron(v,x) np.cross(x,y) np.cross(m,m,axis=0) np.vecdot(x,y)
np.trace(m) np.trace(c,1,1,2) np.einsum("ij,jk->ik",x,m) np.einsum("ij,jk",x,m,optimize=True)
np.einsum(x,[0,1],m,[1,2]) np.einsum(x,[0,1],[1,0]) np.einsum("ii->i",m) np.linalg.norm(x) np.linalg.norm(x,axis=1)
np.linalg.norm(x,"fro") np.linalg.norm(x,axis=1,keepdims=True) np.linalg.norm(x,1,axis=1)
np.linalg.norm(x,np.inf,axis=0) np.linalg.vector_norm(x,axis=1) np.linalg.matrix_norm(c) np.linalg.matmul(x,m)
np.linalg.outer(v,v) np.linalg.tensordot(x,m,axes=1) np.linalg.vecdot(x,y) np.linalg.cross(x,y) np.linalg.trace(m)
np.linalg.trace(m,offset=1) np.linalg.diagonal(m) np.linalg.matrix_transpose(x) np.linalg.multi_dot([x,m,m])

np.reshape(x,(3,2)) np.reshape(x,-1) np.reshape(x,(3,2),order="F") np.ravel(c) np.ravel(c,order="F") np.transpose(c)
np.transpose(c,(2,0,1)) np.transpose(c,axes=[1,0,2]) np.swapaxes(c,0,2) np.moveaxis(c,0,-1) np.moveaxis(c,[0,1],[2,0])
np.rollaxis(c,2) np.expand_dims(x,1) np.expand_dims(x,axis=(0,3)) np.squeeze(np.expand_dims(x,1))
np.broadcast_to(x,(2,2,3)) np.broadcast_arrays(x,s)[1] np.atleast_1d(s) np.atleast_2d(v) np.atleast_3d(x)
np.atleast_3d(v) np.atleast_1d(x,s)[1] np.flip(x) np.flip(c,axis=(0,2)) np.fliplr(x) np.flipud(x) np.rot90(x)
np.rot90(c,2,(1,2)) np.roll(x,1) np.roll(x,-1,axis=1) np.roll(c,(1,2),axis=(0,2)) np.repeat(x,2) np.repeat(x,3,axis=0)
np.repeat(x,[1,0,2],axis=1) np.tile(x,2) np.tile(x,(2,1,2)) np.tile(c,(1,2)) np.concatenate([x,y])
np.concatenate((x,y),axis=-1) np.concatenate([x,v],axis=None) np.concatenate([x,y],dtype=np.float64)
np.stack([x,y],axis=1) np.vstack([v,v]) np.vstack([x,m]) np.hstack([v,v]) np.hstack([x,y]) np.dstack([x,y])
np.column_stack([v,v]) np.column_stack([x,y]) np.append(x,y) np.append(x,y,axis=0) np.append(x,1.0)
np.split(x,3,axis=1)[1] np.split(v,[1,3])[1] np.array_split(v,3)[2] np.array_split(x,[1],1)[0] np.hsplit(x,3)[2]
np.vsplit(x,2)[1] np.dsplit(c,2)[0] np.pad(x,1) np.pad(x,((1,0),(0,2)),constant_values=2)
np.pad(x,1,constant_values=(1.0,2.0)) np.pad(x,1,"edge") np.pad(x,2,"reflect") np.pad(x,1,mode="symmetric")
np.pad(x,((0,0),(1,4)),"wrap") np.take(x,[2,0,2]) np.take(x,[[1,1]],axis=1) np.take(x,1,axis=0)
np.take_along_axis(x,np.array([[0,2],[1,1]]),axis=1) np.take_along_axis(x,np.array([5,0]),None)
np.compress([True,False,True],x,axis=1) np.extract([[1,0,1],[0,1,0]],x) np.delete(x,1,axis=1) np.resize(x,(3,4))
np.tril(m) np.tril(c,-1) np.triu(m,k=1) np.triu(v) np.diag(v) np.diag(v,-1) np.diag(m,1) np.diagflat(x) np.diagonal(c)
np.diagonal(m,1) np.sort(x) np.sort(c,axis=0) np.sort(x,axis=None) np.sort(x,kind="stable") np.fft.fftshift(v)
np.fft.ifftshift(x,axes=1) np.lib.stride_tricks.sliding_window_view(v,2)

np.add.reduce(x) np.add.reduce(c,axis=(0,2),keepdims=True) np.add.reduce(x,axis=None) np.multiply.reduce(x,axis=1)
np.maximum.reduce(x) np.minimum.reduce(x,axis=1) np.logaddexp.reduce(x,axis=1) np.add.accumulate(x,axis=1)
np.multiply.accumulate(x) np.maximum.accumulate(x,axis=1) np.minimum.accumulate(c,axis=2) np.add.outer(v,x)
np.multiply.outer(x,s) np.maximum.outer(v,v) np.subtract.outer(x,v) np.logaddexp.outer(v,v)

x.sum(1) x.mean(axis=1,keepdims=True) x.var(ddof=1) x.std(0) x.prod(axis=1) x.max(1) x.min() x.cumsum(1)
x.cumprod(axis=1) x.clip(0.1,0.5) x.clip(min=0.1) x.round() x.round(1) x.repeat(2,axis=1) x.ravel() x.ravel(order="F")
x.flatten() x.flatten("F") x.reshape(3,2,order="F") x.reshape((3,2)) x.transpose(1,0) c.mT x.T c.swapaxes(0,1)
x.squeeze() x.take([1,1]) x.dot(m) m.diagonal() m.trace() m.diagonal(1) m.trace(offset=1) x%b x//b divmod(x,b)[1] 3%b
3//b x**2 abs(x)
""")  # fmt: skip
if hasattr(np, "matrix_transpose"):
    DIFFERENTIABLE += ["np.matrix_transpose(c)", "np.permute_dims(c,(2,0,1))"]
if hasattr(np, "astype"):
    DIFFERENTIABLE += ["np.astype(x,np.float32)"]
if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    DIFFERENTIABLE += ["np.cumulative_sum(v)", "np.cumulative_sum(x,axis=1)", "np.cumulative_prod(v)",
                       "np.clip(x,min=0.1,max=0.5)"]  # fmt: skip

PLAIN = expressions("""
np.argmax(x) np.argmax(x,axis=1,keepdims=True) np.argmin(x,axis=0) np.argsort(x) np.argsort(x,axis=0)
np.argpartition(v,1) np.argwhere(x>0) np.nonzero(x) np.flatnonzero(x) np.count_nonzero(x)
np.searchsorted(np.sort(v),s) np.where(x>0) np.searchsorted([0.0,1.0],x,side="right") np.digitize(x,[0.0,1.0])
np.bincount(np.array([0,1,1]),weights=v[:3]) np.lexsort((v,v)) np.unique(x) np.unique(x,return_counts=True)
np.histogram(x,3) np.histogram_bin_edges(x,3) np.isin(x,[1.0]) np.intersect1d(v,v) np.union1d(v,v)
np.setdiff1d(v,v[:2]) np.any(x) np.any(x>0,axis=1) np.all(x) np.all(x,axis=1,keepdims=True) np.isnan(x) np.isfinite(x)
np.isinf(x) np.isposinf(x) np.isneginf(x) np.signbit(x) np.isreal(x) np.iscomplex(x) np.imag(x) np.isclose(x,y)
np.isclose(x,x) np.allclose(x,x) np.allclose(x,y,rtol=0.5) np.array_equal(x,x) np.array_equal(x,y) np.array_equiv(x,y)
np.equal(x,y) np.not_equal(x,y) np.less(x,y) np.less_equal(x,y) np.greater(x,0) np.greater_equal(x,y)
np.logical_not(x) np.logical_and(x,y) np.logical_or(x,y) np.logical_xor(x,y) np.nanargmax(x) np.nanargmin(x)
np.shape(x) np.ndim(x) np.size(x) np.size(x,1) np.zeros_like(x) np.zeros_like(x,dtype=int) np.ones_like(x)
np.empty_like(x).shape np.full_like(x,2.0) np.full_like(x,s) np.result_type(x,np.float32) np.iscomplexobj(x)
np.isrealobj(x) np.diag_indices_from(m) np.tril_indices_from(m) np.triu_indices_from(m,1) np.common_type(x)
np.may_share_memory(x,y) np.shares_memory(x,y) np.array2string(x) np.array_str(x) np.can_cast(x.dtype,float)
np.min_scalar_type(x) np.array_repr(x)
x.argmax() x.argmin(axis=1) x.argsort(axis=0) x.all() x.any(axis=1) x.nonzero() np.sort(v).searchsorted(s) ~(x>0)
""")  # fmt: skip
OF_MASKS = expressions("np.bitwise_and(j,k) np.bitwise_or(j,k) np.bitwise_xor(j,k) np.invert(j) j&k j|k j^k ~j")


def arrays(dtype: Any, shape_of_x: tuple[int, ...] = (2, 3)) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    found = {}
    for name, shape in SHAPES.items():
        shape = shape_of_x if shape == (2, 3) else shape
        values = (rng.permutation(1 + int(np.prod(shape))) - 2.3)[1:].reshape(shape) / 4  # no two are equal
        if name in "pub":
            values = {"p": 0.3 + abs(values), "u": np.tanh(values), "b": 1.2 + abs(values)}[name]
        found[name] = values.astype(dtype) if np.dtype(dtype).kind == "f" else np.ceil(8 * values).astype(dtype)
    return found


def evaluated(expression: str, values: dict[str, Any]) -> Any:
    return eval(expression, {"np": np} | values)


def pieces(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from pieces(part)
    else:
        yield result


def same(mine: Any, numpys: Any, exact: bool = False) -> None:
    for a, b in zip(pieces(mine), pieces(numpys), strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            assert a == b
            continue
        plain = a.data if isinstance(a, tg.Tensor) else np.asarray(a)
        assert (plain.shape, plain.dtype) == (b.shape, b.dtype)
        if exact or b.dtype.kind != "f":
            np.testing.assert_array_equal(plain, b)
        else:
            eps = float(np.finfo(b.dtype).eps)
            np.testing.assert_allclose(plain, b, rtol=8 * eps, atol=8 * eps)


def test_every_function_that_is_answered_is_tried_here() -> None:
    tried = set(re.findall(r"np\.([\w.]+)\(", " ".join([*DIFFERENTIABLE, *PLAIN, *OF_MASKS])))
    assert {numpy_functions.name_of(function) for function in methods.NUMPY_FUNCTIONS} <= tried
    for kind, table in {"reduce": numpy_functions.REDUCE, "accumulate": numpy_functions.ACCUMULATE}.items():
        assert {f"{ufunc.__name__}.{kind}" for ufunc in table} <= tried


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8])
@pytest.mark.parametrize("expression", DIFFERENTIABLE)
def test_value_shape_and_dtype_are_numpys(expression: str, dtype: Any) -> None:
    values = arrays(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            right = evaluated(expression, values)
        except (TypeError, ValueError, RuntimeWarning):
            return  # NumPy itself does not take integers here, or overflows
    mine = evaluated(expression, {name: tg.Tensor(array) for name, array in values.items()})
    assert isinstance(mine, tg.Tensor)
    same(mine, right)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (0, 3), (3, 1)], ids=str)
@pytest.mark.parametrize("expression", [e for e in DIFFERENTIABLE if re.search(r"\bx\b", e)])
def test_other_shapes_are_numpys_too(expression: str, shape: tuple[int, ...]) -> None:
    values = arrays(np.float64, shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            right = evaluated(expression, values)
        except (ValueError, Warning, IndexError, ZeroDivisionError):
            return  # not for this shape
    same(evaluated(expression, {name: tg.Tensor(array) for name, array in values.items()}), right)


@pytest.mark.parametrize("expression", [e for e in DIFFERENTIABLE if "float32" not in e])
def test_the_gradient_is_the_derivative(expression: str) -> None:
    values = arrays(np.float64)
    y = evaluated(expression, {name: tg.Tensor(array, requires_grad=True) for name, array in values.items()})
    assert y.requires_grad and y.dtype.kind == "f"
    read = [name for name in values if re.search(rf"\b{name}\b", expression)]

    def call(*given: Any) -> Any:
        return evaluated(expression, values | dict(zip(read, given, strict=True)))

    check_grads(call, *(values[name] for name in read), order=2)


def test_a_gradient_passes_through_a_narrower_dtype() -> None:
    x = tg.Tensor(arrays(np.float64)["x"], requires_grad=True)
    for y in (np.add(x, x, dtype=np.float32), np.sum(x, dtype=np.float32) + x.sum()):
        g = tg.grad(y, x, 1.0)
        assert g.dtype == np.float64 and g.tolist() == np.full((2, 3), 2.0).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("expression", PLAIN)
def test_what_has_no_gradient_is_a_plain_result(expression: str, dtype: Any) -> None:
    values = arrays(dtype)
    tensors = {name: tg.Tensor(array, requires_grad=True) for name, array in values.items()}
    mine = evaluated(expression, tensors)
    assert not any(isinstance(part, tg.Tensor) for part in pieces(mine))
    same(mine, evaluated(expression, values), exact=True)


@pytest.mark.parametrize("expression", OF_MASKS)
def test_masks_are_combined_as_numpy_combines_them(expression: str) -> None:
    j, k = np.array([True, True, False, False]), np.array([True, False, True, False])
    same(evaluated(expression, {"j": tg.Tensor(j), "k": k}), evaluated(expression, {"j": j, "k": k}), exact=True)
