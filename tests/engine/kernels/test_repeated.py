"""`Repeated`: a statement that is bound once gives what it would give bound anew."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa
import pytest

from tidewheel.engine.kernels.connection import KernelConnection, Repeated


@pytest.mark.parametrize("access", [True, False], ids=["open", "no external access"])
def test_inputs_of_many_sizes(access: bool) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT range AS a, range % 7 AS b FROM range(1000)")
    if not access:
        con.execute("SET enable_external_access = false")
    kernels = KernelConnection(con, threading.RLock())
    kernels.open()
    text = (
        "SELECT b, count(*) AS n FROM t JOIN __tw_in0 ON x = a WHERE b <> $no GROUP BY b ORDER BY b"
    )
    repeated = Repeated(kernels, text, {"no": 3})
    try:
        for size in (2, 0, 30, 20_000, 5):
            given = {"__tw_in0": pa.table({"x": pa.array(range(size), pa.int32())})}
            assert repeated(given).equals(kernels.table(text, given, {"no": 3}))
        wide = {"__tw_in0": pa.table({"x": pa.array([8, 9], pa.int64())})}
        assert repeated(wide).to_pylist() == [{"b": 1, "n": 1}, {"b": 2, "n": 1}]
    finally:
        kernels.close()
