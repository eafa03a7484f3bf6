"""`%sql` and `%%sql` cells through jupysql: the URL is all that it needs."""

import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.dialects import registry

registry.register("tidewheel", "tidewheel.sql.sqlalchemy_dialect", "TidewheelDialect")
interactive = pytest.importorskip("IPython.core.interactiveshell")
# `python -m pytest` has this checkout on the path, whose folder sql/ is not jupysql's package
ROOT = Path(__file__).parents[2]
BEFORE = sys.path[:]
sys.path[:] = [p for p in BEFORE if Path(p or ".").resolve() != ROOT]
# jupysql asks for gRPC where PySpark is installed, and needs none where it is not
sys.modules["pyspark.sql.connect"] = None  # type: ignore[assignment]
try:
    pytest.importorskip("sql.magic")
finally:
    del sys.modules["pyspark.sql.connect"]
    sys.path[:] = BEFORE


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYSQL_ANALYTICS", "false")
    monkeypatch.setenv("PLOOMBER_STATS_ENABLED", "false")
    monkeypatch.chdir(tmp_path)
    made = interactive.InteractiveShell()
    made.run_line_magic("load_ext", "sql")
    yield made
    made.run_line_magic("sql", "--close notes")
    made.reset(new_session=False)


def run(shell: Any, cell: str) -> Any:
    outcome = shell.run_cell(cell)
    outcome.raise_error()
    return outcome.result


def test_cells(shell: Any, tmp_path: Path) -> None:
    run(shell, "%sql tidewheel:///notes.db --alias notes")
    run(
        shell,
        "%%sql\nCREATE TABLE edge(a INTEGER, b INTEGER);\nINSERT INTO edge VALUES (1, 2), (2, 3)",
    )
    run(
        shell,
        "%%sql\nCREATE MATERIALIZED VIEW reach AS\n"
        "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM edge UNION "
        "SELECT r.a, e.b FROM r JOIN edge e ON e.a = r.b) SELECT * FROM r",
    )
    result = run(shell, "%sql SELECT * FROM reach ORDER BY a, b")
    assert [tuple(row) for row in result] == [(1, 2), (1, 3), (2, 3)]
    assert "<table>" in result._repr_html_()
    run(shell, "%sql INSERT INTO edge VALUES (3, 4)")
    run(shell, "%sql counted << SELECT count(*) AS n FROM reach")
    assert shell.user_ns["counted"].DataFrame()["n"].tolist() == [6]
    frame = run(
        shell, "least = 3\nrows = %sql SELECT * FROM reach WHERE b >= {{least}}\nrows.DataFrame()"
    )
    assert len(frame) == 5
    assert (tmp_path / "notes.db").exists()
