"""Results stream: the first batch comes before the last is computed, and memory stays bounded.

With fusion off each vertex holds its answer whole, as one connection streams one result at a time.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

import tidewheel

ENDLESS = {
    "a scan": "SELECT i, i * 2 AS d FROM range(100000000000) t(i) WHERE i % 3 <> 0",
    "a join": """SELECT t.i, u.n FROM range(100000000000) t(i)
                 JOIN (SELECT 1 AS k, 'one' AS n UNION ALL SELECT 2, 'two') u ON t.i % 5 = u.k""",
    "two branches": """SELECT i FROM range(100000000000) t(i)
                       UNION ALL SELECT -i FROM range(100000000000) t(i)""",
}

MEASURE = """
import resource, sys, tidewheel
sql, threads = sys.argv[1], int(sys.argv[2])
with tidewheel.connect(threads=threads) as con:
    cursor = con.execute(sql)
    reader = cursor.to_arrow_reader()
    first = reader.read_next_batch().num_rows
    assert first > 0
    for _ in range(5):
        reader.read_next_batch()
    early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = 0
    while rows < 20_000_000:
        rows += reader.read_next_batch().num_rows
    late = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cursor.close()
    assert con.execute("SELECT 1").fetchall() == [(1,)]
print((late - early) // 1024)
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS.keys())
def test_memory_is_bounded(sql: str, threads: int) -> None:
    """20 million rows (320 MB and more) of a result that never ends pass through 150 MB at most."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sql, str(threads)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150


def test_the_first_row_of_a_result_that_never_ends() -> None:
    with tidewheel.connect() as con:
        cursor = con.execute("SELECT i FROM range(100000000000) t(i) WHERE i > 10")
        assert cursor.fetchone() == (11,)
        assert len(cursor.fetchmany(5000)) == 5000
        cursor.close()
        assert con.execute("SELECT 2").fetchone() == (2,)


def test_a_result_that_nobody_holds_is_not_read_on() -> None:
    endless = "SELECT i FROM range(100000000000) t(i)"
    with tidewheel.connect() as con:
        assert con.execute(endless).fetchone() == (0,)
        assert con.execute("SELECT 3").fetchone() == (3,)
        reader = con.execute(endless).to_arrow_reader()
        assert reader.read_next_batch().num_rows > 0
        del reader
        assert con.execute("SELECT 4").fetchone() == (4,)
        for _ in con.execute(endless):
            break
        assert con.execute("SELECT 5").fetchone() == (5,)


def test_closing_a_connection_ends_its_result() -> None:
    con = tidewheel.connect()
    cursor = con.execute("SELECT i FROM range(100000000000) t(i)")
    assert cursor.fetchone() == (0,)
    con.close()
    with pytest.raises(tidewheel.Error, match="closed"):
        cursor.fetchone()


@pytest.mark.parametrize("closed", ["", "; con.close()"])
def test_a_reader_that_outlives_python_says_nothing(closed: str) -> None:
    code = (
        "import tidewheel; con = tidewheel.connect(); "
        "reader = con.execute('FROM range(1000000)').to_arrow_reader(); "
        "reader.read_next_batch()" + closed
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_statement_reads_what_the_same_connection_streams() -> None:
    """DuckDB asks for the rows in a thread of its own, while the statement has the connection."""
    con = tidewheel.connect()
    found: list[Any] = []

    def run() -> None:
        reader = con.execute("from range(300000)").to_arrow_reader()
        reader.read_next_batch()
        con.register("rows", reader)
        con.execute("create table t as from rows")
        found.extend(con.execute("select max(range) from t").fetchall())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert found == [(299_999,)]
    con.close()


def test_a_change_reads_a_reader_once() -> None:
    """Views or not: to tell what an UPDATE changes its FROM was read twice."""
    with tidewheel.connect() as con:
        con.execute("create table t as select range as a, 0 as b from range(10)")
        con.execute(
            "create materialized view v as select b, count(*) as n from t group by b; from v"
        )
        con.register("rows", con.execute("select range as a from range(3)").to_arrow_reader())
        changed = con.execute("update t set b = 1 from rows where rows.a = t.a returning t.a")
        assert sorted(changed.fetchall()) == [(0,), (1,), (2,)]
        assert sorted(con.execute("from v").fetchall()) == [(0, 7), (1, 3)]
        assert con.execute("verify view v").fetchall() == []
