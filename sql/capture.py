"""Change capture: run one DML statement and learn the net change that it makes.

The change comes from the statement itself wherever it can, at the cost of the change:

* INSERT, DELETE, TRUNCATE: what ``RETURNING *`` gives.
* UPDATE: the rows that its WHERE selects, read just before, and what ``RETURNING *`` gives (where
  foreign keys refer to the table, the rows that then have those keys).
* INSERT … ON CONFLICT DO UPDATE, MERGE: ``RETURNING merge_action, *`` gives the new rows; the
  rows that they replaced are looked up by primary key in the last committed state.
* Anything else (no primary key, a volatile WHERE, triggers, text that cannot be cut apart): a copy
  of the table before, compared with the table after. Right, at the cost of the table.

A user's own RETURNING list is kept: its columns travel behind the table's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import executed
from tidewheel.sql.statements import Token, tokens

if TYPE_CHECKING:
    from tidewheel.engine.state.delta import Schema

WEIGHT = "weight"
_FEW = 256
_VOLATILE = {"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "nextval", "setseed"}
_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_BEFORE = "__tw_before"
_KEYS = "__tw_keys"


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A base table that is watched: its quoted qualified name, columns in order, primary key.

    `plain` is its Arrow schema if DuckDB's Python values of its types survive the way into Arrow
    unchanged, `layout` the engine's schema if values of such types, or dates, do that.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    has_triggers: bool = False
    plain: pa.Schema | None = None
    layout: Schema | None = None
    referenced: bool = False
    """A foreign key refers to it: DuckDB lets UPDATE touch such rows, UPDATE … RETURNING not."""

    def fetched(self, done: duckdb.DuckDBPyConnection) -> pa.Table:
        """The rows of the table that a connection has: a few by way of Python, twice as fast."""
        if self.plain is None:
            return executed(done)
        values = done.fetchmany(_FEW)
        columns = zip(*values, strict=True) if values else [()] * len(self.columns)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.plain, strict=True)]
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


def quote(name: str) -> str:
    """An SQL identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def weighted(table: pa.Table, weight: int) -> pa.Table:
    """`table` as a delta: every row once, with `weight`."""
    return table.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int64()), table.num_rows))


class _Text:
    """A statement cut into its clauses at parenthesis depth 0."""

    def __init__(self, text: str) -> None:
        self.tokens = [t for t in tokens(text) if t.kind != "end"]
        last = self.tokens[-1]
        self.end = last.start + len(last.text)
        self.text = text[: self.end]
        self.top: list[Token] = []
        depth = 0
        for token in self.tokens:
            depth += _DEPTH.get(token.text, 0)
            if depth == 0 and token.text not in _DEPTH:
                self.top.append(token)

    def find(self, word: str, after: int = -1) -> int | None:
        """Where keyword `word` stands at depth 0 behind offset `after`."""
        previous = ""
        for token in self.top:
            here = token.text.upper() if token.kind == "word" else ""
            # `a IS DISTINCT FROM b` is no FROM clause
            other = word == "FROM" and previous == "DISTINCT"
            if here == word and token.start > after and not other:
                return token.start
            previous = here
        return None

    def volatile(self) -> bool:
        return any(t.text.lower() in _VOLATILE for t in self.tokens)

    def returning(self, extra: str) -> tuple[str, bool]:
        """The statement with `extra` in front of its RETURNING list, and whether it had one."""
        at = self.find("RETURNING")
        if at is None:
            return f"{self.text} RETURNING {extra}", False
        split = at + len("RETURNING")
        return f"{self.text[:split]} {extra},{self.text[split:]}", True


@lru_cache(maxsize=64)
def _cut(text: str) -> _Text:
    return _Text(text)


def _named_parameters(text: str, params: Any) -> tuple[str, dict[str, Any] | None]:
    """`text` with every parameter as ``$name``: a part of it can then be run with some of them."""
    if not params:
        return text, None
    if isinstance(params, Mapping):
        return text, dict(params)
    return _numbered(text), {f"tw{i + 1}": v for i, v in enumerate(params)}


@lru_cache(maxsize=64)
def _numbered(text: str) -> str:
    pieces: list[str] = []
    at = used = 0
    for token in tokens(text):
        if token.kind != "parameter":
            continue
        number = token.text[1:]
        if not number:
            used += 1
            number = str(used)
        pieces += [text[at : token.start], f"$tw{number}"]
        at = token.start + len(token.text)
    pieces.append(text[at:])
    return "".join(pieces)


