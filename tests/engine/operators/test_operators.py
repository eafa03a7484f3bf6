"""Each operator against DuckDB under random edits: stepwise = batched = all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators import tally
from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.join import Arrange, Join
from tidewheel.engine.operators.linear import Concat, Map, filtering, selecting
from tidewheel.engine.operators.outer import matched, minus, padded, semi
from tidewheel.engine.operators.rank import Order
from tidewheel.engine.operators.regroup import Evaluate, Regroup
from tidewheel.engine.operators.running_sums import Aggregate
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.operators.topk import Ordered, extreme
from tidewheel.engine.state.delta import Delta, Schema

I64, STR, DBL = pa.int64(), pa.string(), pa.float64()
HUGE = duckdb.connect()
HUGE.execute("SET arrow_lossless_conversion = true")
HUGEINT = HUGE.sql("SELECT 1::HUGEINT h").to_arrow_table().schema[0].type

AB = Schema(["a", "b"], [I64, STR])
Make = Callable[[np.random.Generator], Sequence[Callable[[], Any]]]


def kernel(sql: str, schema: Schema) -> Evaluate:
    """A DuckDB statement over the input `__tw_in`."""
    con = duckdb.connect()
    con.execute("SET arrow_lossless_conversion = true")

    def evaluate(rows: Delta) -> Delta:
        con.register("__tw_in", rows.to_arrow(weight=None))
        return Delta.from_arrow(con.sql(sql).to_arrow_table(), weight=1, schema=schema)

    return evaluate


def pick(rng: np.random.Generator, values: Sequence[Any]) -> Any:
    return values[int(rng.integers(len(values)))]


def ab(rng: np.random.Generator) -> Callable[[], Any]:
    return lambda: (pick(rng, [None, 1, 2, 3, -5]), pick(rng, [None, "", "x", "yy", "zzz"]))


def two(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
    return [ab(rng), ab(rng)]


def one(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
    return [ab(rng)]


def test_filter_and_select(run_oracle: Callable[..., None]) -> None:
    def wire(c: Circuit, s: list[Node]) -> Node:
        out = Schema(["b"], [STR])
        kept = c.add(Map(AB, filtering(lambda cols, n: np.asarray(_value(cols[0], n) > 1))), s[0])
        return c.add(Map(out, selecting([1], out)), kept)

    run_oracle([AB], wire, "SELECT b FROM t0 WHERE a > 1", one)


def _value(col: Any, n: int) -> Any:
    return col if isinstance(col, np.ndarray) else col.fill_null(0).to_numpy(zero_copy_only=False)


@pytest.mark.parametrize(
    ("count", "inputs", "sql"),
    [
        (tally.distinct, 1, "SELECT DISTINCT * FROM t0"),
        (tally.distinct, 2, "FROM t0 UNION FROM t1"),
        (tally.except_all, 2, "FROM t0 EXCEPT ALL FROM t1"),
        (tally.except_distinct, 2, "FROM t0 EXCEPT FROM t1"),
        (tally.intersect_all, 2, "FROM t0 INTERSECT ALL FROM t1"),
        (tally.intersect_distinct, 2, "FROM t0 INTERSECT FROM t1"),
    ],
)
def test_set_operations(
    count: tally.Count, inputs: int, sql: str, run_oracle: Callable[..., None]
) -> None:
    def wire(c: Circuit, s: list[Node]) -> Node:
        return c.add(Tally(AB, count, inputs), *s[:inputs])

    run_oracle([AB, AB][:inputs], wire, sql, two if inputs == 2 else one)


def test_union_all(run_oracle: Callable[..., None]) -> None:
    run_oracle([AB, AB], lambda c, s: c.add(Concat(AB, 2), *s), "FROM t0 UNION ALL FROM t1", two)


PAIRS = Schema(["a", "b", "a1", "b1"], [I64, STR, I64, STR])
ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]


def inner(c: Circuit, s: list[Node], keys: Sequence[int], null_safe: bool = False) -> Node:
    left, right = Arrange(AB, keys, 0, null_safe), Arrange(AB, keys, 0, null_safe)
    nodes = c.add(left, s[0]), c.add(right, s[1])
    return c.add(Join(left.arrangement, right.arrangement, ALL, PAIRS), *nodes)


def by_number(delta: Delta) -> Delta:
    """Residual predicate: length(l.b) <= length(r.b)."""
    lengths = [
        [None if v is None else len(v) for v in delta.to_arrow().column(i).to_pylist()]
        for i in (1, 3)
    ]
    mask = [x is not None and y is not None and x <= y for x, y in zip(*lengths, strict=True)]
    return delta.where(np.array(mask, bool)) if mask else delta


@pytest.mark.parametrize(
    ("keys", "null_safe", "sql"),
    [
        ([0], False, "SELECT * FROM t0 l JOIN t1 r ON l.a = r.a"),
        ([1], False, "SELECT * FROM t0 l JOIN t1 r ON l.b = r.b"),
        ([0, 1], False, "SELECT * FROM t0 l JOIN t1 r ON l.a = r.a AND l.b = r.b"),
        ([0], True, "SELECT * FROM t0 l JOIN t1 r ON l.a IS NOT DISTINCT FROM r.a"),
        ([], False, "SELECT * FROM t0, t1"),
    ],
)
def test_inner_joins(
    keys: list[int], null_safe: bool, sql: str, run_oracle: Callable[..., None]
) -> None:
    run_oracle([AB, AB], lambda c, s: inner(c, s, keys, null_safe), sql, two)


def test_a_row_that_an_equal_one_replaces_meets_no_partners() -> None:
    rows = [(1, "x"), (2, "y"), (1, "x")]
    arrange = Arrange(AB, [0])
    ((_, _, out),) = arrange.step((), [Delta.of_rows(AB, rows, np.array([1, 1, -1]))])
    assert [out.cols[0].tolist(), out.weights.tolist()] == [[2], [1]]


def test_self_join_on_one_arrangement(run_oracle: Callable[..., None]) -> None:
    def wire(c: Circuit, s: list[Node]) -> Node:
        shared = Arrange(AB, [0])
        node = c.add(shared, s[0])
        return c.add(Join(shared.arrangement, shared.arrangement, ALL, PAIRS), node, node)

    run_oracle([AB], wire, "SELECT * FROM t0 l JOIN t0 r ON l.a = r.a", one)


def test_semi_and_anti(run_oracle: Callable[..., None]) -> None:
    run_oracle(
        [AB, AB],
        lambda c, s: semi(c, s[0], s[1], [0], [0]),
        "SELECT * FROM t0 WHERE EXISTS (FROM t1 WHERE t1.a = t0.a)",
        two,
    )
    run_oracle(
        [AB, AB],
        lambda c, s: minus(c, s[0], semi(c, s[0], s[1], [0], [0])),
        "SELECT * FROM t0 WHERE NOT EXISTS (FROM t1 WHERE t1.a = t0.a)",
        two,
    )


@pytest.mark.parametrize("residual", [False, True])
def test_full_outer_join(residual: bool, run_oracle: Callable[..., None]) -> None:
    def wire(c: Circuit, s: list[Node]) -> Node:
        pairs = inner(c, s, [0])
        if residual:
            pairs = c.add(Map(PAIRS, by_number), pairs)
            left = minus(c, s[0], matched(c, s[0], pairs, [0, 1], 0))
            right = minus(c, s[1], matched(c, s[1], pairs, [0, 1], 2))
        else:
            left = minus(c, s[0], semi(c, s[0], s[1], [0], [0]))
            right = minus(c, s[1], semi(c, s[1], s[0], [0], [0]))
        return c.add(Concat(PAIRS, 3), pairs, padded(c, left, PAIRS, 0), padded(c, right, PAIRS, 2))

    more = " AND length(l.b) <= length(r.b)" if residual else ""
    run_oracle([AB, AB], wire, "SELECT * FROM t0 l FULL JOIN t1 r ON l.a = r.a" + more, two)


NUM = Schema(
    ["g", "i", "d", "x", "w", "p"],
    [STR, I64, pa.decimal128(12, 2), DBL, pa.decimal128(38, 1), pa.bool_()],
)


def numbers(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
    def row() -> Any:
        return (
            pick(rng, [None, "a", "b"]),
            pick(rng, [None, 1, -7, 2**62, -(2**62)]),
            pick(rng, [None, Decimal("0.10"), Decimal("-99999.99")]),
            pick(rng, [None, 0.1, -0.0, 2.5, 1e15, -3.75]),
            pick(rng, [None, Decimal("1.5"), Decimal("-1000000000000000000000000000000.0")]),
            pick(rng, [None, True, False]),
        )

    return [row]


AGGREGATES = [
    ("count(*)", Aggregate("count_star", None, I64)),
    ("count(x)", Aggregate("count", 3, I64)),
    ("sum(i)", Aggregate("sum", 1, HUGEINT)),
    ("sum(d)", Aggregate("sum", 2, pa.decimal128(38, 2))),
    ("sum(x)", Aggregate("sum", 3, DBL)),
    ("sum(w)", Aggregate("sum", 4, pa.decimal128(38, 1))),
    ("avg(i)", Aggregate("avg", 1, DBL)),
    ("avg(d)", Aggregate("avg", 2, DBL)),
    ("avg(x)", Aggregate("avg", 3, DBL)),
    ("bool_and(p)", Aggregate("bool_and", 5, pa.bool_())),
    ("bool_or(p)", Aggregate("bool_or", 5, pa.bool_())),
]


@pytest.mark.parametrize("grouped", [True, False])
def test_running_sums(grouped: bool, run_oracle: Callable[..., None]) -> None:
    key = [0] if grouped else []
    names = ["g"] if grouped else []
    types = [STR] if grouped else []
    schema = Schema(
        [*names, *(f"v{i}" for i in range(len(AGGREGATES)))],
        [*types, *(a.type for _, a in AGGREGATES)],
    )
    sql = "SELECT " + ", ".join([*names, *(t for t, _ in AGGREGATES)]) + " FROM t0"
    sql += " GROUP BY g" if grouped else ""

    def wire(c: Circuit, s: list[Node]) -> Node:
        return c.add(Accumulate(NUM, key, [a for _, a in AGGREGATES], schema), s[0])

    run_oracle([NUM], wire, sql, numbers)


def test_variance(run_oracle: Callable[..., None]) -> None:
    gx = Schema(["g", "x"], [I64, DBL])
    functions: list[Any] = ["var_samp", "var_pop", "stddev_samp", "stddev_pop"]
    schema = Schema(["g", *functions], [I64, DBL, DBL, DBL, DBL])
    sql = "SELECT g, " + ", ".join(f"{f}(x)" for f in functions) + " FROM t0 GROUP BY g"

    def make(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
        return [lambda: (pick(rng, [1, 2]), pick(rng, [None, 1.0, 2.0, 4.5, -3.25]))]

    aggregates = [Aggregate(f, 1, DBL) for f in functions]
    run_oracle([gx], lambda c, s: c.add(Accumulate(gx, [0], aggregates, schema), s[0]), sql, make)


@pytest.mark.parametrize("nasty", [[1e308, 1e-308, 1.0], [1e16, 1.0, -1e16], [0.1, 0.2, 0.3]])
def test_sum_of_doubles_does_not_drift(nasty: list[float]) -> None:
    """Whatever was there in between: the same rows give the same bits."""
    gx = Schema(["x"], [DBL])
    schema = Schema(["s", "v"], [DBL, DBL])
    op = Accumulate(gx, [], [Aggregate("sum", 0, DBL), Aggregate("var_pop", 0, DBL)], schema)
    start = [(0.1, 1), (2.0**-1074, 1), (-7.3, 1)]

    def value(rows: list[tuple[float, int]]) -> Any:
        out = op.step((), [Delta.from_pylist(gx, rows)])
        return [r for _, _, d in out for r in d.to_pylist() if r[-1] > 0]

    first = value(start)
    assert first[0][0] == -7.2
    value([(x, 1) for x in nasty])
    assert value([(x, -1) for x in reversed(nasty)]) == first


def test_sum_with_infinities_and_nan() -> None:
    gx = Schema(["x"], [DBL])
    op = Accumulate(gx, [], [Aggregate("sum", 0, DBL)], Schema(["s"], [DBL]))

    def value(rows: list[tuple[float, int]]) -> Any:
        return [
            r[0]
            for _, _, d in op.step((), [Delta.from_pylist(gx, rows)])
            for r in d.to_pylist()
            if r[-1] > 0
        ]

    assert value([(1.0, 1), (float("inf"), 1)]) == [float("inf")]
    assert str(value([(float("-inf"), 1)])) == "[nan]"
    assert value([(float("inf"), -1)]) == [float("-inf")]
    assert value([(float("-inf"), -1)]) == [1.0]


def test_regroup_aggregates(run_oracle: Callable[..., None]) -> None:
    schema = Schema(["a", "m", "l"], [I64, STR, pa.list_(STR)])
    select = "SELECT a, median(length(b))::VARCHAR, list(b ORDER BY b) FROM {} GROUP BY a"
    run_oracle(
        [AB],
        lambda c, s: c.add(
            Regroup(AB, [0], kernel(select.format("__tw_in"), schema), schema, [0]), s[0]
        ),
        select.format("t0"),
        one,
        seeds=2,
    )


def test_regroup_of_everything_has_a_row_for_no_rows(run_oracle: Callable[..., None]) -> None:
    schema = Schema(["m"], [STR])
    select = "SELECT max(b) FROM {}"
    run_oracle(
        [AB],
        lambda c, s: c.add(
            Regroup(AB, [], kernel(select.format("__tw_in"), schema), schema, []), s[0]
        ),
        select.format("t0"),
        one,
        seeds=1,
    )


def test_window_by_partition(run_oracle: Callable[..., None]) -> None:
    schema = Schema(["a", "b", "r"], [I64, STR, I64])
    select = "SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) FROM {}"
    run_oracle(
        [AB],
        lambda c, s: c.add(
            Regroup(AB, [0], kernel(select.format("__tw_in"), schema), schema, [0]), s[0]
        ),
        select.format("t0"),
        one,
        seeds=2,
    )


@pytest.mark.parametrize("order", ["b", "b DESC NULLS FIRST, a", "a DESC NULLS LAST, b", "a, b"])
def test_top_k(order: str, run_oracle: Callable[..., None]) -> None:
    head, _, _ = order.partition(",")
    at = 0 if head[0] == "a" else 1
    place = Order(at, "DESC" in head, "NULLS FIRST" in head)
    select = f"SELECT a, b FROM {{}} ORDER BY {order} NULLS LAST LIMIT 3 OFFSET 1"
    if "," not in order or "NULLS" in order:
        select = (
            f"SELECT a, b FROM {{}} ORDER BY {order}, a NULLS LAST, b NULLS LAST LIMIT 3 OFFSET 1"
        )
    if order == "a, b":
        select = "SELECT a, b FROM {} ORDER BY a NULLS LAST, b NULLS LAST LIMIT 3 OFFSET 1"
    if order == "b":
        select = "SELECT a, b FROM {} ORDER BY b NULLS LAST, a NULLS LAST LIMIT 3 OFFSET 1"
    run_oracle(
        [AB],
        lambda c, s: c.add(
            Ordered(AB, [], place, 4, kernel(select.format("__tw_in"), AB), AB, []), s[0]
        ),
        select.format("t0"),
        one,
        steps=20,
        sizes=(1, 12, 30),
        seeds=2,
    )


EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (I64, [None, 0, 2**63 - 1, -(2**63), -(2**63) + 1, 2**63 - 2]),
    "double": (DBL, [None, 0.0, -1.5, 2.5, float("inf"), float("-inf")]),
    "decimal": (pa.decimal128(9, 2), [None, Decimal("1.10"), Decimal("-3.00")]),
}


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("kind", sorted(EXTREMES))
def test_min_and_max_read_the_ends(
    function: str, grouped: bool, kind: str, run_oracle: Callable[..., None]
) -> None:
    arrow, values = EXTREMES[kind]
    table = Schema(["g", "v"], [STR, arrow])
    key = [0] if grouped else []
    schema = Schema(["g", "m"], [STR, arrow]) if grouped else Schema(["m"], [arrow])
    sql = (
        f"SELECT g, {function}(v) FROM t0 GROUP BY g"
        if grouped
        else f"SELECT {function}(v) FROM t0"
    )
    order = Order(1, function == "max")

    def make(rng: np.random.Generator) -> Sequence[Callable[[], Any]]:
        return [lambda: (pick(rng, [None, "a", "b"]), pick(rng, values))]

    def wire(c: Circuit, s: list[Node]) -> Node:
        evaluate = extreme(table, key, 1, schema)
        return c.add(Ordered(table, key, order, 1, evaluate, schema, key), s[0])

    run_oracle([table], wire, sql, make, seeds=2, steps=24, sizes=(1, 5, 40))
