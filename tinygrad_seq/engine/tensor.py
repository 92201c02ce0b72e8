"""What a person holds: an immutable NumPy array, and the memory of how it was computed.

A tensor made by an operation remembers the operation, its inputs and the arrays that they held at that moment.
Nothing here differentiates: this is the ground floor, which `primitive` writes to and `tape` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike

from .arguments import array_from, checked_name
from .context import CONTEXT, Context, become, guarded, readable, refuse_setting
from .signatures import Array, Primitive, Signatures


class Record(NamedTuple):
    """What a tensor remembers of the operation that made it: `tensor.record`, None for a leaf.

    `operation`: the primitive. `inputs`: what it was called with, tensors and constants. `values`: the arrays that the
    inputs held at that moment. `options`: its keyword arguments. `needs`: which inputs carry a gradient further back.
    `number`: its place in the order of recording. `where`: the context that it ran in (step, scope).

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True, name="w")
    >>> record = (2.0 * w).record
    >>> record.operation.__name__, record.values, record.needs
    ('multiply', (2.0, array(3.)), (1,))
    """

    operation: Primitive
    inputs: tuple[Any, ...]
    values: tuple[Any, ...]
    options: Mapping[str, Any]
    needs: tuple[int, ...]
    number: int
    where: Context


class TapeReleasedError(RuntimeError):
    """A backward pass, or a question asked of a tape, came to operations that an earlier backward pass has released.

    >>> import tinygrad_seq as tg
    >>> w = tg.Tensor(3.0, requires_grad=True)
    >>> loss = w * w
    >>> loss.backward()
    >>> try:
    ...     loss.backward()
    ... except tg.TapeReleasedError as error:
    ...     print(str(error).partition(":")[0])
    the way back leads to the result of multiply (made by multiply), whose tape an earlier backward released
    """


class Tensor(Signatures):
    """An immutable array that remembers how it was computed.

    `data` is copied; Python floats become float64, Python integers stay integers, a float32 array stays float32.
    Only floating-point tensors can have `requires_grad=True`: integers hold indices and labels, and complex
    numbers pass through forward computations (which is how the complex-step check works).

    >>> w = Tensor(0.5, requires_grad=True, name="w")
    >>> (w * w).backward()
    >>> w.grad
    array(1.)

    Raises TypeError for objects, strings and for `requires_grad` on anything but floats; ValueError for ragged
    lists.
    """

    __slots__ = (
        "__weakref__", "_array", "_arrays", "_grad", "_inputs", "_needs", "_number", "_operation", "_options",
        "_requires", "_where", "name",
    )  # fmt: skip
    __hash__ = object.__hash__  # by identity, although == is elementwise
    numpy_functions: Mapping[Any, Any] = {}  # which operation answers for which function of NumPy; see methods

    def __init__(
        self, data: Any, requires_grad: bool = False, dtype: DTypeLike | None = None, name: str | None = None
    ) -> None:
        if isinstance(data, Tensor) and CONTEXT.get().tracing and not data._requires:
            become(self, data.detach() if dtype is None else data.detach().astype(dtype), requires_grad, name)
            return
        self._become_leaf(array_from(data, "Tensor", dtype), checked_name(name))
        self.requires_grad = requires_grad

    def _become_leaf(self, array: Array, name: str | None) -> Tensor:
        self._array, self.name, self._where = array, name, CONTEXT.get()
        self._grad: Array | None = None
        self._requires, self._number = False, 0
        nothing: Any = None
        # What made it. A backward pass that releases the tape leaves the operation and takes the inputs.
        self._operation = self._inputs = self._arrays = self._options = nothing
        self._needs: tuple[int, ...] = ()  # which inputs carry a gradient further back
        return self

    grad = guarded("_grad", "What backward has added up here: an array of this shape and dtype, or None.")

    @property
    def data(self) -> Array:
        """The values, as a read-only view. A leaf's can be rebound (same shape and dtype): `w.data = new`.

        Rebinding never disturbs what was recorded before: its gradients stay those of the old values.
        """
        view = readable(self).view()
        view.flags.writeable = False
        return view

    @data.setter
    def data(self, new: Any) -> None:
        refuse_setting("data", self)
        array = array_from(new, f"the data of {self.label()}")
        if self._operation is not None:
            raise ValueError(f"{self.label()} was computed; only a leaf's data can be rebound. Use .detach() first")
        if (array.shape, array.dtype) != (self.shape, self.dtype):
            raise ValueError(
                f"{self.label()} holds shape {self.shape}, dtype {self.dtype}; it cannot be rebound to shape "
                f"{array.shape}, dtype {array.dtype}. Reshape or convert the new values, or make a new Tensor"
            )
        self._array = array

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded, and its gradient can be asked for. Set on leaves."""
        return bool(self._requires)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if self._operation is not None:
            raise ValueError(f"{self.label()} was computed; requires_grad is set on leaves. Use .detach() to stop it")
        if flag and self.dtype.kind != "f":
            raise TypeError(f"requires_grad needs floating-point numbers, got dtype {self.dtype}: write 1.0 for 1")
        self._requires = bool(flag)

    if not TYPE_CHECKING:  # who sees their types in Signatures
        shape = property(lambda self: self._array.shape, doc="The length of each axis.")
        ndim = property(lambda self: self._array.ndim, doc="The number of axes.")
        size = property(lambda self: self._array.size, doc="The number of entries.")
        dtype = property(lambda self: self._array.dtype, doc="The NumPy dtype.")
        step = property(lambda self: self._where.step, doc="The time step that it belongs to, set with `tg.step(t)`.")
        scope = property(lambda self: self._where.scope, doc="The scope it was made under, such as `layer0.forward`.")
        operation = property(lambda self: getattr(self._operation, "__name__", None), doc="What made it, if anything.")

        # seen by type checkers, np.ones(2) * x and np.tanh(x) would be taken for arrays
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
            if self._requires:
                raise TypeError(
                    f"NumPy asked for the array of {self.label()}, which requires a gradient: the graph would be cut "
                    "silently. Join tensors with tg.stack or tg.concat; say .detach() or .data if the cut is meant"
                )
            return np.array(self.data, dtype, copy=copy)

    where = property(lambda self: self._where, doc="The context that it was made in: step, scope, what was recorded.")

    @property
    def record(self) -> Record | None:
        """How it was computed; None for a leaf. TapeReleasedError where a backward pass has released it."""
        if self._operation is None:
            return None
        if self._inputs is None:
            raise self.released()
        return Record(
            self._operation, self._inputs, self._arrays, self._options, self._needs, self._number, self._where
        )

    def released(self) -> TapeReleasedError:
        """The error to raise where the way back leads here, and a backward pass has released the tape."""
        return TapeReleasedError(
            f"the way back leads to {self.label()} (made by {self.operation}), whose tape an earlier backward "
            "released: read the tape before that, carry the state on with .detach() (truncated BPTT), call backward "
            "once on the sum of the losses, or keep the tape with retain_graph=True"
        )

    def named(self, name: str) -> Tensor:
        """Give it a name, and return it, so that this can stand in a formula: `h = (x + w * h).named("h")`."""
        self.name = checked_name(name)
        return self

    def label(self) -> str:
        """How messages and tables call it: its name, else what made it, with its step."""
        what = self.name or (f"the result of {self.operation}" if self._operation else "an unnamed tensor")
        return what if self.step is None else f"{what} at step {self.step}"

    def zero_grad(self) -> None:
        """Forget the gradient: `grad` is None again."""
        self.grad = None

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"a tensor is immutable: {self.label()}[{index!r}] cannot be assigned. Collect the parts in a list, then "
            "tg.stack (or tg.concat), or choose between two tensors with tg.where"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are leaves: values, gradient and name are kept, the graph is dropped."""
        return _leaf, (readable(self), self.grad, self.name, self._requires and self._operation is None)


def array_of(x: Any) -> Any:
    """The array of a tensor, which is not to be written to; what is no tensor as it is. For the package itself: `data`
    is a view that cannot be written to, and refuses to be read while a replay is recorded."""
    return x._array if isinstance(x, Tensor) else x


def rebind(x: Tensor, array: Array) -> None:
    """Let a leaf hold this very array, of any dtype, without a copy: for optimisers and for checks."""
    x._array = array


def record_of(t: Tensor) -> Record:
    """The record of a tensor that an operation made: of anything on a tape but its leaves."""
    return cast(Record, t.record)


def _leaf(array: Array, grad: Array | None, name: str | None, requires_grad: bool) -> Tensor:
    leaf = Tensor.__new__(Tensor)._become_leaf(np.array(array, order="C"), name)
    leaf._grad, leaf._requires = None if grad is None else grad.copy(), requires_grad
    return leaf
