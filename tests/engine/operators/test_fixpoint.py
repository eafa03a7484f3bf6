"""`Fixpoint` against recomputation: random edits of cyclic graphs with parallel edges."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.operators import fixpoint, walk
from tidewheel.engine.operators.fixpoint import Fixpoint
from tidewheel.engine.operators.join import Arrange
from tidewheel.engine.operators.linear import computing
from tidewheel.engine.operators.rule import Related, Rule
from tidewheel.engine.state.delta import Delta, Schema

NODES = 6
Row = tuple[Any, ...]
EDGE = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1), st.integers(0, 3))
START = st.tuples(st.integers(0, NODES - 1), st.integers(0, 5))
# An edit that is there already takes one away more often than it adds another.
EDITS = st.lists(
    st.lists(
        st.tuples(st.one_of(EDGE, START), st.sampled_from([True, False, False])),
        min_size=1,
        max_size=5,
    ),
    max_size=12,
)


def node(n: int | None, text: bool) -> Any:
    return None if n == NODES - 1 else f"node {n}" if text else n


class Bag:
    """Rows as they are inserted and deleted, and the last epoch's delta."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.rows: Counter[Row] = Counter()
        self.change: list[tuple[Row, int]] = []

    def edit(self, row: Row, add: bool) -> None:
        weight = 1 if add or not self.rows[row] else -1
        self.rows[row] += weight
        self.change.append((row, weight))

    def taken(self) -> Delta | None:
        change, self.change = self.change, []
        rows = [(*r, w) for r, w in change]
        return Delta.from_pylist(self.schema, rows) if rows else None

    def present(self) -> list[Row]:
        return [r for r, n in self.rows.items() if n > 0]


def held_after(held: Counter[Row], op: Fixpoint, deltas: list[Delta | None]) -> None:
    for _, _, out in op.step((), deltas):
        for *row, weight in out.to_pylist():
            held[tuple(row)] += weight


def arranged(schema: Schema, forward: int, reverse: int) -> tuple[Arrange, Arrange]:
    return Arrange(schema, [forward]), Arrange(schema, [reverse], null_keys=True)


def related(arranges: tuple[Arrange, Arrange], join: tuple[int, ...]) -> Related:
    forward, reverse = arranges
    return Related(forward.arrangement, reverse.arrangement, join)


def moved(arranges: tuple[Arrange, Arrange], delta: Delta | None) -> Delta | None:
    found = [a.step((), [delta]) for a in arranges]
    return found[0][0][2] if found[0] else None


@pytest.mark.parametrize("text", [False, True], ids=["integers", "texts"])
@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_a_set(text: bool, edits: list[list[tuple[Row, bool]]]) -> None:
    """Reachability, with NULL as a node that nothing leaves."""
    kind = pa.string() if text else pa.int32()
    starts, edges = Bag(Schema(("n",), (kind,))), Bag(Schema(("a", "b"), (kind, kind)))
    arranges = arranged(edges.schema, 0, 1)
    rule = Rule((related(arranges, (0,)),), ((1, 1),), ((1, 0),))
    op = Fixpoint(starts.schema, [0], [rule])
    held: Counter[Row] = Counter()
    for epoch in edits:
        for row, add in epoch:
            if len(row) == 3:
                edges.edit((node(row[0], text), node(row[1], text)), add)
            else:
                starts.edit((node(row[0], text),), add)
        held_after(held, op, [starts.taken(), moved(arranges, edges.taken())])
        want = {r[0] for r in starts.present()}
        while more := {b for a, b in edges.present() if a in want and a is not None} - want:
            want |= more
        assert {k: n for k, n in held.items() if n} == {(n,): 1 for n in want}


@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_pairs(edits: list[list[tuple[Row, bool]]]) -> None:
    """Transitive closure: the join sees a part of the key, the rest passes."""
    kind = pa.int64()
    edges = Bag(Schema(("a", "b"), (kind, kind)))
    arranges = arranged(edges.schema, 0, 1)
    rule = Rule((related(arranges, (1,)),), ((0, 0), (1, 1)), ((0, 0), (1, 0)))
    op = Fixpoint(Schema(("x", "y"), (kind, kind)), [0, 1], [rule])
    held: Counter[Row] = Counter()
    for epoch in edits:
        for row, add in epoch:
            edges.edit((row[0], row[1]), add)
        delta = edges.taken()
        first = None if delta is None else Delta(op.schema, delta.cols, delta.weights)
        held_after(held, op, [first, moved(arranges, delta)])
        want = set(edges.present())
        while more := {(x, b) for x, y in want for a, b in edges.present() if a == y} - want:
            want |= more
        assert {k: n for k, n in held.items() if n} == dict.fromkeys(want, 1)


