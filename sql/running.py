"""What each kind of statement does: queries, changes, transactions, views, settings, DDL."""

from __future__ import annotations

import dataclasses
import re
import threading
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING

from tidewheel.engine.arrow import pa

from ..engine.kernels import duckdb as kernel
from ..planner import direct
from ..planner.context import Parameters
from . import errors, forked, functions, hidden, opening, plain_view, planning, settings, view_text
from .planning import Plans
from .recursion_beforehand import recursions
from .result import Result, Stream, TableStream
from .statements import (
    Kind,
    Statement,
    analyzed,
    is_about_view,
    mentions_recursion,
    mistake,
    tokens,
)
from .subscribe import Subscription, SubscriptionReader

if TYPE_CHECKING:
    from .session import Session


class Runner:
    """Runs the statements of a session, one at a time: see `Session.run`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._plans = Plans()
        self._began: tuple[int, int] | None = None
        """The versions of the catalog and of functions when the open transaction began."""

    def run(
        self, statement: Statement, given: Parameters, as_text: bool
    ) -> tuple[Result | None, int]:
        kind = statement.kind
        if kind is Kind.QUERY:
            return self._query(statement, given, as_text), -1
        if kind is Kind.EXPLAIN:
            return self._explain(statement, given), -1
        if kind is Kind.SETTING:
            return self._setting(statement, given), -1
        with self.session.guard(statement):
            if kind is Kind.TRANSACTION:
                with self.session.database.writer.noted():
                    self.transaction(statement)
                return None, -1
            executes = statement.words[0] == "EXECUTE"
            prepared = self.session.views.prepared(statement) if executes else None
            if prepared is not None and prepared.kind is Kind.QUERY:
                return self._prepared_query(statement, given), -1
            if prepared is not None and prepared.kind is Kind.CHANGE:
                return self._prepared_change(statement, given, prepared.rows)
            if kind is Kind.CHANGE or executes:
                return self._change(statement, given)
            ours = kind is Kind.OURS
            with self.session.database.writer.noted():
                outcome = (self._ours(statement), -1) if ours else self._other(statement, given)
            self.session.views.look_again()
            return outcome

    def _ours(self, statement: Statement) -> Result | None:
        """CREATE and DROP MATERIALIZED VIEW, VERIFY VIEW, SUBSCRIBE TO."""
        session = self.session
        verb = statement.words[0]
        if verb == "CREATE":
            session.views.create(statement)
        elif verb == "DROP":
            session.views.drop(statement)
        elif verb == "VERIFY":
            found, verdict = session.views.verify(statement)
            result = self._complete(found, statement)
            result.status = verdict
            return result
        else:
            named = view_text.parse_subscribe(statement)
            start = int(named.rest[0]) if named.rest else None
            try:
                return self._followed(session.views.subscribe(named, statement, start))
            except errors.ProgrammingError as error:
                if named.rest and error.line is None:  # the epoch, which stands at the end
                    last = list(tokens(statement.text))[-1]
                    error.replace(statement.script, statement.start + last.start, len(last.text))
                raise
        return None

    def transaction(self, statement: Statement) -> None:
        """BEGIN, COMMIT or ROLLBACK, for the views too."""
        session = self.session
        verb, *rest = statement.words
        if verb in ("BEGIN", "START"):
            began = session.catalog.version, functions.version()
            with session.views.beginning():
                self._count(statement, None)
            session.in_transaction, session.unread = True, not session.views.has_looked
            self._began = began
            return
        if rest not in ([], ["TRANSACTION"], ["WORK"]):
            self._count(statement, None)  # DuckDB says what is wrong with it; nothing has ended
            return
        # nobody's DDL meanwhile: what was read of the catalog holds
        same = session.in_transaction and self._began == (
            session.catalog.version,
            functions.version(),
        )
        try:
            if verb in ("COMMIT", "END") and session.in_transaction:
                if not same:
                    session.catalog.changed()  # what others read until then is not what they find
                session.in_transaction = False
                session.views.commit()
                return
            if session.in_transaction:
                session.views.take_back()
            else:
                self._count(statement, None)  # DuckDB says that there is none
        finally:
            session.in_transaction = False
            if not same:
                session.catalog.changed()
                functions.changed()
        session.views.rollback()

    def _change(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """DML: the changes of watched tables are captured, and in autocommit mode are an epoch."""
        session = self.session
        own = not session.in_transaction
        session.views.lock_for_write()
        epoch = session.database.epoch
        copies = statement.words[1:3] == ("FROM", "DATABASE")
        try:
            with (
                self._copying(statement) if copies else nullcontext(),
                recursions(session, statement, given) as (statement, given),
            ):
                outcome = session.views.change(statement, given)
                done = self._duckdb(statement, given) if outcome is None else (None, -1)
            if copies:  # COPY makes tables and views, too
                session.views.load_copied()
            if outcome is None:
                return done
        finally:
            session.views.changed_here()
            if copies:
                session.catalog.changed()
                session.database.catalog_version += 1
            if own:
                session.views.release()
        if outcome.rows is None or not statement.rows:
            return None, outcome.count
        rows = outcome.rows
        if statement.words[:2] == ("EXPLAIN", "ANALYZE") and session.database.epoch > epoch:
            from .explain import told

            rows = told(rows, session.database.maintainer, session.database.epoch)
        count = rows.num_rows if statement.kind is Kind.CHANGE else -1
        return self._complete(rows, statement), count

    def _copying(self, statement: Statement) -> AbstractContextManager[None]:
        from . import transfer

        return transfer.views_of_both(self.session.views, statement)

    def _other(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """DDL and all the rest."""
        session = self.session
        if statement.words[:1] == ("REFRESH",):
            raise errors.NotSupportedError(
                "there is no REFRESH: a maintained view is up to date after every commit",
                hint="leave it out; VERIFY VIEW compares a view with a run from scratch",
                text=statement.script,
                position=statement.start,
                length=len("REFRESH"),
            )
        if statement.words[0] == "EXPLAIN":
            self._refuse_analyzed(statement)
        session.temporary = session.temporary or _is_temporary(statement)
        about_view = is_about_view(statement) or statement.words[:2] == ("ALTER", "TABLE")
        if about_view and plain_view.handled(statement, session.views):
            return None, -1
        if statement.words[:4] == ("COMMENT", "ON", "MATERIALIZED", "VIEW"):
            named = view_text.parse_comment(statement)
            session.views.resolve(named.parts, statement, named.name_at)
            text = view_text.without_materialized(statement.text)
            statement = dataclasses.replace(statement, text=text)
        if _is_table_as(statement) or statement.words[0] in ("DESCRIBE", "DESC", "SUMMARIZE"):
            # what it reads of views and of tables is of one epoch, as in a transaction anyway
            alone = _is_table_as(statement) and not session.in_transaction
            alone = alone and bool(session.views.needed(statement.text))
            with (
                session.views.writing() if alone else nullcontext(),
                recursions(self.session, statement, given) as (statement, given),
            ):
                result, count = self._ddl(statement, given)
                if result is not None:
                    result.buffer()  # it reads what is there for this block alone
                return result, count
        if statement.words[:2] in (("EXPORT", "DATABASE"), ("IMPORT", "DATABASE")):
            return self._transfer(statement, given)
        found = self._ddl(statement, given)
        if statement.words[0] in ("ATTACH", "DETACH"):
            forked.attached(session)
        return found

    def _refuse_analyzed(self, statement: Statement) -> None:
        """EXPLAIN ANALYZE runs what it explains; what that does to views only some paths know."""
        inner = analyzed(list(tokens(statement.text)))
        verb, *more = (t.text.upper() for t in inner[:5])
        if verb == "CREATE" and "TABLE" in more:
            return
        raise mistake(
            statement,
            inner[0],
            f"EXPLAIN ANALYZE would run this {verb}, which has no plan to tell of",
            "EXPLAIN ANALYZE is for queries, changes of rows and CREATE TABLE … AS",
            errors.NotSupportedError,
        )

    def _transfer(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """EXPORT or IMPORT DATABASE, its maintained views included."""
        from . import transfer

        if statement.words[0] == "EXPORT":
            found = self._ddl(statement, given)
            transfer.finish_export(self.session.views, statement)
            return found
        views = transfer.exported(self.session.views, statement)
        own = bool(views) and not self.session.in_transaction
        with self.session.as_one() if own else nullcontext():
            found = self._ddl(statement, given)
            for view in views:
                transfer.make(self.session.views, view, lambda s: self.run(s, None, False))
        return found

    def _ddl(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        session = self.session
        found: tuple[Result | None, int]
        if mentions_recursion(statement.text) and _KEPT.match(statement.text):
            from . import recursion

            with session.guard(statement):
                describe = recursion.Describer(session.connection, given)
                text = recursion.for_duckdb(statement.text, describe)
            statement = dataclasses.replace(statement, text=text)
        if statement.words[0] not in ("USE", "DROP"):  # the way out of a database that is gone
            with session.database.reading:
                session.views.prepare(statement.text)
        listing = _listing(statement)
        if listing is not None:
            return self._duckdb(dataclasses.replace(statement, text=listing), given)
        if not session.views.any:
            found = self._duckdb(statement, given)
            session.views.note_prepare(statement)  # there may be views when it is executed
            return found
        if statement.words[0] in _NO_DDL:
            found = self._duckdb(statement, given)
        else:
            found = session.views.ddl(statement, lambda: self._duckdb(statement, given))
            if statement.words[0] in ("ATTACH", "DETACH"):
                session.views.attached(statement)
        session.views.note_prepare(statement)
        if functions.may_change(statement):
            functions.changed()  # others see it since the commit just now
        return found

    def _query(self, statement: Statement, given: Parameters, as_text: bool) -> Result:
        session = self.session
        # the views' rows and DuckDB's snapshot are of one epoch
        read = None if session.activity is None else session.activity.read
        with session.guard(statement), session.database.reading:
            rows = None if given or as_text else session.views.whole(statement.text)
            if rows is None and not as_text:
                rows = session.views.point(statement.text, given)
            if rows is not None:
                return Result(TableStream(rows), nullcontext, session.lock, read)
            alone = session.behind.waiting and session.views.reads_views_alone(statement.text)
            session.views.prepare(statement.text)
            context = session.context(given, written=not alone)
            stream: Stream | None = None
            if planning.is_plain(statement, session.settings):
                written = True
                if as_text:
                    stream = direct.run_as_text(statement.text, context)
                if stream is None:
                    stream = direct.run(statement.text, context)
            else:
                from ..planner import execute

                draft = self._plans.draft(statement, session.version, context)
                if draft is not None:
                    written = False
                    stream = execute.whole_answer(draft, context)
                if stream is None:
                    plan = self._plans.get(statement, session.version, context)
                    written = plan.labels is None
                    with session.guard(statement, written):
                        stream = execute.start(plan, context, ask=draft is None)
        return Result(stream, lambda: session.guard(statement, written), session.lock, read)

    def _prepared_query(self, statement: Statement, given: Parameters) -> Result:
        """EXECUTE of a query, which waits for no writer."""
        session = self.session
        with session.database.reading:
            session.views.prepare(statement.text)
            connection = session.connection
            kernel.execute(connection, statement.text, given)
        return self._complete(kernel.executed(connection), statement)

    def _prepared_change(
        self, statement: Statement, given: Parameters, returning: bool
    ) -> tuple[Result | None, int]:
        """EXECUTE of a change, which gives the rows that RETURNING has, or one with their count."""
        statement = dataclasses.replace(statement, kind=Kind.CHANGE)
        result, count = self._change(statement, given)
        if result is not None and not returning:
            ((first, *_), _) = result.peek(1)
            count = int(first.column(0)[0].as_py())
        return result, count

    def _explain(self, statement: Statement, given: Parameters) -> Result:
        session = self.session
        from .explain import explain

        with session.guard(statement), session.database.reading:
            session.views.prepare(statement.text)
            context = session.context(given)
            shown = explain(
                statement,
                context,
                session.views,
                lambda q: self._plans.get(q, session.version, context),
            )
        if shown is not None:
            # named as DuckDB names the columns of its own EXPLAIN
            columns = {"explain_key": [shown[0]], "explain_value": [shown[1]]}
            return self._complete(pa.table(columns), statement)
        result = self._duckdb(statement, given)[0]
        assert result is not None
        return result

    def _setting(self, statement: Statement, given: Parameters) -> Result | None:
        session = self.session
        if statement.words[0] == "SHOW":
            name = statement.words[1].strip('"').lower()
            return self._table(statement, {name: [settings.shown(getattr(session.settings, name))]})
        name, value = settings.assignment(statement, given)
        if name == "threads":
            self._duckdb(statement, given)
            if statement.words[0] == "RESET":
                value = opening.default_threads(session.connection)
        setattr(session.settings, name, value)
        return None

    def _duckdb(self, statement: Statement, given: Parameters) -> tuple[Result | None, int]:
        """Run a statement that is DuckDB's alone, as it is written."""
        session = self.session
        if statement.kind is Kind.OTHER:  # before, too: others may read what is there until then
            session.catalog.changed()
        try:
            with session.guard(statement):
                if not statement.rows:
                    return None, self._count(statement, given)
                if statement.kind is Kind.CHANGE or statement.words[0] == "EXECUTE":
                    table = hidden.answer(session.connection, statement.text, given)
                else:
                    relation = hidden.relation(session.connection, statement.text, given)
                    if relation is None:
                        return None, -1
                    table = relation.to_arrow_table()
        finally:
            if statement.kind is Kind.OTHER:
                session.catalog.changed()
                if statement.words[0] not in _NO_SETTINGS:
                    session.catalog.settings_changed()
                if functions.may_change(statement):
                    functions.changed()
        if table.num_rows == 0 and table.column_names == ["Success"]:
            return None, -1
        count = table.num_rows if statement.kind is Kind.CHANGE else -1
        return self._complete(table, statement), count

    def _count(self, statement: Statement, given: Parameters) -> int:
        """Run a statement that gives no rows; how many it changed, or -1."""
        changed = hidden.execute(self.session.connection, statement.text, given)
        if changed and len(changed[0]) == 1 and isinstance(changed[0][0], int):
            return int(changed[0][0])
        return -1

    def _complete(self, table: pa.Table, statement: Statement) -> Result:
        return Result(TableStream(table), lambda: self.session.guard(statement), self.session.lock)

    def _followed(self, subscription: Subscription) -> Result:
        # It waits for changes, so it must not hold the connection's lock.
        session = self.session
        rows = SubscriptionReader(subscription, session.aborts, lambda: session.limit.passed)
        return Result(rows, nullcontext, threading.RLock())

    def _table(self, statement: Statement, columns: dict[str, list[str]]) -> Result:
        return self._complete(pa.table(columns), statement)


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


