"""Maintained views and transactions that are taken back."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from pathlib import Path

import duckdb
import pytest

import tidewheel
from tidewheel.engine.kernels.spark import Spark
from tidewheel.sql import functions
from tidewheel.sql.views import Views


@pytest.fixture
def con() -> tidewheel.Connection:
    connection = tidewheel.connect()
    connection.execute(
        "CREATE TABLE t (a INTEGER PRIMARY KEY);"
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t;"
        "INSERT INTO t VALUES (1)"
    )
    return connection


@pytest.mark.parametrize(
    "inside",
    [
        "FROM v",
        "INSERT INTO t VALUES (2); FROM v",
        "INSERT INTO t VALUES (2)",
        "CREATE MATERIALIZED VIEW w AS FROM v; FROM w",
        "DROP MATERIALIZED VIEW v",
        "DROP MATERIALIZED VIEW v; CREATE TABLE v (x INTEGER)",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 7 AS n FROM t; FROM v",
        "FROM v; DELETE FROM t; FROM v; CREATE TABLE u (b INTEGER)",
        "TRUNCATE t; FROM v",
        "DROP TABLE t CASCADE; CREATE TABLE t (z INTEGER)",
    ],
)
@pytest.mark.parametrize("read_before", [True, False])
def test_after_a_rollback_the_view_is_what_it_was(
    con: tidewheel.Connection, inside: str, read_before: bool
) -> None:
    if read_before:
        con.execute("FROM v").fetchall()
    con.execute(f"BEGIN; {inside}")
    con.execute("ROLLBACK")
    assert con.execute("FROM v").fetchall() == [(1,)]
    con.execute("INSERT INTO t VALUES (5)")
    assert con.execute("FROM v").fetchall() == [(2,)]
    assert con.execute("VERIFY VIEW v").fetchall() == []


def test_after_an_error_the_view_is_what_it_was(con: tidewheel.Connection) -> None:
    con.execute("BEGIN; FROM v; INSERT INTO t VALUES (2)")
    with pytest.raises(tidewheel.IntegrityError):
        con.execute("INSERT INTO t VALUES (1)")
    con.rollback()
    assert con.execute("FROM v").fetchall() == [(1,)]
    con.execute("INSERT INTO t VALUES (2)")
    assert con.execute("FROM v").fetchall() == [(2,)]


def test_a_failed_replacement_keeps_the_view(con: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.Error):
        con.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT error('no') AS n FROM t")
    assert con.execute("FROM v").fetchall() == [(1,)]
    con.execute("INSERT INTO t VALUES (2)")
    assert con.execute("FROM v").fetchall() == [(2,)]


def test_nobody_else_sees_a_view_before_the_commit() -> None:
    a, b = tidewheel.connect(":memory:apart"), tidewheel.connect(":memory:apart")
    a.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
    a.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    a.execute("BEGIN; CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 7 AS n, 8 AS m FROM t")
    assert a.execute("FROM v").fetchall() == [(7, 8)]
    assert b.execute("FROM v").fetchall() == [(1,)]
    a.execute("COMMIT")
    assert b.execute("FROM v").fetchall() == [(7, 8)]
    a.execute("BEGIN; DROP MATERIALIZED VIEW v")
    assert b.execute("FROM v").fetchall() == [(7, 8)]
    a.execute("COMMIT")
    with pytest.raises(tidewheel.ProgrammingError):
        b.execute("FROM v")
    a.close()
    b.close()


@pytest.mark.parametrize(
    "change",
    [
        "CREATE MATERIALIZED VIEW x AS SELECT max(a) AS m FROM t",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT max(a) AS m FROM t",
        "DROP MATERIALIZED VIEW v",
        "ALTER VIEW v RENAME TO x",
    ],
)
def test_views_that_others_make_wait_for_a_transaction_that_changes_views(change: str) -> None:
    """Else its commit left the registry as it had begun with it, without theirs."""
    a, b = tidewheel.connect(":memory:two"), tidewheel.connect(":memory:two")
    a.execute("CREATE TABLE t (a INTEGER)")
    a.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    a.execute(f"BEGIN; {change}")
    make = "CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM t"
    with pytest.raises(tidewheel.OperationalError, match="open transaction that writes"):
        b.execute(make)
    thread = threading.Thread(target=b.execute, args=(make,))
    thread.start()
    a.execute("COMMIT")
    thread.join()
    a.execute("INSERT INTO t VALUES (3), (4)")
    assert b.execute("FROM w").fetchall() == [(7,)]
    a.close()
    b.close()


def test_drop_cascade_is_all_or_nothing(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE child (a INTEGER REFERENCES t (a))")
    with pytest.raises(tidewheel.Error):
        con.execute("DROP TABLE t CASCADE")  # a foreign key refers to it
    assert con.execute("FROM v").fetchall() == [(1,)]
    con.execute("DROP TABLE child; DROP TABLE t CASCADE")
    with pytest.raises(tidewheel.ProgrammingError):
        con.execute("FROM v")


def test_a_closed_database_is_read_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        database = con._session.database
    with duckdb.connect(path) as other:  # as another process might
        other.execute("INSERT INTO t VALUES (1), (2)")
    with tidewheel.connect(path) as con:
        assert con.execute("FROM v").fetchall() == [(2,)]
    assert not database.maintainer.views


def test_connecting_again_and_again_keeps_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    alive = []
    threads = threading.active_count()
    for i in range(5):
        with tidewheel.connect(path if i % 2 else ":memory:") as con:
            con.execute("CREATE OR REPLACE TABLE t AS FROM range(100000) AS t (a)")
            con.execute("CREATE MATERIALIZED VIEW v AS SELECT a % 10 AS b, a FROM t")
            con.execute("INSERT INTO t VALUES (5)")
            con.execute("DROP MATERIALIZED VIEW v" if i % 2 else "FROM v")
            alive.append(weakref.ref(con._session.database))
        del con
    gc.collect()
    assert [ref() for ref in alive] == [None] * 5
    assert threading.active_count() == threads


def test_verify_against_spark_without_it(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr(Spark, "running", None)
    with pytest.raises(tidewheel.OperationalError, match=r"pip install 'tidewheel\[spark\]'"):
        con.execute("VERIFY VIEW v AGAINST SPARK")
    con.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(tidewheel.ProgrammingError, match="expected RECOMPUTE or SPARK"):
        con.execute("VERIFY VIEW v AGAINST FLINK")


def test_views_over_views_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT n + 1 AS m FROM v")
    for first in ("FROM w", "INSERT INTO t VALUES (1)", "VERIFY VIEW w", "SUBSCRIBE TO w"):
        with tidewheel.connect(path) as con:
            con.execute(first)
            con.execute("INSERT INTO t VALUES (2)")
            assert con.execute("SELECT m - n FROM v, w").fetchall() == [(1,)]
            assert con.execute("FROM pragma_table_info('w')").fetchall()


def test_subscribing_to_a_view_made_again(con: tidewheel.Connection) -> None:
    old = con.subscribe("v")
    old.read(0)
    con.execute("DROP MATERIALIZED VIEW v")
    con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) + 1 AS n FROM t")
    with pytest.raises(tidewheel.OperationalError, match="dropped or made anew"):
        old.read(0)
    with con.subscribe("v") as new:
        update = new.read(0)
        assert update is not None
        assert [r[1:] for r in update.rows()] == [(1, 2)]
        assert new.read(0) is None
        con.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 7 AS n FROM t")
        with pytest.raises(tidewheel.OperationalError, match="dropped or made anew"):
            new.read(0)
    with con.subscribe("v") as new:
        update = new.read(0)
        assert update is not None
        assert [r[1:] for r in update.rows()] == [(1, 7)]
        assert new.read(0) is None


def test_a_failed_epoch_keeps_subscribers() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(10 // a)::BIGINT AS s FROM t")
        con.execute("CREATE MATERIALIZED VIEW c AS SELECT error('big') AS e FROM t WHERE a > 99")
        with con.subscribe("v") as changes:
            changes.read(0)
            with pytest.raises(tidewheel.Error):
                con.execute("INSERT INTO t VALUES (5), (100)")
            assert changes.read(0) is None
            con.execute("INSERT INTO t VALUES (2)")
            update = changes.read(0)
            assert update is not None
            assert sorted(r[1:] for r in update.rows()) == [(-1, 10), (1, 15)]
            con.begin()
            con.execute("INSERT INTO t VALUES (100)")
            with pytest.raises(tidewheel.Error, match="big"):
                con.commit()
            assert not con.in_transaction
            con.execute("INSERT INTO t VALUES (10)")
            update = changes.read(0)
            assert update is not None
            assert sorted(r[1:] for r in update.rows()) == [(-1, 15), (1, 16)]


def test_an_error_of_a_view_names_it() -> None:
    """The statement's own text shows nothing of the view's query."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a VARCHAR); INSERT INTO t VALUES ('1')")
        con.execute("CREATE MATERIALIZED VIEW numbers AS SELECT a::INTEGER AS n FROM t")
        assert con.execute("FROM numbers").fetchall() == [(1,)]
        for statement in ("INSERT INTO t VALUES ('x')", "UPDATE t SET a = 'x'"):
            with pytest.raises(tidewheel.DataError, match="maintained view main") as caught:
                con.execute(statement)
            assert caught.value.line is None
        assert con.execute("FROM t").fetchall() == [("1",)]


