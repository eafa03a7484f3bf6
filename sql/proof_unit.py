"""One view's query: its rules, and the rows that its recursions found, each with its iteration."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.quoting import quoted

from ..planner.logical import Binding, LetRec, Node
from . import recursion
from .proof_select import Column, Value
from .proof_text import Mark, Opaque, Reading
from .recursion_groups import groups
from .recursion_tables import Span

ITERATION = "__tw_iteration"
_SCALAR = re.compile(r"\w+( WITH TIME ZONE)?|DECIMAL\(\d+, ?\d+\)")
"""Types whose values can be read again from their text; others are compared as text."""

Row = tuple[Value, ...]
Group = tuple[str, ...]
Limits = tuple[tuple[Group, str, int], ...]
"""Recursions that are read as an iteration of theirs sees them: (group, reader, iteration)."""


class Runner(Protocol):
    """What runs queries."""

    describe: recursion.Describer

    def ask(self, sql: str) -> list[Row]:
        """The rows of a query whose columns are text or whole numbers."""

    def table(self, sql: str) -> pa.Table:
        """The rows of a query."""

    def rows(
        self, node: Node, record: Callable[[str, tuple[int, ...], pa.Table], None]
    ) -> pa.Table:
        """Run a plan, and record its loops."""

    def register(self, name: str, rows: pa.Table) -> None:
        """Let queries read `rows`."""


@dataclass(eq=False)
class Source:
    """What a rule reads: a base table, a query (view, table of WITH, subquery), a recursion."""

    label: str
    columns: tuple[Column, ...]
    unit: Unit | None = None  # None: a base table, which is not explained
    table: recursion.RecursiveTable | None = None
    tree: exp.Query | None = None
    span: Span | None = None
    why: str = ""  # why a query is not taken apart


class Unit:
    """One view's query, and the rows that its recursions found, each with its iteration."""

    def __init__(self, runner: Runner, number: int, label: str, text: str) -> None:
        self._runner = runner
        self.number = number
        self.label = label
        self.reading = Reading(text, recursion.opened(text, runner.describe))
        self.snapshots: dict[str, list[int]] = {}
        self.sources: dict[object, Source] = {}
        self.ran = False

    @property
    def recursive(self) -> bool:
        return self.reading.opened.node is not None

    def fact_name(self, variable: str) -> str:
        return f"__tw_proof_{self.number}_{variable}"

    @property
    def result_name(self) -> str:
        return f"__tw_proof_{self.number}"

    def run(self) -> None:
        """Compute the recursions, once."""
        node = self.reading.opened.node
        if self.ran or node is None:
            return
        self.ran = True
        found: dict[str, list[pa.Table]] = {}

        def record(variable: str, counters: tuple[int, ...], rows: pa.Table) -> None:
            if len(counters) == 1:
                at = pa.array([counters[0]] * rows.num_rows, pa.int64())
                found.setdefault(variable, []).append(rows.append_column(ITERATION, at))
                self.snapshots.setdefault(variable, []).append(counters[0])

        self._runner.register(self.result_name, self._runner.rows(_as_loops(node), record))
        for binding in _outermost(node):
            names = [c.name for c in binding.columns]
            if binding.variable in found:
                rows = pa.concat_tables(found[binding.variable]).rename_columns([*names, ITERATION])
                self._runner.register(self.fact_name(binding.variable), rows)
                self.snapshots.setdefault(binding.variable, [])
            else:
                empty = ", ".join(
                    f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in binding.columns
                )
                rows = self._runner.table(f"SELECT {empty}, 0::BIGINT AS {ITERATION} WHERE false")
                self._runner.register(self.fact_name(binding.variable), rows)
                self.snapshots.setdefault(binding.variable, [])

    # -- sources

    def top(self, columns: tuple[Column, ...]) -> Source:
        return self.source("top", lambda: Source(self.label, columns, self, span=self.reading.body))

    def source(self, key: object, make: Callable[[], Source]) -> Source:
        if key not in self.sources:
            self.sources[key] = make()
        return self.sources[key]

    def marked(self, mark: Mark) -> Source:
        """The source that a mark stands for."""
        return self.source(mark, lambda: self._of_mark(mark))

    def _of_mark(self, mark: Mark) -> Source:
        cte = mark.cte
        table = self.reading.opened.tables.get(cte.definition)
        if table is not None:
            variable = table.binding.variable
            if variable not in self.snapshots:
                raise Opaque(f'"{cte.label}" is a recursion inside a step of another one')
            # The types of the rows as they were recorded: Arrow names what a tuple leaves unnamed.
            kinds = self._runner.describe(f"SELECT * FROM {quoted(self.fact_name(variable))}")
            labels = [c.label for c in table.binding.columns]
            columns = tuple((n, k) for n, (_, k) in zip(labels, kinds, strict=False))
            return Source(cte.label, columns, self, table)
        if id(cte) in groups(self.reading.opened.scan):
            raise Opaque(
                f'"{cte.label}" is a recursion that depends on the rows of a query around it'
            )
        source = Source(cte.label, (), self, span=cte.body)
        text = f"SELECT * FROM ({self.source_sql(source, (), mark)})"
        source.columns = tuple(self._runner.describe(text))
        return source

    def groups(self, source: Source, seen: tuple[Source, ...] = ()) -> set[Group]:
        """The recursions that a query reads, through other queries too."""
        if source.table is not None:
            return {source.table.group}
        found: set[Group] = set()
        tree = source.tree
        if tree is None and source.span is not None:
            tree = self.reading.tree(source.span)
        for mark in self.reading.marks_in(tree) if tree is not None else ():
            other = self.marked(mark)
            if other not in seen:
                found |= self.groups(other, (*seen, source))
        return found

    # -- SQL

    def sql(self, tree: exp.Expr, limits: Limits) -> str:
        return self.reading.sql(tree, lambda m: self.source_sql(self.marked(m), limits, m))

    def source_sql(self, source: Source, limits: Limits, mark: Mark | None = None) -> str:
        """A source's rows, as an iteration of a recursion sees them."""
        if source.table is not None:
            return self.facts_sql(source.table, limits, mark is not None and mark.recurring)
        assert source.span is not None or source.tree is not None
        tree = (
            source.tree if source.tree is not None else self.reading.tree(source.span or Span(0, 0))
        )
        text = self.sql(tree, limits)
        if mark is not None and mark.cte.columns:
            names = ", ".join(map(quoted, mark.cte.columns))
            return f'SELECT * FROM ({text}) AS "__tw_q"({names})'
        return text

    def facts_sql(self, table: recursion.RecursiveTable, limits: Limits, recurring: bool) -> str:
        b = table.binding
        items = ", ".join(f"{quoted(c.name)} AS {quoted(c.label)}" for c in b.columns)
        name = quoted(self.fact_name(b.variable))
        return f"SELECT {items} FROM {name}{self.when(table, limits, recurring)}"

    def when(self, table: recursion.RecursiveTable, limits: Limits, recurring: bool) -> str:
        """The condition for the rows of a recursive table that a reader sees."""
        b = table.binding
        limit = next((x for x in limits if x[0] == table.group), None)
        if b.kind == "mutual":
            at = self.snapshot(table, limit)
            return f" WHERE {ITERATION} = {-1 if at is None else at}"
        bound = ""
        if limit is not None and table.exact and not recurring:
            return f" WHERE {ITERATION} = {limit[2] - 1}"
        if limit is not None:
            bound = f" WHERE {ITERATION} < {limit[2]}"
        if b.kind == "using_key" or (b.kind == "improve" and limit is None):
            key = ", ".join(quoted(b.columns[i].name) for i in b.key)
            bound += (
                f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {ITERATION} DESC) = 1"
            )
        return bound

    def snapshot(
        self, table: recursion.RecursiveTable, limit: tuple[Group, str, int] | None
    ) -> int | None:
        """Since when the rows of a table of WITH MUTUALLY RECURSIVE stand that a reader sees."""
        variable = table.binding.variable
        known = self.snapshots[variable]
        if limit is not None:
            _, reader, at = limit
            # tables before the reader have been evaluated in the same iteration
            last = at if table.group.index(variable) < table.group.index(reader) else at - 1
            known = [k for k in known if k <= last]
        return known[-1] if known else None

    def iteration(self, source: Source, row: Row, limits: Limits) -> int | None:
        """The iteration that added a row of a recursive table, as a reader sees it."""
        table = source.table
        assert table is not None
        b = table.binding
        match = " AND ".join(
            equal(quoted(c.name), value, kind)
            for c, (_, kind), value in zip(b.columns, source.columns, row, strict=True)
        )
        name = quoted(self.fact_name(b.variable))
        limit = next((x for x in limits if x[0] == table.group), None)
        if limit is not None and table.exact and b.kind == "union":
            return limit[2] - 1  # where the row was looked for; it is added once
        found = self._runner.ask(
            f"SELECT DISTINCT {ITERATION} FROM {name} WHERE {match} ORDER BY 1"
        )
        there = [int(r[0] or 0) for r in found]
        if b.kind == "mutual":
            at = self.snapshot(table, limit)
            known = [k for k in self.snapshots[b.variable] if at is not None and k <= at]
            first = None
            for k in reversed(known):
                if k not in there:
                    break
                first = k
            return first
        if limit is not None:
            there = [k for k in there if k < limit[2]]
        if not there:
            return None
        return there[-1] if b.kind == "using_key" else there[0]


def equal(name: str, value: Value, kind: str) -> str:
    if value is None:
        return f"{name} IS NULL"
    if _SCALAR.fullmatch(kind):
        return f"{name} = {literal(value, kind)}"
    return f"CAST({name} AS VARCHAR) = {literal(value, 'VARCHAR')}"


def literal(value: Value, kind: str) -> str:
    """SQL for a value that DuckDB wrote as text."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    escaped = value.replace("'", "''")
    return f"CAST('{escaped}' AS {kind})"


def _as_loops(node: Node) -> Node:
    """A plan whose loops all tell of their iterations."""
    if not isinstance(node, LetRec):
        return node
    bindings = tuple(
        dataclasses.replace(
            b,
            native=None,
            structural=b.structural if b.kind == "union" else None,
            afterwards=False,
        )
        for b in node.bindings
    )
    return dataclasses.replace(node, bindings=bindings, body=_as_loops(node.body), enough=None)


def _outermost(node: Node) -> list[Binding]:
    found: list[Binding] = []
    while isinstance(node, LetRec):
        found += node.bindings
        node = node.body
    return found
