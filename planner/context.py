"""What one execution needs from its surroundings: the connection, the settings, the parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.connection import Access
from tidewheel.engine.kernels.duckdb import Bound
from tidewheel.planner.meaning import Meaning


@dataclass(slots=True)
class Settings:
    """The session's settings that planning and execution read (`SET name = value`)."""

    threads: int = 1
    fusion: bool = True
    statement_timeout: int | None = None  # milliseconds
    batch_rows: int = 122_880  # rows per Arrow batch of a result: one DuckDB row group
    max_iterations: int | None = None
    max_recursive_rows: int | None = None
    max_recursive_bytes: int | None = None
    on_limit: str = "error"
    python_scan: bool = False  # the caller's DataFrames are tables


Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(slots=True)
class Context:
    """One statement's surroundings.

    `frames` are the registered Arrow, pandas and polars objects by name. `lock` guards
    `connection`: it is held during every call into it, and never between batches. `interrupted`
    is set (from any thread) to stop the statement; whoever sets it also calls
    `connection.interrupt()`. `in_transaction` tells whether the user has one open: if not, a plan
    of several kernels runs inside one of its own, so that all kernels see one snapshot.

    `temporary`: the session has made macros or types that no other connection sees. `aborts`: what
    else is called to stop the statement, where several threads run it. `watch(table, counters,
    rows)` is told of each iteration of each recursive table; `record(variable, counters, rows)` is
    given the rows themselves, of loops that run as loop contexts. `deadline`: when the statement
    has to be at its end, in seconds of `time.monotonic`. `bound`: statements of `connection`;
    `access`: what it may look at.
    `meaning`: the settings on which a query's meaning depends, where they are known already.
    `state`: gives what is another value after every change of a table, as long as nobody else can
    make one; else None.
    """

    connection: duckdb.DuckDBPyConnection
    settings: Settings = field(default_factory=Settings)
    parameters: Parameters = None
    frames: Mapping[str, object] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    interrupted: threading.Event = field(default_factory=threading.Event)
    in_transaction: bool = False
    temporary: bool = False
    deadline: float | None = None
    bound: Bound = field(default_factory=Bound)
    access: Access = field(default_factory=Access)
    aborts: set[Callable[[], None]] = field(default_factory=set)
    watch: Callable[[str, tuple[int, ...], int], None] | None = None
    record: Callable[[str, tuple[int, ...], pa.Table], None] | None = None
    meaning: Meaning | None = None
    state: Callable[[], object] = lambda: None
