"""Matrix products of a recorded step, computed faster: what BPTT in NumPy spends its time on once sequences are wide.

Two ways leave every bit as it is. A product of which only some columns are read is computed for those alone: through
[x, h] A the gradient is wanted at h, not at the inputs. And the transpose of a weight that is multiplied at every step
is laid out once per run. Whether BLAS adds in the same order then depends on shapes and layouts, so each is tried on
random numbers when the step is planned, and used where it gave the same bits.

The third, `stacked`, adds in another order, and is there to be asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..engine.ops import concat_, getitem, matmul, sum, swapaxes
from ..engine.signatures import Array
from ..engine.tensor import Record, Tensor, array_of

Call = tuple[Callable[..., Any], tuple[Any, ...]]
TIMES = 8  # so often must a transpose be multiplied before it is laid out anew: one copy costs as much as it saves then
WORTH = 2**14  # multiplications: below, a product costs hardly more than the call
# So many rows, with so many terms, are compared before two ways of computing a product are taken for the same: of three
# terms, another order changes one sum in a thousand.
ROWS, TERMS = 64, 2**15


class Products:
    """How each product of a plan is computed; `copies` are the transposes that were laid out anew."""

    def __init__(self, records: Mapping[Tensor, Record], results: Sequence[Tensor]) -> None:
        self.copies: list[Array] = []
        self._columns: dict[Tensor, slice] = {}  # of a product: what is read of it, if not all
        readers = Counter(x for record in records.values() for x in record.inputs if isinstance(x, Tensor))
        readers.update(results)
        for t, record in records.items():
            x = record.inputs[0] if record.operation is getitem else None
            if isinstance(x, Tensor) and x in records and records[x].operation is matmul and readers[x] == 1:
                columns = _columns(array_of(t), array_of(x))
                if columns is not None:
                    self._columns[x] = columns
        self._weights = {t: _where(record.values[1]) for t, record in records.items() if record.operation is matmul}
        self._times = Counter(self._weights.values())
        self._copied: dict[Any, Array] = {}
        self._tried: dict[Any, bool] = {}

    def calls(self, t: Tensor, a: Array, b: Array, out: Array, fixed: bool) -> list[Call]:
        """The calls that compute the product t = a b into `out`, or what is read of it. `fixed`: b changes between
        runs only."""
        if out.strides != array_of(t).strides and not _rows_lie_closely(out):  # BLAS does not write there
            self.copies.append(np.empty_like(array_of(t)))
            return [*self.calls(t, a, b, self.copies[-1], fixed), (np.copyto, (out, self.copies[-1]))]
        plain: list[Call] = [(np.matmul, (a, b, out))]
        usual = a.ndim > 1 and b.ndim > 1 and a.dtype == b.dtype and a.dtype.kind == "f"
        usual = usual and min(*a.strides, *b.strides) >= 0  # else NumPy copies them, or does without BLAS
        if not usual or t.size * a.shape[-1] < WORTH or np.may_share_memory(a, b):  # a aᵀ is another routine of BLAS
            return plain
        columns = self._columns.get(t, slice(None))
        anew = fixed and not b.flags.c_contiguous and self._times[self._weights[t]] >= TIMES
        for read, copied in ((columns, anew), (columns, False), (slice(None), anew)):
            if (read == columns or copied) and self._same(a, b, out, read, copied):
                calls: list[Call] = []
                b = b[..., read]
                if copied:
                    if _where(b) not in self._copied:
                        self._copied[_where(b)] = np.empty(b.shape, b.dtype)
                        self.copies.append(self._copied[_where(b)])
                        calls.append((np.copyto, (self.copies[-1], b)))
                    b = self._copied[_where(b)]
                return [*calls, (np.matmul, (a, b, out[..., read]))]
        return plain

    def _same(self, a: Array, b: Array, out: Array, read: slice, copied: bool) -> bool:
        if read == slice(None) and not copied:
            return True
        key = (*((x.shape, x.strides) for x in (a, b, out)), a.dtype, read.start, read.stop, copied)
        if key not in self._tried:
            self._tried[key] = agree(np.matmul, a, b, out, read, copied)
        return self._tried[key]


def agree(multiply: Any, a: Array, b: Array, out: Array, read: slice, copied: bool) -> bool:
    """Whether these columns of a product are the same to the last bit when only they are computed, and from a copy of
    b if `copied`: tried on random numbers that lie in memory as a, b and the product do.

    Where all terms of a sum underflow, its zero may still have another sign.
    """
    rng = np.random.default_rng(0)
    y, whole, part = (filled(z, rng) for z in (b, out, out))
    columns = y[..., read]
    y_read = columns.copy() if copied else columns
    rows = out.size // out.shape[-1]
    for _ in range(max(4, ROWS // rows, TERMS // (rows * columns.shape[-1] * a.shape[-1]))):
        x = filled(a, rng)
        multiply(x, y, whole)
        multiply(x, y_read, part[..., read])
        if whole[..., read].tobytes() != part[..., read].tobytes():
            return False
    return True


def _columns(part: Array, whole: Array) -> slice | None:
    """The columns that a view of a matrix, or of a stack of them, consists of; None if it is no range of columns."""
    if whole.ndim < 2 or not part.size or part.shape[:-1] != whole.shape[:-1] or part.strides != whole.strides:
        return None
    start = (part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // whole.strides[-1]
    return slice(start, start + part.shape[-1])


def _rows_lie_closely(array: Array) -> bool:
    row = array.shape[-1] * array.itemsize
    return array.strides[-1] == array.itemsize and all(stride >= row for stride in array.strides[-2:-1])


def _where(array: Any) -> Any:
    return (array.__array_interface__["data"][0], array.shape, array.strides) if isinstance(array, np.ndarray) else None


def filled(array: Array, rng: np.random.Generator) -> Array:
    """Random numbers that lie in memory as those of an array."""
    reach = 1 + int(np.dot(np.array(array.shape) - 1, array.strides)) // array.itemsize
    return as_strided(rng.standard_normal(reach).astype(array.dtype), array.shape, array.strides)


def stacked(g: Tensor, rows: dict[Any, Tensor]) -> Tensor:
    """A gradient that is a sum over steps, as one operation on the rows of all steps; g itself where it is none.

    Σ u_tᵀ g_t is [u_1; u_2; …]ᵀ [g_1; g_2; …], and Σ_t of column sums the column sum of [g_1; g_2; …]. `rows` keeps
    what has been put below one another, because the weights and the bias share it.
    """

    def below_one_another(parts: list[Tensor]) -> Tensor:
        return rows.setdefault(tuple(map(id, parts)), concat_(*parts, axis=0))

    def inputs(t: Tensor) -> Sequence[Any]:
        return () if t.record is None else t.record.inputs

    terms, total = [], g
    while g.operation == "add" and all(isinstance(x, Tensor) and x.shape == g.shape for x in inputs(g)):
        g, term = inputs(g)
        terms.append(term)
    terms.append(g)
    whole = None
    products = [inputs(term) for term in terms if term.operation == "matmul" and _turned(inputs(term)[0])]
    sums = [inputs(term)[0] for term in terms if term.operation == "reshape" and term.ndim == 1]
    sums = [inputs(x)[0] if x.operation == "sum" and _options(x).get("axis") == (0,) else x for x in sums]
    if len(products) == len(terms) > 1 and all(a.ndim == b.ndim == 2 for a, b in products):
        left = below_one_another([inputs(a)[0] for a, _ in products])
        whole = matmul(swapaxes(left, 0, 1), below_one_another([b for _, b in products]))
    elif len(sums) == len(terms) > 1 and all(x.ndim == 2 and x.shape[1:] == g.shape for x in sums):
        whole = sum(below_one_another(sums), 0)
    return total if whole is None else whole


def _turned(a: Any) -> bool:
    """Whether the rows of this factor of a product are the columns of what it is a view of."""
    swapped = isinstance(a, Tensor) and a.operation == "swapaxes" and a.ndim == 2
    return swapped and (_options(a)["axis1"] - _options(a)["axis2"]) % 2 == 1


def _options(t: Tensor) -> Mapping[str, Any]:
    return {} if t.record is None else t.record.options
