"""A closure whose steps would make too many rows at once is made in parts, by DuckDB's rows."""

import duckdb
import pytest

import tidewheel
from tidewheel.engine.operators import traverse

EDGES = "SELECT (hash(range) % 60)::INT AS a, (hash(range + 1000) % 60)::INT AS b FROM range(400)"
CLOSURE = (
    "WITH RECURSIVE t(x, y) AS "
    "(SELECT a, b FROM e UNION SELECT t.x, e.b FROM t JOIN e ON e.a = t.y) SELECT * FROM t"
)


@pytest.mark.parametrize("step", [1, 700, 5_000, 1 << 25])
def test_parts(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traverse, "STEP", step)
    runs: list[int] = []
    run = traverse.Traverse._run

    def counted(self: traverse.Traverse, anchor: object, *rest: object) -> object:
        runs.append(1)
        return run(self, anchor, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(traverse.Traverse, "_run", counted)
    with tidewheel.connect() as con, duckdb.connect() as theirs:
        for each in (con, theirs):
            each.execute(f"CREATE TABLE e AS {EDGES}")
        con.execute("SET max_iterations = 1000")  # a query with a bound is run by the loop
        found = sorted(con.execute(CLOSURE).fetchall())
        assert found == sorted(theirs.execute(CLOSURE).fetchall())
    assert (len(runs) > 1) == (step < 1 << 25)
