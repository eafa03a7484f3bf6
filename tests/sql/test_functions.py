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
