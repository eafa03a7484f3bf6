"""Change capture: run one DML statement and learn the net change that it makes.

The change comes from the statement itself wherever it can, at the cost of the change:

* INSERT, DELETE, TRUNCATE: what ``RETURNING *`` gives.
* UPDATE: the rows that its WHERE selects, read just before, and what ``RETURNING *`` gives for few
  rows; many, and those that meet rows of FROM, are read by their ``rowid`` (where foreign keys
  refer to the table, by their keys).
  DuckDB 2.0.0 with several threads has faults where an UPDATE deletes and inserts, as it does for
  RETURNING over an indexed table: it may come upon rows that it has written itself, which a bound
  on ``rowid`` keeps from it, and RETURNING of many loses some, or reads texts that are gone.
* INSERT … ON CONFLICT DO UPDATE, MERGE: ``RETURNING merge_action, *`` gives the new rows; the
  rows that they replaced are looked up by primary key in the last committed state. Where they are
  so many that RETURNING may have lost some, the table is compared with that state.
* Anything else (no primary key, a volatile WHERE, triggers, text that cannot be cut apart): a copy
  of the table before, compared with the table after. Right, at the cost of the table.

A user's own RETURNING list is kept: its columns travel behind the table's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import array_from, array_of, pa
from tidewheel.engine.kernels.duckdb import execute, executed
from tidewheel.engine.quoting import literal, quoted
from tidewheel.sql.capture_text import Text, cut_apart, named_parameters, used
from tidewheel.sql.statements import tokens, words_in
from tidewheel.sql.view_text import unquoted

if TYPE_CHECKING:
    from tidewheel.engine.state.delta import Schema

WEIGHT = "__tw_weight"  # a table may have a column called weight
_FEW = 256
_MANY = 100_000
"""DuckDB 2.0.0's RETURNING loses updated rows of more than a row group, which has 122,880."""
_BEFORE = "__tw_before"
_KEYS = "__tw_keys"
_PLACE = "__tw_place"
_FIRST_LOCAL = 36028797018960000
"""DuckDB's MAX_ROW_ID: the rowid of the first row that a transaction itself adds to a table."""


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A base table that is watched: its quoted qualified name, columns in order, primary key.

    `plain` is its Arrow schema if DuckDB's Python values of its types survive the way into Arrow
    unchanged, `layout` the engine's schema if values of such types, dates or timestamps do that.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    has_triggers: bool = False
    plain: pa.Schema | None = None
    layout: Schema | None = None
    referenced: bool = False
    """A foreign key refers to it: DuckDB lets UPDATE touch such rows, UPDATE … RETURNING not."""
    watched: bool = True
    """Do views read it? If not it is known for its triggers, which may write what views read."""
    alike: tuple[int, ...] = ()
    """Columns whose values may be equal and not the same, as -0.0 and 0.0, a month and 30 days."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Columns of states of aggregates that Arrow can't have, and what they are kept as, as SQL."""
    keeps_text: list[bool] = field(default_factory=list)
    """Does a default tell the statement that runs? Empty: nobody has asked yet."""

    @property
    def known(self) -> Schema:
        """The layout of a table that has one."""
        assert self.layout is not None
        return self.layout

    @property
    def placed(self) -> str:
        """A query for its rows, each with its place: one that moves counts as changed."""
        place = "" if "rowid" in map(str.lower, self.columns) else f"rowid AS {_PLACE}, "
        kept = ", ".join(f"{sql} AS {quoted(c)}" for c, sql in self.states.items())
        return f"SELECT {place}*{f' REPLACE ({kept})' if kept else ''} FROM {self.name}"

    def fetched(self, done: duckdb.DuckDBPyConnection) -> pa.Table:
        """The rows of the table that a connection has: a few by way of Python, twice as fast."""
        if self.plain is None:
            return executed(done)
        values = done.fetchmany(_FEW)
        columns = zip(*values, strict=True) if values else [()] * len(self.columns)
        arrays = [array_from(c, f.type) for c, f in zip(columns, self.plain, strict=True)]
        few = pa.Table.from_arrays(arrays, schema=self.plain)
        if len(values) < _FEW:
            return few
        rest = executed(done)
        rest = rest.rename_columns(few.column_names)
        return pa.concat_tables([few, rest], promote_options="permissive")


