"""One statement's way through: split, classify, plan or hand over, run, give the rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from ..planner.context import Context, Parameters, Settings
from . import errors
from .result import Result
from .statements import Kind, Statement, split


class Session:
    """A DuckDB connection with settings and at most one result that is still open on it."""

    def __init__(self, database: str, read_only: bool, config: Mapping[str, Any]) -> None:
        self.lock = threading.RLock()
        self.settings = Settings()
        self.connection = duckdb.connect(database, read_only=read_only, config=dict(config))
        self.connection.execute("SET errors_as_json = true")
        self.connection.execute("SET arrow_lossless_conversion = true")
        self.connection.execute("SET python_enable_replacements = false")
        self.frames: dict[str, object] = {}
        self.context = Context(self.connection, self.settings, None, self.frames, self.lock)
        self._open: Result | None = None

    def execute(self, script: str, parameters: Parameters) -> tuple[Result | None, int]:
        """Run the statements of `script`; the last one's rows, and how many rows it changed."""
        with self.lock:
            outcome: tuple[Result | None, int] = (None, -1)
            for statement in split(script):
                self._make_way()
                outcome = self._run(statement, parameters)
                self._open = outcome[0]
            return outcome

    def _make_way(self) -> None:
        if self._open is not None and self._open.open:
            self._open.buffer()
        self._open = None

    def _run(self, statement: Statement, parameters: Parameters) -> tuple[Result | None, int]:
        try:
            if statement.kind is Kind.QUERY:
                relation = self.connection.sql(statement.text, params=_plain(parameters))
                return Result(relation.to_arrow_reader(100_000)), -1
            cursor = self.connection.execute(statement.text, _plain(parameters))
            description = cursor.description or []
            if [d[0] for d in description] == ["Count"] and statement.kind is not Kind.QUERY:
                rows = cursor.fetchall()
                return None, rows[0][0] if rows else -1
            return Result(cursor.to_arrow_reader(100_000)), -1
        except duckdb.Error as error:
            raise errors.from_duckdb(
                error, statement.script, statement.start, statement.text
            ) from None


def _plain(parameters: Parameters) -> Any:
    if parameters is None or isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, Sequence):
        return list(parameters)
    raise errors.ProgrammingError("parameters must be a sequence or a mapping")
