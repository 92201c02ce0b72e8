"""How the planned calls of a replay are run: from C where that can be had, and else from a list.

Both are quick ways that keep quiet about floating-point errors. They note them, and where NumPy would have spoken, or
something was raised, the careful list runs from the start, and warns and raises by itself: the inputs of a program are
never written over.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import platform
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine import numerics
from .compiling import FLAG_BITS, Library, Unavailable, compiled, flag_functions
from .lowering import FLAGS, address
from .matmul import Call
from .packing import Packing
from .planning import CollectorPaused, Plan
from .trials import Trials

OFTEN = (
    8  # so many runs in a row that had to be done again, and the careful list alone runs, but for one time in so many
)


@functools.cache
def _ready(library: Library) -> None:
    """Hand in C's own functions for the floating-point flags."""
    for name, function in zip(("test_flags", "clear_flags"), flag_functions(), strict=True):
        ctypes.c_void_p.in_dll(library.functions, name).value = ctypes.cast(function, ctypes.c_void_p).value
    (ctypes.c_int * 4).in_dll(library.functions, "flag_bits")[:] = list(FLAG_BITS[platform.machine()])
    library.functions.run.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_void_p]
    library.functions.run.restype = ctypes.c_longlong
    library.functions.leaves_flags.argtypes = [ctypes.c_void_p]


def loops(native: bool | None) -> Library:
    """The compiled walk. Unavailable, with the reason, where there is none."""
    if native is False:
        raise Unavailable("native=False")
    library = compiled("loops.c")
    _ready(library)
    return library


class Runner:
    """Runs the calls of a plan. `generators` draw random numbers in them."""

    def __init__(self, plan: Plan, generators: Sequence[np.random.Generator], native: bool | None) -> None:
        self._calls, self._generators, self._native = plan.calls, generators, native
        self._ready = False
        self._fixed, self._dead = plan.fixed, plan.dead
        self._parts: list[Call] = []  # what is run instead of the calls, known from the first run on
        self._python = len(plan.calls)  # calls among the parts
        self._compiler = self._reason = ""
        self.packed = 0  # products that are computed with a factor laid out once, or added as they are computed
        self._heard = False
        self._again = 0  # runs in a row that had to be done again
        self._words = np.empty(0, np.int64)
        self._kept: list[Any] = []
        self._flags = ctypes.c_longlong()
        if native:  # asked for: the reason is told at once
            self._prepare()

    def run(self) -> None:
        """Compute all values anew."""
        if not self._ready:
            self._prepare()
        states = [rng.bit_generator.state for rng in self._generators]
        if self._again >= OFTEN and self._again % OFTEN:
            fine = False
        elif fine := self._played():
            self._again = 0
        if not fine:
            for rng, state in zip(self._generators, states, strict=True):
                rng.bit_generator.state = state
            self._again += 1
            for function, values in self._calls:
                function(*values)

    def stats(self) -> dict[str, Any]:
        return {
            "native": len(self._calls) - self._python,
            "python": self._python,
            "packed": self.packed,
            "compiler": self._compiler,
            "reason": self._reason,
            "native_bytes": self._words.nbytes + sum(x.nbytes for x in self._kept),
        }

    def _played(self) -> bool:
        """Run the quick way. False if it is to be done again: NumPy would have spoken, or something was raised."""
        speaking: dict[Any, Any] = {name: "call" for name, mode in np.geterr().items() if mode != "ignore"}
        self._heard, self._flags.value = False, 0
        try:
            if self._python:
                with np.errstate(call=self._hear, **speaking):
                    for function, values in self._parts:
                        function(*values)
            else:
                for function, values in self._parts:
                    function(*values)
        except Exception:
            return False
        raised = self._flags.value
        return not self._heard and not (raised and any(raised & FLAGS[name] for name in speaking))

    def _hear(self, *_: Any) -> None:
        self._heard = True

    def _walk(self, begin: int, end: int) -> None:
        at = self._run_records(self._address, begin, end, self._flags_address)
        while at < end:  # a record said no: Python makes its call, which raises, or knows how
            k = bisect.bisect_right(self._starts, at) - 1
            function, values = self._calls[self._numbers[k]]
            function(*values)
            at = self._starts[k + 1]
            if at < end:
                at = self._run_records(self._address, at, end, self._flags_address)

    def _prepare(self) -> None:
        try:
            with CollectorPaused():
                self._lower(loops(self._native))
        except Unavailable as reason:
            if self._native:
                raise RuntimeError(f"native=True, and a replay cannot run natively here: {reason}") from None
            self._reason = str(reason)
            self._parts = [_quick(call) for call in self._calls]
        self._ready = True

    def _lower(self, library: Library) -> None:
        trials = Trials(library)
        packing = Packing(trials.lowering, library, self._calls, self._fixed, self._dead)
        parts: list[Call] = []
        words: list[int] = []
        starts, numbers = array("q"), array("q")  # of each call that was lowered
        begin = lowered = after = 0
        for number, call in enumerate(self._calls):
            if number < after:
                continue
            records, n = packing.records(number)
            if n:
                starts.append(len(words))
                numbers.append(number)
                words += [word for record in records for word in record.words]
                lowered, after, self.packed = lowered + n, number + n, self.packed + 1
                continue
            found = trials.lowered(call)
            if found is None:
                if len(words) > begin:
                    parts.append((self._walk, (begin, len(words))))
                    begin = len(words)
                parts.append(_quick(call))
                continue
            kind, bases = found
            start = len(words)
            starts.append(start)
            lowered += 1
            numbers.append(number)
            words += kind.words
            for slot, group in kind.slots:
                words[start + slot] += bases[group]
        if len(words) > begin:
            parts.append((self._walk, (begin, len(words))))
        starts.append(len(words))
        self._run_records, self._compiler = library.functions.run, library.compiler
        self._parts, self._starts, self._numbers, self._kept = parts, starts, numbers, trials.kept
        self._python = len(self._calls) - lowered
        self._words = np.array(words, np.int64)
        self._fixed, self._dead = set(), {}  # nobody asks again
        self._address, self._flags_address = address(self._words), ctypes.addressof(self._flags)


def _quick(call: Call) -> Call:
    """A call as it is made where floating-point errors are noted, not told: without a look for overflow beforehand."""
    function, values = call
    return (np.exp, (values[0], values[0])) if function is numerics.quiet_exp else call
