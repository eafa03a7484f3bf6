"""`arrow_types`: what a result has, without running one."""

from __future__ import annotations

import duckdb
import pytest

from tidewheel.engine.kernels import duckdb as kernels

TYPES = [
    "BOOLEAN",
    "UTINYINT",
    "BIGINT",
    "HUGEINT",
    "DOUBLE",
    "DECIMAL(38,2)",
    "VARCHAR",
    "BLOB",
    "BIT",
    "UUID",
    "JSON",
    "DATE",
    "TIME",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
    "INTERVAL",
    "ENUM('a', 'it''s')",
    "DECIMAL(4,1)[][3]",
    'STRUCT(a INTEGER, "B c" VARCHAR[])',
    "MAP(INTEGER, VARCHAR)",
    "UNION(n INTEGER, t VARCHAR)",
]


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "by a statement"])
@pytest.mark.parametrize("setting", ["TimeZone = 'Asia/Tokyo'", "arrow_large_buffer_size = true"])
def test_types_are_those_of_results(
    monkeypatch: pytest.MonkeyPatch, setting: str, asked: bool
) -> None:
    if not asked:
        monkeypatch.setattr(kernels, "_arrow_schema", None)
    con = duckdb.connect()
    con.execute(f"SET {setting}").fetchall()
    listed = ", ".join(f"c{i} {t}" for i, t in enumerate(TYPES))
    con.execute(f"CREATE TABLE t ({listed})").fetchall()
    assert kernels.arrow_types(con, TYPES) == con.sql("FROM t").to_arrow_table().schema.types