@pytest.mark.parametrize("end", ["COMMIT", "END", "commit()"])
def test_commit_after_a_failed_statement_leaves_nothing(end: str) -> None:
    """DuckDB rolls back without a word: views must not take what was changed before."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        con.execute("INSERT INTO t VALUES (1)")
        con.execute("BEGIN; INSERT INTO t VALUES (2)")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT max(a) AS m FROM t")
        with pytest.raises(tidewheel.IntegrityError):
            con.execute("INSERT INTO t VALUES (2)")
        con.commit() if end == "commit()" else con.execute(end)
        assert con.execute("FROM v").fetchall() == con.execute("SELECT count(*) FROM t").fetchall()
        assert con.execute("SELECT view_name FROM tidewheel_views()").fetchall() == [("v",)]
        con.execute("BEGIN; INSERT INTO t VALUES (3); COMMIT")
        assert con.execute("FROM v").fetchall() == [(2,)]
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("end", ["COMMIT", "END", "ROLLBACK"])
@pytest.mark.parametrize("before", [False, True])
def test_a_view_that_was_read_in_a_failed_transaction_is_read_again(end: str, before: bool) -> None:
    """DuckDB takes back the rows that were registered in it, whatever ends it."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        con.execute("INSERT INTO t VALUES (1)")
        if before:
            assert con.execute("FROM v").fetchall() == [(1, 1)]
        con.execute("INSERT INTO t VALUES (1)")
        con.execute("BEGIN")
        assert con.execute("FROM v").fetchall() == [(1, 2)]
        with pytest.raises(tidewheel.Error):
            con.execute("nonsense")
        con.execute(end)
        assert con.execute("FROM v").fetchall() == [(1, 2)]
        assert con.execute("SELECT n FROM v WHERE a = 1").fetchall() == [(2,)]
        con.execute("INSERT INTO t VALUES (1)")
        assert con.execute("SELECT n FROM v WHERE a = 1").fetchall() == [(3,)]


