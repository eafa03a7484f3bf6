"""A proof that a row belongs to a view: one derivation of it, from base rows up.

A recursion's fixpoint is computed once, and with each row the iteration that added it is kept. Then
the proof is searched from the row down: a row of iteration i was made by a rule from rows of
iterations before i, so one query per step finds them, and the proof can never go round in a circle.
Only what the row stands on is looked at.

This is the provenance by minimal derivation height of Deutch, Gilad, Moskovitch, "Efficient
provenance tracking for Datalog using top-k queries" (VLDB Journal 2018), with SQL's rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import duckdb
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.kernels.duckdb import readable
from tidewheel.engine.quoting import quoted

from ..planner import execute
from ..planner.context import Context
from ..planner.logical import Node
from . import functions, recursion
from .proof_select import VALUE, Column, Item, branches, search
from .proof_text import Mark, Opaque
from .proof_unit import Limits, Row, Source, Unit, equal
from .reads import Names, Relation
from .reads import body as body_of
from .recursion_branches import Branch
from .recursion_tables import Span

GROUP_ROWS = 20
"""So many rows of a group are shown and followed."""
MAX_STEPS = 10_000


@dataclass(frozen=True)
class Premise:
    """A row that a step stands on: of a base table (`step` None), or made by an earlier step."""

    label: str
    row: Row
    types: tuple[str, ...]
    step: int | None


@dataclass
class Step:
    """One row and how it was made. `rule` is the branch's text, `place` says which it is.

    `more`: so many rows of its group are not shown. `notes`: what else had to hold.
    """

    label: str
    row: Row
    types: tuple[str, ...]
    iteration: int | None
    place: str
    rule: str
    premises: list[Premise] = field(default_factory=list)
    more: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Goal:
    """A row to be proved. `source` says of what; `at` is its iteration in a recursive table."""

    source: Source
    row: Row
    at: int | None
    limits: Limits


@dataclass
class _Found:
    """How a row was made: rows of sources, and what stands beside them."""

    premises: list[tuple[Source, Row, Limits]] = field(default_factory=list)
    more: int = 0
    notes: list[str] = field(default_factory=list)


class Prover:
    """Searches proofs over one connection. Close it to forget what it registered."""

    def __init__(
        self,
        context: Context,
        names: Names,
        queries: Mapping[str, str],
        prepare: Callable[[str], None],
    ) -> None:
        self._context = context
        self._names = names
        self._queries = queries  # of the maintained views, by key
        self._prepare = prepare
        self._units: dict[str, Unit] = {}
        self._registered: list[str] = []
        self._bases: dict[str, Source] = {}
        self.describe = recursion.Describer(context.connection)

    def close(self) -> None:
        """Forget the rows of the recursions."""
        for name in self._registered:
            with suppress(duckdb.Error):  # a transaction that failed takes no statement
                self._context.connection.unregister(name)

    # -- running

    def ask(self, sql: str) -> list[Row]:
        """The rows of a query whose columns are text or whole numbers."""
        if self._context.interrupted.is_set():
            raise RuntimeError("Query interrupted")
        return self._context.connection.execute(sql).fetchall()

    def table(self, sql: str) -> pa.Table:
        """The rows of a query of ours."""
        return self._context.connection.sql(sql).to_arrow_table()

    def rows(
        self, node: Node, record: Callable[[str, tuple[int, ...], pa.Table], None]
    ) -> pa.Table:
        """Run a plan, and record its loops."""
        context = dataclasses.replace(self._context, parameters=None, record=record)
        stream = execute.run(node, context)
        try:
            return pa.Table.from_batches(list(stream), stream.schema)
        finally:
            stream.close()

    def register(self, name: str, rows: pa.Table) -> None:
        """Let queries read `rows`."""
        connection = self._context.connection
        connection.register(name, readable(connection, rows))
        self._registered.append(name)

    @cached_property
    def aggregates(self) -> Set[str]:
        """The names of DuckDB's aggregate functions."""
        return functions.of(self._context.connection).aggregates

    # -- views

    def view(self, relation: Relation) -> Unit:
        """The query of a view."""
        unit = self._units.get(relation.key)
        if unit is None:
            text = self._queries.get(relation.key, "")
            if not text:  # a plain view
                inside = self._names.inside(relation)
                text = body_of(inside.sql(relation))
                text = text if inside is self._names else inside.qualified(text)
            self._prepare(text)
            unit = self._units[relation.key] = Unit(self, len(self._units), relation.name, text)
        return unit

    def result(self, relation: Relation) -> str:
        """SQL that names the rows of a view: those that `Unit.run` found, or as DuckDB reads it."""
        if relation.kind == "view" and relation.key not in self._queries:
            unit = self.view(relation)
            if unit.recursive:
                unit.run()
                return quoted(unit.result_name)
        return relation.quoted

    # -- proving

    def prove(
        self, relation: Relation, row: Row, columns: Sequence[Column]
    ) -> tuple[list[Step], bool]:
        """The steps to a row of a view, premises first; whether they are all."""
        unit = self.view(relation)
        unit.run()
        top = _Goal(unit.top(tuple(columns)), row, None, ())
        numbers: dict[_Goal, int] = {}
        steps: list[Step] = []
        opened: dict[_Goal, tuple[Step, list[tuple[_Goal, Premise]]]] = {}
        stack = [top]
        while stack:
            goal = stack[-1]
            if goal in numbers:
                stack.pop()
                continue
            if goal not in opened:
                if len(opened) >= MAX_STEPS:
                    return steps, False
                opened[goal] = self._step(goal)
                stack.extend(
                    g for g, _ in reversed(opened[goal][1]) if g.source.unit and g not in numbers
                )
                continue
            step, premises = opened[goal]
            step.premises = [
                dataclasses.replace(p, step=numbers[g]) if g.source.unit else p for g, p in premises
            ]
            steps.append(step)
            numbers[goal] = len(steps)
            stack.pop()
        return steps, True

    def _step(self, goal: _Goal) -> tuple[Step, list[tuple[_Goal, Premise]]]:
        source, unit = goal.source, goal.source.unit
        assert unit is not None
        types = tuple(t for _, t in source.columns)
        step = Step(source.label, goal.row, types, goal.at, "", "")
        found: _Found | None = None
        try:
            if source.table is not None:
                found = self._rules(goal, step)
            else:
                step.place, step.rule = self._query_place(source)
                tree = (
                    source.tree
                    if source.tree is not None
                    else unit.reading.tree(source.span or Span(0, 0))
                )
                found = self._find(unit, tree, goal.row, types, goal.limits, ())
            if found is None:
                step.notes.append("no rows that it was made from were found")
        except Opaque as error:
            step.notes.append(f"not taken apart: {error}")
        premises: list[tuple[_Goal, Premise]] = []
        if found is not None:
            step.more, step.notes = found.more, step.notes + found.notes
            for read, row, limits in found.premises:
                made = self._goal(read, row, limits)
                kinds = tuple(t for _, t in read.columns)
                if all(made != g for g, _ in premises):
                    premises.append((made, Premise(read.label, row, kinds, None)))
        return step, premises

    def _goal(self, source: Source, row: Row, limits: Limits) -> _Goal:
        if source.table is None:
            kept = limits if source.unit else ()
            if kept and source.unit is not None:
                groups = source.unit.groups(source)
                kept = tuple(x for x in kept if x[0] in groups)
            return _Goal(source, row, None, kept)
        assert source.unit is not None
        at = source.unit.iteration(source, row, limits)
        return _Goal(source.unit.marked(Mark(source.table.cte, False)), row, at, ())

    def _query_place(self, source: Source) -> tuple[str, str]:
        unit = source.unit
        assert unit is not None
        if source.span is None:
            assert source.tree is not None
            return "subquery", " ".join(source.tree.sql().split())
        if source.span == unit.reading.body:
            name = "the query of the view"
            return name + _at_line(unit, source.span), unit.reading.shown(source.span)
        return f"table {source.label} of WITH" + _at_line(unit, source.span), unit.reading.shown(
            source.span
        )

    def _rules(self, goal: _Goal, step: Step) -> _Found | None:
        """Try the branches of a recursive table."""
        table, unit, at = goal.source.table, goal.source.unit, goal.at
        assert table is not None
        assert unit is not None
        b = table.binding
        if at is None:
            return None
        types = step.types
        limits: Limits = ((table.group, b.variable, at),)
        rules: list[tuple[str, Span]]
        if b.kind == "mutual" and not table.cte.with_.mutually:
            raise Opaque("the steps of this recursion replace its rows")
        if table.parts.operator is None:
            rules = [("the query", table.cte.body)]
        elif at == 0:
            limits = ()
            rules = _named("anchor", table.parts.anchors)
        else:
            rules = _named("step", table.parts.steps)
        merge = b.merge if at and b.kind == "improve" else ()
        why: Opaque | None = None
        for name, span in rules:
            step.place = f"{name} of {table.cte.label}{_at_line(unit, span)}"
            step.rule = unit.reading.shown(span)
            try:
                found = self._find(unit, unit.reading.tree(span), goal.row, types, limits, merge)
            except Opaque as error:
                why = error
                continue
            if found is not None:
                return found
        if why is not None:
            raise why
        return None

    # -- one rule

    def _find(
        self,
        unit: Unit,
        tree: exp.Query,
        row: Row,
        types: Sequence[str],
        limits: Limits,
        merge: Sequence[str | None],
    ) -> _Found | None:
        """The rows that made `row` by a query; None if it does not give that row."""
        if tree.args.get("with_") or tree.args.get("with"):
            raise Opaque("it has a WITH clause of its own")
        kind, parts = branches(tree)
        if kind == "select":
            assert isinstance(parts[0], exp.Select)
            found = self._select(unit, parts[0], row, types, limits, merge)
            if found is None and merge:
                # Its values come from several rows of the group.
                found = self._select(unit, parts[0], row, types, limits, ())
            return found
        if kind == "any":
            for part in parts:
                found = self._find(unit, part, row, types, limits, merge)
                if found is not None:
                    return found
            return None
        found = self._find(unit, parts[0], row, types, limits, merge)
        if found is not None and kind == "all":
            other = self._find(unit, parts[1], row, types, limits, merge)
            if other is None:
                return None
            found.premises += other.premises
            found.notes += other.notes
        elif found is not None:
            found.notes.append("the row is not in what stands behind EXCEPT")
        return found

    def _select(
        self,
        unit: Unit,
        select: exp.Select,
        row: Row,
        types: Sequence[str],
        limits: Limits,
        merge: Sequence[str | None],
    ) -> _Found | None:
        plan = search(select, len(row), self.aggregates, merge)
        items: list[tuple[Item, Source]] = []
        wanted: list[str] = []
        names = [f"__tw_o{i}" for i in range(len(row))]
        for r in plan.reads:
            sources = [self._source(unit, item.node, limits) for item in r.items]
            start = len(names)
            names += [f"__tw_s{len(names)}_{n}" for n in range(r.skip)]
            for item, source in zip(r.items, sources, strict=True):
                items.append((item, source))
                for _ in source.columns:
                    wanted.append(f"__tw_p{len(wanted)}")
                    names.append(wanted[-1])
            if r.lateral is not None:
                # Its columns must not be taken for those of the other relations.
                labels = [VALUE, *names[start + 1 :]]
                r.lateral.set("columns", [exp.to_identifier(n, quoted=True) for n in labels])
        query = plan.query
        stars = [
            exp.Column(this=exp.Star(), table=exp.to_identifier(r.prefix[1:-1], quoted=True))
            for r in plan.reads
        ]
        query.set("expressions", [*plan.outputs, *stars])
        conditions = [
            equal(f"CAST({name} AS {kind})", value, kind)
            for i, (name, value, kind) in enumerate(zip(names, row, types, strict=False))
            if not (
                i < len(plan.outputs) and isinstance(plan.outputs[i], exp.Null) and plan.grouped
            )
        ]
        texts = ", ".join(f"CAST({w} AS VARCHAR)" for w in wanted) or "NULL"
        grouped = plan.grouped
        # Rows of a group, and how many there are; one row of what is not grouped.
        count = ", count(*) OVER ()" if grouped else ", 1"
        heads = ", ".join(map(quoted, names))
        sql = (
            f"SELECT {texts}{count} FROM ({unit.sql(query, limits)}) AS __tw_w({heads}) "
            f"WHERE {' AND '.join(conditions) or 'true'} LIMIT {GROUP_ROWS if grouped else 1}"
        )
        rows = self.ask(sql)
        if not rows and not (grouped and not conditions):
            return None
        found = _Found(notes=list(plan.notes))
        if rows and grouped:
            found.more = int(rows[0][-1] or 0) - len(rows)
        for values in rows:
            at = 0
            for item, source in items:
                width = len(source.columns)
                own = tuple(values[at : at + width])
                at += width
                if item.outer and all(v is None for v in own):
                    found.notes.append(f"no row of {source.label} matches")
                elif (source, own, limits) not in found.premises:
                    found.premises.append((source, own, limits))
        return found

    def _source(self, unit: Unit, node: exp.Expr, limits: Limits) -> Source:
        if isinstance(node, exp.Subquery):
            alias = node.args.get("alias")
            key = (node.sql(), "subquery")

            def make() -> Source:
                tree = node.this
                columns = tuple(self.describe(f"SELECT * FROM ({unit.sql(tree, limits)})"))
                label = alias.name if alias is not None and alias.name else "subquery"
                return Source(label, columns, unit, tree=tree)

            return unit.source(key, make)
        assert isinstance(node, exp.Table)
        mark = unit.reading.mark_of(node)
        if mark is not None:
            return unit.marked(mark)
        relation = self._names.find([p.name for p in node.parts])
        if (
            relation is not None
            and relation.kind == "view"
            and not relation.name.startswith("__tw_")
        ):
            view = self.view(relation)
            view.run()
            columns = tuple(self.describe(f"SELECT * FROM {self.result(relation)}"))
            return view.top(columns)
        name = node.copy()
        name.set("alias", None)
        text = name.sql()
        if text not in self._bases:
            columns = tuple(self.describe(f"SELECT * FROM {text}"))
            self._bases[text] = Source(node.name, columns)
        return self._bases[text]


def _named(what: str, found: Sequence[Branch]) -> list[tuple[str, Span]]:
    if len(found) == 1:
        return [(f"the {what}", found[0].span)]
    return [(f"{what} {i}", b.span) for i, b in enumerate(found, 1)]


def _at_line(unit: Unit, span: Span) -> str:
    line = unit.reading.line(span)
    return "" if line is None else f", line {line}"
