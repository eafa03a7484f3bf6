"""Reading maintained views: what their rows are here and now.

A transaction that has changed something reads its own views by running their queries; all other
readers see the last epoch.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import Exchanged, decoded, legible, pa
from tidewheel.engine.inherited import kept_in_child
from tidewheel.engine.kernels.duckdb import table_of
from tidewheel.engine.operators.unsound import Unsound
from tidewheel.engine.quoting import parts_of_key
from tidewheel.planner.maintain import MaintainedView
from tidewheel.sql import errors, functions, introspection, view_text
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.reads import Relation
from tidewheel.sql.reserved import RESERVED
from tidewheel.sql.view_naming import Naming
from tidewheel.sql.view_registry import row_name

if TYPE_CHECKING:
    from tidewheel.engine.state.rowwise import Row
    from tidewheel.planner.context import Parameters
    from tidewheel.planner.logical import Node


FEW = 1000
"""Rows that are read at once anyway, however they are registered."""


class Reading(Naming):
    """How rows of views come to DuckDB."""

    def prepare(self, text: str) -> None:
        """Register the rows of every view that `text` may read. Hold `database.reading`."""
        with self.as_seen():
            self._prepare(text)

    def _prepare(self, text: str) -> None:
        wanted = self._wanted(text)
        if not wanted:
            return
        if wanted & self._foreign:
            self._refuse_foreign(text)
        with self.database.reading:
            wanted = self._read(text, wanted)
            for view in self._maintainer.ordered():
                if view.key in wanted:
                    try:
                        rows = self._rows(view.key)
                    except errors.Interrupted:
                        raise
                    except errors.Error as error:  # its place is one of the view's query
                        kind = "view" if view.plain else "maintained view"
                        whose = f"so fails the query of {kind} {view.key.partition('.')[2]}"
                        error.hint = "; ".join(filter(None, (whose, error.hint)))
                        raise
                    self._register(view.key, rows)
            prepared = self.executed(text)
            if prepared:  # it would read what was registered when it was prepared
                self._do(prepared)
        for what in introspection.FUNCTIONS & wanted:
            # seen by no other connection, so kernels must not use another one
            self.host.temporary = True
            introspection.provide(self.host.connection, what, self._maintainer)

    def whole(self, text: str) -> pa.Table | None:
        """The few rows that `text` asks for, if it asks for all of one view outside a transaction.

        To send them through DuckDB takes longer than all the rest. Hold `database.reading`.
        """
        if self.host.in_transaction or not self._maintainer.views:
            return None
        found = self._whole_views.find(text, self)
        if found is None:
            return None
        key, schema = found
        rows = self._rows(key)
        return rows if rows.num_rows <= FEW and schema.equals(rows.schema, True) else None

    def point(self, text: str, given: Parameters) -> pa.Table | None:
        """The rows that `text` asks for, if it asks for those of one view that have some values,
        outside a transaction. Hold `database.reading`.
        """
        if self.host.in_transaction or not self._maintainer.views:
            return None
        return self._point_reads.find(text, given, self)

    def maintained(self, parts: Sequence[str]) -> Relation | None:
        """The maintained view that a name, in lower case, means."""
        if all(parts_of_key(key)[-1] != parts[-1] for key in self._maintainer.views):
            return None  # (what is in the catalog need not be read for that)
        relation = self._names().find(parts)
        view = None if relation is None else self._maintainer.views.get(relation.key)
        return None if view is None or view.plain else relation

    def collations(self, view: Relation) -> Collection[str]:
        """The columns of a maintained view that have a collation."""
        return self._names().collations(view)

    def found(self, key: str, columns: tuple[int, ...], row: Row) -> pa.Table | None:
        """The rows of a view that have some values in some columns; None: ask DuckDB."""
        view = self._maintainer.views[key]
        if view.plan is None or view.pinned is not None or view.plain:
            return None
        try:
            return view.plan.find(columns, row)
        except Unsound:
            return None

    def answer(self, parts: Sequence[str]) -> tuple[str, pa.Schema] | None:
        """The view of a name and DuckDB's answer to who asks for all of it, where that is known."""
        version, answers = self._answers
        if version != self.host.catalog.version or not (answers and all(map(_is_name, parts))):
            return None
        relation = self._names().find(parts)
        known = relation is not None and relation.key in self._maintainer.views
        if relation is None or not known or relation.key not in answers:
            return None
        return relation.key, answers[relation.key]

    def _register(self, key: str, rows: pa.Table) -> None:
        token = self._maintainer.views[key].token
        known = self._registered.get(token)
        few = rows.num_rows <= FEW
        if isinstance(known, Exchanged):
            if known.table is rows or (few and known.exchange(rows)):
                return
        elif known is rows:
            return
        given = Exchanged(rows) if few else rows
        self.host.unwritten.register(row_name(token), given)
        self._registered[token] = given

    def stand_in(self, key: str, rows: pa.Table) -> None:
        """Register a table as a view's rows, until somebody asks for the rows themselves."""
        token = self._maintainer.views[key].token
        self.host.connection.register(row_name(token), rows)
        self._registered[token] = None

    @contextmanager
    def stand_ins(self) -> Iterator[None]:
        """A block that calls `stand_in`: behind it the rows themselves are registered again."""
        before = dict(self._registered)
        yield
        for token, given in before.items():
            if given is not None and self._registered.get(token, given) is None:
                self.host.unwritten.register(row_name(token), given)
                self._registered[token] = given

    def _rows(self, key: str) -> pa.Table:
        view = self._maintainer.views[key]
        if self._stale_here(view):
            rows = self._own_rows.get(key)
            if rows is None:
                rows = self._own_rows[key] = self._run(view)
            return rows
        self._look_everywhere()
        if view.pinned is not None:
            return view.pinned
        if not view.hot and not view.plain:
            # To run the query costs less than to fill the view: that can wait until the view is
            # read again after a change.
            state = self.database.state
            if view.read is None:
                view.read = state, self._first(view, state)
            if view.read[0] == state:
                return view.read[1]
            view.read = None
        if not view.hot and (view.plain or not self._heat(key)):
            return self._run(view)
        assert view.plan is not None
        try:
            return view.plan.rows()
        except Unsound:
            return self._mended(view)

    def calls(self, view: MaintainedView) -> frozenset[str]:
        """The functions that a view's query calls, with its plain views and macros."""
        texts = self._names().at(view.home.path).texts(view.sql, self._keys())
        return frozenset(word for text in texts for _, word in functions.calls(text))

    def _first(self, view: MaintainedView, state: object) -> pa.Table:
        """The rows of a cold view: those of an earlier process, or what its query gives."""
        kept = self.database.kept
        found = None if kept is None else kept.rows(view, state)
        if found is not None:
            view.read_seconds = found.seconds
            return found.rows
        started = perf_counter()
        rows = self._run(view)
        view.read_seconds = perf_counter() - started
        return rows

    def _mended(self, view: MaintainedView) -> pa.Table:
        """The rows of a view whose changes did not add up: it is filled again from its tables."""
        warnings.warn(
            f"the changes of maintained view {view.key} did not add up; it is computed anew. "
            "Its query may call what gives different values for the same row; if not, this is "
            "a mistake of Tidewheel's: please report the query.",
            RuntimeWarning,
            stacklevel=2,
        )
        writer = self.database.writer
        held = writer.held_by(self)
        if held or writer.try_acquire(self):
            try:
                self._forget({view.key, *self._maintainer.readers([view.key])})
            finally:
                if not held and not self.host.in_transaction:
                    writer.release(self)
        return self._rows(view.key) if view.plan is None else self._run(view)

    @property
    def _behind_others(self) -> bool:
        """May others have committed what the user's transaction does not see?"""
        return self._start is not None and self._start != self.database.written

    @property
    def changes_wait(self) -> bool:
        """Has the open transaction changed what views read?"""
        return bool(self._changes)

    def _forget(self, keys: set[str]) -> None:
        """Let go of what views hold: it is filled again from their tables."""
        self.database.lapsed |= {k for k in keys if self._maintainer.views[k].hot}
        self._maintainer.cool(keys)
        self.database.catalog_version += 1

    def _stale_here(self, view: MaintainedView) -> bool:
        """Must this session run the view's query, because its transaction sees other tables?"""
        if not self.host.in_transaction:
            return False
        if self._behind_others or self._past is not None or not view.hot:
            return True
        touched = [k for k, deltas in self._changes.items() if deltas]
        return view.key in self._maintainer.readers(touched)

    def _run(self, view: MaintainedView, naive: bool = False) -> pa.Table:
        """What the view's query gives here and now; `naive`: see `Session.table`."""
        with self.there(view):
            try:
                return decoded(self.host_query(view.sql, view.reads, naive))
            except errors.Error as error:
                text, start = view_text.as_written(view.sql)
                error.move(view.sql, text, -start)
                raise

    def host_query(self, sql: str, reads: Iterable[str], naive: bool = False) -> pa.Table:
        """Run a view's query here and now; the views that it reads are registered first."""
        for key in sorted(set(reads) & self._keys(), key=self._order):
            self._register(key, self._rows(key))
        return self.host.table(sql, naive)

    def _heat(self, key: str) -> bool:
        """Hydrate a cold view, unless another connection is writing just now.

        Not under a timeout that was too short for it before: its query may take less time.
        """
        writer, limit, view = self.database.writer, self.host.limit, self._maintainer.views[key]
        if not limit.longer(view.too_short):
            return False
        held = writer.held_by(self)
        if not held and not writer.try_acquire(self):
            return False
        try:
            if self.host.in_transaction and self._behind_others:
                return False  # somebody has committed just now
            self._maintainer.heat(key, Maintenance(self))
        except BaseException:
            if limit.late():
                view.too_short = limit.milliseconds or 0
            raise
        finally:
            if not held and not self.host.in_transaction:
                writer.release(self)
        return True

    def provide(self, view: MaintainedView) -> None:
        """Register the views that `view` reads as they are now, in the epoch being made."""
        for key in view.reads & self._maintainer.views.keys():
            plan = self._maintainer.views[key].plan
            if plan is not None:
                self._register(key, plan.rows())

    def provide_before(self, apart: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Register the views that a query names as they were before the epoch being made.

        In a turn that takes back what tables have refused, as tables are: as it leaves them.
        """
        if row_name("") not in sql:
            return
        refused = self._maintainer.shared.refused
        for view in self._maintainer.views.values():
            if view.plan is not None and row_name(view.token) in sql:
                rows = view.plan.rows() if refused else view.plan.before()
                apart.register(row_name(view.token), legible(rows))

    def bound(self, sql: str) -> Node:
        """The logical plan of a view's query."""
        known, self._bound = self._bound, None
        return known[1] if known is not None and known[0] == sql else self.host.bind(sql)

    def forget_bound(self) -> None:
        """The statement is over: names may mean something else in the next one."""
        self._bound = None

    def _scratch(self, sql: str, **tables: pa.Table) -> pa.Table:
        """Run SQL over Arrow tables, away from the session's transaction."""
        con = self._scratch_connection
        if con is None:
            access = {"enable_external_access": not self.host.safe_mode}
            con = kept_in_child(duckdb.connect(config={"threads": 1, **access}))
            self._scratch_connection = con
            con.execute("SET arrow_lossless_conversion = true")
        for name, table in tables.items():
            con.register(name, table)
        try:
            return table_of(con, sql)
        finally:
            for name in tables:
                con.unregister(name)


def _is_name(word: str) -> bool:
    """Is a word of letters, digits and _ a name without quotes?"""
    return word.isascii() and not word[0].isdigit() and word.lower() not in RESERVED
