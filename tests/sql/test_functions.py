"""The list of functions is kept until one may have come or gone."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidewheel
from tidewheel.sql import functions


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
