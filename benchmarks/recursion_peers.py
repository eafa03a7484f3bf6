"""The engines that recursion.py compares: each loads the graphs and runs queries on them."""

from __future__ import annotations

import importlib
import multiprocessing
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import tidewheel

Run = Callable[[str], Any]
Peer = tuple[Run, Callable[[], None]]
"""Runs a query and gives its rows; interrupts it."""


def peers(data: dict[str, pa.Table], postgres: str, limit: float) -> dict[str, Peer]:
    """All engines that are installed here, by name."""
    found: dict[str, Peer] = {
        "tidewheel": _tidewheel(data),
        "duckdb": _duckdb(data),
        "sqlite": _sqlite(data),
    }
    for name, make in (("datafusion", _datafusion), ("tableauhyperapi", _hyper)):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        found[name.removeprefix("tableau").removesuffix("api")] = make(module, data)
    if postgres:
        found["postgresql"] = _postgres(importlib.import_module("psycopg"), data, postgres, limit)
    return found


def _tidewheel(data: dict[str, pa.Table]) -> Peer:
    con = tidewheel.connect()
    for name, rows in data.items():
        con.register("__edges", rows)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM __edges")
        con.unregister("__edges")
    return lambda sql: con.execute(sql).fetchall(), con.interrupt


def _duckdb(data: dict[str, pa.Table]) -> Peer:
    con = duckdb.connect()
    for name, rows in data.items():
        con.register("__edges", rows)
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM __edges").fetchall()
        con.unregister("__edges")
    return lambda sql: con.execute(sql).fetchall(), con.interrupt


def _sqlite(data: dict[str, pa.Table]) -> Peer:
    con = sqlite3.connect(":memory:", check_same_thread=False)
    for name, rows in data.items():
        con.execute(f"CREATE TABLE {name}(a INTEGER, b INTEGER, w INTEGER)")
        columns = [c.to_pylist() for c in rows.columns]
        con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", zip(*columns, strict=True))
        con.execute(f"CREATE INDEX i_{name} ON {name}(a)")
    return lambda sql: con.execute(sql).fetchall(), con.interrupt


def _datafusion(module: Any, data: dict[str, pa.Table]) -> Peer:
    """In a process of its own, which can be stopped: a query of DataFusion's can't."""
    spawn = multiprocessing.get_context("spawn")
    running: list[Any] = []  # the process and the pipe to it

    def started() -> Any:
        if not running:
            here, there = spawn.Pipe()
            process = spawn.Process(target=_datafusion_process, args=(there, data), daemon=True)
            process.start()
            there.close()
            here.recv()  # it has loaded the graphs
            running[:] = process, here
        return running[1]

    def run(sql: str) -> Any:
        pipe = started()
        try:
            pipe.send(sql)
            answer = pipe.recv()
        except (EOFError, OSError):
            running.clear()
            started()  # for the next one, whose time is not to begin with it
            raise
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer

    started()
    return run, lambda: running[0].kill()


def _datafusion_process(pipe: Any, data: dict[str, pa.Table]) -> None:
    context = importlib.import_module("datafusion").SessionContext()
    for name, rows in data.items():
        context.register_record_batches(name, [rows.to_batches()])
    pipe.send("ready")
    while True:
        try:
            table = context.sql(pipe.recv()).to_arrow_table()
            pipe.send(list(zip(*(c.to_pylist() for c in table.columns), strict=True)))
        except EOFError:
            return
        except Exception as error:  # a refusal is a result of this table
            pipe.send(str(error))


def _hyper(module: Any, data: dict[str, pa.Table]) -> Peer:
    folder = Path(tempfile.mkdtemp())
    parameters = {"log_config": ""}
    telemetry = module.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU
    process = module.HyperProcess(telemetry, parameters=parameters)
    mode = module.CreateMode.CREATE_AND_REPLACE
    con = module.Connection(process.endpoint, folder / "peers.hyper", mode)
    for name, rows in data.items():
        pq.write_table(rows, folder / f"{name}.parquet")
        source = f"external('{folder / name}.parquet')"
        con.execute_command(f'CREATE TABLE "{name}" AS SELECT * FROM {source}')

    def run(sql: str, server: Any = process) -> Any:  # the server ends with its last reference
        return con.execute_list_query(sql)

    return run, con.cancel


def _postgres(module: Any, data: dict[str, pa.Table], dsn: str, limit: float) -> Peer:
    con = module.connect(dsn, autocommit=True)
    con.execute("SET work_mem = '1GB'")
    con.execute(f"SET statement_timeout = {round(limit * 1000)}")
    for name, rows in data.items():
        con.execute(f"CREATE TEMP TABLE {name}(a INTEGER, b INTEGER, w INTEGER)")
        with con.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(c.to_pylist() for c in rows.columns), strict=True):
                copy.write_row(row)
        con.execute(f"CREATE INDEX ON {name}(a)")
        con.execute(f"ANALYZE {name}")
    return lambda sql: con.execute(sql).fetchall(), lambda: None
