"""The package is typed: strict checkers see its public API."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py")
WRONG = """
import tidewheel
connection = tidewheel.connect(1)
reveal_type(connection)
connection.execute(b"SELECT 1")
connection.nothing()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """mypy as a stranger has it: no configuration, the installed package, its imports followed."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typed")
    (folder / "program.py").write_text(PROGRAM.read_text())
    (folder / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "/dev/null"]
    options = ["--follow-imports=silent", "--ignore-missing-imports", "--no-incremental"]
    outcome = subprocess.run(
        [*command, *options, "program.py", "wrong.py"], capture_output=True, text=True, cwd=folder
    )
    return outcome.stdout


def test_the_program_runs() -> None:
    command = [sys.executable, str(PROGRAM)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert "[(1, 'z'), (2, 'z')]" in outcome.stdout


def test_strict_types(report: str) -> None:
    assert "program.py" not in report, report


def test_mistakes_are_found(report: str) -> None:
    assert 'Revealed type is "tidewheel.sql.dbapi.Connection"' in report
    assert '"int"; expected "str | bytes | PathLike[str]"' in report
    assert '"bytes"; expected "str"' in report
    assert '"Connection" has no attribute "nothing"' in report
