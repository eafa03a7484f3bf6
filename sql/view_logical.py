"""The query of a maintained view as logical nodes that operators can keep, as far as it goes.

A recursion's anchors, steps and body come as SQL that reads its inputs by name. Each is bound with
empty tables of these names in place, and what it reads is put in afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any

import duckdb

from ..planner.context import Context
from ..planner.logical import Binding, Block, Column, LetRec, Named, Node, Project, RecRef, Scan
from ..planner.text import column, identifier, to_sql, typed_nulls, unchanged
from . import errors, recursion
from .bind_scope import NotTaken
from .plain_view import same
from .reads import Names
from .recursion_nodes import free
from .statements import mentions_recursion, split

_RECURSIVE = re.compile(r"^(\s*\(*\s*)WITH\s+RECURSIVE\b", re.IGNORECASE)


def logical_view(sql: str, context: Context, names: Names | None = None) -> Node:
    """The plan of a view's query; blocks remain where the binder does not take it apart.

    `names`: the catalog as it is now, if the caller has read it.
    """
    plans = _Plans(context)
    node = plans.plan(sql, names)
    for let in reversed(plans.recursions):
        if free(node) & {b.variable for b in let.bindings}:
            node = replace(let, body=node)
    return node


def called(node: Node, labels: Sequence[str]) -> Node | None:
    """The plan with other names for its columns; None for one that DuckDB or a loop runs whole."""
    if isinstance(node, Block | LetRec):
        return None
    pairs = zip(node.schema, labels, strict=True)
    columns = [Column(c.name, label, c.type) for c, label in pairs]
    return Project(node, unchanged(columns))


class _Plans:
    """The plans of a view's query and of the plain views in it that have a recursion.

    `recursions` are those of the views. They go around the whole query: read twice, they run once.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.recursions: list[LetRec] = []
        self._of_views: dict[str, Node] = {}  # by their texts: what is left of them
        self._marks = count()

    def plan(self, sql: str, names: Names | None, mark: str = "") -> Node:
        """The plan of a query, or, with a mark that tells its variables from those of the others,
        of a plain view: NotTaken where its recursion means something else to DuckDB.
        """
        if not mentions_recursion(sql):
            return self.bind(sql, names)
        describe = recursion.Describer(self.context.connection, self.context.parameters)
        plan = recursion.plan_statement(split(sql)[0], describe, keys=True)
        if plan is None:
            return self.bind(sql, names)
        node = plan.node
        if mark and not same(node):
            raise NotTaken("a recursion that DuckDB understands in another way")
        if isinstance(node, LetRec):
            node = replace(node, whole=None)
        return _Opener(self, names or Names(self.context.connection), mark).open(node)

    def bind(self, sql: str, names: Names | None) -> Node:
        """The plan of a query that is no recursion, though plain views in it may be."""
        from .binder import bind

        return bind(sql, self.context, names, self._view)

    def _view(self, sql: str) -> Node:
        node = self._of_views.get(sql)
        if node is None:
            try:
                node = self.plan(sql, None, f"v{next(self._marks)}")
            except errors.Error as error:
                raise NotTaken(error.message) from None
            while isinstance(node, LetRec):
                self.recursions.append(node)
                node = node.body
            self._of_views[sql] = node
        return node


class _Opener:
    """Binds the blocks of a plan."""

    def __init__(self, plans: _Plans, names: Names, mark: str) -> None:
        self.plans = plans
        self.context = plans.context
        self.names = names
        self.mark = mark

    def open(self, node: Node) -> Node:
        """The same plan with its blocks taken apart."""
        if isinstance(node, Block):
            return self._block(_marked(node, self.mark) if self.mark else node)
        if isinstance(node, RecRef):
            return replace(node, variable=node.variable + self.mark)
        changes: dict[str, Any] = {}
        for f in fields(node):
            if f.init:
                value = getattr(node, f.name)
                opened = self._value(value)
                if opened is not value:
                    changes[f.name] = opened
        if isinstance(node, LetRec | Binding) or changes:
            return replace(node, **changes)
        return node

    def _value(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.open(value)
        if isinstance(value, Binding):
            return replace(
                value,
                variable=value.variable + self.mark,
                anchor=None if value.anchor is None else self.open(value.anchor),
                steps=tuple(self.open(s) for s in value.steps),
                native=None,
                structural=None,
            )
        if isinstance(value, tuple) and any(isinstance(v, Node | Binding) for v in value):
            return tuple(self._value(v) for v in value)
        return value

    def _block(self, block: Block) -> Node:
        # (the aliases themselves may be those of the statement that runs: rows of its recursions)
        there = _marked(block, "s")
        inputs = {a: self.open(i) for a, i in zip(there.aliases, block.inputs, strict=True)}
        text = _RECURSIVE.sub(r"\1WITH", there.sql)
        con = self.context.connection
        made = []
        try:
            for alias, node in inputs.items():
                name = to_sql(identifier(alias))
                empty = typed_nulls(node.schema)
                con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {empty}").fetchall()
                made.append(name)
            bound = self.plans.bind(text, self.names.beside(inputs))
        except duckdb.Error:
            return replace(block, inputs=tuple(inputs.values()))
        finally:
            for name in made:
                con.execute(f"DROP TABLE IF EXISTS temp.main.{name}").fetchall()
        bound = _filled(bound, inputs, {})
        if isinstance(bound, Block):  # kept whole, for a reason of its own
            return replace(block, inputs=tuple(inputs.values()), reason=bound.reason)
        pairs = zip(block.columns, bound.schema, strict=True)
        return Project(bound, tuple(Named(new, column(old.name)) for new, old in pairs))


def _marked(block: Block, mark: str) -> Block:
    """The same with other names for its inputs: while one is bound, a view that it reads may be."""
    text = block.sql
    for alias in block.aliases:
        text = text.replace(to_sql(identifier(alias)), to_sql(identifier(alias + mark)))
    return replace(block, sql=text, aliases=tuple(a + mark for a in block.aliases))


def _filled(node: Node, inputs: dict[str, Node], done: dict[int, Node]) -> Node:
    """`node` with the scans of the stand-in tables replaced by what they stand for, each once."""
    if isinstance(node, Scan):
        parts = re.findall(r'"((?:[^"]|"")*)"', node.table) or [node.table]
        stands_for = inputs.get(parts[-1].replace('""', '"'))
        if stands_for is None:
            return node
        pairs = zip(node.columns, node.source_columns, strict=True)
        return Project(stands_for, tuple(Named(c, column(s)) for c, s in pairs))
    if id(node) in done:
        return done[id(node)]
    changes: dict[str, Any] = {}
    for f in fields(node):
        if not f.init:
            continue
        value = getattr(node, f.name)
        if isinstance(value, Node):
            filled = _filled(value, inputs, done)
            if filled is not value:
                changes[f.name] = filled
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            changes[f.name] = tuple(_filled(v, inputs, done) for v in value)
    done[id(node)] = replace(node, **changes) if changes else node
    return done[id(node)]
