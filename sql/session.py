"""One statement's way through: split, classify, plan or hand over, run, give the rows."""

from __future__ import annotations

import dataclasses
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import pa

from ..engine.alarm import alarm
from ..engine.kernels.duckdb import Bound
from ..engine.operators.budget import BOUNDS, Budget
from ..planner import direct, meaning
from ..planner.context import Context, Parameters, Settings
from . import (
    errors,
    functions,
    hidden,
    plain_view,
    planning,
    settings,
    sigint,
    view_text,
)
from . import safe_mode as safe
from .activity import Activity, Progress
from .catalog import Catalog
from .database import Database
from .parameters import distribute
from .planning import Plans
from .reads import Names
from .repeated import Repeated
from .result import Result, Stream, TableStream
from .sigint import Watch
from .statements import NO_STATEMENT, Kind, Statement, mentions_recursion, split, tokens
from .subscribe import Subscription, SubscriptionReader
from .views import Views, row_name

if TYPE_CHECKING:
    from ..planner import maintain
    from ..planner.logical import Node
    from .dbapi import Connection


class Session:
    """A DuckDB connection with settings, a catalog, and at most one result open on it."""

    def __init__(
        self, database: str, read_only: bool, config: Mapping[str, Any], safe_mode: bool = False
    ) -> None:
        self.lock = threading.RLock()
        self.settings = Settings()
        self.frames: dict[str, object] = {}
        self.scanned: set[str] = set()
        """The frames that were found among the caller's variables."""
        self.interrupted = threading.Event()
        self.timed_out = False
        self.deadline: float | None = None
        self.aborts: set[Callable[[], None]] = set()
        self._bound = Bound()
        self._activity: Activity | None = None
        """Noted only if somebody may look."""
        self.temporary = False
        self.in_transaction = False
        self.autocommit = True
        """If not, the first statement outside a transaction starts one."""
        self.safe_mode = safe_mode
        self.closed = False
        # The result that keeps the connection busy; what nobody can read any more is not kept.
        self._open: weakref.ref[Result] | None = None
        self._stream: Stream | None = None
        self._guarded = False
        self.given: Parameters = None
        self._plans = Plans()
        theirs = dict(config)
        for name in [n for n in theirs if n in settings.NAMES]:
            value = theirs[name] if name == "threads" else theirs.pop(name)
            try:
                setattr(self.settings, name, settings.parse(name, value))
            except ValueError as error:
                raise errors.ProgrammingError(str(error)) from None
        with self.guard(NO_STATEMENT):
            if safe_mode:
                if self.settings.python_scan:
                    raise errors.ProgrammingError(
                        "python_scan contradicts safe_mode", hint="leave one of them out"
                    )
                theirs = safe.config(theirs)
            elif str(theirs.get("lock_configuration")).lower() in ("true", "1"):
                theirs = {**_BEFORE_LOCK, **theirs}
            try:
                self.connection = duckdb.connect(database, read_only=read_only, config=theirs)
            except duckdb.ConnectionException as error:
                if "different configuration" not in str(error):
                    raise
                raise errors.OperationalError(
                    f"{database} is open in this process with another configuration",
                    hint="its connections share safe_mode, read_only and DuckDB's own settings",
                ) from None
            if "disabled_optimizers" not in theirs:
                self._disable_pruner()
            if safe_mode:
                self._lock_configuration()
            else:
                self._set(*_DUCKDB_SETTINGS)
                self._keep_settable()
            if "threads" not in config:
                self.settings.threads = self._default_threads()
        self.catalog = Catalog(self.connection, self.lock)
        self.database = Database.of(database)
        self.views = Views(self, _plan_view)
        self._repeated = Repeated(self.connection)
        sigint.hold()

    # -- running -----------------------------------------------------------------------------------

    def execute(self, script: str, parameters: Parameters) -> tuple[Result | None, int]:
        """Run the statements of `script` in order.

        Returns the last one's rows, or None, and the number of rows that it changed, or -1.
        """
        outcome: tuple[Result | None, int] = (None, -1)
        with self.lock:
            self.check_open()
            count = self._insert(script, parameters)
            if count is not None:
                return None, count
            for statement, given in self.statements(script, parameters):
                if outcome[0] is not None:
                    outcome[0].close()
                outcome = self.run(statement, given)
        return outcome

    def _insert(self, script: str, parameters: Parameters) -> int | None:
        """An INSERT of one row like those before it; None: not that, or run it as written."""
        if self.in_transaction or not (self.autocommit and isinstance(script, str)):
            return None
        row = self._repeated.find(script, parameters, self.catalog.version)
        if row is None:
            return None
        with self._begun(row.form.statement), self.guard(row.form.statement):
            self.views.lock_for_write()
            try:
                return self.views.insert(row, self._repeated)
            finally:
                self.views.release()

    def statements(self, script: str, parameters: Parameters) -> list[tuple[Statement, Parameters]]:
        """The statements of a script, each with its share of the parameters."""
        if not isinstance(script, str):
            raise errors.ProgrammingError(f"SQL is text (str), not {type(script).__name__}")
        found = split(script)
        return list(zip(found, distribute(found, parameters), strict=True))

    def run(
        self, statement: Statement, given: Parameters, as_text: bool = False
    ) -> tuple[Result | None, int]:
        """Run one statement; see `execute`. `as_text`: its rows will be read as text."""
        with self.lock:
            self.check_open()
            self.given = given
            with self._begun(statement):
                outcome = self._run(statement, given, as_text)
            # a subscription never ends and does not hold the connection
            result = outcome[0]
            if result is not None and result.open and statement.words[0] != "SUBSCRIBE":
                self._open, self._stream = weakref.ref(result), result.stream
            return outcome

    @contextmanager
    def _begun(self, statement: Statement) -> Iterator[None]:
        """What comes before and around every statement."""
        self.interrupted.clear()
        self.make_way()
        self.views.come_back()
        if self.safe_mode:
            safe.check(statement)
        if not (self.autocommit or self.in_transaction) and statement.kind not in _NO_BEGIN:
            self._transaction(_BEGIN)
        if self._activity is not None:
            self._activity.begin()
        with self._bounded():
            yield

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """The bounds of a statement: on what it changes in maintained recursions, and on its time.

        A statement that is not at its end, or gives its first rows, in time is interrupted. Loops
        look at the clock themselves, as they can say more, so they are given a little longer.
        """
        given = self.settings
        self.timed_out, self.deadline = False, None
        timed: AbstractContextManager[None] = nullcontext()
        if given.statement_timeout is not None:
            seconds = given.statement_timeout / 1000
            self.deadline = time.monotonic() + seconds
            timed = alarm(seconds + 0.25 + seconds / 20, self._time_out)
        outside = BOUNDS.set(
            Budget(
                given.max_iterations,
                given.max_recursive_rows,
                given.max_recursive_bytes,
                self.deadline,
                interrupted=self.interrupted,
                watch=self._watch(),
            )
        )
        try:
            with timed:
                yield
        finally:
            BOUNDS.reset(outside)

    def _time_out(self) -> None:
        self.timed_out = True
        self.interrupt()

    def interruption(self) -> errors.Error:
        """The error of a statement that was interrupted."""
        if self.timed_out:
            limit = self.settings.statement_timeout
            return errors.OperationalError(
                f"the statement took longer than statement_timeout = {limit} ms",
                hint="SET statement_timeout to more, or to none",
            )
        return errors.Interrupted("the statement was interrupted")

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """A transaction around a block, in autocommit mode: committed at its end."""
        self.execute("BEGIN", None)
        try:
            yield
            self.execute("COMMIT", None)
        except BaseException:
            if self.in_transaction and not self.closed:
                self.execute("ROLLBACK", None)
            raise

    @contextmanager
    def lent(self, name: str, rows: pa.Table, statement: Statement) -> Iterator[None]:
        """`rows` are a table of DuckDB's for a block."""
        self.make_way()
        with self.guard(statement):
            self.connection.register(name, rows)
        try:
            yield
        finally:
            # A transaction that failed takes no statement; then the name is registered anew.
            with suppress(duckdb.Error):
                self.connection.unregister(name)

    def end_transaction(self, verb: str) -> None:
        """COMMIT or ROLLBACK; nothing to do without a transaction."""
        with self.lock:
            self.check_open()
            if self.in_transaction:
                self.execute(verb, None)

    def make_way(self) -> None:
        """Buffer the result that is open on the connection, if one is. Hold the lock."""
        result = self._open() if self._open is not None else None
        if result is not None and result.open:
            result.buffer()
        elif self._stream is not None:
            self._stream.close()
        self._open = self._stream = None

    def _run(
        self, statement: Statement, given: Parameters, as_text: bool
    ) -> tuple[Result | None, int]:
        kind = statement.kind
        if kind is Kind.QUERY:
            return self._query(statement, given, as_text), -1
        if kind is Kind.EXPLAIN:
            return self._explain(statement, given), -1
        if kind is Kind.SETTING:
            return self._setting(statement), -1
        with self.guard(statement):
            if kind is Kind.OURS:
                return self._ours(statement), -1
            if kind is Kind.TRANSACTION:
                self._transaction(statement)
                return None, -1
            if kind is Kind.CHANGE or statement.words[0] == "EXECUTE":
                return self._change(statement, given)
            return self._other(statement, given)

    def _ours(self, statement: Statement) -> Result | None:
        """CREATE and DROP MATERIALIZED VIEW, VERIFY VIEW, SUBSCRIBE TO."""
        verb = statement.words[0]
        if verb == "CREATE":
            self.views.create(statement)
        elif verb == "DROP":
            self.views.drop(statement)
        elif verb == "VERIFY":
            found, verdict = self.views.verify(statement)
            result = self._complete(found, statement)
            result.status = verdict
            return result
        else:
            named = view_text.parse_subscribe(statement)
            key = self.views.resolve(named.parts, statement, named.name_at)
            start = int(named.rest[0]) if named.rest else None
            return self._followed(self.views.subscribe(key, start))
        return None

    def _transaction(self, statement: Statement) -> None:
        verb, *rest = statement.words
        if verb in ("BEGIN", "START"):
            self._count(statement, None)
            self.in_transaction = True
            self.catalog.changed()
            self.views.begin()
            return
        if rest not in ([], ["TRANSACTION"], ["WORK"]):
            self._count(statement, None)  # DuckDB says what is wrong with it; nothing has ended
            return
        try:
            if verb in ("COMMIT", "END") and self.in_transaction:
                self.in_transaction = False
                self.views.commit()
                return
            self._count(statement, None)
        finally:
            self.in_transaction = False
            self.catalog.changed()
            functions.changed()
        self.views.rollback()

    def _change(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """DML: the changes of watched tables are captured, and in autocommit mode are an epoch."""
        with self._recursions(statement, given) as (statement, given):
            return self._change_plain(statement, given)

    @contextmanager
    def _recursions(
        self, statement: Statement, given: Parameters
    ) -> Iterator[tuple[Statement, Parameters]]:
        """A statement that changes rows, with the recursions in it run beforehand."""
        if not mentions_recursion(statement.text):
            yield statement, given
            return
        # Imported here, as in `planning`: sqlglot takes long to load.
        from ..planner import execute
        from . import recursion

        with self.guard(statement):
            describe = recursion.Describer(self.connection, given)
            found = recursion.plan_statement(statement, describe, is_query=False)
        if found is None:
            yield statement, given
            return
        try:
            with self.guard(statement), self.database.reading:
                for name, node in found.sources:
                    stream = execute.run(node, self._context(given))
                    rows = pa.Table.from_batches(list(stream), stream.schema)
                    rows = rows.rename_columns([c.name for c in node.schema])
                    self.connection.register(name, rows)
            rest = split(found.text)[0]
            yield rest, recursion.numbered(found.text, given)
        finally:
            for name, _ in found.sources:
                self.connection.unregister(name)

    def _change_plain(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        own = not self.in_transaction
        self.views.lock_for_write()
        try:
            outcome = self.views.change(statement, given)
            if outcome is None:
                self.views.prepare(statement.text)
                return self._duckdb(statement, given)
        finally:
            if statement.words[1:3] == ("FROM", "DATABASE"):  # COPY makes tables, too
                self.catalog.changed()
            if own:
                self.views.release()
        if outcome.rows is None or not statement.rows:
            return None, outcome.count
        return self._complete(outcome.rows, statement), outcome.count

    def _other(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """DDL and all the rest."""
        if statement.words[:1] == ("REFRESH",):
            raise errors.NotSupportedError(
                "there is no REFRESH: a maintained view is up to date after every commit",
                hint="leave it out; VERIFY VIEW compares a view with a run from scratch",
                text=statement.script,
                position=statement.start,
                length=len("REFRESH"),
            )
        self.temporary = self.temporary or _is_temporary(statement)
        if plain_view.is_about(statement) and plain_view.handled(statement, self.views):
            return None, -1
        if _is_table_as(statement) or statement.words[0] in ("DESCRIBE", "DESC", "SUMMARIZE"):
            with self._recursions(statement, given) as (statement, given):
                result, count = self._ddl(statement, given)
                if result is not None:
                    result.buffer()  # it reads what is there for this block alone
                return result, count
        return self._ddl(statement, given)

    def _ddl(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        if not self.views.any:
            return self._duckdb(statement, given)
        with self.database.reading:
            self.views.prepare(statement.text)
        if statement.words == ("SHOW", "TABLES"):
            # not the names under which views' rows are registered
            text = f"SELECT * FROM ({statement.text}) WHERE NOT starts_with(name, '__tw_')"
            return self._duckdb(dataclasses.replace(statement, text=text), given)
        found: tuple[Result | None, int] = self.views.ddl(
            statement, lambda: self._duckdb(statement, given)
        )
        self.views.note_prepare(statement)
        if functions.may_change(statement):
            functions.changed()  # others see it since the commit just now
        return found

    def table(self, sql: str) -> pa.Table:
        """Run a query to its end, within the open transaction if there is one."""
        recursive = mentions_recursion(sql)
        statement = split(sql)[0] if recursive else _query(sql)
        with self.guard(statement, as_written=not recursive):
            context = self._context(None)
            # what views hold is never cut short
            context.settings = dataclasses.replace(context.settings, on_limit="error")
            stream = planning.run(statement, context)
            try:
                return pa.Table.from_batches(list(stream), stream.schema)
            finally:
                stream.close()

    def row(self, sql: str) -> tuple[Any, ...]:
        """The only row of a query that is DuckDB's, which is planned but once this way."""
        with self.guard(_query(sql)):
            found: tuple[Any, ...] = hidden.execute(self.connection, sql, None)[0]
            return found

    def bind(self, sql: str, names: Names | None = None) -> Node:
        """The logical plan of a maintained view's query; `names`: the catalog as it is now."""
        from .view_logical import logical_view

        return logical_view(sql, self._context(None), names)

    def python(self) -> Connection:
        """The session as a connection."""
        from .dbapi import Connection

        return Connection(self)

    def catalog_changed(self) -> None:
        """Forget plans: the catalog is another one."""
        self.catalog.changed()

    def _query(self, statement: Statement, given: Parameters, as_text: bool) -> Result:
        # the views' rows and DuckDB's snapshot are of one epoch
        with self.guard(statement), self.database.reading:
            self.views.prepare(statement.text)
            context = self._context(given)
            stream: Stream | None = None
            if planning.is_plain(statement, self.settings):
                written = True
                if as_text:
                    stream = direct.run_as_text(statement.text, context)
                if stream is None:
                    stream = direct.run(statement.text, context)
            else:
                from ..planner import execute

                draft = self._plans.draft(statement, self._version, context)
                if draft is not None:
                    written = False
                    stream = execute.whole_answer(draft, context)
                if stream is None:
                    plan = self._plans.get(statement, self._version, context)
                    written = plan.labels is None
                    with self.guard(statement, written):
                        stream = execute.start(plan, context, ask=draft is None)
        read = None if self._activity is None else self._activity.read
        return Result(stream, lambda: self.guard(statement, written), self.lock, read)

    @property
    def _version(self) -> object:
        return self.catalog.version, self.database.catalog_version

    def _context(self, parameters: Parameters) -> Context:
        return Context(
            connection=self.connection,
            settings=self.settings,
            parameters=parameters,
            frames=self.frames,
            lock=self.lock,
            interrupted=self.interrupted,
            in_transaction=self.in_transaction or self.views.implicit,
            temporary=self.temporary,
            aborts=self.aborts,
            watch=self._watch(),
            deadline=self.deadline,
            bound=self._bound,
            meaning=self.views.known_meaning(),
        )

    def _watch(self) -> Callable[[str, tuple[int, ...], int], None] | None:
        return None if self._activity is None else self._activity.iterated

    def _explain(self, statement: Statement, given: Parameters) -> Result:
        from .explain import explain

        with self.guard(statement), self.database.reading:
            self.views.prepare(statement.text)
            context = self._context(given)
            shown = explain(
                statement, context, self.views, lambda q: self._plans.get(q, self._version, context)
            )
        if shown is not None:
            # named as DuckDB names the columns of its own EXPLAIN
            columns = {"explain_key": [shown[0]], "explain_value": [shown[1]]}
            return self._complete(pa.table(columns), statement)
        result = self._duckdb(statement, given)[0]
        assert result is not None
        return result

    def _complete(self, table: pa.Table, statement: Statement) -> Result:
        return Result(TableStream(table), lambda: self.guard(statement), self.lock)

    def _followed(self, subscription: Subscription) -> Result:
        # It waits for changes, so it must not hold the connection's lock.
        return Result(SubscriptionReader(subscription), nullcontext, threading.RLock())

    def _table(self, statement: Statement, columns: dict[str, list[str]]) -> Result:
        return self._complete(pa.table(columns), statement)

    def _setting(self, statement: Statement) -> Result | None:
        if statement.words[0] == "SHOW":
            name = statement.words[1].strip('"').lower()
            return self._table(statement, {name: [settings.shown(getattr(self.settings, name))]})
        name, value = settings.assignment(statement)
        if name == "threads":
            self._duckdb(statement, None)
            if statement.words[0] == "RESET":
                value = self._default_threads()
        setattr(self.settings, name, value)
        return None

    def _default_threads(self) -> int:
        """How many threads DuckDB takes by itself."""
        rows = self.connection.execute("SELECT current_setting('threads')").fetchall()
        return int(rows[0][0])

    def _duckdb(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """Run a statement that is DuckDB's alone, as it is written."""
        try:
            with self.guard(statement):
                if not statement.rows:
                    return None, self._count(statement, given)
                relation = hidden.relation(self.connection, statement.text, given)
                if relation is None:
                    return None, -1
                table = relation.to_arrow_table()
        finally:
            if statement.kind is Kind.OTHER:
                self.catalog.changed()
                if statement.words[0] not in _NO_SETTINGS:
                    self.catalog.settings_changed()
                if functions.may_change(statement):
                    functions.changed()
        if table.num_rows == 0 and table.column_names == ["Success"]:
            return None, -1
        count = table.num_rows if statement.kind is Kind.CHANGE else -1
        return self._complete(table, statement), count

    def _count(self, statement: Statement, given: Parameters) -> int:
        """Run a statement that gives no rows; how many it changed, or -1."""
        changed = hidden.execute(self.connection, statement.text, given)
        if changed and len(changed[0]) == 1 and isinstance(changed[0][0], int):
            return int(changed[0][0])
        return -1

    # -- errors, interruption ----------------------------------------------------------------------

    @contextmanager
    def guard(self, statement: Statement, as_written: bool = True) -> Iterator[None]:
        """Hold the lock, watch for Ctrl-C, and raise our errors instead of DuckDB's.

        `as_written`: DuckDB runs the statement's own text, so the places that it names hold.
        """
        with self.lock:
            watch = None if self._guarded else Watch(self.interrupt)
            try:
                if watch is None:
                    yield
                    return
                self._guarded = True
                try:
                    with watch:
                        yield
                finally:
                    self._guarded = False
            except Exception as error:
                if watch is not None and watch.fired:
                    raise KeyboardInterrupt from None
                if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
                    if watch is None:
                        raise  # the outermost guard knows of signals
                    raise self.interruption() from None
                from .translate import named_view, translated

                found: errors.Error | None
                if isinstance(error, errors.Error):
                    found = error
                else:
                    found = translated(self, error, statement, as_written)
                found = found and named_view(error, found)
                if found is None or found is error:
                    raise
                raise found from None

    def implicit(self) -> bool:
        """Is a transaction open that the user did not begin? Not while the session is made."""
        views: Views | None = getattr(self, "views", None)
        return views is not None and views.implicit

    def _set(self, *assignments: str) -> None:
        for assignment in assignments:
            self.connection.execute(f"SET {assignment}").fetchall()

    def _disable_pruner(self) -> None:
        """Without the optimizer by which DuckDB 2.0.0 answers ORDER BY … LIMIT wrongly.

        It counts rows that were deleted. Nothing happens if another connection has chosen, or in
        a database whose settings are locked.
        """
        query = "SELECT current_setting('disabled_optimizers')"
        if not self.connection.execute(query).fetchall()[0][0]:
            with suppress(duckdb.Error):
                self._set("disabled_optimizers = 'row_group_pruner'")

    def _keep_settable(self) -> None:
        """`SET lock_configuration` leaves sessions and views the settings that they make."""
        query = "SELECT current_setting('allowed_configs')"
        allowed = self.connection.execute(query).fetchall()[0][0]
        if not set(allowed) >= set(_SETTABLE):
            with suppress(duckdb.Error):  # locked already
                self._set(f"allowed_configs = {[*dict.fromkeys([*allowed, *_SETTABLE])]}")

    def _lock_configuration(self) -> None:
        """The last setting of a safe database; another connection to it may have locked it."""
        from ..planner.view_kernels import confine

        confine()
        query = "SELECT current_setting('lock_configuration')"
        if not self.connection.execute(query).fetchall()[0][0]:
            self._set(*_PROGRESS_SETTINGS, "lock_configuration = true")

    def enable_progress(self) -> None:
        """From now on `progress` knows what a statement is at."""
        with self.lock:
            self._activity = Activity()
            if not self.safe_mode:  # there it is set already
                self._set(*_PROGRESS_SETTINGS)

    def progress(self) -> Progress | None:
        """What the running statement is at, if `enable_progress` was called. No lock."""
        if self._activity is None or self.closed:
            return None
        percent = self.connection.query_progress()
        fraction = None if percent < 0 else min(percent / 100, 1.0)
        return self._activity.progress(self.database.epoch, fraction)

    def interrupt(self) -> None:
        """Stop the running statement; may be called from any thread, takes no lock."""
        self.interrupted.set()
        if not self.closed:
            self.connection.interrupt()
        for abort in tuple(self.aborts):
            abort()

    def check_open(self) -> None:
        """Raise if the connection is closed."""
        if self.closed:
            raise errors.ProgrammingError("the connection is closed")

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back. Safe to call again."""
        with self.lock:
            if not self.closed:
                self.closed = True
                if self._stream is not None:
                    self._stream.close()
                self.views.close()
                self._bound.clear()
                self.connection.close()
                sigint.release()

    def scan(self, script: str) -> None:
        """Register the caller's DataFrames that `script` names, if `python_scan` is on."""
        if self.settings.python_scan and not self.closed and isinstance(script, str):
            from .frames import scan

            scan(self, script)

    # -- subscriptions -----------------------------------------------------------------------------

    def subscribe(self, view: str, epoch: int | None = None) -> Subscription:
        """Follow a maintained view, from a snapshot or behind an epoch that is still kept."""
        statement = split(f"SUBSCRIBE TO {view}")[0]
        with self.guard(statement):
            self.check_open()
            self.make_way()
            named = view_text.parse_subscribe(statement)
            key = self.views.resolve(named.parts, statement, named.name_at)
            return self.views.subscribe(key, epoch)


def _query(sql: str) -> Statement:
    """A query of ours, not looked at word by word, which takes long."""
    return dataclasses.replace(NO_STATEMENT, text=sql, script=sql, kind=Kind.QUERY)


def _is_temporary(statement: Statement) -> bool:
    """Does it make a macro or type that no other connection sees?"""
    if statement.words[0] != "CREATE":
        return False
    words = {t.text.upper() for t in islice(tokens(statement.text), 5)}
    return bool(words & {"TEMP", "TEMPORARY"}) and bool(words & {"MACRO", "FUNCTION", "TYPE"})


def _is_table_as(statement: Statement) -> bool:
    """CREATE [OR REPLACE] [TEMP] TABLE … AS query?"""
    words = statement.words
    return words[0] == "CREATE" and "TABLE" in words[1:5]


_BEGIN = split("BEGIN")[0]
_NO_SETTINGS = ("CREATE", "DROP", "ALTER")
_NO_BEGIN = (Kind.TRANSACTION, Kind.SETTING)
_DUCKDB_SETTINGS = (
    "errors_as_json = true",
    "arrow_lossless_conversion = true",
)
_PROGRESS_SETTINGS = ("enable_progress_bar = true", "enable_progress_bar_print = false")
_SETTABLE = (
    *(s.partition(" ")[0] for s in _DUCKDB_SETTINGS + _PROGRESS_SETTINGS),
    *meaning.DEFAULTS,
)
"""What is set on the connections of a database at any time."""
_BEFORE_LOCK = {"disabled_optimizers": "row_group_pruner", "allowed_configs": list(_SETTABLE)}


def _plan_view(sql: str, made: meaning.Meaning, scratch: Callable[..., pa.Table]) -> maintain.Plan:
    """How a view is kept."""
    # Imported here: operators and sqlglot take long to load, and not everybody has views.
    from ..planner.view_plan import ViewPlan

    return ViewPlan(sql, scratch, row_name(""), made)
