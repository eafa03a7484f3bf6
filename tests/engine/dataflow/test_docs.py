"""The examples in docs/timely.md and in the modules' docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = [
    f"tidewheel.engine.{folder}.{path.stem}"
    for folder in ("progress", "dataflow")
    for path in sorted((ROOT / "engine" / folder).glob("*.py"))
]


def test_docs() -> None:
    result = doctest.testfile(str(ROOT / "docs" / "timely.md"), module_relative=False)
    assert result.attempted >= 40
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
