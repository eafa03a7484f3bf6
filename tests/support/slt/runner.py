"""Runs the records of a script on an engine, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from slt.engines import Database, Engine, Session
from slt.parser import Control, Query, Record, Script, Statement
from slt.values import Renderer, Rows, arranged, difference, digest, sqlite_values, type_letters

# `require` names what the engine was built with; these are part of DuckDB's Python package.
PROVIDED = {"parquet", "json", "icu", "core_functions", "tpch", "no_extension_autoloading"}
NOTHING_TO_DO = {"hash-threshold", "set", "tags", "template", "test-env", "sleep", "concurrentloop"}

TYPE_SETS = {
    "<signed>": "tinyint smallint integer bigint hugeint",
    "<unsigned>": "utinyint usmallint uinteger ubigint uhugeint",
    "<integral>": "tinyint smallint integer bigint hugeint "
    "utinyint usmallint uinteger ubigint uhugeint",
    "<numeric>": "tinyint smallint integer bigint hugeint "
    "utinyint usmallint uinteger ubigint uhugeint float double",
    "<alltypes>": "bool interval varchar tinyint smallint integer bigint hugeint "
    "utinyint usmallint uinteger ubigint uhugeint float double",
}


class SkipScript(Exception):
    """The script asks for something that the engine does not have."""


@dataclass(frozen=True)
class Failure:
    """A record that did not do what it says."""

    path: Path
    line: int
    sql: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}\n  {self.sql.strip()}"


@dataclass
class Result:
    """What happened in a script: numbers of records, the failures, why it was skipped."""

    passed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    skip_reason: str | None = None


# Called by the recorder with a query, the loop variables, and its answer (or the error).
Observer = Callable[[Record, dict[str, str], "pa.Table | None", "Rows | None"], None]


class Runner:
    """One run of one script. Every record runs, even after a failure."""

    def __init__(
        self,
        script: Script,
        engine: Engine,
        scratch: Path,
        *,
        style: str | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.script, self.engine, self.scratch = script, engine, scratch
        self.style = style or _style_of(script)
        self.observer = observer
        self.renderer = Renderer()
        self.result = Result()
        self.labels: dict[str, str] = {}
        self.sessions: dict[str | None, Session] = {}
        self.database: Database | None = None
        self.database_path: Path | None = None
        self.skipping = False

    def run(self) -> Result:
        """Run all records; never raises for what the engine does."""
        try:
            self.play()
        finally:
            self.disconnect()
        return self.result

    def play(self) -> None:
        """Run all records and keep the connections."""
        try:
            for record, variables in self._unrolled(self.script.records, {}):
                if isinstance(record, Control) and record.word == "halt":
                    break
                self._one(record, variables)
        except SkipScript as reason:
            self.result.skip_reason = str(reason)

    # loops

    def _unrolled(
        self, records: tuple[Record, ...], variables: dict[str, str]
    ) -> Iterator[tuple[Record, dict[str, str]]]:
        at = 0
        while at < len(records):
            record = records[at]
            if isinstance(record, Control) and record.word in ("loop", "foreach", "concurrentloop"):
                end = _matching_end(records, at)
                for bound in _bindings(record):
                    yield from self._unrolled(records[at + 1 : end], variables | bound)
                at = end + 1
                continue
            yield record, variables
            at += 1

    # records

    def _one(self, record: Record, variables: dict[str, str]) -> None:
        if not all(c.admits(self.engine.names) for c in record.conditions):
            self.result.skipped += 1
        elif isinstance(record, Control):
            self._control(record, variables)
        elif self.skipping:
            self.result.skipped += 1
        elif isinstance(record, Statement):
            self._statement(record, variables)
        elif isinstance(record, Query):
            self._query(record, variables)

    def _substituted(self, text: str, variables: dict[str, str]) -> str:
        for name, value in variables.items():
            text = text.replace("${" + name + "}", value)
        text = text.replace("__TEST_DIR__", str(self.scratch)).replace(
            "{TEST_DIR}", str(self.scratch)
        )
        return text

    def _statement(self, record: Statement, variables: dict[str, str]) -> None:
        sql = self._substituted(record.sql, variables)
        try:
            answer = self.session(record.connection).run(sql)
        except Exception as error:
            self._observe(record, variables, None, None)
            message = f"{type(error).__name__}: {error}"
            if record.expect == "ok":
                self._fail(record, sql, message)
            elif record.pattern is not None and not _matches(record.pattern, message):
                self._fail(record, sql, f"the error does not say /{record.pattern}/: {message}")
            else:
                self.result.passed += 1
            return
        self._observe(record, variables, answer, None)
        if record.expect == "error":
            self._fail(record, sql, "succeeded, but should fail")
        else:
            self.result.passed += 1

    def _query(self, record: Query, variables: dict[str, str]) -> None:
        sql = self._substituted(record.sql, variables)
        try:
            answer = self.session(record.connection).run(sql)
            if answer is None:
                raise TypeError("the statement gave no answer")
            rows = self.renderer.rows(answer)
        except Exception as error:
            self._observe(record, variables, None, None)
            self._fail(record, sql, f"{type(error).__name__}: {error}")
            return
        self._observe(record, variables, answer, rows)
        problem = self._compared(record, variables, answer, rows)
        if problem is None:
            self.result.passed += 1
        else:
            self._fail(record, sql, problem)

    def _compared(
        self, record: Query, variables: dict[str, str], answer: pa.Table, rows: Rows
    ) -> str | None:
        if self.style == "tidewheel":
            letters = type_letters(answer.schema)
            if letters != record.types:
                return f"the columns are {letters}, not {record.types}"
        elif record.types and len(record.types) != answer.num_columns:
            return f"{answer.num_columns} columns, not {len(record.types)}"
        if self.style == "sqlite":
            rows = sqlite_values(rows, record.types)
        if record.label is not None:
            found = digest(arranged(rows, record.sort))
            if self.labels.setdefault(record.label, found) != found:
                return f"differs from an earlier query labelled {record.label}"
        if record.expected is None:
            return None
        expected = [self._substituted(line, variables) for line in record.expected]
        return difference(rows, answer.num_columns, record.sort, expected)

    def _observe(
        self, record: Record, variables: dict[str, str], answer: pa.Table | None, rows: Rows | None
    ) -> None:
        if self.observer is not None:
            self.observer(record, variables, answer, rows)

    def _fail(self, record: Record, sql: str, message: str) -> None:
        self.result.failures.append(Failure(self.script.path, record.line, sql, message))

    # everything else

    def _control(self, record: Control, variables: dict[str, str]) -> None:
        word, args = record.word, [self._substituted(a, variables) for a in record.args]
        if word == "require":
            if args[0] not in PROVIDED and args[0] not in self.engine.names:
                raise SkipScript(f"requires {' '.join(args)}")
        elif word == "require-env":
            raise SkipScript(f"requires the environment variable {args[0]}")
        elif word == "mode":
            if args[0] in ("skip", "unskip"):
                self.skipping = args[0] == "skip"
        elif word == "load":
            self.disconnect()
            self.database_path = Path(args[0]) if args and args[0] != ":memory:" else None
        elif word in ("restart", "reconnect"):
            if self.database_path is None and word == "restart":
                raise SkipScript("restarts a database in memory")
            if word == "restart":
                self.disconnect()
            elif (session := self.sessions.pop(None, None)) is not None:
                session.close()
        elif word not in NOTHING_TO_DO:
            raise SkipScript(f"line {record.line}: unknown command {word!r}")

    def session(self, name: str | None = None) -> Session:
        """The connection of that name, opened if it is not."""
        if name not in self.sessions:
            if self.database is None:
                self.database = self.engine.open(self.database_path)
            self.sessions[name] = self.database.connect()
        return self.sessions[name]

    def disconnect(self) -> None:
        """Close all connections and the database."""
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()
        if self.database is not None:
            self.database.close()
            self.database = None


def _style_of(script: Script) -> str:
    if script.path.suffix == ".slt":
        return "tidewheel"
    return "duckdb" if "name" in script.headers else "sqlite"


def _matches(pattern: str, message: str) -> bool:
    return re.search(pattern, message, re.IGNORECASE | re.DOTALL) is not None


def _matching_end(records: tuple[Record, ...], start: int) -> int:
    depth = 0
    for at in range(start, len(records)):
        record = records[at]
        if isinstance(record, Control):
            depth += record.word in ("loop", "foreach", "concurrentloop")
            depth -= record.word == "endloop"
            if depth == 0:
                return at
    raise SkipScript(f"line {records[start].line}: a loop without endloop")


def _bindings(record: Control) -> Iterator[dict[str, str]]:
    """``loop i 0 10``; ``foreach x a b c``; ``foreach x,y a,1 b,2``; type sets in ``<…>``."""
    name, *values = record.args
    if record.word in ("loop", "concurrentloop"):
        for i in range(int(values[0]), int(values[1])):
            yield {name: str(i)}
        return
    names = name.split(",")
    kept = [v for value in values for v in TYPE_SETS.get(value, value).split()]
    dropped = {v[1:] for v in kept if v.startswith("!")}
    for value in kept:
        if value in dropped or value.startswith("!"):
            continue
        parts = value.split(",") if len(names) > 1 else [value]
        yield dict(zip(names, parts, strict=True))
