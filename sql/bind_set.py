"""UNION, EXCEPT and INTERSECT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.engine.quoting import quoted
from tidewheel.planner.logical import Column, Named, Node, Project, SetOp, SortKey
from tidewheel.planner.text import cast_to, column

from .bind_limit import is_all, limited, limits
from .bind_query import BoundQuery
from .bind_scope import NotTaken, Scope
from .bind_settled import outer_columns, outer_names, reads_tables, settled, told_apart

if TYPE_CHECKING:
    from .binder import Binder

_CLAUSES = ("with_", "sample", "pivots", "order", "limit", "offset")


class SetOperations:
    """The set operations of one query; `outer` is what is around it."""

    def __init__(self, binder: Binder, outer: Scope | None) -> None:
        self._binder = binder
        self._names = binder.names
        self._outer = outer

    def bind(self, tree: exp.SetOperation, chain: Sequence[Column] | None = None) -> BoundQuery:
        """The plan of a set operation; `chain`: the columns of the one that it is a part of.

        DuckDB casts the values of ``a UNION ALL b UNION ALL c`` once, to the type of all: ``1``,
        ``1.5`` and ``'2'`` do not make 1 into 1.0 first.
        """
        for key in ("side", "kind", "on"):
            if tree.args.get(key):
                raise NotTaken("a set operation with options")
        outer, inner = self._outer, _chained(tree)
        if inner is not None and chain is not None:
            left = self.bind(inner, chain)
        else:
            left = self._binder.query(tree.this, outer, late=outer is not None)
        right = self._binder.query(tree.expression, outer, late=outer is not None)
        if not tree.args.get("by_name"):
            if len(left.columns) != len(right.columns):
                raise NotTaken("sides of different width")
            chain = chain or self._merged(left.columns, right.columns, "UNION ALL")
            if inner is not None and _differ(left.columns, chain):
                left = self.bind(inner, chain)
        elif chain is not None:
            raise NotTaken("a chain of set operations BY NAME over several types")
        met = outer_columns(outer, outer_names(left) | outer_names(right))
        keys: list[list[Column]] = [[], []]
        if met:
            alone = any(not outer_names(s) and reads_tables(s.node) for s in (left, right))
            if alone and not self._binder.all_pairs and isinstance(tree, exp.Union):
                raise NotTaken("a correlated UNION with a side that is not")
            left, keys[0] = settled(left, met, self._names)
            right, keys[1] = settled(right, met, self._names)
        if chain is None:
            columns, pairs = self._by_name(left.columns, right.columns)
            if inner is not None and any(
                a and a.type != c.type for (a, _), c in zip(pairs, columns, strict=True)
            ):
                raise NotTaken("a chain of set operations BY NAME over several types")
        else:
            columns = tuple(self._names.fresh(c.label, c.type) for c in chain)
            pairs = list(zip(left.columns, right.columns, strict=True))
        apart = tuple(self._names.fresh(c.label, c.type) for c in met)
        op = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}[type(tree)]
        node: Node = SetOp(
            op,  # type: ignore[arg-type]  # the three literals above
            not tree.args.get("distinct"),
            self._cast(left.node, [*keys[0], *(a for a, _ in pairs)], (*apart, *columns)),
            self._cast(right.node, [*keys[1], *(b for _, b in pairs)], (*apart, *columns)),
            (*apart, *columns),
        )
        each = [column(c.name) for c in apart] if limits(tree) else []
        node = limited(node, tree, _order(tree, columns), each, self._names)
        around = tuple(c.name for c in met)
        return BoundQuery(node, columns, told_apart(apart, met), around=around)

    def _merged(
        self, left: Sequence[Column], right: Sequence[Column], word: str
    ) -> tuple[Column, ...]:
        a = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.label)}" for c in left)
        b = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.label)}" for c in right)
        described = self._binder.oracle.describe(f"SELECT {a} {word} SELECT {b}")
        return tuple(self._names.fresh(label, type_) for label, type_ in described)

    def _by_name(
        self, left: Sequence[Column], right: Sequence[Column]
    ) -> tuple[tuple[Column, ...], list[tuple[Column | None, Column | None]]]:
        columns = self._merged(left, right, "UNION ALL BY NAME")
        mine = {c.label.lower(): c for c in left}
        theirs = {c.label.lower(): c for c in right}
        if len(mine) != len(left) or len(theirs) != len(right):
            raise NotTaken("BY NAME with a name twice")
        return columns, [(mine.get(c.label.lower()), theirs.get(c.label.lower())) for c in columns]

    def _cast(
        self, node: Node, sources: Sequence[Column | None], targets: Sequence[Column]
    ) -> Node:
        exprs: list[Named] = []
        for source, target in zip(sources, targets, strict=True):
            new = self._names.fresh(target.label, target.type)
            value: exp.Expr = exp.null() if source is None else column(source.name)
            if source is None or source.type != target.type:
                value = _cast_to(value, target.type)
            exprs.append(Named(new, value))
        return Project(node, tuple(exprs))


def _cast_to(value: exp.Expr, kind: str) -> exp.Cast:
    if "ENUM(" in kind:  # rewrites look for a type that has one
        return cast_to(value, kind)
    return exp.Cast(this=value, to=exp.Var(this=kind))


def _order(tree: exp.Expr, columns: Sequence[Column]) -> list[SortKey]:
    """ORDER BY of a set operation: positions and names of its columns."""
    keys: list[SortKey] = []
    all_keys = tree.args["order"].expressions if tree.args.get("order") else ()
    for ordered in all_keys:
        key = exp.Var(this="ALL") if is_all(ordered.this, all_keys) else ordered.this
        if isinstance(key, exp.Literal) and key.name.isdigit():
            found = [columns[int(key.name) - 1]] if int(key.name) <= len(columns) else []
        elif isinstance(key, (exp.Column, exp.Var)) and not getattr(key, "table", ""):
            found = [c for c in columns if c.label.lower() == key.name.lower()][:1]
            if not found and key.name.lower() == "all":
                found = list(columns)
        else:
            found = []
        if not found or ordered.args.get("with_fill"):
            raise NotTaken("a set operation ordered by an expression")
        descending = bool(ordered.args.get("desc"))
        nulls_first = bool(ordered.args.get("nulls_first"))
        keys += [SortKey(column(c.name), descending, nulls_first) for c in found]
    return keys


def _chained(tree: exp.SetOperation) -> exp.Union | None:
    """The UNION that is one with this one: of the same kind, on its left, without more clauses."""
    inner = tree.this
    while isinstance(inner, (exp.Subquery, exp.Paren)) and not _has_clauses(inner):
        inner = inner.this
    if not (isinstance(tree, exp.Union) and isinstance(inner, exp.Union)) or _has_clauses(inner):
        return None
    alike = bool(tree.args.get("distinct")) == bool(inner.args.get("distinct"))
    return inner if alike else None


def _has_clauses(tree: exp.Expr) -> bool:
    return any(tree.args.get(k) for k in _CLAUSES)


def _differ(columns: Sequence[Column], others: Sequence[Column]) -> bool:
    return any(a.type != b.type for a, b in zip(columns, others, strict=True))