@pytest.mark.parametrize("parts", [1, 4096], ids=["row by row", "at once"])
@pytest.mark.parametrize("same", [True, False], ids=["one relation twice", "two relations"])
@settings(max_examples=60, deadline=None)
@given(edits=EDITS)
def test_several_relations(same: bool, parts: int, edits: list[list[tuple[Row, bool]]]) -> None:
    """Pairs go one edge further on both sides at once: each side has a relation of its own."""
    kind = pa.int64()
    one, two = (Bag(Schema(("a", "b"), (kind, kind))) for _ in range(2))
    left, right = arranged(one.schema, 0, 1), arranged(two.schema, 0, 1)
    if same:
        two, right = one, left
    rule = Rule(
        (related(left, (0,)), related(right, (1,))), ((1, 1), (1, 3)), ((1, 0), (1, 2))
    )  # fmt: skip
    op = Fixpoint(Schema(("x", "y"), (kind, kind)), [0, 1], [rule])
    starts, held = Bag(op.schema), Counter[Row]()
    for epoch in edits:
        for row, add in epoch:
            if len(row) == 2:
                starts.edit((node(row[0], False), row[1]), add)
            else:
                bag = two if row[2] % 2 else one
                bag.edit((node(row[0], False), node(row[1], False)), add)
        first = moved(left, one.taken())
        second = first if same else moved(right, two.taken())
        with mock.patch.object(fixpoint, "_FIRST", parts):
            held_after(held, op, [starts.taken(), first, second])
        want = set(starts.present())
        while (
            more := {
                (p[1], q[1])
                for x, y in want
                for p in one.present()
                for q in two.present()
                if p[0] == x and q[0] == y and x is not None and y is not None
            }
            - want
        ):
            want |= more
        assert {k: n for k, n in held.items() if n} == dict.fromkeys(want, 1)


@pytest.mark.parametrize("many", [0, 2048], ids=["best first", "all at once"])
@pytest.mark.parametrize("greatest", [False, True], ids=["min", "max"])
@settings(max_examples=80, deadline=None)
@given(edits=EDITS)
def test_values(greatest: bool, many: int, edits: list[list[tuple[Row, bool]]]) -> None:
    """Shortest paths by two kinds of edges: with a length, and free ones the other way round.

    For the greatest value lengths count negative, so that it exists.
    """
    kind = pa.int32()
    sign = -1 if greatest else 1
    starts = Bag(Schema(("n", "v"), (kind, kind)))
    edges = Bag(Schema(("a", "b", "w"), (kind, kind, kind)))
    roads = Bag(Schema(("a", "b"), (kind, kind)))
    one, two = arranged(edges.schema, 0, 1), arranged(roads.schema, 1, 0)
    pairs = Schema(("n", "v", "a", "b", "w"), (kind,) * 5)
    add_up = computing([3, lambda cols, n: cols[1] + cols[4]], starts.schema)
    rules = [
        Rule((related(one, (0,)),), ((1, 1),), ((1, 0),), add_up, pairs),
        Rule((related(two, (0,)),), ((1, 0),), ((1, 1),)),
    ]
    op = Fixpoint(starts.schema, [0], rules, 1, greatest)
    held: Counter[Row] = Counter()
    for epoch in edits:
        for row, add in epoch:
            if len(row) == 2:
                starts.edit((row[0], sign * row[1]), add)
            elif row[2] == 3:
                roads.edit(row[:2], add)
            else:
                edges.edit((row[0], row[1], sign * row[2]), add)
        deltas = [starts.taken(), moved(one, edges.taken()), moved(two, roads.taken())]
        with mock.patch.object(walk, "MANY", many):
            held_after(held, op, deltas)
        want: dict[int, int] = {}
        offers = starts.present()
        while offers:
            offers = [o for o in offers if o[0] not in want or sign * o[1] < sign * want[o[0]]]
            for n, v in offers:
                want[n] = v if n not in want else sign * min(sign * v, sign * want[n])
            offers = [(b, want[a] + w) for a, b, w in edges.present() if a in want]
            offers += [(a, want[b]) for a, b in roads.present() if b in want]
            offers = [o for o in offers if o[0] not in want or sign * o[1] < sign * want[o[0]]]
        assert {k: n for k, n in held.items() if n} == dict.fromkeys(want.items(), 1)


