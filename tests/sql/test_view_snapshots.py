"""Views in a transaction that began before others dropped, renamed or replaced them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidewheel

SETUP = """
CREATE TABLE t (a INTEGER PRIMARY KEY, g INTEGER);
INSERT INTO t VALUES (1, 1), (2, 1), (3, 2);
CREATE MATERIALIZED VIEW v AS SELECT g, sum(a)::INTEGER AS s FROM t GROUP BY g;
CREATE VIEW p AS SELECT max(s) AS s FROM v;
"""


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[list[tidewheel.Connection]]:
    found = [tidewheel.connect(f":memory:{request.node.name}") for _ in range(2)]
    found[0].execute(SETUP)
    yield found
    for con in found:
        con.close()


def rows(con: tidewheel.Connection, query: str) -> list[tuple[object, ...]]:
    return sorted(con.execute(query).fetchall())


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW p; DROP MATERIALIZED VIEW v",
        "ALTER VIEW v RENAME TO w",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t",
        "DROP TABLE t CASCADE; CREATE TABLE t (z INTEGER)",
    ],
)
@pytest.mark.parametrize("first", ["FROM v", "FROM p", "FROM t"])
def test_a_view_that_others_change_is_there_to_the_end(
    pair: list[tidewheel.Connection], change: str, first: str
) -> None:
    con, other = pair
    con.execute(f"BEGIN; {first}").fetchall()
    other.execute(change)
    assert rows(con, "FROM v") == [(1, 3), (2, 3)]
    assert rows(con, "FROM p") == [(3,)]
    assert rows(con, "SELECT g, (SELECT s FROM p) FROM v") == [(1, 3), (2, 3)]
    con.execute("ROLLBACK")
    here, there = (_outcome(c, "FROM v") for c in pair)
    assert here == there


def _outcome(con: tidewheel.Connection, query: str) -> object:
    try:
        return rows(con, query)
    except tidewheel.Error as error:
        return str(error)


def test_what_the_transaction_changes_is_in_it(pair: list[tidewheel.Connection]) -> None:
    con, other = pair
    con.execute("BEGIN; FROM v").fetchall()
    other.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    assert rows(other, "FROM v") == [(3,)]
    con.execute("INSERT INTO t VALUES (10, 2)")
    assert rows(con, "FROM v") == [(1, 3), (2, 13)]
    assert rows(other, "FROM v") == [(3,)]
    con.execute("COMMIT")
    assert rows(con, "FROM v") == rows(other, "FROM v") == [(4,)]
    assert other.execute("VERIFY VIEW v").fetchall() == []


def test_a_view_that_others_rename_keeps_its_query(pair: list[tidewheel.Connection]) -> None:
    con, other = pair
    con.execute("BEGIN; FROM t").fetchall()
    other.execute("ALTER VIEW v RENAME TO w; CREATE MATERIALIZED VIEW v AS SELECT 7 AS x FROM t")
    assert rows(con, "FROM v") == [(1, 3), (2, 3)]
    with pytest.raises(tidewheel.Error, match="w does not exist"):
        con.execute("FROM w")
    con.execute("ROLLBACK")
    assert rows(con, "FROM w") == [(1, 3), (2, 3)]
    assert rows(con, "FROM v") == [(7,)] * 3


@pytest.mark.parametrize(
    "change",
    ["ALTER VIEW v RENAME TO w", "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM t"],
)
def test_it_is_there_also_beside_views_of_the_transaction(
    pair: list[tidewheel.Connection], change: str
) -> None:
    con, other = pair
    con.execute("BEGIN; FROM v").fetchall()
    other.execute(change)
    con.execute("CREATE MATERIALIZED VIEW own AS SELECT count(*) AS n FROM t")
    con.execute("INSERT INTO t VALUES (10, 2)")
    assert rows(con, "FROM v") == [(1, 3), (2, 13)]
    assert rows(con, "FROM own") == [(4,)]
    con.execute("COMMIT")
    assert rows(con, "FROM own") == rows(other, "FROM own") == [(4,)]
    assert other.execute("VERIFY VIEW own").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW x AS FROM v",
        "CREATE MATERIALIZED VIEW x AS FROM p",
        "VERIFY VIEW v",
        "SUBSCRIBE TO v",
        "DROP MATERIALIZED VIEW v",
        "ALTER VIEW v RENAME TO x",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS FROM t",
    ],
)
def test_nothing_is_made_of_a_view_that_is_no_more(
    pair: list[tidewheel.Connection], statement: str
) -> None:
    con, other = pair
    con.execute("BEGIN; FROM t").fetchall()
    other.execute("DROP MATERIALIZED VIEW v")
    with pytest.raises(tidewheel.OperationalError, match=r"dropped, renamed or replaced main\.v"):
        con.execute(statement)
    con.execute("ROLLBACK")


@pytest.mark.parametrize("end", ["DROP MATERIALIZED VIEW w", "ALTER VIEW w RENAME TO x"])
def test_a_view_that_came_and_went_while_it_began(
    pair: list[tidewheel.Connection], end: str
) -> None:
    con, other = pair
    con.execute("DROP VIEW p; BEGIN")
    con._session.views.begin()  # others commit between this and DuckDB's first look
    con._session.unread = False
    other.execute("CREATE MATERIALIZED VIEW w AS SELECT max(s) AS m FROM v")
    con.execute("FROM t").fetchall()
    other.execute(end)
    assert rows(con, "FROM w") == [(3,)]
    con.execute("INSERT INTO t VALUES (10, 2)")
    assert rows(con, "FROM w") == [(13,)]
    con.execute("COMMIT")
    with pytest.raises(tidewheel.Error, match="w does not exist"):
        con.execute("FROM w")


def test_a_transaction_that_begins_at_once(pair: list[tidewheel.Connection]) -> None:
    con, other = pair
    con.execute("SET immediate_transaction_mode = true; BEGIN")
    other.execute("INSERT INTO t VALUES (10, 2)")
    assert rows(con, "FROM v") == rows(con, "SELECT g, sum(a) FROM t GROUP BY g")
    assert rows(con, "FROM v") == [(1, 3), (2, 3)]
    con.execute("COMMIT; RESET immediate_transaction_mode; BEGIN")
    other.execute("INSERT INTO t VALUES (11, 2)")
    assert rows(con, "FROM v") == [(1, 3), (2, 24)]
    con.execute("COMMIT")


def test_databases_are_seen_as_they_were_when_a_view_of_them_was_read(
    pair: list[tidewheel.Connection],
) -> None:
    con, other = pair
    con.execute("DROP VIEW p; ATTACH ':memory:' AS x; CREATE TABLE x.q AS SELECT 1 AS a")
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(a)::INTEGER AS s FROM x.q")
    other.subscribe("w").close()  # it is filled
    other.execute("INSERT INTO x.q VALUES (2)")
    con.execute("FROM w; BEGIN")  # what it knows of the catalog is asked no more
    assert rows(con, "FROM w") == [(3,)]
    other.execute("INSERT INTO x.q VALUES (4)")
    assert rows(con, "FROM w") == rows(con, "SELECT sum(a) FROM x.q") == [(3,)]
    con.execute("COMMIT")
    assert rows(con, "FROM w") == [(7,)]
    con.execute("DROP MATERIALIZED VIEW w; DETACH x")


@pytest.mark.parametrize("statement", ["SUBSCRIBE TO v", "VERIFY VIEW v"])
def test_who_waits_for_a_turn_with_a_view_is_told_that_it_went(
    pair: list[tidewheel.Connection], monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    con, other = pair
    views = con._session.views
    turn = views.writing

    def behind_another() -> object:
        other.execute("DROP VIEW p; DROP MATERIALIZED VIEW v")
        return turn()

    monkeypatch.setattr(views, "writing", behind_another)
    with pytest.raises(tidewheel.ProgrammingError, match="no maintained view v"):
        con.execute(statement)


def test_who_waits_to_verify_a_view_has_the_one_that_took_its_place(
    pair: list[tidewheel.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    con, other = pair
    turn, again = con._session.views.writing, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1"

    def behind_another() -> object:
        other.execute(f"DROP VIEW p; {again}")
        return turn()

    monkeypatch.setattr(con._session.views, "writing", behind_another)
    assert con.execute("VERIFY VIEW v").fetchall() == []
    assert rows(con, "FROM v") == [(1,)]
