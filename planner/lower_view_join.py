"""Joins of a maintained view: inner, outer, semi and anti, by equal keys or within a range."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Concat
from tidewheel.engine.operators.outer import matched, minus, padded, semi
from tidewheel.engine.operators.ranged import RangeJoin
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.lower_view import Stream, ViewLowering, filtered, lowers, with_columns
from tidewheel.planner.or_joins import by_branches
from tidewheel.planner.range_joins import arranged
from tidewheel.planner.rewrites.join_graph import conjuncts
from tidewheel.planner.text import cast_to, conjunction
from tidewheel.planner.view_kernels import common_type
from tidewheel.planner.view_texts import Only


@lowers(L.Join)
def _join(low: ViewLowering, node: L.Join) -> Stream:
    left, right, left_key, right_key, residual = sides(low, node, node.residual)
    null_safe = bool(node.keys) and node.keys[0].null_safe
    circuit = low.circuit
    one_sided = node.kind in ("semi", "anti")
    if residual is None and one_sided:
        found = semi(circuit, left.placed, right.placed, left_key, right_key, null_safe,
                     f"{node.kind} join")  # fmt: skip
        low.contents.semi(found, right.placed, right_key)
        if node.kind == "anti":
            joined = found
            found = minus(circuit, left.placed, joined)
            low.contents.anti(found, joined)
        return with_columns(low, Stream(circuit, found, left.schema), node.schema)
    split = None if left_key else by_branches(node)
    wanted: tuple[L.Column, ...] = ()
    if split is not None:
        pairs = low(split)
    else:
        if residual is None and node.kind in ("inner", "cross"):
            wanted = low.wanted.get(id(node)) or node.schema
        left, right, pairs = _pairs(low, node, left, right, left_key, right_key, null_safe, wanted)
    joined = pairs.placed
    only = None
    if residual is not None and split is None:
        only = Only(residual, [c.name for c in pairs.schema])
    pairs = filtered(pairs, None if split is not None else residual)
    if node.kind in ("inner", "cross"):
        if wanted:
            return pairs
        read = low.wanted.get(id(node), ())
        join = joined.op
        if isinstance(join, RangeJoin) and residual is not None and read:
            join.moving = _moving(join, residual, (left, right), read)
            if join.moving is not None:
                return with_columns(low, pairs, read)
        return with_columns(low, pairs, node.schema)
    pairs = low.flush(pairs)
    schema, width = pairs.arrow, len(left.schema)
    if one_sided:
        asked = _asked(node, left)
        found = matched(circuit, left.placed, pairs.placed, asked, 0)
        if only is not None:
            low.contents.matched(found, pairs.placed, asked)
        if node.kind == "anti":
            there = found
            found = minus(circuit, left.placed, there)
            low.contents.anti(found, there)
        return with_columns(low, Stream(circuit, found, left.schema), node.schema)
    parts = [pairs.placed]
    for kind, stream, other, key, other_key, offset in (
        ("left", left, right, left_key, right_key, 0),
        ("right", right, left, right_key, left_key, width),
    ):
        if node.kind not in (kind, "full"):
            continue
        if residual is None:
            there = semi(circuit, stream.placed, other.placed, key, other_key, null_safe)
            low.contents.semi(there, other.placed, other_key)
        else:
            asked = _asked(node, stream)
            there = matched(circuit, stream.placed, pairs.placed, asked, offset)
            if only is not None:
                low.contents.matched(there, pairs.placed, [offset + i for i in asked])
        lonely = minus(circuit, stream.placed, there, "without a match")
        low.contents.anti(lonely, there)
        parts.append(padded(circuit, lonely, schema, offset))
    placed = circuit.add(Concat(schema, len(parts), f"{node.kind} join"), *parts)
    if split is None:
        low.contents.outer(placed, joined, node.kind, only)
    return with_columns(low, Stream(circuit, placed, pairs.schema), node.schema)


def _moving(
    join: RangeJoin, condition: exp.Expr, sides: tuple[Stream, Stream], read: Sequence[L.Column]
) -> int | None:
    """A side of a join by one inequality that is read by nothing but this comparison.

    Then it is all the same which of its rows meets a row that all of them meet.
    """
    if join.two_ended:
        return None
    for side in (0, 1):
        names = {c.name for c in sides[side].schema}
        readers = [part for part in conjuncts(condition) if L.references(part) & names]
        if len(readers) == 1 and not any(c.name in names for c in read):
            return side
    return None


def _asked(node: L.Join, side: Stream) -> list[int]:
    """The columns of a side that a join's condition looks at; all where it looks at none."""
    parts = [part for key in node.keys for part in (key.left, key.right)]
    parts += [node.residual] if node.residual is not None else []
    names = set().union(*map(L.references, parts))
    found = [i for i, c in enumerate(side.schema) if c.name in names]
    return found or list(range(len(side.schema)))