def test_slots_of_rows_that_left_are_given_up() -> None:
    kind = pa.int64()
    edges = Bag(Schema(("a", "b"), (kind, kind)))
    arranges = arranged(edges.schema, 0, 1)
    rule = Rule((related(arranges, (0,)),), ((1, 1),), ((1, 0),))
    op = Fixpoint(Schema(("n",), (kind,)), [0], [rule])
    first = Delta.from_pylist(op.schema, [(0, 1)])
    for round_ in range(4):
        for add in (True, False):
            for i in range(1000):
                begin = 0 if i == 0 else round_ * 10_000 + i
                edges.edit((begin, round_ * 10_000 + i + 1), add)
            op.step((), [first, moved(arranges, edges.taken())])
            first = None  # type: ignore[assignment]
            assert op.state_rows == (1002 if add else 2)
    assert op.state_bytes < 300_000


@pytest.mark.parametrize("valued", [False, True], ids=["set", "least"])
def test_long_chains_are_walked(valued: bool) -> None:
    """A chain with side branches and a way back, cut and mended in many places."""
    kind = pa.int64()
    schema = Schema(("n", "v"), (kind, kind)) if valued else Schema(("n",), (kind,))
    edges = Bag(Schema(("a", "b"), (kind, kind)))
    arranges = arranged(edges.schema, 0, 1)
    rule = Rule((related(arranges, (0,)),), ((1, 1),), ((1, 0),))
    op = Fixpoint(schema, [0], [rule], 1 if valued else None)
    rows = [(0, 7), (150, 3)] if valued else [(0,)]
    first: Delta | None = Delta.from_pylist(schema, [(*r, 1) for r in rows])
    length, held = 300, Counter[Row]()
    for i in range(length):
        edges.edit((i, i + 1), True)
    edges.edit((length, 20), True)
    for i in range(0, length, 10):
        edges.edit((i, 1000 + i), True)
        edges.edit((i, i + 1), True)  # twice
        edges.edit((i, i + 1), False)
    for i in range(2000, 2300):  # it gets wide, and narrow again
        edges.edit((200, i), True)
        edges.edit((i, 3000), True)
    for i in range(3000, 3000 + length):
        edges.edit((i, i + 1), True)
    for cut in (None, 0, 120, 120, 40, 0, 151, 299, 40, 151, 299):
        if cut is not None:
            edges.edit((cut, cut + 1), not edges.rows[cut, cut + 1])
        held_after(held, op, [first, moved(arranges, edges.taken())])
        first = None
        want: dict[int, int] = {}
        offers = [(r[0], r[-1]) for r in rows]
        after: dict[int, list[int]] = {}
        for a, b in edges.present():
            after.setdefault(a, []).append(b)
        while offers:
            n, v = offers.pop()
            if n not in want or (valued and v < want[n]):
                want[n] = v
                offers += [(b, v) for b in after.get(n, [])]
        wanted = {(n, v) if valued else (n,) for n, v in want.items()}
        assert {k: n for k, n in held.items() if n} == dict.fromkeys(wanted, 1)


def test_pairs_of_a_long_chain() -> None:
    """Cut in the middle, a quarter of all pairs goes at once, and comes back."""
    kind = pa.int64()
    schema = Schema(("x", "y"), (kind, kind))
    edges = Bag(Schema(("a", "b"), (kind, kind)))
    arranges = arranged(edges.schema, 0, 1)
    rule = Rule((related(arranges, (1,)),), ((0, 0), (1, 1)), ((0, 0), (1, 0)))
    op = Fixpoint(schema, [0, 1], [rule])
    length, held = 80, Counter[Row]()
    anchor: Delta | None = Delta.from_pylist(schema, [(0, 0, 1), (40, 40, 1)])
    for i in range(length):
        edges.edit((i, i + 1), True)
    for cut in (None, 60, 60, 20, 50, 20, 50):
        if cut is not None:
            edges.edit((cut, cut + 1), not edges.rows[cut, cut + 1])
        held_after(held, op, [anchor, moved(arranges, edges.taken())])
        anchor = None
        after = dict(edges.present())
        want = set()
        for x in (0, 40):
            y: int | None = x
            while y is not None:
                want.add((x, y))
                y = after.get(y)
        assert {k: n for k, n in held.items() if n} == dict.fromkeys(want, 1)
