"""How many rows relations have, and how many different values their columns.

How many values a table's column has DuckDB keeps; to count those that a filter leaves takes as
long as the whole query may. What a view reads twice is asked for once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from tidewheel.engine.quoting import quoted
from tidewheel.planner.logical import Aggregate, Block, Filter, Join, Node, Project, Scan, SetOp
from tidewheel.planner.text import OWN, alias_of, column, identifier, substituted, to_sql

Query = Callable[[str], Sequence[Sequence[Any]]]
"""Gives the rows of a statement."""
Size = tuple[float, dict[str, float]]
"""Rows, and values by column."""
Remembered = dict[tuple[str, str], tuple[int, int]]
"""Of a column, by what asks for its values: the rows of its table, and the values that it had."""
UNKNOWN: Final = 10_000
_VALUES = 100.0  # of a column of what is not known: two of these are best joined late
_TABLES = 4
LOOKED_AT: Final = 100_000  # rows of a table, to find out about how many of them a filter leaves
_MOST = 10_000_000  # rows of a join that are counted
_REMEMBERED: Final = 10_000  # columns
_COUNT = f"{OWN}count(*)"
_CONSTRAINTS = (
    "SELECT database_name, schema_name, table_name, constraint_type, constraint_column_names "
    f"FROM {OWN}duckdb_constraints() "
    "WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'NOT NULL')"
)


@dataclass(frozen=True, slots=True)
class Text:
    """What follows FROM, and the columns in its terms; made of how many tables?"""

    source: str
    conditions: tuple[str, ...]
    columns: dict[str, exp.Expr]
    tables: int = 1

    @staticmethod
    def table(name: str, columns: Iterable[str], names: Iterable[str]) -> Text:
        """Columns of a table, and what they are called."""
        pairs = zip(names, columns, strict=True)
        return Text(name, (), {called: column(c) for called, c in pairs})

    def named(self, names: Iterable[str]) -> Text:
        """The same with other names for its columns."""
        return replace(self, columns=dict(zip(names, self.columns.values(), strict=True)))

    def after(self, *steps: Node) -> Text:
        """What filters and projections leave and make of it."""
        found = self
        for step in steps:
            if isinstance(step, Filter):
                condition = f"({to_sql(substituted(step.predicate, found.columns))})"
                found = replace(found, conditions=(*found.conditions, condition))
            else:
                assert isinstance(step, Project)
                named = {e.column.name: substituted(e.expr, found.columns) for e in step.exprs}
                found = replace(found, columns=named)
        return found

    def __str__(self) -> str:
        return self.source + (f" WHERE {' AND '.join(self.conditions)}" if self.conditions else "")

    @property
    def query(self) -> str:
        """All columns under their names."""
        items = (to_sql(alias_of(e.copy(), name)) for name, e in self.columns.items())
        return f"SELECT {', '.join(items) or '1'} FROM {self}"

    def sampled(self, part: float, seed: int = 1) -> Text:
        """The same of some blocks of the table's rows: `part` of them, others for each `seed`."""
        sample = f"TABLESAMPLE SYSTEM ({part * 100:.6f}%) REPEATABLE ({seed})"
        return replace(self, source=f"{self.source} {sample}")

    def kept(self, name: str) -> tuple[str, str] | None:
        """A column's table, and what asks for its values; None if it is computed, or of a join."""
        of = self.columns[name]
        if self.tables != 1 or not isinstance(of, exp.Column):
            return None
        return f"{self.source} LIMIT 1", f"{OWN}stats({to_sql(of)}).approx_unique::BIGINT"

    def counted(self, name: str) -> str:
        """What counts the values of a column."""
        return f"{OWN}approx_count_distinct({to_sql(self.columns[name])})"


