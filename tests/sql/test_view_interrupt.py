"""What a view's own operators take long for ends when it is told to, and loses nothing."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

import tidewheel

N = 3000
TABLES = f"""
CREATE TABLE t AS SELECT i::INTEGER AS k, i % 5 AS g, 's' || i AS s FROM range({N}) AS r(i);
CREATE TABLE few(k INTEGER, g INTEGER)
"""
VIEWS = {  # each meets several millions of pairs: some seconds
    "texts in order": "SELECT a.g, string_agg(a.s, ',' ORDER BY a.k) AS x "
    "FROM t AS a JOIN {0} AS b ON a.k <> b.k GROUP BY a.g",
    "pairs": "SELECT a.k, b.k AS other, c.s FROM t AS a, {0} AS b, t AS c "
    "WHERE a.k <> b.k AND c.k < 4",
    "unnested": "SELECT t.s, unnest(range(9 * t.k)) AS n FROM t JOIN {0} AS b ON b.k = t.k",
}


@pytest.fixture
def con() -> Iterator[tidewheel.Connection]:
    with tidewheel.connect() as opened:
        opened.execute(TABLES)
        yield opened


def _stopped(con: tidewheel.Connection, sql: str, how: str) -> None:
    if how == "timeout":
        con.execute("SET statement_timeout = '1ms'")  # (with a quarter of a second more)
        with pytest.raises(tidewheel.OperationalError, match="than statement_timeout = 1 ms"):
            con.execute(sql)
        con.execute("SET statement_timeout = 'none'")
        return
    timer = threading.Timer(0.3, con.interrupt if how == "call" else _ctrl_c)
    timer.start()
    wanted = tidewheel.Error if how == "call" else KeyboardInterrupt
    with pytest.raises(wanted) as caught:
        con.execute(sql)
    timer.join()
    assert how != "call" or "interrupted" in str(caught.value)


def _ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Python's own: a shell may have started us with SIGINT ignored, PySpark sets another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", ["timeout", "call", "signal"])
@pytest.mark.parametrize("name", VIEWS)
def test_filling(con: tidewheel.Connection, name: str, how: str) -> None:
    _stopped(con, f"CREATE MATERIALIZED VIEW v AS {VIEWS[name].format('t')}", how)
    with pytest.raises(tidewheel.ProgrammingError, match="v"):
        con.execute("SELECT * FROM v")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name].format('few')}")
    con.execute("INSERT INTO few VALUES (1, 1), (7, 2)")
    assert con.execute("VERIFY VIEW v").fetchall() == []


@pytest.mark.parametrize("how", ["timeout", "call", "signal"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_change(con: tidewheel.Connection, name: str, how: str) -> None:
    con.execute("INSERT INTO few VALUES (1, 1), (7, 2)")
    con.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name].format('few')}")
    before = con.execute("SELECT count(*), min(v::VARCHAR), max(v::VARCHAR) FROM v").fetchall()
    _stopped(con, f"INSERT INTO few SELECT i, i % 5 FROM range({N}) AS r(i)", how)
    assert con.execute("SELECT count(*) FROM few").fetchall() == [(2,)]
    after = con.execute("SELECT count(*), min(v::VARCHAR), max(v::VARCHAR) FROM v").fetchall()
    assert after == before
    con.execute("INSERT INTO few VALUES (3, 1)")
    assert con.execute("VERIFY VIEW v").fetchall() == []


def test_another_one_is_not_stopped(con: tidewheel.Connection) -> None:
    """An interrupt of one connection is none of another's, though they share what computes."""
    with tidewheel.connect() as other:
        other.execute("CREATE TABLE u AS SELECT i AS k FROM range(100) AS r(i)")
        other.execute("CREATE MATERIALIZED VIEW w AS SELECT k, unnest(range(k)) AS n FROM u")
        con.interrupt()
        other.execute("INSERT INTO u SELECT i FROM range(100, 1500) AS r(i)")
        assert other.execute("VERIFY VIEW w").fetchall() == []
