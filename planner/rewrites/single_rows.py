"""The only row of its kind is the first one, in whatever order.

    SELECT name FROM p WHERE p.id = 7 LIMIT 1                ─▶   … without the LIMIT
    row_number() OVER (PARTITION BY p.id) FROM p JOIN …      ─▶   1

where `id` is the primary key of `p`, or UNIQUE and NOT NULL. So those write it who want no more
than one row to be found, and `(SELECT name FROM p WHERE p.id = o.p LIMIT 1)` is such a row number.
Of rows that are all the same, as those of `SELECT 'low' FROM …`, any order tells the first ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from tidewheel.planner.constants import number_of
from tidewheel.planner.logical import (
    Aggregate,
    AsofJoin,
    Distinct,
    Filter,
    Join,
    Named,
    Node,
    Project,
    Scan,
    SortKey,
    TopK,
    Window,
    references,
)
from tidewheel.planner.rewrites.children import over
from tidewheel.planner.rewrites.join_graph import conjuncts
from tidewheel.planner.rewrites.same_in_groups import (
    EXACT,
    INTEGERS,
    KeysOf,
    decided,
    equal_columns,
    exact,
    keys_of_scan,
    plain,
)
from tidewheel.planner.text import column

_Keys = set[frozenset[str]]
"""Sets of columns of which no two rows have the same values; the empty one: there is one row."""


def single_rows(node: Node, keys_of: KeysOf) -> Node:
    """The same relation, without limits and row numbers that tell nothing."""
    node = over(node, lambda child: single_rows(child, keys_of))
    if isinstance(node, TopK) and not node.keys:
        if _lets_one_through(node) and frozenset() in _keys(node.input, keys_of):
            return node.input
        names = [c.name for c in node.schema]
        if names and _same(node.input).issuperset(names):
            return replace(node, keys=(SortKey(column(names[0]), False, False),))
    if isinstance(node, Window):
        return _numbered(node, keys_of)
    return node


def _lets_one_through(node: TopK) -> bool:
    limit = node.limit
    return node.offset is None and isinstance(limit, exp.Literal) and int(limit.name) > 0


def _numbered(node: Window, keys_of: KeysOf) -> Node:
    asked = {n.column.name: by for n in node.exprs if (by := _numbered_by(n.expr)) is not None}
    if not asked:
        return node
    keys = _keys(node.input, keys_of)
    known = {name for name, by in asked.items() if any(key <= by for key in keys)}
    names = [c.name for c in node.input.schema]
    rows = node.input
    alike = {n for n, by in asked.items() if _alike(rows, by, keys_of).issuperset(names)} - known
    rest = tuple(
        replace(n, expr=_in_any_order(n.expr, names[0])) if n.column.name in alike else n
        for n in node.exprs
        if n.column.name not in known
    )
    if not known:
        return replace(node, exprs=rest)
    below = replace(node, exprs=rest) if rest else node.input
    one = exp.cast(exp.Literal.number(1), "BIGINT")
    return Project(
        below,
        tuple(Named(c, one.copy() if c.name in known else column(c.name)) for c in node.schema),
    )


def _alike(node: Node, by: frozenset[str], keys_of: KeysOf) -> frozenset[str]:
    """The columns that are the same where those of `by` are equal."""
    told = frozenset(c.name for c in node.schema if c.name in by and exact(c))
    return decided(told | _same(node), node, keys_of)


def _in_any_order(call: exp.Expr, name: str) -> exp.Expr:
    """The numbers of rows that are all the same in their group: none is another's."""
    if call.args.get("order"):
        return call
    by = [e.copy() for e in call.args.get("partition_by") or ()]
    order = exp.Order(expressions=[exp.Ordered(this=column(name), desc=False, nulls_first=False)])
    return exp.Window(this=exp.RowNumber(), partition_by=by, order=order)


def _numbered_by(expression: exp.Expr) -> frozenset[str] | None:
    """The columns in whose groups a call numbers the rows."""
    if not isinstance(expression, exp.Window) or not isinstance(expression.this, exp.RowNumber):
        return None
    by = expression.args.get("partition_by") or ()
    return frozenset(e.name for e in by if isinstance(e, exp.Column))


def _keys(node: Node, keys_of: KeysOf) -> _Keys:
    """Keys of the rows of `node`; not all of them."""
    match node:
        case Scan():
            return set(keys_of_scan(node, keys_of))
        case Filter():
            return {key - _same(node) for key in _keys(node.input, keys_of)}
        case Project():
            kept = {
                n.expr.name: n.column.name for n in node.exprs if isinstance(n.expr, exp.Column)
            }
            keys = _keys(node.input, keys_of)
            return {frozenset(kept[n] for n in key) for key in keys if key <= kept.keys()}
        case Aggregate(sets=None) if all(exact(k.column) for k in node.keys):
            return {frozenset(k.column.name for k in node.keys)}
        case Distinct() if all(map(exact, node.schema)):
            names = frozenset(c.name for c in node.schema)
            return {names - _same(node.input), *_keys(node.input, keys_of)}
        case TopK() | Window():
            return _keys(node.input, keys_of)
        case Join(kind="semi" | "anti") | AsofJoin():
            return _keys(node.left, keys_of)
        case Join(kind="inner" | "cross" | "left"):
            return set(_of_join(node, keys_of))
    return set()


def _of_join(join: Join, keys_of: KeysOf) -> Iterator[frozenset[str]]:
    """Those of a side whose rows have one partner each at most, and both together."""
    left, right = _keys(join.left, keys_of), _keys(join.right, keys_of)
    pairs = equal_columns(join)
    if any(key <= {there for _, there in pairs} for key in right):
        yield from left
    if join.kind != "left" and any(key <= {here for here, _ in pairs} for key in left):
        yield from right
    yield from (one | other for one in left for other in right)


def _same(node: Node) -> frozenset[str]:
    """The columns that are the same in all rows; not all of them."""
    match node:
        case Filter():
            return _same(node.input).union(_fixed(node))
        case Project():
            below = _same(node.input)
            return frozenset(n.column.name for n in node.exprs if references(n.expr) <= below)
        case Distinct() | TopK() | Window():
            return _same(node.input)
    return frozenset()


def _fixed(node: Filter) -> Iterator[str]:
    """The columns that a condition holds at one value."""
    types = {c.name: c.type for c in node.schema}
    for part in conjuncts(node.predicate):
        if isinstance(part, exp.EQ):
            for one, other in ((part.this, part.expression), (part.expression, part.this)):
                if isinstance(one, exp.Column) and _one_value(types[one.name], other):
                    yield one.name


def _one_value(kind: str, constant: exp.Expr) -> bool:
    """Does but one value of the type equal it? Of VARCHAR '5' and '05' equal 5."""
    if plain(kind) not in EXACT:
        return False
    if isinstance(constant, exp.Literal) and constant.is_string:
        return True
    value = number_of(constant)  # (DuckDB takes a longer one for a double)
    whole = value is not None and value.as_tuple().exponent == 0 and abs(value) < 10**37
    return whole and plain(kind) in INTEGERS
