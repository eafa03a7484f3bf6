"""Maintained views over databases that are attached and detached while they stand."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tidewheel


def test_detached_and_changed_by_others(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    attach = f"ATTACH '{file}' AS q"
    with tidewheel.connect() as con:
        con.execute(attach)
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE TABLE own AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM q.t")
        con.execute("CREATE MATERIALIZED VIEW over_v AS SELECT * FROM v, own")
        con.execute("INSERT INTO q.t VALUES (2)")
        con.execute("DETACH q")
        with pytest.raises(tidewheel.Error, match=r"q\.t"):
            con.execute("FROM v")
        con.execute("INSERT INTO own VALUES (2)")
        with duckdb.connect(str(file)) as other:
            other.execute("INSERT INTO t VALUES (5), (6)")
        con.execute(attach)
        assert con.execute("FROM v").fetchall() == [(4,)]
        assert sorted(con.execute("FROM over_v").fetchall()) == [(4, 1), (4, 2)]
        con.execute("INSERT INTO q.t VALUES (7)")
        assert sorted(con.execute("FROM over_v").fetchall()) == [(5, 1), (5, 2)]


def test_attached_after_the_file_was_opened(tmp_path: Path) -> None:
    """What a view reads is known once its database is there."""
    attach = f"ATTACH '{tmp_path / 'other.db'}' AS q"
    with tidewheel.connect(tmp_path / "main.db") as con:
        con.execute(attach)
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM q.t")
    with tidewheel.connect(tmp_path / "main.db") as con:
        with pytest.raises(tidewheel.Error, match=r"q\.t"):
            con.execute("FROM v")
        con.execute(attach)
        changes = con.subscribe("v")
        con.execute("INSERT INTO q.t VALUES (9)")
        rows = []
        while (update := changes.read(timeout=0)) is not None:
            rows += [(weight, value) for _, weight, value in update.rows()]
        assert sorted(rows) == [(-1, 1), (1, 1), (1, 2)]
        with pytest.raises(tidewheel.Error, match=r"main\.v"):
            con.execute("DROP TABLE q.t")


def test_made_in_the_database_in_use() -> None:
    with tidewheel.connect() as con:
        con.execute("ATTACH ':memory:' AS q")
        con.execute("CREATE TABLE q.t AS SELECT 1 AS x")
        with pytest.raises(tidewheel.NotSupportedError, match="the database in use, memory"):
            con.execute("CREATE MATERIALIZED VIEW q.v AS FROM q.t")
        con.execute("USE q")
        con.execute("CREATE MATERIALIZED VIEW q.v AS FROM t")
        con.execute("USE memory")
        assert con.execute("FROM q.v").fetchall() == [(1,)]
        with pytest.raises(tidewheel.NotSupportedError, match="USE q"):
            con.execute("DROP MATERIALIZED VIEW q.v")
