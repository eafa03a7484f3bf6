"""Logical plans: frozen nodes, each a relation with a fixed schema.

Every column of every node has a *plan-unique name* (`Column.name`), given once by the binder.
An expression is a sqlglot tree whose column references are `exp.Column` nodes with one quoted,
unqualified identifier: the unique name of a column of the node's children. Hence a node can be
written out as ``SELECT … FROM <child>`` without regard to scopes, and a rewrite can move an
expression to any place where its columns are visible.

A node refuses, when it is made, a child that lacks a column that it refers to (`PlanError`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from sqlglot import exp

from tidewheel.engine.operators.step_program import Program


class PlanError(Exception):
    """A logical plan that does not fit together: always a bug of the planner, never of a user."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a node: `name` is unique in the plan, `label` is what the user sees.

    `type` is DuckDB's spelling of the SQL type, e.g. ``DECIMAL(12,2)`` or ``INTEGER[]``.
    """

    name: str
    label: str
    type: str


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the column that it defines."""

    column: Column
    expr: exp.Expr


@dataclass(frozen=True, slots=True)
class SortKey:
    """One ORDER BY item; NULLs first or last is always explicit."""

    expr: exp.Expr
    descending: bool
    nulls_first: bool


def references(expression: exp.Expr | None) -> set[str]:
    """The unique names of the columns that an expression reads."""
    if expression is None:
        return set()
    if type(expression) is exp.Column and type(expression.this) is exp.Identifier:
        return {expression.this.this}
    return {column.name for column in expression.find_all(exp.Column)}


@dataclass(frozen=True)
class Node:
    """A relation. `schema` is its columns, in order; `children` its inputs, in order."""

    schema: tuple[Column, ...] = field(init=False, compare=False, repr=False)

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes that this one reads, left to right."""
        found: list[Node] = []
        for value in self.__dict__.values():
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Node):
                found.extend(value)
        return tuple(found)

    def _set_schema(self, schema: Iterable[Column]) -> None:
        columns = tuple(schema)
        names = [c.name for c in columns]
        if len(set(names)) != len(names):
            raise PlanError(f"{type(self).__name__} has a column twice: {names}")
        object.__setattr__(self, "schema", columns)

    def _check(self, expressions: Iterable[exp.Expr | None], *inputs: Node) -> None:
        visible = {c.name for node in inputs for c in node.schema}
        for expression in expressions:
            missing = references(expression) - visible
            if missing:
                raise PlanError(
                    f"{type(self).__name__} reads {sorted(missing)}, has {sorted(visible)}"
                )


def names_of(node: Node) -> set[str]:
    """The unique names of a node's columns."""
    return {c.name for c in node.schema}


@dataclass(frozen=True)
class Scan(Node):
    """A relation that the catalog knows: a table, a maintained view, a registered frame.

    `table` is the quoted, qualified SQL name; `source_columns[i]` is the name in the table of
    `columns[i]`.
    """

    table: str
    columns: tuple[Column, ...]
    source_columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.source_columns):
            raise PlanError("Scan: columns and source_columns differ in length")
        self._set_schema(self.columns)


@dataclass(frozen=True)
class Filter(Node):
    """Rows of `input` for which `predicate` is TRUE. Linear."""

    input: Node
    predicate: exp.Expr

    def __post_init__(self) -> None:
        self._check([self.predicate], self.input)
        self._set_schema(self.input.schema)


@dataclass(frozen=True)
class Project(Node):
    """One row per input row: `exprs`. Linear. No aggregate, window or set-returning function."""

    input: Node
    exprs: tuple[Named, ...]

    def __post_init__(self) -> None:
        self._check((e.expr for e in self.exprs), self.input)
        self._set_schema(e.column for e in self.exprs)


@dataclass(frozen=True)
class Unnest(Node):
    """`input` with set-returning expressions added: a row per element. Linear.

    Several expressions advance together and the shorter ones are padded with NULL, as in DuckDB.
    """

    input: Node
    exprs: tuple[Named, ...]

    def __post_init__(self) -> None:
        self._check((e.expr for e in self.exprs), self.input)
        self._set_schema((*self.input.schema, *(e.column for e in self.exprs)))


JoinKind = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]