class Measures:
    """What DuckDB says of the relations of one view's plan."""

    def __init__(self, query: Query, remembered: Remembered | None = None) -> None:
        self._query = query
        self._known: dict[tuple[str, str], int | None] = {}
        self._remembered: Remembered = {} if remembered is None else remembered
        self._keys: dict[str, list[frozenset[str]]] | None = None

    def rows(self, tables: Sequence[str]) -> list[int]:
        """The rows of each table."""
        self._ask((table, _COUNT) for table in tables)
        return [self._known[table, _COUNT] or 0 for table in tables]

    def count(
        self, node: Node, key: Callable[[str], str | None], held: Callable[[str], int | None]
    ) -> None:
        """Count the rows of the tables that a plan reads, by one statement: of those with a `key`.

        (To count the rows of anything else may take long.) What is `held` need not be counted.
        """
        seen, todo = {id(node)}, [node]  # what several nodes read is there once
        tables: list[str] = []
        while todo:
            reads = todo.pop()
            if isinstance(reads, Scan):
                named = key(reads.table)
                if named is not None:
                    tables.append(reads.table)
                    rows = held(named)
                    if rows is not None:
                        self._known[reads.table, _COUNT] = rows
            new = [child for child in reads.children if id(child) not in seen]
            seen.update(map(id, new))
            todo += new
        self.rows(tables)

    def keys(self, table: str) -> Collection[frozenset[str]]:
        """The columns of a table's primary key, and of others without NULL, in lower case."""
        if self._keys is None:
            self._keys = _keys(self._query(_CONSTRAINTS))
        return self._keys.get(table.lower(), ())

    def knows(self, text: Text) -> bool:
        """Have rows that meet conditions been counted?"""
        return (str(text), _COUNT) in self._known

    def about(self, text: Text) -> float:
        """About how many rows meet conditions."""
        known = self._known.get((str(text), _COUNT))
        if known is not None:
            return known
        some, part = self._part(text)
        self._ask([(str(some), _COUNT)])
        return (self._known[str(some), _COUNT] or 0) / part

    def groups(self, node: Node) -> tuple[float, int] | None:
        """About how many rows a relation has, and how many different ones in a part of them.

        None for what is not of one table.
        """
        text = _text(node)
        if text is None or text.tables > 1 or not text.columns:
            return None
        some, part = self._part(text, always=True)
        row = ", ".join(to_sql(e) for e in text.columns.values())
        different = f"{OWN}approx_count_distinct({OWN}row({row}))"
        self._ask([(str(some), _COUNT), (str(some), different)])
        rows = self._known[str(some), _COUNT] or 0
        return rows / part, self._known[str(some), different] or 0

    def _part(self, text: Text, always: bool = False) -> tuple[Text, float]:
        """Of a large table a part to look at, and how large that is.

        (`always`: to count all of its rows needs none, but their values.)
        """
        rows = self.rows([text.source])[0] if text.tables == 1 else 0
        if rows <= LOOKED_AT or not (text.conditions or always):
            return text, 1
        part = LOOKED_AT / rows
        return text.sampled(part), part

    def __call__(self, nodes: Sequence[Node], compared: Container[str]) -> list[Size]:
        """The size of each relation, with the values of those columns that are `compared`."""
        relations = [(_text(n), [c.name for c in n.schema if c.name in compared]) for n in nodes]
        there = [(text, names) for text, names in relations if text is not None]
        self._ask_kept([text for text, _ in there if text.tables == 1], compared)
        asked: list[tuple[str, str]] = []
        for text, names in there:
            counted = [text.counted(n) for n in names if self._kept(text, n) is None]
            some = text if counted else self._part(text)[0]
            asked += [(str(some), item) for item in (_COUNT, *counted)]
        self._ask(asked)
        sizes = [self._size(text, names) for text, names in relations]
        one_row = (_single(n) for n in nodes)
        return [
            (1, dict.fromkeys(values, 1.0)) if one else (rows, values)
            for one, (rows, values) in zip(one_row, sizes, strict=True)
        ]

    def _size(self, text: Text | None, names: Sequence[str]) -> Size:
        if text is None:
            return UNKNOWN, dict.fromkeys(names, _VALUES)
        values = {}
        for name in names:
            found = self._kept(text, name)
            found = self._known[str(text), text.counted(name)] if found is None else found
            values[name] = max(1.0, found or 0)
        return max(1.0, self.about(text)), values

    def _ask_kept(self, texts: Sequence[Text], compared: Container[str]) -> None:
        """Find what DuckDB knows of columns: anew where a table has more rows than then, or fewer.

        Each column takes it 0.2 ms, and other views of these tables may have asked. (Values that
        have changed since make no answer wrong, but an order of joins worse.)
        """
        rows = self.rows([text.source for text in texts])
        columns: dict[tuple[str, str], int] = {}
        for text, many in zip(texts, rows, strict=True):
            kept = (text.kept(name) for name in text.columns if name in compared)
            columns |= dict.fromkeys((k for k in kept if k is not None), many)
        for column_, many in columns.items():
            then, values = self._remembered.get(column_, (None, None))
            if then == many:
                self._known[column_] = values
        self._ask(columns)
        if len(self._remembered) > _REMEMBERED:
            self._remembered.clear()
        for column_, many in columns.items():
            found = self._known[column_]
            if found is not None:
                self._remembered[column_] = many, found

    def _kept(self, text: Text, name: str) -> int | None:
        """How many values of a column DuckDB knows of."""
        kept = text.kept(name)
        return None if kept is None else self._known[kept]

    def _ask(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Find the value of each item over what it is FROM; None where there is no row."""
        asked: dict[str, list[str]] = {}
        for text, item in dict.fromkeys(wanted):
            if (text, item) not in self._known:
                asked.setdefault(text, []).append(item)
        if not asked:
            return
        if len(asked) == 1:
            ((text, items),) = asked.items()
            rows = self._query(f"SELECT {', '.join(items)} FROM {text}")
            values = rows[0] if rows else [None] * len(items)
            self._known.update(zip(((text, item) for item in items), values, strict=True))
            return
        # (As subqueries of one row they would be joined, and it takes DuckDB longer to plan that.)
        each = (
            f"(SELECT {i}, [{', '.join(items)}] FROM {text})"
            for i, (text, items) in enumerate(asked.items())
        )
        found = {row[0]: row[1] for row in self._query(" UNION ALL ".join(each))}
        for i, (text, items) in enumerate(asked.items()):
            values = found.get(i, [None] * len(items))
            self._known.update(zip(((text, item) for item in items), values, strict=True))


def _single(node: Node) -> bool:
    """Has it one row at most: the value of a subquery, a total?"""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys and node.sets is None


def countable(node: Node) -> bool:
    """Can the rows of a relation be counted soon?"""
    return _text(node) is not None


def _text(node: Node) -> Text | None:
    """What is made of at most `_TABLES` tables, as SQL; None for what takes longer to look at."""
    if isinstance(node, Scan):
        return Text.table(node.table, node.source_columns, (c.name for c in node.columns))
    if isinstance(node, Filter | Project):
        below = _text(node.input)
        return None if below is None else below.after(node)
    if isinstance(node, Block) and node.constant:
        names = ", ".join(to_sql(identifier(c.name)) for c in node.columns)
        return _made(f"SELECT * FROM ({node.sql}) AS t({names}) LIMIT {_MOST}", node)
    if isinstance(node, Join) and node.kind == "inner" and node.keys and node.residual is None:
        left, right = _text(node.left), _text(node.right)
        if left is None or right is None:
            return None
        same = {False: "=", True: "IS NOT DISTINCT FROM"}
        keys = [f"{to_sql(k.left)} {same[k.null_safe]} {to_sql(k.right)}" for k in node.keys]
        both = f"({left.query}) JOIN ({right.query}) ON {' AND '.join(keys)}"
        return _made(f"SELECT * FROM {both} LIMIT {_MOST}", node, left, right)
    if isinstance(node, SetOp) and node.op == "union" and node.all:
        left, right = _text(node.left), _text(node.right)
        if left is None or right is None:
            return None
        names = ", ".join(to_sql(identifier(c.name)) for c in node.columns)
        both = f"SELECT * FROM ({left.query} UNION ALL {right.query}) AS t({names})"
        return _made(both, node, left, right)
    return None


def _made(query: str, node: Node, *inputs: Text) -> Text | None:
    """A query over several tables, with the columns of `node`."""
    tables = sum(i.tables for i in inputs)
    if tables > _TABLES:
        return None
    columns: dict[str, exp.Expr] = {c.name: column(c.name) for c in node.schema}
    return Text(f"({query})", (), columns, tables)


def _keys(constraints: Sequence[Sequence[Any]]) -> dict[str, list[frozenset[str]]]:
    """Of each table the keys that no two rows share; UNIQUE is none where there may be NULLs."""
    full, found = set[tuple[str, str]](), dict[str, list[frozenset[str]]]()
    told = [
        (".".join(map(quoted, place)).lower(), kind, frozenset(name.lower() for name in names))
        for *place, kind, names in constraints
    ]
    for table, kind, names in told:
        if kind == "NOT NULL":
            full.update((table, name) for name in names)
    for table, kind, names in told:
        if kind == "PRIMARY KEY" or (kind == "UNIQUE" and full >= {(table, n) for n in names}):
            found.setdefault(table, []).append(names)
    return found
