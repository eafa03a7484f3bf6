"""Triggers write what no statement names: views over those tables are the same as in DuckDB."""

from __future__ import annotations

import duckdb
import pytest

import tidewheel

TABLES = """
CREATE TABLE target (id INTEGER, val INTEGER);
CREATE TABLE between (id INTEGER);
CREATE TABLE log (m INTEGER);
INSERT INTO target VALUES (1, 1);
INSERT INTO log VALUES (7);
"""
QUERIES = {
    "logged": "SELECT count(*) AS n, sum(m) AS s FROM log",
    "joined": "SELECT m, val FROM log LEFT JOIN target ON m = id",
}
TRIGGERS = {
    "insert": "AFTER INSERT ON target FOR EACH STATEMENT INSERT INTO log VALUES (1)",
    "row": "AFTER INSERT ON target FOR EACH ROW INSERT INTO log VALUES (new.id)",
    "before": "BEFORE INSERT ON target FOR EACH STATEMENT UPDATE log SET m = m + 1",
    "update": "AFTER UPDATE ON target REFERENCING OLD TABLE AS o FOR EACH STATEMENT "
    "INSERT INTO log SELECT id FROM o",
    "delete": "AFTER DELETE ON target FOR EACH STATEMENT DELETE FROM log WHERE m = 7",
    "chain": "AFTER INSERT ON target REFERENCING NEW TABLE AS n FOR EACH STATEMENT "
    "INSERT INTO between SELECT id FROM n",
}
CHANGES = [
    *(f"INSERT INTO target VALUES ({i}, {i})" for i in (4, 5, 6)),
    "INSERT INTO target SELECT id + 50, 1 FROM target",
    "UPDATE target SET val = 2",
    "UPDATE target SET val = 3 WHERE id = 5",
    "DELETE FROM target WHERE id = 6",
    "PREPARE p AS INSERT INTO target VALUES (?, 1)",
    "EXECUTE p(3)",
    "BEGIN",
    "INSERT INTO target VALUES (11, 1)",
    "ROLLBACK",
    "BEGIN",
    "INSERT INTO target VALUES (12, 1)",
    "DELETE FROM target WHERE id = 1",
    "COMMIT",
    "TRUNCATE target",
]


@pytest.mark.parametrize("views", [["logged"], ["logged", "joined"]], ids=len)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", TRIGGERS)
def test_what_triggers_write(kind: str, late: bool, views: list[str]) -> None:
    """With one view the statement's own table is read by none; `late`: views are older."""
    create = [f"CREATE TRIGGER tr {TRIGGERS[kind]}"]
    if kind == "chain":
        create.append(
            "CREATE TRIGGER tr2 AFTER INSERT ON between REFERENCING NEW TABLE AS n "
            "FOR EACH STATEMENT INSERT INTO log SELECT id FROM n"
        )
    made = [f"CREATE MATERIALIZED VIEW {v} AS {QUERIES[v]}" for v in views]
    with tidewheel.connect() as con, duckdb.connect() as other:
        con.execute(TABLES)
        other.execute(TABLES)
        for statement in [*made, *CHANGES[:3], *create] if late else [*create, *made]:
            con.execute(statement)
            if statement not in made:
                other.execute(statement)
        for change in CHANGES:
            con.execute(change)
            other.execute(change)
            for view in views:
                ours = con.execute(f"FROM {view}").fetchall()
                theirs = other.execute(QUERIES[view]).fetchall()
                assert sorted(ours, key=str) == sorted(theirs, key=str), (change, view)


@pytest.mark.parametrize("view", [False, True], ids=["none", "view"])
def test_what_a_statement_tells(view: bool) -> None:
    """Its rows, whatever their columns are called, and how many it changed: as without a view."""
    with tidewheel.connect() as con:
        con.execute(TABLES)
        con.execute(f"CREATE TRIGGER tr {TRIGGERS['insert']}")
        if view:
            con.execute("CREATE MATERIALIZED VIEW v AS FROM target")
        assert con.execute("INSERT INTO target VALUES (2, 2), (3, 3)").rowcount == 2
        assert con.execute("DELETE FROM target WHERE id = 9").rowcount == 0
        got = con.execute('INSERT INTO target VALUES (4, 4), (5, 5) RETURNING id AS "Count"')
        assert (got.rowcount, got.fetchall()) == (2, [(4,), (5,)])
        got = con.execute('INSERT INTO target VALUES (6, 7) RETURNING val AS "Count"')
        assert (got.rowcount, got.fetchall()) == (1, [(7,)])
        counted = 'SELECT count(*) + 40 AS "Count" FROM i'
        got = con.execute(f"WITH i AS (INSERT INTO target VALUES (8, 8) RETURNING id) {counted}")
        assert (got.rowcount, got.fetchall()) == (1, [(41,)])


@pytest.mark.parametrize("begin", ["", "BEGIN"])
def test_a_table_made_of_rows_whose_change_a_trigger_follows(begin: str) -> None:
    with tidewheel.connect() as con:
        con.execute(
            "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); CREATE TABLE log (a INT)"
        )
        con.execute(
            "CREATE TRIGGER tr AFTER DELETE ON t REFERENCING OLD TABLE AS o "
            "FOR EACH STATEMENT INSERT INTO log SELECT a FROM o"
        )
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM log; FROM v")
        con.execute(begin)
        con.execute("CREATE TABLE x AS WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d")
        assert con.execute("FROM v").fetchall() == [(3,)]
        con.execute("COMMIT" if begin else "")
        assert con.execute("FROM v").fetchall() == [(3,)]


def test_a_trigger_cannot_read_a_maintained_view() -> None:
    """Its rows are registered with each connection."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); CREATE TABLE log (n BIGINT)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        with pytest.raises(tidewheel.NotSupportedError) as info:
            con.execute(
                "CREATE TRIGGER g AFTER INSERT ON t FOR EACH STATEMENT INSERT INTO log FROM v"
            )
        assert info.value.message == 'Trigger "g" cannot read the maintained view main.v'
        assert "tables" in (info.value.hint or "")
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM v").fetchall() == [(1,)]