@dataclass(frozen=True)
class EquiKey:
    """`left = right`, or IS NOT DISTINCT FROM where `null_safe`."""

    left: exp.Expr
    right: exp.Expr
    null_safe: bool = False


@dataclass(frozen=True)
class Join(Node):
    """A join: equi-keys and a residual predicate over both sides. Bilinear where inner or cross."""

    left: Node
    right: Node
    kind: JoinKind
    keys: tuple[EquiKey, ...] = ()
    residual: exp.Expr | None = None

    def __post_init__(self) -> None:
        self._check((k.left for k in self.keys), self.left)
        self._check((k.right for k in self.keys), self.right)
        self._check([self.residual], self.left, self.right)
        one_sided = self.kind in ("semi", "anti")
        self._set_schema(self.left.schema if one_sided else (*self.left.schema, *self.right.schema))


AsofKind = Literal["inner", "left"]


@dataclass(frozen=True)
class AsofJoin(Node):
    """Each left row with the one right row of the same `keys` that is `nearest`, an inequality over
    both sides. Keyed: rows of different keys never meet."""

    left: Node
    right: Node
    kind: AsofKind
    keys: tuple[EquiKey, ...]
    nearest: exp.Expr

    def __post_init__(self) -> None:
        self._check((k.left for k in self.keys), self.left)
        self._check((k.right for k in self.keys), self.right)
        self._check([self.nearest], self.left, self.right)
        self._set_schema((*self.left.schema, *self.right.schema))


@dataclass(frozen=True)
class Aggregate(Node):
    """GROUP BY `keys`, computing `aggregates`. With `sets`, one output per grouping set.

    `sets` holds, per grouping set, the positions of its keys; `grouping` names GROUPING columns.
    No keys and no sets: one row always, also for an empty input.
    """

    input: Node
    keys: tuple[Named, ...]
    aggregates: tuple[Named, ...]
    sets: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        self._check((e.expr for e in (*self.keys, *self.aggregates)), self.input)
        self._set_schema(e.column for e in (*self.keys, *self.aggregates))


@dataclass(frozen=True)
class Window(Node):
    """`input` with window functions added (each an `exp.Window`)."""

    input: Node
    exprs: tuple[Named, ...]

    def __post_init__(self) -> None:
        self._check((e.expr for e in self.exprs), self.input)
        self._set_schema((*self.input.schema, *(e.column for e in self.exprs)))


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    def __post_init__(self) -> None:
        self._set_schema(self.input.schema)


@dataclass(frozen=True)
class SetOp(Node):
    """UNION, EXCEPT or INTERSECT of inputs of equal width; positional; types already equal."""

    op: Literal["union", "except", "intersect"]
    all: bool
    left: Node
    right: Node
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not len(self.left.schema) == len(self.right.schema) == len(self.columns):
            raise PlanError("SetOp: sides differ in width")
        self._set_schema(self.columns)


@dataclass(frozen=True)
class TopK(Node):
    """ORDER BY `keys` LIMIT `limit` OFFSET `offset`; without limit and offset a plain sort."""

    input: Node
    keys: tuple[SortKey, ...]
    limit: exp.Expr | None = None
    offset: exp.Expr | None = None

    def __post_init__(self) -> None:
        self._check((k.expr for k in self.keys), self.input)
        self._set_schema(self.input.schema)


# FROM before anything but a query, VALUES, a list or a series of numbers or times
_READS = re.compile(r"\bfrom\b\s+(?!\(|(?:unnest|range|generate_series)\s*\()", re.IGNORECASE)


@dataclass(frozen=True)
class Block(Node):
    """A piece of SQL kept whole: `sql` reads its inputs by the names in `aliases`.

    What the binder does not take apart (and what needs no taking apart) is one of these; `reason`
    says why, and EXPLAIN prints it. `scans` are the catalog relations that the text itself reads.
    A reference to input `i` stands in the text as the quoted identifier `aliases[i]`.
    """

    sql: str
    inputs: tuple[Node, ...]
    aliases: tuple[str, ...]
    columns: tuple[Column, ...]
    reason: str
    scans: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.aliases):
            raise PlanError("Block: inputs and aliases differ in length")
        self._set_schema(self.columns)

    @property
    def constant(self) -> bool:
        """Does it read nothing: VALUES, a list, a series of numbers?"""
        return bool(self.columns) and not (self.inputs or self.scans or _READS.search(self.sql))


