"""Other connections read while one writes: each statement sees one epoch, in tables and views."""

from __future__ import annotations

import threading

import tidewheel

NAME = ":memory:readers"
QUERY = "SELECT (SELECT count(*) FROM v), (SELECT n FROM w), (SELECT count(*) FROM t)"


def test_readers_see_one_epoch_and_lose_none() -> None:
    con = tidewheel.connect(NAME)
    con.execute("CREATE TABLE t (a INTEGER, s VARCHAR)")
    con.execute("INSERT INTO t SELECT i, repeat('x', 50) FROM range(30000) r(i)")
    con.execute("CREATE MATERIALIZED VIEW v AS FROM t")
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v")
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        with tidewheel.connect(NAME) as reader:
            while not stop.is_set():
                row = reader.execute(QUERY).fetchone()
                assert row is not None
                if len(set(row)) > 1 or row[0] % 2:
                    wrong.append(row)

    def write(start: int) -> None:
        with tidewheel.connect(NAME) as writer:
            for i in range(start, start + 8):
                writer.execute("BEGIN")
                writer.execute("INSERT INTO t VALUES (?, 'y')", [i])
                writer.execute("INSERT INTO t VALUES (?, 'z')", [i])
                writer.execute("COMMIT")

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 100)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert con.execute(QUERY).fetchall() == [(30032, 30032, 30032)]
    assert con.execute("VERIFY VIEW v").fetchall() == []
    con.close()


def test_rows_of_a_dropped_view_are_let_go_of() -> None:
    con, other = tidewheel.connect(":memory:dropped"), tidewheel.connect(":memory:dropped")
    con.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
    con.execute("CREATE MATERIALIZED VIEW v AS FROM t; CREATE MATERIALIZED VIEW w AS FROM t")
    names = "SELECT count(*) FROM duckdb_views() WHERE view_name LIKE '%rows%'"
    assert other.execute("FROM v, w").fetchall() == [(1, 1)]
    assert other.execute(names).fetchall() == [(2,)]
    con.execute("DROP MATERIALIZED VIEW v")
    assert other.execute(names).fetchall() == [(1,)]
    other.execute("BEGIN; FROM w")
    con.execute("DROP MATERIALIZED VIEW w; CREATE MATERIALIZED VIEW w AS SELECT a + 1 AS b FROM t")
    other.execute("COMMIT")
    assert other.execute("FROM w").fetchall() == [(2,)]
    assert other.execute(names).fetchall() == [(1,)]
    con.close()
    other.close()