CHANGES = (
    "DELETE FROM made WHERE x = 1",
    "DELETE FROM made",
    "TRUNCATE made",
    "UPDATE made SET x = x + 5",
    "INSERT INTO made VALUES (7)",
    "INSERT INTO made SELECT s FROM v",
    "WITH q AS (SELECT 3) INSERT INTO made FROM q",
    "MERGE INTO made USING (SELECT 1 AS x) AS q ON made.x = q.x WHEN MATCHED THEN DELETE",
    "ALTER TABLE made ADD COLUMN y INTEGER DEFAULT 4",
    "CREATE OR REPLACE TABLE made AS SELECT 9 AS x",
    "EXECUTE more(6)",
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("made", ["in the transaction", "before the file was opened"])
def test_own_changes_show_in_views_that_hold_nothing(
    tmp_path: Path, change: str, made: str
) -> None:
    """One that the transaction has made, or that nobody has read since the file was opened."""
    tables = "CREATE TABLE made AS SELECT unnest([1, 2])::INTEGER AS x"
    views = (
        "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(x)::INTEGER AS s FROM made",
        "CREATE MATERIALIZED VIEW w AS SELECT n + s AS both FROM v",
    )
    if made != "in the transaction":
        with tidewheel.connect(tmp_path / "a.db") as con:
            for statement in (tables, *views):
                con.execute(statement)
    with tidewheel.connect(tmp_path / "a.db") as con:
        con.execute("BEGIN")
        if made == "in the transaction":
            for statement in (tables, *views):
                con.execute(statement)
        con.execute("PREPARE more AS INSERT INTO made VALUES ($1)")
        assert con.execute("FROM v").fetchall() == [(2, 3)]
        assert con.execute("FROM w").fetchall() == [(5,)]
        con.execute(change)
        wanted = con.execute("SELECT count(*), sum(x) FROM made").fetchall()
        assert con.execute("FROM v").fetchall() == wanted
        ((n, s),) = wanted
        assert con.execute("FROM w").fetchall() == [(None if s is None else n + s,)]
        con.execute("COMMIT")
        assert con.execute("FROM v").fetchall() == wanted


@pytest.mark.parametrize("change", ["UPDATE t SET share = 'a'", "DELETE FROM t WHERE share = 'a'"])
def test_a_column_called_like_a_view_is_not_the_view(change: str) -> None:
    """The view's query is run for who reads the view: it would fail here."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (share VARCHAR)")
        con.execute("INSERT INTO t VALUES ('3')")
        con.execute("CREATE MATERIALIZED VIEW share AS SELECT sum(share::INT) AS n FROM t")
        con.execute("BEGIN")
        con.execute("INSERT INTO t VALUES ('a')")
        con.execute("SELECT share FROM t")
        con.execute(change)
        con.execute("UPDATE t SET share = '4' WHERE share = 'a'")
        con.execute("SELECT max(t.share) FROM t, share").fetchall()
        con.execute("COMMIT")
        expected = con.execute("SELECT sum(share::INT) FROM t").fetchall()
        assert con.execute("FROM share").fetchall() == expected


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM t USING v WHERE v.a = t.a",
        "UPDATE t SET a = 2 WHERE a IN (SELECT a FROM v)",
        "INSERT INTO t SELECT a + n FROM v",
    ],
)
def test_a_change_that_fills_the_view_it_reads_goes_through_it(tmp_path: Path, change: str) -> None:
    """In a file that was opened the second reader fills a view, here in the midst of a change."""
    with tidewheel.connect(tmp_path / "x.db") as con:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE TABLE other (n BIGINT)")
        con.execute("INSERT INTO t VALUES (1), (1), (5)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    with tidewheel.connect(tmp_path / "x.db") as con:
        con.execute("INSERT INTO other SELECT n FROM v")
        con.execute(change)
        expected = con.execute("SELECT a, count(*) FROM t GROUP BY a ORDER BY a").fetchall()
        assert con.execute("FROM v ORDER BY a").fetchall() == expected
        assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize(
    ("query", "change"),
    [
        (
            "SELECT p.g, list(c.y) AS l FROM p JOIN c ON c.g = p.g GROUP BY p.g",
            "INSERT INTO c VALUES (1, 9)",
        ),
        (
            "SELECT p.g, c.y FROM p LEFT JOIN c USING (g)",
            "INSERT INTO c SELECT range % 4, range FROM range(9000)",
        ),
        ("SELECT g, y FROM p JOIN c USING (g)", "ALTER TABLE p ADD COLUMN z INTEGER"),
    ],
    ids=["recomputed", "large", "altered"],
)
def test_a_transaction_that_began_before_others_committed(query: str, change: str) -> None:
    name = ":memory:began_before"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute(
            "CREATE TABLE p (g INTEGER); CREATE TABLE c (g INTEGER, y INTEGER);"
            "INSERT INTO p VALUES (1), (2), (3); INSERT INTO c VALUES (1, 1), (2, 2);"
            f"CREATE MATERIALIZED VIEW v AS {query};"
            "CREATE MATERIALIZED VIEW over AS SELECT count(*) AS n FROM v"
        )
        told = [other.subscribe(view) for view in ("v", "over")]
        con.execute("BEGIN; FROM p")
        other.execute("INSERT INTO c VALUES (3, 3)")
        con.execute(change)
        con.execute("COMMIT")
        for view, subscription in zip(("v", "over"), told, strict=True):
            assert other.execute(f"VERIFY VIEW {view}").fetchall() == []
            found: dict[str, int] = {}
            while (update := subscription.read(0)) is not None:
                for _, weight, *row in update.rows():
                    found[repr(row)] = found.get(repr(row), 0) + weight
            rows = other.execute(f"FROM {view}").fetchall()
            assert sorted(key for key, n in found.items() for _ in range(n)) == sorted(
                repr([*row]) for row in rows
            )


def test_a_view_that_fails_on_what_two_transactions_left_is_read_with_its_error() -> None:
    name = ":memory:fails_on_both"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute(
            "CREATE TABLE p (x INTEGER); CREATE TABLE q (x INTEGER);"
            "CREATE MATERIALIZED VIEW v AS SELECT list(error('both')) AS l FROM p, q"
        )
        told = other.subscribe("v")
        con.execute("BEGIN; FROM p")
        other.execute("INSERT INTO p VALUES (1)")
        con.execute("INSERT INTO q VALUES (1); COMMIT")  # alone either is right
        with pytest.raises(tidewheel.Error, match="both"):
            other.execute("FROM v").fetchall()
        assert told.read(0) is not None  # the snapshot
        with pytest.raises(tidewheel.OperationalError, match="made anew"):
            told.read(0)
        con.execute("DELETE FROM q")
        assert other.execute("FROM v").fetchall() == [(None,)]


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("UPDATE t SET c = 100 WHERE a = 1", "DELETE FROM t WHERE a = 1"),
        ("UPDATE t SET c = 100 WHERE a = 1", "UPDATE t SET d = 50 WHERE a = 1"),
        ("DELETE FROM t WHERE a = 1", "UPDATE t SET d = 50 WHERE a = 1"),
        ("UPDATE t SET c = 100 WHERE a = 1", "UPDATE t SET d = 50 WHERE a = 0"),
    ],
)
def test_a_row_that_two_transactions_change(key: str, theirs: str, ours: str) -> None:
    """DuckDB refuses some of it; what it takes, views have as the table has it."""
    name = ":memory:two_change"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute(
            f"CREATE TABLE t (a INTEGER {key}, c INTEGER, d INTEGER);"
            "INSERT INTO t VALUES (0, 1, 1), (1, 2, 2);"
            "CREATE MATERIALIZED VIEW v AS SELECT sum(c) AS c, sum(d) AS d FROM t;"
        )
        for _ in range(3):  # (rows are known by their key once it has been asked for)
            other.execute("UPDATE t SET c = c + 1 WHERE a = 1")
        con.execute("BEGIN; FROM t")
        other.execute(theirs)
        try:
            con.execute(ours)
            con.execute("COMMIT")
        except tidewheel.Error:
            if con.in_transaction:
                con.rollback()
        want = other.execute("SELECT sum(c), sum(d) FROM t").fetchall()
        assert con.execute("FROM v").fetchall() == other.execute("FROM v").fetchall() == want


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
@pytest.mark.parametrize("late", [True, False])
def test_a_view_that_was_made_after_a_row_was_changed(tmp_path: Path, key: str, late: bool) -> None:
    """Nobody watched the table when the other transaction changed it."""
    path = tmp_path / "made.db"
    with tidewheel.connect(path) as con, tidewheel.connect(path) as other:
        con.execute(f"CREATE TABLE t (a INTEGER {key}, c INTEGER); INSERT INTO t VALUES (1, 1)")
        con.execute("INSERT INTO t VALUES (2, 2)")
        con.execute("BEGIN")
        if late:
            con.execute("FROM t").fetchall()
        other.execute("UPDATE t SET c = 100 WHERE a = 1")
        other.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(c) AS c FROM t")
        assert other.execute("FROM v").fetchall() == [(102,)]
        con.execute("DELETE FROM t WHERE a = 1; COMMIT")
        assert con.execute("FROM v").fetchall() == other.execute("FROM v").fetchall() == [(2,)]
        assert other.execute("VERIFY VIEW v").fetchall() == []


def test_a_transaction_that_has_not_looked_lacks_nothing() -> None:
    """DuckDB's snapshot is that of the first look, not of BEGIN."""
    name = ":memory:first_look"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute(
            "CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT sum(a) FROM t"
        )
        con.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        assert con.execute("FROM t").fetchall() == con.execute("FROM v").fetchall() == [(1,)]
        assert not con._session.views._behind_others
        other.execute("INSERT INTO t VALUES (2)")
        assert con.execute("FROM t").fetchall() == con.execute("FROM v").fetchall() == [(1,)]
        con.execute("INSERT INTO t VALUES (4); COMMIT")
        assert con.execute("FROM v").fetchall() == other.execute("FROM v").fetchall() == [(7,)]


def test_a_table_that_another_connection_has_altered_meanwhile() -> None:
    """What a transaction with an older snapshot reads of the catalog is not kept behind it."""
    name = ":memory:altered_meanwhile"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute("CREATE TABLE t (a INTEGER, c INTEGER, d INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT a, sum(c) AS s FROM t GROUP BY a; FROM v")
        con.execute("BEGIN; FROM t")
        other.execute("ALTER TABLE t DROP COLUMN d")
        with pytest.raises(tidewheel.Error, match="3 columns"):
            con.execute("INSERT INTO t VALUES (1, 2)")
        con.execute("ROLLBACK; BEGIN; INSERT INTO t VALUES (1, 2); COMMIT")
        assert con.execute("FROM v").fetchall() == [(1, 2)]


def test_a_transaction_that_waits_before_it_looks_sees_what_others_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DuckDB's BEGIN takes no snapshot: its first look at the database does."""
    name = ":memory:waits_first"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute("CREATE TABLE t (a INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT list(a) AS l FROM t")
        other.execute("FROM v")
        monkeypatch.setattr(Views, "_look_again", None)  # (nothing is to be computed twice)
        con.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        con.execute("INSERT INTO t VALUES (2)")
        assert con.execute("FROM v").fetchall() == [([1, 2],)]
        con.execute("COMMIT")
        assert other.execute("FROM v").fetchall() == [([1, 2],)]


def test_what_is_known_of_the_catalog_holds_over_transactions_of_rows() -> None:
    name = ":memory:known_catalog"
    with tidewheel.connect(name) as con, tidewheel.connect(name) as other:
        con.execute("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS FROM t; FROM v")

        def read_again(*during: str) -> bool:
            known = con._session.version, functions.of(con._session.connection)
            for end in "COMMIT", "ROLLBACK":
                con.execute("BEGIN; INSERT INTO t VALUES (1)")
                for text in during:
                    other.execute(text)
                con.execute(end)
            return known != (con._session.version, functions.of(con._session.connection))

        assert not read_again()
        assert read_again("CREATE OR REPLACE TABLE u (a INTEGER)")
        assert read_again("CREATE OR REPLACE MACRO twice(x) AS 2 * x")
        con.execute("BEGIN; INSERT INTO t VALUES (2)")
        other.execute("CREATE MACRO thrice(x) AS 3 * x")
        with pytest.raises(tidewheel.Error, match="thrice"):
            con.execute("SELECT thrice(a) FROM t")
        con.execute("ROLLBACK")
        con.execute("CREATE MATERIALIZED VIEW w AS SELECT thrice(a) AS b FROM t")
        assert con.execute("FROM w").fetchall() == [(3,)] * 3


def test_a_view_that_a_failed_change_emptied_comes_back_with_its_drop() -> None:
    """It is filled again before the next change, which it may refuse."""
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT error('none') AS e FROM t WHERE a = 0")
        for after in "ROLLBACK", "CREATE MATERIALIZED VIEW v AS FROM t; ROLLBACK":
            with pytest.raises(tidewheel.Error, match="none"):
                con.execute("INSERT INTO t VALUES (0)")
            con.execute(f"BEGIN; DROP MATERIALIZED VIEW v; INSERT INTO t VALUES (0); {after}")
        with pytest.raises(tidewheel.Error, match="none"):
            con.execute("INSERT INTO t VALUES (0)")
        con.execute("DROP MATERIALIZED VIEW v; INSERT INTO t VALUES (0)")
        assert con.execute("FROM t ORDER BY a").fetchall() == [(0,), (1,)]