RecPart = Literal["delta", "all", "old"]


@dataclass(frozen=True)
class RecRef(Node):
    """The variable of an enclosing `LetRec`.

    In a step, `part` says which of its rows: those that the last step added (`delta`, SQL's working
    table), all that were found so far (`all`), or all but the last step's (`old`). In the body of
    the `LetRec` it is the whole answer.
    """

    variable: str
    columns: tuple[Column, ...]
    part: RecPart = "delta"

    def __post_init__(self) -> None:
        self._set_schema(self.columns)


RecKind = Literal["union", "union_all", "improve", "using_key", "mutual"]
"""How a step's rows change the variable:

* `union`: those that are new are added; `union_all`: all are added;
* `improve`: each group keeps the best value of its aggregates (`Binding.merge`);
* `using_key`: a row replaces the one of its key;
* `mutual`: they replace the variable (WITH MUTUALLY RECURSIVE).
"""


@dataclass(frozen=True)
class Structural:
    """A step of joins and integer arithmetic only; `relations` (key first) do not change.

    `sources[i]`: (input, column) of the values that column i takes over, 0 being the anchor;
    `bounds[i]`: of a computed column; `carried`: a column that each row hands on unchanged.
    There are no `sources` where the values may be any of their type's: UNION ALL, and UNION over
    values that nothing bounds.
    """

    program: Program
    relations: tuple[Node, ...]
    sources: tuple[tuple[tuple[int, int], ...], ...]
    bounds: tuple[tuple[int, int] | None, ...]
    carried: int | None


@dataclass(frozen=True)
class Binding:
    """One recursive variable: its columns, its anchor (None: starts empty) and its steps.

    The new rows are those of all `steps` together. `key` holds the positions of the key columns of
    `improve` and `using_key`; `merge` the aggregate of each column, None for a column of the key.
    `native` is the same relation as one statement that DuckDB runs alone, where it can and surely
    comes to an end; `structural` describes a step that needs no SQL. `same`: DuckDB's recursion has
    this meaning, whether it ends or not. `afterwards`: no other variable needs it before the loop
    is over, and it is what its step gives then. `together`: the step says something of the last
    step's rows as a whole, so that it is not the sum of what it says of each. `of_none`: it may
    have rows where there are none yet. `by_turns`: it reads all rows so far in a way that may give
    others when the same rows are found in other iterations. `every`: the step after one of
    `using_key` reads all of its rows (UNION ALL), and not only those that changed something.
    """

    variable: str
    columns: tuple[Column, ...]
    anchor: Node | None
    steps: tuple[Node, ...]
    kind: RecKind
    key: tuple[int, ...] = ()
    merge: tuple[str | None, ...] = ()
    native: Block | None = None
    structural: Structural | None = None
    same: bool = False
    afterwards: bool = False
    together: bool = False
    of_none: bool = False
    by_turns: bool = False
    every: bool = False

    @property
    def label(self) -> str:
        """What the user calls the variable: without the number that makes it unique."""
        return self.variable.rpartition("_")[0] or self.variable


@dataclass(frozen=True)
class LetRec(Node):
    """Recursive bindings and the `body` that reads them: a loop context of the dataflow.

    `limit` bounds the iterations, and says whether reaching it is an error or the answer. `enough`:
    the body looks at that many rows at most, any of them. `whole`: the query that this is the plan
    of, where each recursion in it means the same to DuckDB; `ends` if none can
    go on for ever, `limited` if one may, but a LIMIT may be what ends it.
    """

    bindings: tuple[Binding, ...]
    body: Node
    limit: tuple[Literal["return", "error"], int] | None = None
    enough: int | None = None
    whole: Block | None = None
    limited: bool = False
    ends: bool = False

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """Anchors and steps of all bindings, then the body."""
        parts: list[Node] = []
        for binding in self.bindings:
            if binding.anchor is not None:
                parts.append(binding.anchor)
            parts.extend(binding.steps)
        return (*parts, self.body)

    def __post_init__(self) -> None:
        self._set_schema(self.body.schema)
