"""What type checkers see: a program of a person's own, checked strictly, with lines that must fail."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "typed_program.py"
ROOT = PROGRAM.parent.parent.parent


def test_the_types_of_a_program_are_what_it_says() -> None:
    pytest.importorskip("mypy", reason="a type checker is part of the development tools only")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", str(PROGRAM)]
    checked = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_program_runs() -> None:
    runpy.run_path(str(PROGRAM))
