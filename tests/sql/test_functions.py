"""The list of functions is kept until one may have come or gone."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tidewheel
from tidewheel.sql import functions
from tidewheel.sql.common_functions import AGGREGATES, COMMON


def test_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        monkeypatch.setattr(functions, "_read", lambda _: pytest.fail("read again"))
        con.execute("CREATE TABLE u (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT max(x) AS m FROM u, v")
        con.execute("DROP MATERIALIZED VIEW w")
        con.execute("DROP TABLE u")


def test_macros_of_other_connections(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute("CREATE TABLE t (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        other.execute("CREATE MACRO shaken() AS random()")
        with pytest.raises(tidewheel.NotSupportedError, match="shaken"):
            con.execute("CREATE MATERIALIZED VIEW w AS SELECT x, shaken() AS r FROM t")
        other.execute("BEGIN; CREATE OR REPLACE MACRO shaken() AS 7")
        with pytest.raises(tidewheel.NotSupportedError, match="shaken"):
            con.execute("CREATE MATERIALIZED VIEW w AS SELECT x, shaken() AS r FROM t")
        other.execute("ROLLBACK")
        with pytest.raises(tidewheel.NotSupportedError, match="shaken"):
            other.execute("CREATE MATERIALIZED VIEW w AS SELECT x, shaken() AS r FROM t")
        other.execute("DROP MACRO shaken")
        other.execute("CREATE MACRO total(c) AS sum(c)")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT total(x) AS s FROM t")
        con.execute("INSERT INTO t VALUES (3), (4)")
        assert con.execute("FROM w").fetchall() == [(7,)]


def test_macros_that_name_an_aggregate_of_lists() -> None:
    """``array_to_string(…)`` is ``list_aggr(…, 'string_agg', …)``: a function of each row."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k, ['a', 'b'] AS l, [3, 5] AS n")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS "
            "SELECT k, array_to_string(l, '/') AS s, list_sum(n) AS m, list_max(n) AS x FROM t"
        )
        con.execute("INSERT INTO t VALUES (2, ['c'], [4, NULL]), (3, [], NULL)")
        assert con.execute("FROM v ORDER BY k").fetchall() == [
            (1, "a/b", 8, 5),
            (2, "c", 4, 4),
            (3, "", None, None),
        ]
        how = con.execute("SELECT maintenance FROM tidewheel_views()").fetchall()
        assert how == [("incremental",)]


def test_common_functions_are_what_duckdb_has() -> None:
    with duckdb.connect() as con:
        every = functions._read(con)
    assert every.aggregates >= AGGREGATES
    assert not every.aggregates & (COMMON - AGGREGATES)
    for others in (every.volatile, every.internal.keys(), every.aggregating, every.bodies.keys()):
        assert not COMMON & others


def test_a_new_database_is_not_asked_for_common_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k, 2.5::DOUBLE AS x")
        with monkeypatch.context() as patch:
            patch.setattr(functions, "_read", lambda _: pytest.fail("read"))
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT k, avg(x) AS a FROM t GROUP BY k")
            con.execute(
                "CREATE MATERIALIZED VIEW r AS WITH RECURSIVE r(n) AS (SELECT k FROM t UNION "
                "SELECT least(n + 1, 9) FROM r) SELECT count(*) AS n FROM r"
            )
        con.execute("CREATE MATERIALIZED VIEW s AS SELECT k, geomean(x) AS g FROM t GROUP BY k")
        con.execute("INSERT INTO t VALUES (1, 10)")
        assert con.execute("SELECT round(g, 6) FROM s").fetchall() == [(5.0,)]
        assert con.execute("SELECT a FROM v").fetchall() == [(6.25,)]
        assert con.execute("FROM r").fetchall() == [(9,)]
        with pytest.raises(tidewheel.NotSupportedError, match="random"):
            con.execute("CREATE MATERIALIZED VIEW w AS SELECT x, random() AS r FROM t")


@pytest.mark.parametrize("kind", ["", "TEMP"])
def test_a_macro_of_a_common_name(kind: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k, 2 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT lower('A') AS u, k FROM t")
        con.execute(f"CREATE {kind} MACRO upper(s) AS s || random()")
        with pytest.raises(tidewheel.NotSupportedError, match="upper"):
            con.execute("CREATE MATERIALIZED VIEW w AS SELECT upper('a') AS u, k FROM t")


def test_a_database_that_was_there_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS k; CREATE MACRO upper(s) AS s || random()")
    with (
        tidewheel.connect(path) as con,
        pytest.raises(tidewheel.NotSupportedError, match="upper"),
    ):
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT upper('a') AS u, k FROM t")