def _listing(statement: Statement) -> str | None:
    """SQL for a statement that lists tables or schemas, without those that keep views."""
    words = statement.words
    text = _PRAGMAS.get(words[1:]) if words[0] == "PRAGMA" else statement.text
    if text is None or words[0] not in ("SHOW", "DESCRIBE", "DESC", "PRAGMA"):
        return None
    if words[1:] in ((), ("ALL",), ("ALL", "TABLES"), ("SHOW_TABLES_EXPANDED",)):
        kept = "NOT starts_with(name, '__tw_') AND schema <> '__tidewheel'"
    elif words[1:] == ("SHOW_TABLES",) or words[1:3] in (("TABLES",), ("TABLES", "FROM")):
        kept = "NOT starts_with(name, '__tw_')"
    elif words[1:] == ("SCHEMAS",):
        kept = "schema_name <> '__tidewheel'"
    else:
        return None
    return f"SELECT * FROM ({text}\n) WHERE {kept}"


_PRAGMAS: dict[tuple[str, ...], str] = {
    ("SHOW_TABLES",): "SHOW TABLES",
    ("SHOW_TABLES_EXPANDED",): "SHOW ALL TABLES",
}
_NO_DDL = (
    "DESCRIBE", "DESC", "SUMMARIZE", "SHOW", "PREPARE", "COMMENT", "EXPORT", "ANALYZE", "VACUUM",
    "CHECKPOINT",
)  # fmt: skip
_KEPT = re.compile(
    r"\s*(PREPARE|CREATE\s+(OR\s+REPLACE\s+)?((TEMP\w*\s+)?(MACRO|FUNCTION)"
    r"|((LOCAL|GLOBAL)\s+)?TEMP\w*\s+(RECURSIVE\s+)?VIEW))\b",
    re.IGNORECASE,
)
"""DuckDB keeps the query that stands in it."""
_NO_SETTINGS = ("CREATE", "DROP", "ALTER")
