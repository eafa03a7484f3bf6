"""`script(..., as_text=True)`: the same text as the way through Arrow, whatever the types."""

import threading
import time

import pytest

import tidewheel

QUERIES = [
    "SELECT 1, 'x', true, false, NULL::INTEGER, NULL::VARCHAR",
    "SELECT 255::UTINYINT, (-128)::TINYINT, 18446744073709551615::UBIGINT, 1.50::DECIMAL(9,2)",
    "SELECT 0.00000001::DECIMAL(18,8), -0.5::DECIMAL(38,1), 1::DECIMAL(4,0)",
    "SELECT 1 AS a, 2 AS a, 'z' AS a",
    "SELECT 'a' || chr(10) || 'b', '', 'NULL'",
    "SELECT 1.5, 1e20::DOUBLE, DATE '2020-01-02', [1, 2], {'a': true}, 2::HUGEINT",
    "SELECT i, i % 7 = 0, 'r' || i FROM range(25000) t(i) ORDER BY i DESC",
    "SELECT 1 WHERE false",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v(n, s)",
    "FROM range(3)",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
]
FAILS_LATE = (
    "SELECT CASE WHEN i = 90000 THEN error('boom') ELSE i::VARCHAR END FROM range(100000) t(i)"
)
LONG = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range < b.range"


def read(connection: tidewheel.Connection, sql: str) -> list[tuple[str | None, ...]]:
    (cursor,) = connection.script(sql, as_text=True)
    return list(cursor.text_rows())


@pytest.fixture
def connection() -> tidewheel.Connection:
    return tidewheel.connect()


@pytest.mark.parametrize("sql", QUERIES)
def test_text_is_the_same_with_and_without_arrow(
    connection: tidewheel.Connection, sql: str
) -> None:
    expected = connection.execute(sql)
    (cursor,) = connection.script(sql, as_text=True)
    assert cursor.description == expected.description
    assert list(cursor.text_rows()) == list(expected.text_rows())
    (cursor,) = connection.script(sql, as_text=True)
    expected = connection.execute(sql)
    assert cursor.fetchall() == expected.fetchall()
    (cursor,) = connection.script(sql, as_text=True)
    expected = connection.execute(sql)
    assert cursor.to_arrow_table() == expected.to_arrow_table()


def test_another_statement_may_come_between(connection: tidewheel.Connection) -> None:
    (cursor,) = connection.script("SELECT i FROM range(30000) t(i)", as_text=True)
    rows = cursor.text_rows()
    assert next(rows) == ("0",)
    assert connection.execute("SELECT 'between'").fetchall() == [("between",)]
    assert next(rows) == ("1",)
    assert [int(n or 0) for (n,) in rows] == list(range(2, 30000))


def test_parameters_and_transactions(connection: tidewheel.Connection) -> None:
    connection.execute("CREATE TABLE t (i INTEGER); BEGIN; INSERT INTO t VALUES (1), (2)")
    (cursor,) = connection.script("SELECT i FROM t WHERE i > ?", [1], as_text=True)
    assert list(cursor.text_rows()) == [("2",)]
    connection.execute("ROLLBACK")
    (cursor,) = connection.script("SELECT count(*) FROM t", as_text=True)
    assert list(cursor.text_rows()) == [("0",)]


def test_a_result_given_up_leaves_the_connection_free(connection: tidewheel.Connection) -> None:
    (cursor,) = connection.script("FROM range(10000000)", as_text=True)
    next(cursor.text_rows())
    cursor.close()
    assert connection.execute("SELECT 2").fetchall() == [(2,)]


def test_errors_are_tidewheels(connection: tidewheel.Connection) -> None:
    with pytest.raises(tidewheel.ProgrammingError, match="nope"):
        next(connection.script("SELECT nope", as_text=True))
    with pytest.raises(tidewheel.Error, match="boom"):
        read(connection, FAILS_LATE)
    assert connection.execute("SELECT 3").fetchall() == [(3,)]


def test_an_interrupt_ends_it(connection: tidewheel.Connection) -> None:
    def stop() -> None:
        time.sleep(0.3)
        connection.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(tidewheel.OperationalError, match=r"(?i)interrupt"):
        read(connection, LONG)
    thread.join()
    assert connection.execute("SELECT 4").fetchall() == [(4,)]