def _used(text: str, params: dict[str, Any] | None) -> dict[str, Any] | None:
    """Those of `params` that `text` names: DuckDB refuses parameters that are not used."""
    if params is None:
        return None
    names = {t.text[1:] for t in tokens(text) if t.kind == "parameter"}
    return {k: v for k, v in params.items() if k in names} or None


class Capture:
    """Runs DML on one DuckDB connection, inside a transaction that the caller has begun."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        tables: Mapping[str, TableInfo],
        committed: Callable[[], duckdb.DuckDBPyConnection],
    ) -> None:
        self.connection = connection
        self.tables = tables
        self.committed = committed

    def _rows(self, text: str, params: dict[str, Any] | None, info: TableInfo) -> pa.Table:
        """The rows of the table, or beginning like them, that a statement gives."""
        done = self.connection.execute(text, params)
        if len(done.description or ()) == len(info.columns):
            return info.fetched(done)
        return executed(done)

    def _run(self, text: str, params: dict[str, Any] | None) -> pa.Table | None:
        relation = self.connection.sql(text, params=params)
        return None if relation is None else relation.to_arrow_table()

    # -- the statements ---------------------------------------------------------------------

    def run(
        self, kind: str, text: str, params: Any, target: str | None, touched: frozenset[str]
    ) -> Outcome:
        """Run one statement.

        `kind` is insert, delete, truncate, update, upsert, merge, copy or other; `target` the key
        in `tables` of the table it writes (None: not known, every watched table is compared);
        `touched` the tables that this transaction has already changed.
        """
        if target is None:
            return self._compare(text, params, list(self.tables))
        target_info = self.tables.get(target)
        if target_info is None:
            return Outcome(rows=self._run(text, params))
        if target_info.has_triggers:
            return self._compare(text, params, list(self.tables))
        named, values = _named_parameters(text, params)
        cut = _cut(named)
        if kind == "insert":
            return self._simple(cut, values, target, target_info, +1)
        if kind == "delete":
            return self._simple(cut, values, target, target_info, -1)
        if kind == "truncate":
            emptied = _Text(f"DELETE FROM {target_info.name}")
            return self._simple(emptied, None, target, target_info, -1)
        if kind == "update" and not cut.volatile():
            return self._update(cut, values, target, target_info)
        if kind in ("upsert", "merge") and target_info.key and target not in touched:
            return self._keyed(kind, cut, values, target, target_info)
        if kind == "copy":
            return self._appended(text, params, target, target_info)
        return self._compare(text, params, [target])

    def _simple(
        self, cut: _Text, params: dict[str, Any] | None, target: str, info: TableInfo, weight: int
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

    def _update(
        self, cut: _Text, params: dict[str, Any] | None, target: str, info: TableInfo
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
        table = cut.text[verb + len("UPDATE") : setter].strip()
        alias = list(tokens(table))[-1].text  # the target's alias, or its own name
        condition = cut.text[where:end] if where is not None else ""
        if source is None:
            before = f"{prefix}SELECT {alias}.* FROM {table} {condition}"
        else:
            others = cut.text[source + len("FROM") : where if where is not None else end]
            before = (
                f"{prefix}SELECT {alias}.* FROM {table} WHERE {alias}.rowid IN "
                f"(SELECT {alias}.rowid FROM {table}, {others} {condition})"
            )
        if info.referenced and returning is None:
            return self._referenced(cut, before, params, target, info)
        old = self._rows(before, _used(before, params), info)
        text, own = cut.returning(f"{alias}.*")
        got = self._rows(text, params, info)
        width = len(info.columns)
        new = got.select(range(width))
        if new.num_rows != old.num_rows:
            selected, changed = old.num_rows, new.num_rows
            raise RuntimeError(
                f"UPDATE of {info.name}: {selected} rows selected, {changed} changed"
            )
        delta = pa.concat_tables(
            [weighted(old, -1), weighted(new, +1)], promote_options="permissive"
        )
        rest = got.select(range(width, got.num_columns)) if own else None
        return Outcome({target: delta}, rest, got.num_rows)

    def _referenced(
        self, cut: _Text, before: str, params: dict[str, Any] | None, target: str, info: TableInfo
    ) -> Outcome:
        """UPDATE without RETURNING: the new rows are found by the keys of the old ones."""
        assigned = self._assigned(cut)
        if not info.key or assigned is None or assigned & {k.lower() for k in info.key}:
            return self._compare(cut.text, params, [target])
        old = self._rows(before, _used(before, params), info)
        count = self._run(cut.text, params)
        new = _by_key(self.connection, info, old)
        delta = pa.concat_tables(
            [weighted(old, -1), weighted(new, +1)], promote_options="permissive"
        )
        return Outcome({target: delta}, None, _count(count))

    def _keyed(
        self, kind: str, cut: _Text, params: dict[str, Any] | None, target: str, info: TableInfo
    ) -> Outcome:
        """ON CONFLICT DO UPDATE and MERGE on a table with a primary key that they do not assign."""
        assigned = self._assigned(cut)
        no_returning = info.referenced and cut.find("RETURNING") is None
        if no_returning or assigned is None or assigned & {k.lower() for k in info.key}:
            return self._compare(cut.text, params, [target])
        import pyarrow.compute as pc  # takes long to load

        text, own = cut.returning("merge_action, *")
        got = self._rows(text, params, info)
        action, width = got.column(0), len(info.columns)
        rows = got.select(range(1, 1 + width))
        updated = rows.filter(pc.equal(action, "UPDATE"))
        deleted = rows.filter(pc.equal(action, "DELETE"))
        inserted = rows.filter(pc.equal(action, "INSERT"))
        parts = [weighted(inserted, 1), weighted(updated, 1), weighted(deleted, -1)]
        if updated.num_rows:
            parts.append(weighted(_by_key(self.committed(), info, updated), -1))
        rest = got.select(range(1 + width, got.num_columns)) if own else None
        delta = pa.concat_tables(parts, promote_options="permissive")
        return Outcome({target: delta}, rest, got.num_rows)

    def _assigned(self, cut: _Text) -> set[str] | None:
        """The columns that the SET lists assign, in lower case; None where that is not plain."""
        found: set[str] = set()
        parts = cut.tokens
        for i, token in enumerate(parts):
            if token.kind != "word" or token.text.upper() != "SET":
                continue
            if i + 1 >= len(parts) or parts[i + 1].text in _DEPTH:
                return None
            depth, start = 0, True
            for part in parts[i + 1 :]:
                depth += _DEPTH.get(part.text, 0)
                if depth == 0 and start:
                    found.add(part.text.strip('"').lower())
                    start = False
                elif depth == 0 and part.text == ",":
                    start = True
                elif depth == 0 and part.text.upper() in ("WHEN", "WHERE", "RETURNING"):
                    break
        # MERGE … UPDATE without SET (BY NAME, *) assigns every column
        text = cut.text.upper()
        return None if "UPDATE" in text and not found else found

    def _appended(self, text: str, params: Any, target: str, info: TableInfo) -> Outcome:
        """COPY … FROM only appends: the new rows are those behind the last row id."""
        last = self.connection.execute(f"SELECT max(rowid) FROM {info.name}").fetchall()[0][0]
        mark = -1 if last is None else last
        count = self._run(text, params)
        new = self._run(f"SELECT * FROM {info.name} WHERE rowid > {mark}", None)
        assert new is not None
        return Outcome({target: weighted(new, 1)}, None, _count(count))

    def _compare(self, text: str, params: Any, targets: Sequence[str]) -> Outcome:
        """Copy the tables, run, and take the difference as multisets."""
        con = self.connection
        names = [(key, self.tables[key], f"{_BEFORE}_{i}") for i, key in enumerate(targets)]
        for _, info, before in names:
            con.execute(f"CREATE OR REPLACE TEMP TABLE {before} AS FROM {info.name}").fetchall()
        rows = self._run(text, params)
        outcome = Outcome(rows=rows)
        for key, info, before in names:
            gone = self._run(f"FROM {before} EXCEPT ALL FROM {info.name}", None)
            come = self._run(f"FROM {info.name} EXCEPT ALL FROM {before}", None)
            assert gone is not None
            assert come is not None
            outcome.changes[key] = pa.concat_tables(
                [weighted(gone, -1), weighted(come, +1)], promote_options="permissive"
            )
        for _, _, before in names:  # after an error the rollback drops them
            con.execute(f"DROP TABLE temp.{before}").fetchall()
        if rows is not None and rows.column_names == ["Count"]:
            outcome.rows, outcome.count = None, _count(rows)
        return outcome


def _by_key(connection: duckdb.DuckDBPyConnection, info: TableInfo, rows: pa.Table) -> pa.Table:
    """The rows that a connection has in the table under the keys of `rows`."""
    connection.register(_KEYS, rows.select(list(info.key)))
    try:
        match = " AND ".join(f"t.{quote(k)} = k.{quote(k)}" for k in info.key)
        return connection.sql(
            f"SELECT t.* FROM {info.name} AS t SEMI JOIN {_KEYS} AS k ON {match}"
        ).to_arrow_table()
    finally:
        connection.unregister(_KEYS)


def _count(rows: pa.Table | None) -> int:
    if rows is None or rows.num_rows != 1:
        return -1
    return int(rows.column(0)[0].as_py())
