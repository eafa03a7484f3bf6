"""What a session has read of the catalog is not read again because it made or dropped a view."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tidewheel
from tidewheel.sql.reads import Names


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often the catalog was read since the last call."""
    times = [0]
    made = Names.__init__

    def counted(self: Names, *given: Any) -> None:
        times[0] += 1
        made(self, *given)

    def since() -> int:
        found, times[0] = times[0], 0
        return found

    monkeypatch.setattr(Names, "__init__", counted)
    return since


def test_one_view_after_the_other(read: Callable[[], int]) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k, 2 AS x")
        read()
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k")
        assert read() == 1
        assert con.execute("FROM v").fetchall() == [(1, 2)]
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT max(s) AS m FROM v")
        assert con.execute("FROM w").fetchall() == [(2,)]
        con.execute("DROP MATERIALIZED VIEW w")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT min(s) AS m FROM v")
        assert con.execute("FROM w").fetchall() == [(2,)]
        assert read() == 0
        con.execute("INSERT INTO t VALUES (1, 5)")
        assert con.execute("FROM w").fetchall() == [(7,)]
        con.execute("DROP MATERIALIZED VIEW v CASCADE")
        with pytest.raises(tidewheel.ProgrammingError, match="w"):
            con.execute("FROM w")
        con.execute("CREATE TABLE w AS SELECT 3 AS m")  # no view is in its way
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT m + 1 AS m FROM w")
        assert con.execute("FROM v").fetchall() == [(4,)]


def test_what_others_do_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute("CREATE TABLE t AS SELECT 1 AS k")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS k FROM t")
        other.execute("CREATE TABLE u AS SELECT 10 AS k")
        other.execute("CREATE MATERIALIZED VIEW x AS SELECT k + 1 AS k FROM u")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT x.k + v.k AS k FROM x, v")
        assert other.execute("FROM w").fetchall() == [(13,)]
        other.execute("DROP MATERIALIZED VIEW w")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT k AS k FROM v")
        other.execute("DROP MATERIALIZED VIEW w")
        other.execute("CREATE VIEW w AS SELECT 5 AS k")
        con.execute("CREATE MATERIALIZED VIEW y AS SELECT w.k + v.k AS k FROM w, v")
        con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("FROM y ORDER BY k").fetchall() == [(7,), (8,)]


def test_what_is_undone_is_not_there(read: Callable[[], int]) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        con.execute("BEGIN; CREATE MATERIALIZED VIEW w AS SELECT k FROM v; ROLLBACK")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT k + 1 AS k FROM v")
        with pytest.raises(tidewheel.Error):
            con.execute("CREATE MATERIALIZED VIEW z AS SELECT error('no') AS k FROM t")
        con.execute("CREATE TABLE z AS SELECT 8 AS k")
        con.execute("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT t.k + z.k AS k FROM t, z")
        assert con.execute("FROM w").fetchall() == [(9,)]
        con.execute("ALTER VIEW w RENAME TO v2")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT k FROM v2")
        assert con.execute("FROM w").fetchall() == [(9,)]


def test_other_schemas() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS k; CREATE TABLE t (k INT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        con.execute("CREATE MATERIALIZED VIEW s.v AS SELECT k FROM s.t")
        con.execute("USE s")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT k FROM v")
        con.execute("CREATE MATERIALIZED VIEW x AS SELECT k FROM main.v")
        assert con.execute("FROM w").fetchall() == [(1,)]
        assert con.execute("FROM s.x").fetchall() == []
        con.execute("DROP MATERIALIZED VIEW w")
        con.execute("USE main; CREATE MATERIALIZED VIEW w AS SELECT k FROM v")
        assert con.execute("FROM main.w").fetchall() == []


def _changed_by_duckdb(path: Path, statements: str) -> None:
    """A file with a view of a table, one of that view, and what plain DuckDB did then."""
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(k)::INTEGER AS s FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT s + 1 AS s FROM v")
    with duckdb.connect(str(path)) as other:
        other.execute(statements)


@pytest.mark.parametrize(
    "instead", ["", "CREATE VIEW v AS SELECT 7 AS s", "CREATE TABLE v (s INT)"]
)
def test_a_view_that_plain_duckdb_has_dropped(tmp_path: Path, instead: str) -> None:
    path = tmp_path / "a.db"
    _changed_by_duckdb(path, f"DROP VIEW v; {instead}")
    with tidewheel.connect(path) as con:
        assert con.execute("SELECT view_name FROM tidewheel_views()").fetchall() == [("w",)]
        with pytest.raises(tidewheel.ProgrammingError, match="maintained view"):
            con.execute("VERIFY VIEW v")
        con.execute("INSERT INTO t VALUES (4)")
        if "TABLE" in instead:
            con.execute("INSERT INTO v VALUES (7)")
        if instead:
            assert con.execute("FROM w").fetchall() == [(8,)]
            assert con.execute("VERIFY VIEW w").fetchall() == []


@pytest.mark.parametrize(
    "again",
    [
        "CREATE MATERIALIZED VIEW v AS SELECT sum(k)::INTEGER AS s FROM t",
        "CREATE MATERIALIZED VIEW x AS SELECT sum(k)::INTEGER AS s FROM t;"
        "ALTER MATERIALIZED VIEW x RENAME TO v",
        "CREATE VIEW v AS SELECT sum(k)::INTEGER AS s FROM t",
        "CREATE VIEW x AS SELECT sum(k)::INTEGER AS s FROM t; ALTER VIEW x RENAME TO v",
        "BEGIN; CREATE MATERIALIZED VIEW v AS SELECT sum(k)::INTEGER AS s FROM t; COMMIT",
    ],
)
def test_a_view_that_plain_duckdb_has_dropped_is_made_again(tmp_path: Path, again: str) -> None:
    path = tmp_path / "a.db"
    _changed_by_duckdb(path, "DROP VIEW v")
    with tidewheel.connect(path) as con:
        for _ in con.script(again):
            pass
        con.execute("INSERT INTO t VALUES (4)")
        assert con.execute("FROM w").fetchall() == [(6,)]
        con.execute("INSERT INTO t VALUES (9)")
        assert con.execute("FROM w").fetchall() == [(15,)]
    with tidewheel.connect(path) as con:  # v stands behind w in the catalog now
        assert con.execute("FROM w").fetchall() == [(15,)]
        con.execute("INSERT INTO t VALUES (5)")
        assert con.execute("FROM w").fetchall() == [(20,)]
        with pytest.raises(tidewheel.ProgrammingError, match="w"):
            con.execute("DROP TABLE t")


def test_a_table_that_plain_duckdb_has_dropped_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k; CREATE TABLE u AS SELECT 1 AS k")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t JOIN u USING (k)")
    with duckdb.connect(str(path)) as other:
        other.execute("DROP TABLE t; DROP TABLE u")
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE u AS SELECT 5 AS k")
        con.execute("CREATE TABLE t AS SELECT 5 AS k")
        changes = con.subscribe("v")
        assert changes.read(0) is not None
        con.execute("INSERT INTO t VALUES (5)")
        assert con.execute("FROM v").fetchall() == [(2,)]
        update = changes.read(0)
        assert update is not None
        assert sorted(row[1:] for row in update.rows()) == [(-1, 1), (1, 2)]
