"""A session's transactions: an epoch is a committed transaction.

Its changes are captured while it runs (`sql.capture`) and taken through the views just before
DuckDB commits; if either fails both are undone (views are rebuilt from the tables, which is slow
and always right).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine import inherited
from tidewheel.engine.arrow import pa
from tidewheel.engine.interruption import unbroken
from tidewheel.engine.operators.shared import KEYS
from tidewheel.engine.operators.unkept import Unkept
from tidewheel.engine.quoting import quoted
from tidewheel.engine.state.memory import Excess
from tidewheel.planner import recompute
from tidewheel.sql import errors, view_text
from tidewheel.sql.capture import Capture, Outcome, TableInfo, together
from tidewheel.sql.keeping import keep
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.statements import Kind, Statement, split, tokens
from tidewheel.sql.transfer import written
from tidewheel.sql.view_registry import row_name
from tidewheel.sql.view_rollback import Rollback
from tidewheel.sql.view_text import prepared_name
from tidewheel.sql.watched import table_info

if TYPE_CHECKING:
    from tidewheel.engine.state.change import Change
    from tidewheel.planner.maintain import Found


class Epochs(Rollback):
    """What a transaction changes, and how it becomes an epoch."""

    def change(self, statement: Statement, given: Any) -> Outcome | None:
        """INSERT, UPDATE, DELETE, MERGE, COPY or EXECUTE; None: nothing watches, run it as written.

        The views that it reads are registered in any case.
        In autocommit mode this is a whole epoch; within a transaction its changes are kept.
        """
        kind, parts, at = view_text.target(statement)
        key = self.target_key(statement)
        if kind == "copy_out":
            self.prepare(statement.text)
            return None
        if key is not None and key in self._maintainer.views:
            raise errors.ProgrammingError(
                f"{parts[-1]} is a maintained view: its rows follow from the tables it reads",
                hint="change those tables",
                text=statement.script,
                position=at,
                length=len(parts[-1]),
            )
        self.recover()
        self.prepare(statement.text)  # it may fill views, which then follow this change, too
        watched = self.watched_tables()
        if statement.words[1:3] == ("FROM", "DATABASE"):
            watched = written(statement, watched)
        if not watched or (key is not None and key not in watched):
            return None
        if kind == "other" and not parts:
            executed = self.prepared(statement)
            if executed is None or executed.kind is Kind.QUERY:
                return None
        con = self.host.connection
        capture = Capture(con, watched, con.cursor, self._behind)
        touched = frozenset(self._changes)
        with self.implicitly():
            outcome = capture.run(kind, statement.text, given, key, touched)
            for name, delta in outcome.changes.items():
                self.note(name, delta)
        return outcome

    def _behind(self, text: str) -> Sequence[str]:
        """The plain views and macros that a statement depends on, if it names any.

        And what can be read once, which is of no more use a second time than what is volatile.
        """
        frames = self.host.frames.items()
        once = {n.lower() for n, f in frames if isinstance(f, pa.RecordBatchReader)}
        if once and not view_text.names_of(tokens(text)).isdisjoint(once):
            return ("SELECT random()",)
        names, keys = self._names(), self._keys()
        views = (r.name.lower() for r in names.relations if r.kind == "view" and r.key not in keys)
        if view_text.names_of(tokens(text)).isdisjoint({*names.macros, *views}):
            return ()
        return names.texts(text, keys)[1:]

    def changed_here(self) -> None:
        """The session's transaction may have changed what its own reads of views show."""
        self._own_rows.clear()

    def note(self, key: str, delta: pa.Table) -> None:
        """The transaction changed a watched table."""
        if delta.num_rows:
            self._changes.setdefault(key, []).append(delta)

    def prepared(self, statement: Statement) -> Statement | None:
        """What an EXECUTE runs, if that is known."""
        text = self.executed(statement.text)
        body = list(islice(tokens(text), 4))[3:]  # behind PREPARE name AS
        return split(text[body[0].start :])[0] if body and body[0].kind != "end" else None

    def note_prepare(self, statement: Statement) -> None:
        """After PREPARE name AS …: remember what EXECUTE name will read and write."""
        if statement.words[0] == "PREPARE":
            name = list(tokens(statement.text))[1]
            self._prepared[prepared_name(name)] = statement.text
        elif statement.words[0] == "DEALLOCATE":
            *_, name = tokens(statement.text)
            self._prepared.pop(prepared_name(name), None)

    def target_key(self, statement: Statement) -> str | None:
        """The key of the table that DML writes, if it is known."""
        _, parts, _ = view_text.target(statement)
        return self.key_of(parts) if parts else None

    def key_of(self, parts: Sequence[str]) -> str | None:
        """The key of what a name stands for."""
        version, known = self._targets
        if version != self.database.catalog_version:
            known = {}
            self._targets = (self.database.catalog_version, known)
        name = "\x00".join(parts).lower()
        if name not in known:
            relation = self._names().find(list(parts))
            known[name] = None if relation is None else relation.key
        return known[name]

    def watched_tables(self) -> dict[str, TableInfo]:
        """The base tables that hot views read, and those with triggers. A view that turns hot
        changes the version."""
        version = (self.database.catalog_version << 20) + sum(
            v.hot for v in self._maintainer.views.values()
        )
        if self._tables[0] != version:
            keys = self._maintainer.watched()
            info = table_info(self.host.connection, self._present(), keys) if keys else {}
            self._tables = version, info
            # each follows only changes of the columns that it has
            self.database.maintainer.indexes.clear()
        return self._tables[1]

    def lock_for_write(self) -> None:
        """A statement is about to write: wait for other writers, hold until the epoch ends."""
        if not self.database.writer.held_by(self):
            self.database.writer.acquire(self)

    def implicitly(self) -> _Implicit:
        """A transaction around a block, if none is open."""
        return _Implicit(self)

    def commit(self) -> None:
        """Take the transaction's changes through the views and commit both.

        Of a transaction in which a statement failed DuckDB leaves nothing, without a word. If it
        was an interrupt that came between two statements, nobody has been told yet.
        """
        host = self.host
        with self.database.committing:
            if self.failed():
                self.take_back()
                self.rollback()
                if host.doubted and not host.told:
                    raise errors.Interrupted("the transaction was interrupted; it is rolled back")
            else:
                self._commit()

    def _commit(self) -> None:
        con = self.host.connection
        self.implicit = True  # until DuckDB has committed, views are computed inside it
        try:
            deltas: dict[str, Found] = {}
            late, looked = self._behind_others, set[str]()
            self._pin(self._changes)
            try:
                watched = self._maintainer.watched() if self._changes else ()
                merged = {
                    key: recompute.change(together(parts))
                    for key, parts in self._changes.items()
                    if parts and key in watched
                }
                removing = [key for key, change in merged.items() if (change.weights < 0).any()]
                if late:
                    crossed = [key for key in removing if self._crosses(key, merged[key])]
                    looked.update(self._maintainer.readers(crossed))
                if merged:
                    deltas = self._maintainer.step(merged, Maintenance(self, looked=looked))
                deltas |= self._refill()
            except BaseException as error:
                try:
                    told = self._as_written(error)
                finally:  # (whatever the query ends in, Ctrl-C included)
                    self.take_back()
                    self._undo(self._changes, error)
                if told is None:
                    raise
                raise told from None
            with self.database.reading, self.host.finishing():
                try:
                    con.commit()
                except BaseException as error:
                    self.take_back()
                    self._undo(self._changes, error)
                    raise
                self.database.removed.update(dict.fromkeys(removing, self.database.writer.ended))
                looked |= self._anew
                lost = self._look_again(looked, deltas) if looked and late else []
                self._unpin()
                replaced = self._install()
                for key in lost:
                    self.database.history.broken[key] = self.database.epoch
                if self._changes or self._anew or replaced:
                    self.database.publish(deltas)
        finally:
            self._end()

    def _crosses(self, key: str, change: Change) -> bool:
        """May the transaction have changed rows of a table that others had changed since it began?

        It knows them as they were before. DuckDB tells of some of these conflicts only: not where
        a row is deleted that another transaction has updated, or updated that another deleted.
        """
        start, info = self._start, self.watched_tables().get(key)
        if start is None:
            return False
        hot = [view for view in self._maintainer.views.values() if view.hot and key in view.reads]
        since = min((view.followed_from for view in hot), default=0)  # before, nobody looked
        if max(since, self.database.removed.get(key, -1)) < start[1]:
            return False
        if info is None or not info.key:
            return True  # rows may be equal
        columns, by = (", ".join(map(quoted, names)) for names in (info.columns, info.key))
        table = change.table()
        gone = table.filter(pa.array(change.weights < 0))
        there = f"SELECT {columns} FROM {info.name} SEMI JOIN {KEYS} USING ({by})"
        sql = f"SELECT 1 FROM (SELECT {columns} FROM {KEYS} EXCEPT ({there})) LIMIT 1"
        return bool(Maintenance(self).committed(sql, gone).num_rows)

    def _look_again(self, looked: set[str], deltas: dict[str, Found]) -> list[str]:
        """The views that looked at tables in a transaction that lacks others' commits look again.

        Behind the commit, and before anybody else reads or writes. Gives those that could not, as
        their query fails on what both left: they hold nothing. The statement has done its work in
        time: what comes after it, it can't be late with.
        """
        views = self._maintainer
        keys = looked | {*views.readers(looked)}
        again = [view for view in views.ordered() if view.key in keys and view.plan is not None]
        views.cool(keys)
        for view in again:
            deltas.pop(view.key, None)
            before = self.database.maintainer.views.get(view.key)
            try:
                with self.host.limit.stopped(), unbroken():
                    plan = views.heat(view.key, Maintenance(self)).plan
            except Exception:
                continue
            if plan is not None and before is not None and before.pinned is not None:
                deltas[view.key] = plan.compared(before.pinned, plan.rows())
        lost = [view.key for view in again if not view.hot]
        self.database.lapsed |= {*lost}
        self.database.catalog_version += bool(lost)
        return lost

    def step_ahead(self, key: str, change: Change, write: Callable[[], object]) -> bool:
        """An epoch of one change that is known before `write` commits it, as a statement by itself.

        Returns False if DuckDB refused: then nothing has happened. The views that read the table
        must be incremental.
        """
        maintenance = Maintenance(self, ahead=True)
        try:
            with self.database.committing:
                self._pin([key])
                deltas = self._maintainer.step({key: change}, maintenance)
                with self.database.reading, self.host.finishing():
                    try:
                        write()
                    except (duckdb.IntegrityError, duckdb.DataError, duckdb.ProgrammingError):
                        self._maintainer.step({key: change.negated()}, maintenance, refused=True)
                        self._unpin()
                        return False
                    self._unpin()
                    if (change.weights < 0).any():
                        self.database.removed[key] = self.database.writer.ended
                    self.database.publish(deltas)
            return True
        except (duckdb.Error, Excess, Unkept) as error:
            self._undo([key], error)
            if self.host.interrupted.is_set():
                raise
            return False
        except BaseException as error:
            self._undo([key], error)
            raise

    def _refill(self) -> dict[str, Change]:
        """What `make_anew` changes in the views that were filled."""
        deltas: dict[str, Change] = {}
        for view in self._maintainer.ordered() if self._anew else ():
            old = self.database.maintainer.views.get(view.key)
            if view.key in self._anew and old is not None and old.plan is not None:
                rows = old.plan.rows()
                new = self._maintainer.heat(view.key, Maintenance(self)).plan
                assert new is not None
                delta = recompute.difference(rows, new.rows(), self._scratch)
                if delta.num_rows:
                    deltas[view.key] = recompute.change(delta)
        return deltas

    def _install(self) -> bool:
        """After the commit: what it did to the registry holds for everybody.

        Returns whether a view went, or became another one.
        """
        if self._overlay is None:
            return False
        replaced = False
        before, after = self.database.maintainer.views, self._overlay.views
        tokens = {view.token for view in after.values()}
        for key, view in before.items():
            if key not in after or (after[key] is not view and key not in self._anew):
                replaced = True
                self.database.lapsed.discard(key)
                self.database.history.broken[key] = self.database.epoch
                if view.token in self._registered and view.token not in tokens:
                    del self._registered[view.token]
                    self.host.connection.unregister(row_name(view.token))
        self.database.maintainer.views = after
        self.database.maintainer.settle()
        self.database.catalog_version += 1
        return replaced

    def release(self) -> None:
        """The autocommitted statement has ended: the next writer may go on."""
        self.database.writer.release(self)

    def close(self) -> None:
        """The connection has ended."""
        if self.host.writes and self.database.is_last(self):
            with suppress(Exception):  # (it ends in any case)
                keep(self)
        self.release()
        self._own_rows.clear()
        self._registered.clear()
        if self._scratch_connection is not None:
            inherited.close(self._scratch_connection)
            self._scratch_connection = None  # plans that others step may want a new one
        self.database.leave(self)


class _Implicit:
    """A transaction around a block in autocommit mode; within another one, nothing."""

    def __init__(self, views: Epochs) -> None:
        self._views = views
        self._mine = False

    def __enter__(self) -> None:
        views = self._views
        views.lock_for_write()
        self._mine = not (views.host.in_transaction or views.implicit)
        if self._mine:
            try:
                views.host.connection.begin()
            except duckdb.InterruptException:
                views.take_back()
                raise
            views.implicit = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._views.forget_bound()
        if not self._mine:
            return
        views = self._views
        if kind is None:
            views.commit()
            return
        views.implicit = False
        views.take_back()
        views.rollback()
