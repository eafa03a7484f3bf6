"""Ctrl-C at random moments of statements of a process that goes on: nothing is half done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import interrupted

SCRIPT = Path(interrupted.__file__)


def _run(seed: int, statements: int) -> int:
    """How many of the statements were interrupted."""
    given = [sys.executable, str(SCRIPT), str(seed), str(statements)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout)


@pytest.mark.parametrize("seed", [1, 2])
def test_interrupted_statements(seed: int) -> None:
    assert _run(seed, 60) > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 30))
def test_interrupted_statements_long(seed: int) -> None:
    assert _run(seed, 600) > 0
