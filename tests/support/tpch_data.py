"""A small TPC-H data folder made without Spark: the generator's tables, the rest by DuckDB.

The refresh sets and the two derived tables are simpler than those of `tidewheel.tpch.pipeline`, and
of the same shape.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

_BILL = """
SELECT p_partkey AS b_parent, p_partkey + 1 + k AS b_child,
       (1 + p_partkey % 4)::INTEGER AS b_quantity
FROM 'part', range(2) r(k) WHERE p_partkey % 10 + 1 + k < 10
"""
_TRADE = """
SELECT o_custkey::INTEGER AS t_source, (-l_suppkey)::INTEGER AS t_target,
       sum(l_extendedprice)::DECIMAL(15, 2) AS t_volume
FROM 'orders' JOIN 'lineitem' ON o_orderkey = l_orderkey WHERE o_custkey % 7 = 0 GROUP BY ALL
UNION ALL
SELECT (-ps_suppkey)::INTEGER, (1 + ps_partkey % 1400)::INTEGER, sum(ps_supplycost)::DECIMAL(15, 2)
FROM 'partsupp' WHERE ps_partkey % 9 = 0 GROUP BY ALL
"""


def make(path: Path, scale: float, epochs: int) -> Path:
    """A data folder at `path`; skips the test where the generator is not installed."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    found = str(program) if program.exists() else shutil.which("tpchgen-cli")
    if found is None:
        pytest.skip("tpchgen-cli is not installed")
    raw = path / "raw"
    command = [found, "parquet", "--scale-factor", str(scale), "--output-dir", str(raw), "--quiet"]
    subprocess.run(command, check=True)
    tables = path / "tables"
    with duckdb.connect() as con:
        for file in raw.glob("*.parquet"):
            (tables / file.stem).mkdir(parents=True)
            shutil.move(file, tables / file.stem / "part.parquet")
        for name, query in (("bill_of_materials", _BILL), ("trade", _TRADE)):
            for table in ("part", "orders", "lineitem", "partsupp"):
                query = query.replace(f"'{table}'", f"'{tables / table}/*.parquet'")
            (tables / name).mkdir()
            con.execute(f"COPY ({query}) TO '{tables / name}/part.parquet'").fetchall()
        for table in ("orders", "lineitem"):
            source = f"{tables / table}/*.parquet"
            con.execute(f"CREATE VIEW {table} AS FROM '{source}'").fetchall()
        for epoch in range(1, epochs + 1):
            _refresh(con, path / "refresh", epoch, max(1, round(1500 * scale)))
    return path


def _refresh(con: duckdb.DuckDBPyConnection, folder: Path, epoch: int, size: int) -> None:
    """RF1: copies of orders under keys that the generator leaves out; RF2: other orders' keys."""
    pick = f"hash(o_orderkey, {epoch}) % 1000 AS h"
    new = "(o_orderkey // 32) * 32 + 8 + o_orderkey % 8"
    like = (
        f"SELECT *, {pick} FROM orders WHERE o_orderkey % 11 = {epoch % 5} ORDER BY h LIMIT {size}"
    )
    sets = {
        "orders": f"SELECT {new} AS o_orderkey, * EXCLUDE (o_orderkey, h) FROM ({like})",
        "lineitem": f"SELECT {new} AS l_orderkey, l.* EXCLUDE (l_orderkey) "
        f"FROM ({like}) JOIN lineitem AS l ON o_orderkey = l_orderkey",
        "delete": f"SELECT o_orderkey FROM orders WHERE o_orderkey % 11 = {5 + epoch % 5} "
        f"ORDER BY hash(o_orderkey) LIMIT {size}",
    }
    for name, query in sets.items():
        target = folder / name / f"epoch={epoch}"
        target.mkdir(parents=True)
        con.execute(f"COPY ({query}) TO '{target}/part.parquet'").fetchall()
