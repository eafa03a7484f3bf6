"""A connection as kernels use it: what DuckDB may look at is asked once per change of settings."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import tidewheel
from tidewheel.engine.kernels.connection import Access, KernelConnection

CLOSURE = """WITH RECURSIVE t(x, y) AS (SELECT a, b FROM e UNION SELECT t.x, u.y FROM t JOIN t u
    ON u.x = t.y) SELECT count(*) FROM t"""


@pytest.mark.parametrize("beside", [False, True])
def test_inputs_are_found_after_a_setting_changed(beside: bool, tmp_path: Path) -> None:
    con = tidewheel.connect(tmp_path / "db")
    other = tidewheel.connect(tmp_path / "db") if beside else con
    con.execute("CREATE TABLE e AS SELECT i AS a, i + 1 AS b FROM range(5) t(i)")
    assert con.execute(CLOSURE).fetchall() == [(15,)]
    for setting in (
        "python_enable_replacements = true",
        "python_enable_replacements = false",
        "enable_external_access = false",
    ):
        other.execute(f"SET {setting}")
        assert con.execute(CLOSURE).fetchall() == [(15,)], setting
    for each in {con, other}:
        each.close()


def test_what_is_known_is_not_asked_again() -> None:
    con = duckdb.connect()
    version = [1]
    access = Access(lambda: version[0])
    con.execute("SET python_enable_replacements = false")
    assert access.of(con) == (False, True)
    con.execute("SET python_enable_replacements = true")
    assert access.of(con) == (False, True)
    version[0] = 2
    assert access.of(con) == (True, True)
    assert Access().of(con) == (True, True)


@pytest.mark.parametrize("once", [False, True])
def test_a_reader_keeps_what_it_reads(once: bool) -> None:
    kernels = KernelConnection(duckdb.connect(), threading.RLock(), batch_rows=2048, once=once)
    kernels.open()
    reader = kernels.reader("SELECT n + 1 AS n FROM __tw_in0", {"__tw_in0": _numbers()})
    junk = [_numbers(-1) for _ in range(20)]
    rows = [n for batch in reader for n in batch.column(0).to_pylist()]
    assert rows == list(range(1, 300_001))
    assert len(junk) == 20
    kernels.close()


@pytest.mark.parametrize("once", [False, True])
def test_a_statement_that_fails_tells_it(once: bool) -> None:
    kernels = KernelConnection(duckdb.connect(), threading.RLock(), once=once)
    kernels.open()
    with pytest.raises(duckdb.BinderException, match="nobody"):
        kernels.table("SELECT nobody FROM range(3)")
    with pytest.raises(duckdb.BinderException, match="nobody"):
        kernels.reader("SELECT nobody FROM range(3)")
    with pytest.raises(duckdb.ConversionException, match="'x'"):
        list(kernels.reader("SELECT CAST('x' AS INTEGER) AS n FROM range(3)"))
    assert kernels.table("SELECT 1 AS n").to_pylist() == [{"n": 1}]
    kernels.close()


def _numbers(sign: int = 1) -> pa.Table:
    return pa.table({"n": pa.array((sign * i for i in range(300_000)), pa.int64())})
