"""One statement's way through: split, classify, plan or hand over, run, give the rows."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import pa

from ..engine import inherited
from ..engine.interruption import STOP, Stop
from ..engine.kernels.connection import Access
from ..engine.kernels.duckdb import Bound, rows_of, table_of
from ..engine.operators.budget import BOUNDS, Budget
from ..planner.context import Context, Parameters, Settings
from . import errors, forked, hidden, opening, planning, sigint, view_text
from . import safe_mode as safe
from .activity import Activity, Progress
from .catalog import Catalog
from .database import Database, file_of, spelled_out
from .known_rows import KnownRows
from .parameters import distribute
from .reads import Names
from .result import Result, Stream
from .running import Runner
from .sigint import Deferred, Watch
from .statements import NO_STATEMENT, Kind, Statement, mentions_recursion, release, split
from .subscribe import Subscription
from .time_limit import TimeLimit
from .views import Views, plan_view
from .write_behind import WriteBehind

if TYPE_CHECKING:
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
        self.framed_at: dict[str, int] = {}
        """The version of the catalog in which a frame was registered."""
        self.scanned: set[str] = set()
        """The frames that were found among the caller's variables."""
        self.interrupted = threading.Event()
        self.limit = TimeLimit(self.interrupt)
        self.aborts: set[Callable[[], None]] = set()
        self._stop = Stop(self.interrupted, self.aborts)
        self._bound = Bound()
        self._access = Access(lambda: self.catalog.settings_version)
        self.activity: Activity | None = None
        """Noted only if somebody may look."""
        self.temporary = False
        self.in_transaction = False
        self.doubted = self.told = False
        """Was the transaction interrupted, and has a statement of it ended in an error?"""
        self.unread = False
        """Has a transaction begun that has not looked at the database yet?"""
        self.autocommit = True
        """If not, the first statement outside a transaction starts one."""
        self.safe_mode = safe_mode
        self.closed = self.forked = False
        database = spelled_out(database)
        path = file_of(database)
        self.file = path or (database if database != ":memory:" else "")
        """What others reach the database by: the path of its file, or the name of a memory."""
        self.writes = bool(path) and not read_only
        """May it write to that file?"""
        # The result that keeps the connection busy; what nobody can read any more is not kept.
        self._open: weakref.ref[Result] | None = None
        self._stream: Stream | None = None
        self._guarded = False
        self._finishing = False
        self._interrupting = threading.RLock()
        self.behind = WriteBehind(self.finishing)
        self.given: Parameters = None
        self._runner = Runner(self)
        forked.check(self.file)
        with self.guard(NO_STATEMENT):
            self._duckdb = opening.connect(database, read_only, config, safe_mode, self.settings)
        self.catalog = Catalog(lambda: self.unwritten, self.lock)
        self.database = Database.of(database)
        try:
            with self.guard(NO_STATEMENT):
                self.views = Views(self, plan_view)
        except BaseException:
            self._duckdb.close()  # whoever looks at the error later must not hold the file
            raise
        self.known_rows = KnownRows(self)
        sigint.hold()
        forked.sessions.add(self)

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's, with everything written that waits."""
        found = self.unwritten
        if self.behind.waiting:
            self.write_behind()
        return found

    @property
    def unwritten(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's as it is, for what does not look at tables."""
        if self.unread:
            self.unread = False
            self.views.begin()
        return self._duckdb

    def write_behind(self) -> None:
        """Write what waits."""
        self.behind.flush(self._duckdb)

    # -- running -----------------------------------------------------------------------------------

    def execute(self, script: str, parameters: Parameters) -> tuple[Result | None, int]:
        """Run the statements of `script` in order.

        Returns the last one's rows, or None, and the number of rows that it changed, or -1.
        """
        outcome: tuple[Result | None, int] = (None, -1)
        with self.lock:
            self.check_open()
            count = self.known_rows.run(script, parameters)
            if count is not None:
                return None, count
            for statement, given in self.statements(script, parameters):
                if outcome[0] is not None:
                    outcome[0].close()
                outcome = self.run(statement, given)
        return outcome

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
        with self.lock, Deferred():
            self.check_open()
            self.given = given
            with self.begun(statement):
                try:
                    outcome = self._runner.run(statement, given, as_text)
                except BaseException as error:
                    self.told = True
                    if self.in_transaction and isinstance(error, errors.Error):
                        self._abort()
                    raise
                finally:
                    release()
            # a subscription never ends and does not hold the connection
            result = outcome[0]
            if result is not None and result.open and statement.words[0] != "SUBSCRIBE":
                self._open, self._stream = weakref.ref(result), result.stream
            return outcome

    def _abort(self) -> None:
        """End what a failed statement was part of, as DuckDB does: one that does not bind, too."""
        with suppress(duckdb.Error):
            hidden.execute(self.connection, "FROM __tw_nothing", None)

    @contextmanager
    def begun(self, statement: Statement) -> Iterator[None]:
        """What comes before and around every statement."""
        self.interrupted.clear()
        if not self.in_transaction:
            self.doubted = self.told = False
        self.make_way()
        self.views.come_back()
        if self.safe_mode:
            safe.check(statement)
        if not (self.autocommit or self.in_transaction) and statement.kind not in _NO_BEGIN:
            self._runner.transaction(_BEGIN)
        if self.activity is not None:
            self.activity.begin()
        timed = self.limit.begin(self.settings.statement_timeout)
        outside, before = BOUNDS.set(self._budget()), STOP.set(self._stop)
        try:
            with timed:
                yield
        finally:
            STOP.reset(before)
            BOUNDS.reset(outside)

    def _budget(self) -> Budget:
        """The bounds of what a statement changes in maintained recursions."""
        given = self.settings
        return Budget(
            given.max_iterations,
            given.max_recursive_rows,
            given.max_recursive_bytes,
            self.limit.deadline,
            interrupted=self.interrupted,
            watch=self._watch(),
        )

    def interruption(self) -> errors.Error:
        """The error of a statement that was interrupted."""
        if self.limit.passed:
            return self.limit.error()
        return errors.Interrupted("the statement was interrupted")

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """A transaction around a block, in autocommit mode: committed at its end."""
        try:
            self.execute("BEGIN", None)
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
            with self.guard(statement), suppress(duckdb.Error):
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

    def table(self, sql: str, naive: bool = False) -> pa.Table:
        """Run a query to its end, within the open transaction if there is one.

        `naive`: its recursions run as they are written, as far as that is bearable.
        """
        recursive = mentions_recursion(sql)
        statement = split(sql)[0] if recursive else _query(sql)
        with self.guard(statement, as_written=not recursive):
            context = self.context(None)
            # what views hold is never cut short
            settings = dataclasses.replace(context.settings, on_limit="error")
            if naive:
                settings = dataclasses.replace(
                    settings,
                    fusion=False,
                    max_iterations=min(settings.max_iterations or _ROUNDS, _ROUNDS),
                    max_recursive_rows=min(settings.max_recursive_rows or _ROWS, _ROWS),
                )
            context.settings = settings
            stream = planning.run(statement, context)
            try:
                return pa.Table.from_batches(list(stream), stream.schema)
            finally:
                stream.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query that is DuckDB's, which is planned but once this way."""
        with self.guard(_query(sql)):
            return rows_of(self.connection, sql)

    def at_once(self, sql: str) -> pa.Table:
        """`table` for a query that binds: it is planned but once, too, if it is DuckDB's."""
        if mentions_recursion(sql) or not self.settings.fusion:
            return self.table(sql)
        with self.guard(_query(sql)):
            return table_of(self.connection, sql)

    def bind(self, sql: str, names: Names | None = None) -> Node:
        """The logical plan of a maintained view's query; `names`: the catalog as it is now."""
        from .view_logical import logical_view

        return logical_view(sql, self.context(None), names)

    def python(self) -> Connection:
        """The session as a connection."""
        from .dbapi import Connection

        return Connection(self)

    def catalog_changed(self) -> None:
        """Forget plans: the catalog is another one."""
        self.catalog.changed()

    @property
    def version(self) -> object:
        return self.catalog.version, self.database.catalog_version

    def context(self, parameters: Parameters, written: bool = True) -> Context:
        """`written`: rows that wait are written before."""
        return Context(
            connection=self.connection if written else self.unwritten,
            settings=self.settings,
            parameters=parameters,
            frames=self.frames,
            lock=self.lock,
            interrupted=self.interrupted,
            in_transaction=self.in_transaction or self.views.implicit,
            temporary=self.temporary,
            aborts=self.aborts,
            watch=self._watch(),
            deadline=self.limit.deadline,
            bound=self._bound,
            access=self._access,
            meaning=self.views.known_meaning(),
            state=self.database.own_state,
        )

    def _watch(self) -> Callable[[str, tuple[int, ...], int], None] | None:
        return None if self.activity is None else self.activity.iterated

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
                if found is not None and not self.limit.passed:
                    found = named_view(error, found)
                if found is None or found is error:
                    raise
                raise found from None

    def implicit(self) -> bool:
        """Is a transaction open that the user did not begin? Not while the session is made."""
        views: Views | None = getattr(self, "views", None)
        return views is not None and views.implicit

    def enable_progress(self) -> None:
        """From now on `progress` knows what a statement is at."""
        self.check_open()
        with self.lock:
            self.activity = Activity()
            if not self.safe_mode:  # there it is set already
                opening.enable_progress(self.connection)

    def progress(self) -> Progress | None:
        """What the running statement is at, if `enable_progress` was called. No lock."""
        if self.activity is None or self.closed:
            return None
        percent = self._duckdb.query_progress()
        fraction = None if percent < 0 else min(percent / 100, 1.0)
        return self.activity.progress(self.database.epoch, fraction)

    def interrupt(self) -> None:
        """Stop the running statement; may be called from any thread, waits for no statement."""
        with self._interrupting:
            if self._finishing:
                return
            self.interrupted.set()
            self.doubted = True
            if not self.closed:
                self._duckdb.interrupt()
        for abort in tuple(self.aborts):
            abort()

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """A block that nothing interrupts: a commit has happened or not, and we know which.

        DuckDB tells of a COMMIT that it was interrupted also when that has taken effect.
        """
        with self._interrupting:  # whoever is just about to interrupt does so before
            before, self._finishing = self._finishing, True
        try:
            with sigint.Held():
                yield
        finally:
            self._finishing = before

    def check_open(self) -> None:
        """Raise if the connection is closed."""
        if self.forked:
            raise forked.error()
        if self.closed:
            raise errors.ProgrammingError("the connection is closed")

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back. Safe to call again."""
        if self.forked:
            return
        with self.lock:
            if not self.closed:
                self.closed = True
                result = self._open() if self._open is not None else None
                if result is not None:
                    result.close()
                elif self._stream is not None:
                    self._stream.close()
                try:
                    self.views.close()
                finally:
                    self._bound.clear()
                    inherited.close(self._duckdb)
                    sigint.release()

    def scan(self, script: str) -> None:
        """Register the caller's DataFrames that `script` names, if `python_scan` is on."""
        if self.settings.python_scan and not self.closed and isinstance(script, str):
            from .frames import scan

            scan(self, script)

    # -- subscriptions -----------------------------------------------------------------------------

    def subscribe(self, view: str, epoch: int | None = None) -> Subscription:
        """Follow a maintained view, from a snapshot or behind an epoch that is still kept."""
        if not isinstance(view, str):
            raise errors.ProgrammingError(f"the view is named by a text, not by {view!r}")
        if epoch is not None and (
            isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0
        ):
            raise errors.ProgrammingError(
                f"an epoch is a whole number, not {epoch!r}",
                hint="every Update has its epoch; without one it begins with a snapshot",
            )
        statement, *more = split(f"SUBSCRIBE TO {view}")
        with self.guard(statement):
            self.check_open()
            self.make_way()
            named = view_text.parse_subscribe(statement)
            if more or named.rest:
                raise errors.ProgrammingError(
                    f"a view's name alone is expected, not {view!r}",
                    hint="subscribe(view, epoch); SUBSCRIBE TO view AS OF EPOCH n is a statement",
                )
            return self.views.subscribe(named, statement, epoch)


def _query(sql: str) -> Statement:
    """A query of ours, not looked at word by word, which takes long."""
    return dataclasses.replace(NO_STATEMENT, text=sql, script=sql, kind=Kind.QUERY)


_BEGIN = split("BEGIN")[0]
_ROUNDS, _ROWS = 1_000, 10_000_000  # iterations of a naive evaluation, and rows of all of them
_NO_BEGIN = (Kind.TRANSACTION, Kind.SETTING)