@dataclass(slots=True)
class Outcome:
    """What a statement did: net change per watched table, rows returned, rows affected."""

    changes: dict[str, pa.Table] = field(default_factory=dict)
    rows: pa.Table | None = None
    count: int = -1
    """Counts only for a statement whose answer is no rows."""


def weighted(table: pa.Table, weight: int) -> pa.Table:
    """`table` as a delta: every row once, with `weight`."""
    import numpy as np  # not every session needs it

    return table.append_column(WEIGHT, array_of(np.full(table.num_rows, weight, np.int64)))


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """Deltas of a table as one."""
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowTypeError:  # TIMESTAMPTZ, read under several time zones
        return pa.concat_tables([part.cast(parts[0].schema) for part in parts])


def _replaced(old: pa.Table, new: pa.Table) -> pa.Table:
    """Rows that went and rows that came, as a delta."""
    return together([weighted(old, -1), weighted(new, +1)])


class Capture:
    """Runs DML on one DuckDB connection, inside a transaction that the caller has begun."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Mapping[str, TableInfo],
        committed: Callable[[], duckdb.DuckDBPyConnection],
        behind: Callable[[str], Iterable[str]] = lambda text: (),
    ) -> None:
        """`behind`: the plain views and macros that a statement depends on."""
        self.connection = connection
        self.behind = behind
        self.tables = tables
        self.watched = [key for key, info in tables.items() if info.watched]
        self.committed = committed

    def _rows(self, text: str, params: dict[str, Any] | None, info: TableInfo) -> pa.Table:
        """The rows of the table, or beginning like them, that a statement gives."""
        self._execute(text, params)
        if len(self.connection.description or ()) == len(info.columns):
            return info.fetched(self.connection)
        return executed(self.connection)

    def _run(self, text: str, params: dict[str, Any] | None) -> pa.Table:
        """What a statement gives, under its own names."""
        self._execute(text, params)
        return executed(self.connection)

    def _execute(self, text: str, params: dict[str, Any] | None) -> None:
        try:
            execute(self.connection, text, params)
        except duckdb.Error as error:
            from tidewheel.sql.error_place import set_text  # few need it

            set_text(error, text)
            raise

    # -- the statements ---------------------------------------------------------------------

    def run(
        self, kind: str, text: str, params: Any, target: str | None, touched: frozenset[str]
    ) -> Outcome:
        """Run one statement.

        `kind` is insert, delete, truncate, update, upsert, merge, copy or other; `target` the key
        in `tables` of the table it writes (None: not known, every watched table is compared);
        `touched` the tables that this transaction has already changed.
        """
        try:
            return self._by_kind(kind, text, params, target, touched)
        except duckdb.ParserException:
            self.connection.extract_statements(text)  # an error in what was written is told of that
            raise

    def _by_kind(
        self, kind: str, text: str, params: Any, target: str | None, touched: frozenset[str]
    ) -> Outcome:
        if target is None:
            return self._compare(text, params, self.watched)
        target_info = self.tables.get(target)
        if target_info is None:
            return Outcome(rows=self._run(text, params))
        if target_info.has_triggers:
            return self._compare(text, params, self.watched)
        if target_info.states or target_info.name.lower().endswith('."excluded"'):
            return self._compare(text, params, [target])  # RETURNING gives not all its columns
        # (it tells the text that runs, which is to be this one; to look for words takes longer)
        told = "current_query" in text.lower() and "current_query" in words_in(text)
        if told or self._keeps_text(target_info):
            return self._compare(text, params, [target])
        named, values = named_parameters(text, params)
        cut = cut_apart(named)
        if kind == "insert":
            return self._simple(cut, values, target, target_info, +1)
        if kind == "truncate":
            return self._emptied(cut.text, values, target, target_info)
        if kind == "delete":
            if cut.find("WHERE") is cut.find("USING") is cut.find("RETURNING") is None:
                return self._emptied(cut.text, values, target, target_info)
            return self._simple(cut, values, target, target_info, -1)
        if kind in ("upsert", "merge") and target_info.key and target not in touched:
            return self._keyed(cut, values, target, target_info)
        if "rowid" not in map(str.lower, target_info.columns):
            if kind == "update" and not self._volatile(cut):
                return self._update(cut, values, target, target_info, target in touched)
            if kind == "copy":
                return self._appended(text, params, target, target_info)
        return self._compare(text, params, [target])

    def _keeps_text(self, info: TableInfo) -> bool:
        if not info.keeps_text:
            asked = f"SELECT dflt_value FROM pragma_table_info({literal(info.name)})"
            defaults = [text for (text,) in self.connection.execute(asked).fetchall() if text]
            info.keeps_text.append(any("current_query" in words_in(text) for text in defaults))
        return info.keeps_text[0]

    def _volatile(self, cut: Text) -> bool:
        """May the rows that it selects be others when it is run again?"""
        return cut.volatile() or any(cut_apart(t).volatile() for t in self.behind(cut.text))

    def _simple(
        self, cut: Text, params: dict[str, Any] | None, target: str, info: TableInfo, weight: int
    ) -> Outcome:
        text, own = cut.returning("*")
        got = self._rows(text, params, info)
        width = len(info.columns)
        rows = got.select(range(width))
        return Outcome(
            {target: weighted(rows, weight)},
            got.select(range(width, got.num_columns)) if own else None,
            got.num_rows,
        )

    def _emptied(
        self, text: str, params: dict[str, Any] | None, target: str, info: TableInfo
    ) -> Outcome:
        """DELETE of all rows: RETURNING would fetch them one by one, in ten times the time."""
        gone = self._rows(f"FROM {info.name}", None, info)
        count = _count(self._run(text, params))
        return Outcome({target: weighted(gone, -1)}, None, count)

    def _update(
        self, cut: Text, params: dict[str, Any] | None, target: str, info: TableInfo, touched: bool
    ) -> Outcome:
        verb = cut.find("UPDATE")
        setter = cut.find("SET", verb or 0)
        if verb is None or setter is None:
            return self._compare(cut.text, params, [target])
        source = cut.find("FROM", setter)
        where = cut.find("WHERE", setter)
        returning = cut.find("RETURNING", setter)
        end = returning if returning is not None else cut.end
        prefix = cut.text[:verb]
        table = cut.text[verb + len("UPDATE") : setter]
        *_, name = tokens(table)
        table = table[: name.start + len(name.text)].strip()  # a comment behind it would go on
        alias = quoted(unquoted(name))  # the target's, or its own name
        condition = cut.text[where:end] if where is not None else ""
        if source is not None:
            if cut.names(unquoted(name).lower(), source, where if where is not None else end):
                return self._compare(cut.text, params, [target])  # DuckDB takes SET's to be theirs
            others = cut.text[source + len("FROM") : where if where is not None else end]
            condition = (
                f"WHERE {alias}.rowid IN (SELECT {alias}.rowid FROM {table}, {others} {condition})"
            )
        # the condition where it stands in the statement: an error tells the place
        before = f"{prefix}FROM {table} ".ljust(where or 0) + condition
        last = self._last_row(info) if touched else _FIRST_LOCAL - 1
        text = cut.text[:end]
        if where is None:
            text = f"{text} WHERE {alias}.rowid <= {last}"
        else:
            at = where + len("WHERE")
            text = f"{text[:at]} ({text[at:]}) AND {alias}.rowid <= {last}"
        if info.referenced and returning is None:
            return self._referenced(cut, before, text, params, target, info)
        old = self._rows(before, used(before, params), info)
        theirs = cut.text[end + len("RETURNING") :] if returning is not None else ""
        rest: pa.Table | None = None
        count = old.num_rows
        # DuckDB 2.0.1 counts a row, and RETURNING gives it, once for each row of FROM that it meets
        told = source is None and old.num_rows <= _FEW
        if told and not _may_stay(old, cut.assigned, info):
            list_ = f"{alias}.*,{theirs}" if theirs else f"{alias}.*"
            got = self._rows(f"{text} RETURNING {list_}", params, info)
            width = len(info.columns)
            new = got.select(range(width))
            rest = got.select(range(width, got.num_columns)) if theirs else None
        else:
            query = f"{prefix}SELECT {alias}.rowid FROM {table} {condition}"
            places = executed(self.connection.execute(query, used(query, params)))
            done = self._run(f"{text} RETURNING {theirs}" if theirs else text, params)
            rest = done if theirs else None
            count = _count(done) if rest is None else rest.num_rows
            new = self._behind(last, info)
            if not new.num_rows:  # it has updated in place
                new = self._at(places, info)
        if new.num_rows != old.num_rows:
            selected, changed = old.num_rows, new.num_rows
            raise RuntimeError(
                f"UPDATE of {info.name}: {selected} rows selected, {changed} changed"
            )
        return Outcome({target: _replaced(old, new)}, rest, count)

    def _behind(self, last: int, info: TableInfo) -> pa.Table:
        """The rows of a table that came after the one with rowid `last`."""
        return self._rows(f"FROM {info.name} WHERE rowid > {last}", None, info)

    def _at(self, places: pa.Table, info: TableInfo) -> pa.Table:
        """The rows of a table at rowids."""
        self.connection.register(_KEYS, places)
        try:
            query = f"FROM {info.name} WHERE rowid IN (SELECT rowid FROM {_KEYS})"
            return self._rows(query, None, info)
        finally:
            self.connection.unregister(_KEYS)

    def _last_row(self, info: TableInfo) -> int:
        """The greatest rowid of a table that this transaction may have added rows to."""
        query = f"SELECT coalesce(max(rowid), -1) FROM {info.name} WHERE rowid >= {_FIRST_LOCAL}"
        (found,) = self.connection.execute(query).fetchall()[0]
        return max(int(found), _FIRST_LOCAL - 1)

    def _referenced(
        self,
        cut: Text,
        before: str,
        text: str,
        params: dict[str, Any] | None,
        target: str,
        info: TableInfo,
    ) -> Outcome:
        """UPDATE without RETURNING: the new rows are found by the keys of the old ones."""
        assigned = cut.assigned()
        if not info.key or assigned is None or assigned & {k.lower() for k in info.key}:
            return self._compare(cut.text, params, [target])
        old = self._rows(before, used(before, params), info)
        count = self._run(text, params)
        new = _by_key(self.connection, info, old)
        return Outcome({target: _replaced(old, new)}, None, _count(count))

    def _keyed(
        self, cut: Text, params: dict[str, Any] | None, target: str, info: TableInfo
    ) -> Outcome:
        """ON CONFLICT DO UPDATE and MERGE on a table with a primary key that they do not assign."""
        assigned = cut.assigned()
        no_returning = info.referenced and cut.find("RETURNING") is None
        if no_returning or assigned is None or assigned & {k.lower() for k in info.key}:
            return self._compare(cut.text, params, [target])
        if "merge_action" in map(str.lower, info.columns):
            return self._compare(cut.text, params, [target])
        import pyarrow.compute as pc  # takes long to load

        text, own = cut.returning("merge_action, *")
        got = self._rows(text, params, info)
        action, width = got.column(0), len(info.columns)
        rest = got.select(range(1 + width, got.num_columns)) if own else None
        if got.num_rows >= _MANY:
            return Outcome({target: self._since_commit(info)}, rest, got.num_rows)
        rows = got.select(range(1, 1 + width))
        updated = rows.filter(pc.equal(action, "UPDATE"))
        if _may_stay(updated, cut.assigned, info):
            updated = _by_key(self.connection, info, updated)
        deleted = rows.filter(pc.equal(action, "DELETE"))
        inserted = rows.filter(pc.equal(action, "INSERT"))
        parts = [weighted(inserted, 1), weighted(updated, 1), weighted(deleted, -1)]
        if updated.num_rows:
            parts.append(weighted(_by_key(self.committed(), info, updated), -1))
        return Outcome({target: together(parts)}, rest, got.num_rows)

    def _since_commit(self, info: TableInfo) -> pa.Table:
        """The difference of a table, as a multiset, from what others see of it."""
        before = executed(self.committed().execute(info.placed))
        self.connection.register(_BEFORE, before)
        try:
            return self._difference(_BEFORE, info)
        finally:
            self.connection.unregister(_BEFORE)

    def _difference(self, before: str, info: TableInfo) -> pa.Table:
        now, names = info.placed, list(info.columns)
        gone = self._run(f"FROM {before} EXCEPT ALL {now}", None)
        come = self._run(f"{now} EXCEPT ALL FROM {before}", None)
        return _replaced(gone.select(names), come.select(names))

    def _appended(self, text: str, params: Any, target: str, info: TableInfo) -> Outcome:
        """COPY … FROM only appends: the new rows are those behind the last row id."""
        last = self._last_row(info)
        count = self._run(text, params)
        return Outcome({target: weighted(self._behind(last, info), 1)}, None, _count(count))

    def _compare(self, text: str, params: Any, targets: Sequence[str]) -> Outcome:
        """Copy the tables, run, and take the difference as multisets."""
        con = self.connection
        names = [(key, self.tables[key], f"{_BEFORE}_{i}") for i, key in enumerate(targets)]
        for _, info, before in names:
            con.execute(f"CREATE OR REPLACE TEMP TABLE {before} AS {info.placed}").fetchall()
        rows = self._run(text, params)
        outcome = Outcome(rows=rows, count=_count(rows))
        for key, info, before in names:
            outcome.changes[key] = self._difference(before, info)
        for _, _, before in names:  # after an error the rollback drops them
            con.execute(f"DROP TABLE temp.{before}").fetchall()
        return outcome


def _may_stay(rows: pa.Table, assigned: Callable[[], set[str] | None], info: TableInfo) -> bool:
    """May an UPDATE of rows, as they were or are, leave a value as it is for an equal one?

    DuckDB then does so where it updates in place, and RETURNING has the value that was assigned.
    """
    for i in info.alike:
        column = rows.column(i)
        if pa.types.is_floating(column.type):
            found = 0.0 in column.to_pylist()  # to_numpy imports pandas
        else:
            found = column.null_count < len(column)
        if found:
            names = assigned()
            if names is None or info.columns[i].lower() in names:
                return True
    return False


def _by_key(connection: duckdb.DuckDBPyConnection, info: TableInfo, rows: pa.Table) -> pa.Table:
    """The rows that a connection has in the table under the keys of `rows`."""
    connection.register(_KEYS, rows.select(list(info.key)))
    try:
        match = " AND ".join(f"t.{quoted(k)} = k.{quoted(k)}" for k in info.key)
        return connection.sql(
            f"SELECT t.* FROM {info.name} AS t SEMI JOIN {_KEYS} AS k ON {match}"
        ).to_arrow_table()
    finally:
        connection.unregister(_KEYS)


def _count(rows: pa.Table | None) -> int:
    """How many rows changed, where DuckDB's answer is that: its column's name is not always."""
    if rows is None or rows.shape != (1, 1) or not pa.types.is_int64(rows.column(0).type):
        return -1
    return int(rows.column(0)[0].as_py() or 0)
