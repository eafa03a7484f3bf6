"""Every sqllogictest file, on every configuration of the engine and on plain DuckDB.

The answers in the files are DuckDB's; running the files there as well keeps them so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slt.engines import CONFIGURATIONS
from slt.parser import parse
from slt.record import count
from slt.runner import Runner
from tidewheel.planner import choice

FOLDER = Path(__file__).parent / "slt"
FILES = sorted(FOLDER.rglob("*.slt"))


def runs() -> list[Any]:
    """Every file on all engines; unfused, each with one or with two threads, or both at length."""
    found = []
    for i, path in enumerate(FILES):
        later = f"unfused-{1 + i % 2}"
        for name in CONFIGURATIONS:
            at = path.relative_to(FOLDER).as_posix()
            marks = [pytest.mark.long] if name == later else []
            found.append(pytest.param(path, name, id=f"{at}-{name}", marks=marks))
    return found


@pytest.mark.parametrize(("path", "configuration"), runs())
def test_slt(
    path: Path, configuration: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if configuration == "fused-1":
        monkeypatch.setattr(choice, "FIRST", 0)  # every loop is ours
    result = Runner(parse(path), CONFIGURATIONS[configuration](), tmp_path).run()
    assert result.skip_reason is None
    problems = "\n\n".join(map(str, result.failures[:8]))
    assert not result.failures, f"{len(result.failures)} failed, {result.passed} passed\n{problems}"


def test_every_file_says_what_it_tests() -> None:
    for path in FILES:
        headers = parse(path).headers
        assert headers.get("name") == path.relative_to(FOLDER).with_suffix("").as_posix(), path
        assert headers.get("description"), path


def test_the_suite_is_whole() -> None:
    assert count(FILES) >= 1500