def _pairs(
    low: ViewLowering,
    node: L.Join,
    left: Stream,
    right: Stream,
    left_key: list[int],
    right_key: list[int],
    null_safe: bool,
    wanted: Sequence[L.Column],
) -> tuple[Stream, Stream, Stream]:
    """Both sides, and the pairs of equal keys; without keys those within a range, or all.

    Of their columns those that are `wanted`, or all.
    """
    by_left: Arrange
    by_right: Arrange
    in_range = None
    if not left_key and node.residual is not None:
        in_range = arranged(low, left, right, node.residual)
    if in_range is not None:
        left, right, (by_left, left_node), (by_right, right_node) = in_range
    else:
        by_left, left_node = low.arrange(left, left_key, null_safe)
        by_right, right_node = low.arrange(right, right_key, null_safe)
    schema, columns, found = wanted_of(left, right, wanted)
    name = f"{node.kind} join"
    join = (
        RangeJoin(by_left, by_right, columns, schema, name)
        if in_range is not None
        else Join(by_left.arrangement, by_right.arrangement, columns, schema, name)
    )
    placed = low.circuit.add(join, left_node, right_node)
    low.contents.join(placed)
    return left, right, Stream(low.circuit, placed, found)


def wanted_of(
    left: Stream, right: Stream, wanted: Sequence[L.Column]
) -> tuple[Schema, list[tuple[int, int]], tuple[L.Column, ...]]:
    """What a join gives of its sides' columns, those that are `wanted`, or all, and where from."""
    found = (*left.schema, *right.schema)
    columns = [(0, i) for i in range(len(left.schema))]
    columns += [(1, i) for i in range(len(right.schema))]
    types = [*left.arrow.types, *right.arrow.types]
    if wanted:
        at = {c.name: i for i, c in enumerate(found)}
        places = [at[c.name] for c in wanted]
        columns, types, found = (
            [columns[i] for i in places],
            [types[i] for i in places],
            tuple(wanted),
        )
    return Schema((c.name for c in found), types), columns, found


def sides(
    low: ViewLowering, node: L.Join | L.AsofJoin, residual: exp.Expr | None
) -> tuple[Stream, Stream, list[int], list[int], exp.Expr | None]:
    """Both sides with their keys as columns of equal types, and what is left as a residual."""
    left, right = low.place(node.left), low.place(node.right)
    lefts: list[exp.Expr] = []
    rights: list[exp.Expr] = []
    rest = [residual] if residual is not None else []
    null_safe = bool(node.keys) and node.keys[0].null_safe
    for key in node.keys:
        sides = [key.left, key.right]
        known = [low.type_of(s, stream) for s, stream in zip(sides, (left, right), strict=True)]
        kind = common_type(known)
        if kind is None or key.null_safe != null_safe:
            op = exp.NullSafeEQ if key.null_safe else exp.EQ
            rest.append(op(this=key.left, expression=key.right))
            continue
        for side, t, into in zip(sides, known, (lefts, rights), strict=True):
            into.append(side if t == kind else cast_to(side.copy(), kind))
    left, left_key = low.columns_for(left, lefts)
    right, right_key = low.columns_for(right, rights)
    return left, right, left_key, right_key, conjunction([r.copy() for r in rest])
