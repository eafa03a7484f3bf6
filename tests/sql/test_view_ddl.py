"""DDL on tables and views that maintained views read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidewheel


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as connection:
        connection.execute(
            "CREATE TABLE t (a INTEGER, b INTEGER); INSERT INTO t VALUES (1, 10), (2, 20);"
            "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a > 0;"
            "CREATE MATERIALIZED VIEW w AS SELECT sum(b)::BIGINT AS s FROM v"
        )
        yield connection


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN b SET DEFAULT 5",
        "CREATE INDEX i ON t (a)",
        "CREATE VIEW x AS FROM v",
        "CREATE OR REPLACE TABLE t AS SELECT 3 AS b, 2 AS a",
        "COMMENT ON TABLE t IS 'hello'",
    ],
)
def test_views_go_on(con: tidewheel.Connection, ddl: str, begin: bool) -> None:
    con.execute("FROM w")
    if begin:
        con.begin()
    con.execute(ddl)
    con.execute("INSERT INTO t (a, b) VALUES (4, 40)")
    assert con.execute("FROM w").fetchall() == [((43 if "REPLACE" in ddl else 70),)]
    con.commit()
    con.execute("INSERT INTO t (a, b) VALUES (5, 50)")
    assert con.execute("FROM w").fetchall() == [((93 if "REPLACE" in ddl else 120),)]
    assert con.execute("FROM v LIMIT 0").description is not None
    assert [c[0] for c in con.execute("FROM v").description or ()] == ["a", "b"]
    for view in ("v", "w"):
        assert con.execute(f"VERIFY VIEW {view}").fetchall() == []


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("DROP TABLE t", "main.v, main.w\n"),
        ("ALTER TABLE t DROP COLUMN b", r"main.v \(it would lose column b\)"),
        ("ALTER TABLE t ALTER COLUMN b TYPE VARCHAR", "column b would have another type"),
        ("ALTER TABLE t RENAME COLUMN b TO bb", "lose column b"),
        ("ALTER TABLE t RENAME TO tt", "main.v, main.w"),
        ("CREATE OR REPLACE TABLE t (z INTEGER)", "main.v, main.w"),
        ("DROP VIEW v", "v is a maintained view"),
        ("ALTER VIEW v RENAME TO vv", "can't be altered"),
        ("ALTER MATERIALIZED VIEW v RENAME TO vv", "can't be altered"),
        ("DROP MATERIALIZED VIEW v", "read by maintained views: main.w"),
    ],
)
def test_what_views_stand_against(
    con: tidewheel.Connection, ddl: str, message: str, begin: bool
) -> None:
    if begin:
        con.begin()
    with pytest.raises(tidewheel.Error, match=message):
        con.execute(ddl)
    if begin and "VIEW" not in ddl:
        with pytest.raises(tidewheel.Error):
            con.execute("INSERT INTO t VALUES (3, 30)")
    con.rollback()
    con.execute("INSERT INTO t VALUES (3, 30)")
    assert con.execute("FROM w").fetchall() == [(60,)]
    assert con.execute("VERIFY VIEW w").fetchall() == []


def test_subscribers_get_the_difference(con: tidewheel.Connection) -> None:
    with con.subscribe("w") as changes:
        changes.read(0)
        con.execute("ALTER TABLE t ADD COLUMN c INTEGER")
        update = changes.read(0)
        assert update is not None
        assert update.rows() == []
        con.execute("BEGIN; CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 5 AS b; COMMIT")
        update = changes.read(0)
        assert update is not None
        assert sorted(r[1:] for r in update.rows()) == [(-1, 30), (1, 5)]
        con.execute("INSERT INTO t VALUES (1, 2)")
        update = changes.read(0)
        assert update is not None
        assert sorted(r[1:] for r in update.rows()) == [(-1, 5), (1, 7)]


def test_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("CREATE SCHEMA s; CREATE TABLE s.t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW s.v AS FROM s.t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s.v")
    with tidewheel.connect(path) as con:
        con.execute("ALTER TABLE s.t ADD COLUMN b INTEGER")
        con.execute("INSERT INTO s.t VALUES (1, 2)")
    with tidewheel.connect(path) as con:
        assert con.execute("FROM s.v").fetchall() == [(1,)]
        assert con.execute("FROM w").fetchall() == [(1,)]
        with pytest.raises(tidewheel.Error):
            con.execute("DROP SCHEMA s")
        con.execute("DROP SCHEMA s CASCADE")
        assert con.execute("FROM tidewheel_views()").fetchall() == []
