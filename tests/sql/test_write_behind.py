"""Single rows that DuckDB gets later: nobody may see that it has not got them yet."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.sql import key_indexes, write_behind


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR, x INTEGER NOT NULL)")
        con.execute("INSERT INTO t SELECT i, 'g' || i % 3, i FROM range(100) r(i)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        for i in range(3):  # an index is made for who asks again
            con.execute("UPDATE t SET x = ? WHERE id = 0", [i])
        for _ in range(2):
            con.execute("FROM v").fetchall()  # from the second time on without DuckDB
        con.execute("SELECT count(*) FROM t").fetchall()
        assert not waiting(con)
        yield con


def waiting(con: tidewheel.Connection) -> int:
    return con._session.behind.waiting


def rows(con: tidewheel.Connection, sql: str) -> list[Any]:
    return con.execute(sql).fetchall()


def test_views_have_it_before_duckdb(con: tidewheel.Connection) -> None:
    assert con.execute("INSERT INTO t VALUES (?, 'new', 7)", [100]).rowcount == 1
    assert con.execute("INSERT INTO t VALUES (?, 'new', 7)", [101]).rowcount == 1
    assert con.execute("DELETE FROM t WHERE id = 100").rowcount == 1
    assert con.execute("DELETE FROM t WHERE id = 100").rowcount == 0
    assert con.execute("UPDATE t SET x = 9, g = 'newer' WHERE id = ?", [101]).rowcount == 1
    assert con.execute("UPDATE t SET x = 9 WHERE id = ?", [101]).rowcount == 1
    assert waiting(con) > 1
    assert ("newer", 9) in con.execute("FROM v").fetchall()
    assert waiting(con) > 1  # a view that is read whole needs no DuckDB
    assert rows(con, "FROM t WHERE id > 99") == [(101, "newer", 9)]
    assert not waiting(con)
    assert not rows(con, "VERIFY VIEW v")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(x) FROM t",
        "SELECT (SELECT count(*) FROM t), s FROM v LIMIT 1",
        "SELECT count(*) FROM v, 't'",
        'SELECT g FROM v WHERE s > (SELECT count(*) FROM main."T")',
        "WITH q AS (SELECT x FROM t) SELECT count(*) FROM q, v",
        "SELECT count(*) FROM query('FROM t'), v",
        "SELECT v.g FROM v, query_table('t')",
        "SELECT g, counted() FROM v",
        "SELECT g FROM v JOIN plain USING (g)",
        "SELECT g, estimated_size FROM v, duckdb_tables",
        "CREATE TABLE copied AS FROM t",
        "BEGIN",
        "ALTER TABLE t ADD COLUMN z INTEGER",
        "CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM t",
        "VERIFY VIEW v",
        "INSERT INTO t SELECT id + 1000, g, x FROM t",
        "UPDATE t SET x = x + 1",
        "EXPLAIN ANALYZE SELECT * FROM t",
        "TRUNCATE t",
        "CHECKPOINT",
    ],
)
def test_statements_find_it_written(con: tidewheel.Connection, sql: str) -> None:
    con.execute("CREATE VIEW plain AS SELECT g, count(*) AS n FROM t GROUP BY g")
    con.execute("CREATE MACRO counted() AS (SELECT count(*) FROM t)")
    for i in range(200, 204):
        con.execute("INSERT INTO t VALUES (?, 'a', 1)", [i])
    con.execute("DELETE FROM t WHERE id = 5")
    assert waiting(con)
    done = con.execute(sql)
    if done.description:
        done.fetchall()
    assert not waiting(con)
    assert not rows(con, "VERIFY VIEW v")


def test_a_query_of_views_alone_leaves_it_waiting(con: tidewheel.Connection) -> None:
    con.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT x % 2 AS odd, count(*) AS n FROM t GROUP BY odd"
    )
    con.execute("FROM w").fetchall()
    rows(con, "SELECT s FROM v WHERE g = 'new'")  # what that means DuckDB is asked once
    con.execute("INSERT INTO t VALUES (?, 'old', 6)", [299])
    for i in range(3):
        con.execute("INSERT INTO t VALUES (?, 'new', 5)", [300 + i])
        had = waiting(con)
        assert rows(con, "SELECT s FROM v WHERE g = 'new'") == [(5 * (i + 1),)]
        joined = "SELECT v.s + w.n FROM v JOIN w ON w.odd = 1 WHERE upper(v.g) = ?"
        assert con.execute(joined, ["NEW"]).fetchall() == [(5 * (i + 1) + 51 + i,)]
        assert waiting(con) == had > 0
    assert rows(con, "SELECT count(*) FROM t WHERE id >= 300") == [(3,)]


def test_what_is_refused_is_refused_at_once(con: tidewheel.Connection) -> None:
    con.execute("INSERT INTO t VALUES (?, ?, ?)", [100, "a", 1])
    con.execute("INSERT INTO t VALUES (?, ?, ?)", [101, "a", 1])
    assert waiting(con)
    with pytest.raises(tidewheel.IntegrityError, match="Duplicate key"):
        con.execute("INSERT INTO t VALUES (?, ?, ?)", [100, "a", 1])
    with pytest.raises(tidewheel.IntegrityError, match="Duplicate key"):
        con.execute("INSERT INTO t VALUES (?, ?, ?)", [7, "a", 1])
    with pytest.raises(tidewheel.IntegrityError, match="NOT NULL"):
        con.execute("INSERT INTO t VALUES (?, ?, ?)", [102, "a", None])
    with pytest.raises(tidewheel.IntegrityError, match="NOT NULL"):
        con.execute("UPDATE t SET x = NULL WHERE id = 100")
    with pytest.raises(tidewheel.DataError):
        con.execute("INSERT INTO t VALUES (?, ?, ?)", [2**31, "a", 1])
    con.execute("DELETE FROM t WHERE id = 7")
    con.execute("INSERT INTO t VALUES (?, ?, ?)", [7, "b", 70])
    assert rows(con, "FROM t WHERE id IN (7, 100) ORDER BY ALL") == [(7, "b", 70), (100, "a", 1)]
    assert not rows(con, "VERIFY VIEW v")


def test_not_too_many_wait(con: tidewheel.Connection) -> None:
    for i in range(3 * write_behind.MOST):
        con.execute("INSERT INTO t VALUES (?, 'a', 1)", [1000 + i])
        assert waiting(con) <= write_behind.MOST
    assert rows(con, "SELECT count(*) FROM t") == [(100 + 3 * write_behind.MOST,)]


def test_booleans_wait_like_others() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, ok BOOLEAN, f BOOLEAN NOT NULL)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT ok, count(*) AS n, bool_and(f) AS a FROM t "
            "WHERE NOT (ok AND f) OR id > 2 OR ok IS NULL GROUP BY ok"
        )
        for i in range(4):
            con.execute("INSERT INTO t VALUES (?, NULL, true)", [i])
        for i, ok in enumerate((True, False)):
            assert con.execute("UPDATE t SET ok = ?, f = ? WHERE id = ?", [ok, ok, i]).rowcount == 1
        assert waiting(con) >= 4
        with pytest.raises(tidewheel.IntegrityError):
            con.execute("UPDATE t SET f = NULL WHERE id = 1")
        assert rows(con, "FROM t ORDER BY id") == [
            (0, True, True), (1, False, False), (2, None, True), (3, None, True)
        ]  # fmt: skip
        assert not rows(con, "VERIFY VIEW v")


def test_not_too_much_text_waits(con: tidewheel.Connection) -> None:
    most = 0
    for i in range(200):
        con.execute("INSERT INTO t VALUES (?, ?, 1)", [1000 + i, "x" * 1_000_000])
        most = max(most, waiting(con))
    assert 2 <= most <= 20
    assert rows(con, "SELECT count(*), sum(strlen(g)) FROM t WHERE id >= 1000") == [
        (200, 2 * 10**8)
    ]


def test_a_table_without_a_key_keeps_its_order() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE log (ts TIMESTAMP, what VARCHAR)")
        con.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT what, count(*) AS n FROM log GROUP BY ALL"
        )
        wanted = []
        for i in range(50):
            row = (dt.datetime(2020, 1, 1, 0, i % 7), f"w{i % 5}")
            con.execute("INSERT INTO log VALUES (?, ?)", row)
            wanted.append(row)
        assert waiting(con)
        assert rows(con, "FROM log") == wanted


def test_what_duckdb_must_look_at_does_not_wait() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE p (id INTEGER PRIMARY KEY)")
        con.execute("CREATE TABLE checked (x INTEGER CHECK (x > 0))")
        con.execute("CREATE TABLE uniq (x INTEGER UNIQUE)")
        con.execute("CREATE TABLE child (x INTEGER REFERENCES p (id))")
        con.execute("CREATE TABLE collated (x VARCHAR COLLATE NOCASE PRIMARY KEY)")
        con.execute("CREATE TABLE made (x INTEGER, y AS (x + 1))")
        names = ("p", "checked", "uniq", "child", "collated", "made")
        for name in names:
            con.execute(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT count(*) AS n FROM {name}")
        for name in names:
            for i in range(1, 5):
                value = f"'{i}'" if name == "collated" else i
                con.execute(f"INSERT INTO {name} VALUES ({value})")
                assert not waiting(con), name
            assert rows(con, f"FROM v_{name}") == [(4,)]
        with pytest.raises(tidewheel.IntegrityError):
            con.execute("DELETE FROM p WHERE id = 1")


def test_rows_of_an_arrow_table(con: tidewheel.Connection) -> None:
    def batch(ids: list[Any], x: list[Any]) -> pa.Table:
        return pa.table(
            {"a": pa.array(ids, pa.int32()), "b": ["h"] * len(ids), "c": pa.array(x, pa.int32())}
        )

    for text in ("INSERT INTO t FROM batch", "insert into T select * from BATCH;"):
        con.register("batch", batch([200, 201, 202], [1, 2, 3]))
        assert con.execute(text).rowcount == 3
        assert waiting(con) == 3
        assert ("h", 6) in rows(con, "FROM v")
        assert con.execute("DELETE FROM t WHERE id BETWEEN 200 AND ?", [202]).rowcount == 3
        assert not [row for row in rows(con, "FROM v") if row[0] == "h"]
        assert rows(con, "SELECT count(*) FROM t") == [(100,)]
    for ids, x in (([200, 200], [1, 1]), ([201, 5], [1, 1]), ([203], [None])):
        con.register("batch", batch(ids, x))
        with pytest.raises(tidewheel.IntegrityError):
            con.execute("INSERT INTO t FROM batch")
        con.unregister("batch")
    con.register("batch", batch([300], [7]))
    con.execute("CREATE TABLE main.batch (a INTEGER, b VARCHAR, c INTEGER)")
    con.execute("INSERT INTO t FROM batch")  # DuckDB says which of them that is
    assert not waiting(con)
    assert rows(con, "FROM t WHERE id > 99") == rows(con, "FROM batch")
    assert not rows(con, "VERIFY VIEW v")


def test_several_rows_by_their_keys(con: tidewheel.Connection) -> None:
    assert con.execute("UPDATE t SET x = 0 WHERE id IN (1, 2, 2, ?, 1000)", [3]).rowcount == 3
    assert con.execute("UPDATE t SET x = 0, g = 'z' WHERE id BETWEEN 90 AND 200").rowcount == 10
    assert con.execute("DELETE FROM t WHERE id BETWEEN 5 AND 4").rowcount == 0
    assert con.execute("DELETE FROM t WHERE id IN (7)").rowcount == 1
    assert waiting(con) == 14
    for sql in ("x = x + 5", "x=x+?", "x = X - -5", "x = x -1, g = g"):
        con.execute(f"UPDATE t SET {sql} WHERE id = 4", [5] if "?" in sql else None)
    con.execute("UPDATE t SET x = x - 14 WHERE id BETWEEN 4 AND 4")
    assert ("z", 0) in rows(con, "FROM v")
    assert rows(con, "SELECT count(*), sum(x) FROM t") == [
        (99, 2 + sum(range(4, 90)) - 7)
    ]  # the row of id 0 has 2
    for sql in ("DELETE FROM t WHERE id IN (1, NULL)", "DELETE FROM t WHERE id BETWEEN NULL AND 5"):
        con.execute(sql)
    assert rows(con, "SELECT count(*) FROM t") == [(98,)]
    assert not rows(con, "VERIFY VIEW v")


@pytest.mark.parametrize(
    "kind", ["TINYINT", "UBIGINT", "BIGINT", "DECIMAL(4, 2)", "DOUBLE", "DATE"]
)
def test_what_is_added(kind: str) -> None:
    theirs = duckdb.connect()
    texts = ("c + 1", "c - 1", "c + 126", "c + 0.25", "c - 0.125", "c + 1e0", "c + NULL", "c - -2",
             "c + '1'", "c + 9223372036854775807", "c - 98.76", "c + TRUE", "C + 2")  # fmt: skip
    bound = (1, -3, 0.5, 2**62, decimal.Decimal("0.75"), None, True, dt.date(2020, 1, 1), "1")
    with tidewheel.connect() as ours:
        for con in (ours, theirs):
            con.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, c {kind})")
        ours.execute("CREATE MATERIALIZED VIEW v AS SELECT id, c FROM t")
        for _ in range(2):
            for text, given in [*((t, None) for t in texts), *(("c + ?", [v]) for v in bound)]:
                failed = []
                for con in (ours, theirs):
                    start = "'2020-01-02'" if kind == "DATE" else "1"
                    con.execute(f"INSERT OR REPLACE INTO t VALUES (1, {start}), (2, NULL)")
                    try:
                        con.execute(f"UPDATE t SET c = {text} WHERE id IN (1, 2)", given)
                        failed.append(False)
                    except (tidewheel.Error, duckdb.Error):
                        failed.append(True)
                assert failed[0] == failed[1], text
                wanted = repr(theirs.execute("FROM t ORDER BY id").fetchall())
                assert repr(rows(ours, "FROM t ORDER BY id")) == wanted, (text, given)
                assert repr(rows(ours, "FROM v ORDER BY id")) == wanted, (text, given)


def test_a_file_has_every_row_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with tidewheel.connect(path) as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        for i in range(10):
            con.execute("INSERT INTO t VALUES (?, 1)", [i])
            con.execute("UPDATE t SET x = 2 WHERE id = ?", [i])
            assert not waiting(con)
        con.execute("DELETE FROM t WHERE id = 3")
        assert not waiting(con)
        other = con._session._duckdb.cursor()
        assert other.execute("SELECT count(*), sum(x) FROM t").fetchall() == [(9, 18)]
        assert rows(con, "FROM v") == [(18,)]


def test_an_attached_file_has_every_row_at_once(tmp_path: Path) -> None:
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'a.db'}' AS a")
        con.execute("CREATE TABLE a.t (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM a.t")
        for i in range(5):
            con.execute("INSERT INTO a.t VALUES (?)", [i])
            assert not waiting(con)
        assert rows(con, "FROM v") == [(5,)]


def test_a_failed_write_loses_nothing(
    con: tidewheel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(300, 310):
        con.execute("INSERT INTO t VALUES (?, 'a', 1)", [i])
    con.execute("DELETE FROM t WHERE id = 1")
    real, failures = write_behind._run, [True]

    def run(connection: Any, sql: str, *rest: Any) -> None:
        if sql.startswith("INSERT") and failures:
            failures.pop()
            raise duckdb.OutOfMemoryException("no room")
        real(connection, sql, *rest)

    monkeypatch.setattr(write_behind, "_run", run)
    with pytest.raises(tidewheel.Error, match="no room"):
        con.execute("SELECT count(*) FROM t")
    assert waiting(con)
    assert rows(con, "SELECT count(*) FROM t") == [(109,)]
    assert not rows(con, "VERIFY VIEW v")


def test_the_index_is_told_of(con: tidewheel.Connection) -> None:
    found = rows(con, "FROM tidewheel_vertices() WHERE kind = 'index'")
    assert len(found) == 1
    assert found[0][4] == "index of t"
    assert found[0][6] == "id"
    assert found[0][7] >= 100
    assert found[0][8] > 1000


def test_two_sessions_of_a_named_memory_see_it_at_once() -> None:
    name = ":memory:write_behind"
    with tidewheel.connect(name) as one, tidewheel.connect(name) as two:
        one.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)")
        one.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        for i in range(6):
            one.execute("INSERT INTO t VALUES (?, 1)", [i])
            assert rows(two, "SELECT count(*) FROM t") == [(i + 1,)]
            two.execute("UPDATE t SET x = 5 WHERE id = ?", [i])
            assert rows(one, "FROM v") == [(5 * (i + 1),)]
            one.execute("DELETE FROM t WHERE id = ?", [i])
            assert two.execute("DELETE FROM t WHERE id = ?", [i]).rowcount == 0
            one.execute("INSERT INTO t VALUES (?, 5)", [i])
        for con in (one, two):
            assert not rows(con, "VERIFY VIEW v")


def test_append_in_safe_mode() -> None:
    with tidewheel.connect(safe_mode=True) as con:
        con.execute("CREATE TABLE t (x INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        con.append("t", pa.table({"x": [1, 2]}))
        assert waiting(con) == 2
        assert rows(con, "FROM v") == [(3,)]


def test_append_and_executemany(con: tidewheel.Connection) -> None:
    batch = pa.table({"X": [1, 2], "g": ["h", "h"], "id": [500, 501]})  # other names, order, types
    assert con.append("t", batch) == 2
    assert waiting(con) == 2
    assert ("h", 3) in rows(con, "FROM v")
    more = [(i, "h", None if i < 600 else 1) for i in range(600, 620)]
    assert con.executemany("INSERT INTO t VALUES (?, ?, ?)", more).rowcount == 20
    assert waiting(con) == 22
    assert rows(con, "SELECT count(*), sum(x) FROM t WHERE g = 'h'") == [(22, 23)]
    for bad in (batch, batch.set_column(2, "id", pa.array([900, 2**40]))):
        with pytest.raises(tidewheel.Error):
            con.append("t", bad)
    with pytest.raises(tidewheel.ProgrammingError, match="did you mean"):
        con.append("t", batch.rename_columns(["X", "gg", "id"]))
    with pytest.raises(tidewheel.IntegrityError):
        con.executemany("INSERT INTO t VALUES (?, ?, ?)", [(700 + i, "h", None) for i in range(20)])
    assert con.append("t", pa.table({"id": [950], "x": [5]})) == 1  # g is NULL
    con.execute("BEGIN")
    assert con.append("t", batch.set_column(2, "id", pa.array([960, 961]))) == 2
    assert not waiting(con)
    con.execute("ROLLBACK")
    assert rows(con, "SELECT count(*) FROM t") == [(123,)]
    assert not rows(con, "VERIFY VIEW v")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET x = 9 WHERE id = ٣",
        "INSERT INTO t VALUES (٣٣, 1, 1, 1)",
        "DELETE FROM t WHERE id \x1c= 3",
        "UPDATE t ſET x = 9 WHERE id = 3",
        "UPDATE t SET é = 9 WHERE id = 3",
        "UPDATE É SET x = 9 WHERE id = 3",
        "INSERT INTO É VALUES (3, 1)",
        "UPDATE t SET end = 9 WHERE id = 3",
        "UPDATE end SET x = 9 WHERE end = 3",
        "DELETE FROM end WHERE end IN (3)",
        "INSERT INTO end VALUES (30, 1)",
        "INSERT INTO end FROM given",
    ],
)
def test_what_is_no_name_or_number_to_duckdb(sql: str) -> None:
    with tidewheel.connect() as con:
        con.execute('CREATE TABLE t (id INTEGER PRIMARY KEY, "É" INTEGER, "end" INTEGER, x INT)')
        for name, key in (("é", "id"), ("end", "end")):
            con.execute(f'CREATE TABLE "{name}" ("{key}" INTEGER PRIMARY KEY, x INTEGER)')
        for i, name in enumerate(("t", "é", "end")):
            con.execute(f'CREATE MATERIALIZED VIEW v{i} AS FROM "{name}"')
            values = "i, i, i, i" if name == "t" else "i, i"
            con.execute(f'INSERT INTO "{name}" SELECT {values} FROM range(9) r(i)')
        for _ in range(3):
            con.execute("UPDATE t SET x = 5 WHERE id = 1")
            con.execute('UPDATE "é" SET x = 5 WHERE id = 1')
            con.execute('UPDATE "end" SET x = 5 WHERE "end" = 1')
        con.register(
            "given", pa.table({"a": pa.array([40], pa.int32()), "x": pa.array([1], pa.int32())})
        )
        before = [rows(con, f"FROM v{i}") for i in range(3)]
        for _ in range(3):
            with pytest.raises(tidewheel.ProgrammingError):
                con.execute(sql)
        assert [rows(con, f"FROM v{i}") for i in range(3)] == before


def test_text_that_is_none(con: tidewheel.Connection) -> None:
    con.execute("CREATE TABLE named (k VARCHAR PRIMARY KEY, x INTEGER)")
    con.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(x) AS s FROM named")
    con.execute("INSERT INTO named VALUES ('é', 1)")
    for sql, given in (
        ("UPDATE t SET g = ? WHERE id = 3", ["\ud800"]),
        ("INSERT INTO t VALUES (?, ?, 1)", [500, "a\udc00"]),
        ("UPDATE named SET x = 2 WHERE k = ?", ["\ud800"]),
        ("DELETE FROM named WHERE k IN ('é', ?)", ["\ud800"]),
    ):
        for _ in range(3):
            with pytest.raises(tidewheel.Error, match="surrogate"):
                con.execute(sql, given)
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    with pytest.raises(tidewheel.Error, match="unicode"):
        con.append("t", pa.table({"id": [500], "g": bad, "x": [1]}))
    for text in ("é", "è", "é\0"):
        assert con.execute("UPDATE t SET g = ? WHERE id = 3", [text]).rowcount == 1
    assert waiting(con)
    assert rows(con, "SELECT g FROM t WHERE id = 3") == [("é\0",)]
    assert not rows(con, "VERIFY VIEW v")


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
@pytest.mark.parametrize("append", [False, True])
def test_arrays_that_are_filled_again(key: str, append: bool) -> None:
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (id INTEGER {key}, x DOUBLE)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        for _ in range(2):
            con.execute("FROM v").fetchall()
        wanted = []
        for n in (3, 40):
            ids, x = np.empty(n, np.int32), np.empty(n)
            for start in (0, 100, 200):
                ids[:], x[:] = np.arange(n) + start + 1000 * n, start
                batch = pa.table({"id": ids, "x": x})
                if append:
                    assert con.append("t", batch) == n
                else:
                    con.register("batch", batch)
                    assert con.execute("INSERT INTO t FROM batch").rowcount == n
                wanted += list(zip(ids.tolist(), x.tolist(), strict=True))
                ids[:] = x[:] = -1
            assert waiting(con)
            assert sorted(rows(con, "FROM v")) == sorted(wanted)
            assert rows(con, "FROM t") == wanted
        assert not rows(con, "VERIFY VIEW v")
        if key:
            assert con.execute("DELETE FROM t WHERE id = 40201").rowcount == 1
            assert len(rows(con, "FROM v")) == len(rows(con, "FROM t")) == len(wanted) - 1


def test_an_index_of_wide_text_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_indexes, "free", lambda: 1 << 20)
    with tidewheel.connect() as con:
        for table in ("narrow", "wide"):
            con.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, s VARCHAR, n INTEGER)")
            con.execute(f"INSERT INTO {table} SELECT i, 's', 0 FROM range(1000) r(i)")
            con.execute(f"CREATE MATERIALIZED VIEW v_{table} AS SELECT sum(n) FROM {table}")
        con.execute("UPDATE wide SET s = repeat('é', 1000)")
        for table in ("narrow", "wide"):
            for i in range(3):
                con.execute(f"UPDATE {table} SET n = ? WHERE id = 1", [i])
        found = rows(con, "FROM tidewheel_vertices() WHERE kind = 'index'")
        assert [row[4] for row in found] == ["index of narrow"]


def test_a_table_that_has_grown_is_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(n) FROM t")
        con.execute("DELETE FROM t WHERE id = 1")
        con.execute("INSERT INTO t SELECT i, 0 FROM range(100_000) r(i)")
        monkeypatch.setattr(key_indexes, "free", lambda: 1 << 20)
        for i in range(3):
            con.execute("UPDATE t SET n = ? WHERE id = 1", [i])
        assert not rows(con, "FROM tidewheel_vertices() WHERE kind = 'index'")


def test_a_database_that_is_only_read(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with duckdb.connect(path) as theirs:
        theirs.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        theirs.execute("INSERT INTO t VALUES (1, 1)")
    with tidewheel.connect() as con:
        con.execute(f"ATTACH '{path}' AS f (READ_ONLY)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(n) FROM f.t")
        for _ in range(3):
            con.execute("FROM v").fetchall()
        for sql in ("DELETE FROM f.t WHERE id = 9", "UPDATE f.t SET n = 1 WHERE id = 1"):
            with pytest.raises(tidewheel.Error, match="read-only"):
                con.execute(sql)


@pytest.mark.parametrize(
    ("kind", "value"), [("VARCHAR", "'x'"), ("BOOLEAN", "TRUE"), ("DATE", "?"), ("TIMESTAMP", "?")]
)
def test_what_has_no_sum(kind: str, value: str) -> None:
    given = {"DATE": [dt.date(2020, 1, 1)], "TIMESTAMP": [dt.datetime(2020, 1, 1)]}.get(kind)
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, c {kind})")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT c, count(*) AS n FROM t GROUP BY c")
        for i in range(4):
            con.execute("INSERT INTO t VALUES (?, NULL)", [i])
            con.execute("UPDATE t SET c = NULL WHERE id = ?", [i])
        for i in (0, 99):
            with pytest.raises(tidewheel.ProgrammingError):
                con.execute(f"UPDATE t SET c = c + {value} WHERE id = {i}", given)
            if kind in ("VARCHAR", "BOOLEAN"):
                with pytest.raises(tidewheel.ProgrammingError):
                    con.execute(f"UPDATE t SET c = c - NULL WHERE id = {i}")
        assert rows(con, "FROM v") == [(None, 4)]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t DROP COLUMN z",
        "ALTER TABLE t RENAME z TO y",
        "ALTER TABLE t ALTER z TYPE VARCHAR; UPDATE t SET z = 'z'",
        "CREATE OR REPLACE TABLE t (id INTEGER PRIMARY KEY, x INTEGER);INSERT INTO t VALUES (1, 1)",
    ],
)
def test_an_index_of_other_columns(sql: str) -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, z INTEGER)")
        con.execute("INSERT INTO t VALUES (1, 1, 1)")
        con.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s FROM t")
        for i in range(3):
            con.execute("UPDATE t SET x = ? WHERE id = 1", [i])
        con.execute(sql)
        assert con.execute("UPDATE t SET x = 7 WHERE id = 1").rowcount == 1
        assert rows(con, "FROM v") == [(7,)]
        assert not rows(con, "VERIFY VIEW v")
