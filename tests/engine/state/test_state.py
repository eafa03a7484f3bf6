"""Deltas, arrangements and spines against plain Python multisets, over all SQL types."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewheel.engine.state import columns, hashing, merge, spine
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.delta import Delta, Schema, consolidate
from tidewheel.engine.state.python_values import canonical, python_values
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.sorting import sort_rows

UTC = ZoneInfo("UTC")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, 0, -1, 7, 2**31 - 1]),
    "bigint": (pa.int64(), [None, 0, -1, 2**63 - 1, -(2**63)]),
    "ubigint": (pa.uint64(), [None, 0, 2**63, 2**64 - 1]),
    "bool": (pa.bool_(), [None, True, False]),
    "double": (pa.float64(), [None, 0.0, -0.0, float("nan"), float("inf"), 1e300, -2.5]),
    "float": (pa.float32(), [None, 0.0, -0.0, float("nan"), 1.5]),
    "string": (pa.string(), [None, "", "a", "b", "ab", "ba", "é", "a" * 3000]),
    "blob": (pa.binary(), [None, b"", b"\0", b"\0\0"]),
    "decimal": (pa.decimal128(12, 2), [None, Decimal("0.00"), Decimal("-1.50"), Decimal("9.99")]),
    "wide": (
        pa.decimal128(38, 2),
        [None, Decimal("1.00"), Decimal("10000000000000000000000000.00")],
    ),
    "date": (pa.date32(), [None, dt.date(1970, 1, 1), dt.date(1, 1, 1)]),
    "zoned": (pa.timestamp("us", tz="UTC"), [None, dt.datetime(2020, 1, 1, tzinfo=UTC)]),
    "list": (pa.list_(pa.float64()), [None, [], [None], [0.0], [-0.0], [float("nan")]]),
    "struct": (pa.struct([("x", pa.int32())]), [None, {"x": None}, {"x": 1}]),
    "texts": (pa.list_(pa.string()), [None, [], [""], ["a", "b"], ["b", "a"], ["ab"], ["a", None]]),
    "lists": (
        pa.list_(pa.list_(pa.int32())),
        [None, [], [[]], [[], []], [None], [[1], [2]], [[1, 2]]],
    ),
    "vector": (
        pa.list_(pa.float32(), 2),
        [None, [0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [None, 1.0], [1.0, None]],
    ),
    "record": (
        pa.struct([("x", pa.float64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))]),
        [
            None,
            {"x": 0.0, "s": "a", "l": []},
            {"x": -0.0, "s": "a", "l": []},
            {"x": None, "s": None, "l": None},
            {"x": 1.5, "s": "a", "l": [1, 2]},
            {"x": 1.5, "s": "a", "l": [2, 1]},
        ],
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        [None, [], [("a", 1)], [("a", 2)], [("a", 1), ("b", None)], [("b", None), ("a", 1)]],
    ),
    "records": (
        pa.list_(pa.struct([("d", pa.decimal128(30, 2)), ("t", pa.date32())])),
        [
            None,
            [None],
            [{"d": Decimal("1.00"), "t": None}],
            [{"d": Decimal("1.00"), "t": dt.date(2020, 1, 1)}],
        ],
    ),
}


def normal(row: tuple[Any, ...], exactly: bool = False) -> tuple[str, ...]:
    return tuple(repr(canonical(v, exactly)) for v in row)


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    """Rows that look the same, added up."""
    out: Counter[tuple[str, ...]] = Counter()
    for *row, weight in rows:
        out[normal(tuple(row), exactly=True)] += weight
    return Counter({k: v for k, v in out.items() if v})


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[tuple[Any, ...]]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    schema = Schema([f"c{i}" for i in range(len(names))], [VALUES[n][0] for n in names])
    row = st.tuples(*(st.sampled_from(VALUES[n][1]) for n in names), st.integers(-2, 2))
    return schema, draw(st.lists(row, max_size=40))


@settings(deadline=None)
@given(tables())
def test_consolidate_adds_up_equal_rows(given_table: tuple[Schema, list[Any]]) -> None:
    schema, rows = given_table
    out = consolidate(Delta.from_pylist(schema, rows)).to_pylist()
    assert bag(out) == bag(rows)
    assert len(out) == len(bag(rows))


@pytest.fixture
def bad_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of two bits: everything collides."""
    good = hashing.combine
    monkeypatch.setattr(hashing, "combine", lambda h, c: good(h, c) & np.uint64(3))


@pytest.mark.usefixtures("bad_hashes")
@settings(deadline=None, suppress_health_check=list(__import__("hypothesis").HealthCheck))
@given(tables())
def test_colliding_hashes_change_nothing(given_table: tuple[Schema, list[Any]]) -> None:
    schema, rows = given_table
    delta = Delta.from_pylist(schema, rows)
    out = consolidate(delta).to_pylist()
    assert bag(out) == bag(rows)
    assert len(out) == len(bag(rows))
    arrangement = Arrangement(schema, [0])
    arrangement.insert(delta)
    arrangement.spine.compact()
    assert bag(arrangement.contents().to_pylist()) == bag(rows)
    check_matches(arrangement, schema, rows)


def check_matches(arrangement: Arrangement, schema: Schema, rows: list[Any]) -> None:
    probe = Delta.from_pylist(schema, [(*r[:-1], 1) for r in rows])
    keys = arrangement.key.keys(probe.cols, len(probe))
    found = arrangement.match(probe.cols, arrangement.key, keys)
    got: Counter[Any] = Counter()
    if found is not None:
        at, matched = found
        for i, row in zip(at.tolist(), matched.delta().to_pylist(), strict=True):
            got[i, normal(row[:-1], exactly=True)] += row[-1]
    want: Counter[Any] = Counter()
    equal = {normal(row[:-1], exactly=True): normal(row[:1]) for row in rows}
    for i, left in enumerate(rows):
        for shown, weight in bag(rows).items():
            if normal(left[:1]) == equal[shown]:
                want[i, shown] += weight
    assert {k: v for k, v in got.items() if v} == dict(want)


@settings(deadline=None)
@given(tables(), st.integers(1, 5))
def test_matches_are_all_rows_of_equal_key(
    given_table: tuple[Schema, list[Any]], batches: int
) -> None:
    schema, rows = given_table
    arrangement = Arrangement(schema, [0])
    for i in range(batches):
        arrangement.insert(Delta.from_pylist(schema, rows[i::batches]))
    check_matches(arrangement, schema, rows)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_equality_is_that_of_duckdb(name: str) -> None:
    kind, values = VALUES[name]
    con = duckdb.connect()
    col = columns.from_arrow(pa.array(values, kind))
    n = len(values)
    pairs = [(i, j) for i in range(n) for j in range(n)]
    table = pa.table(
        {
            "a": pa.array([values[i] for i, _ in pairs], kind),
            "b": pa.array([values[j] for _, j in pairs], kind),
        }
    )
    want = [r[0] for r in con.from_arrow(table).project("a IS NOT DISTINCT FROM b").fetchall()]
    ct = columns.column_type(kind)
    left = columns.take(col, np.array([i for i, _ in pairs]))
    right = columns.take(col, np.array([j for _, j in pairs]))
    assert ct.equal(left, right).tolist() == want
    hashes, exact = ct.hash(col), ct.hash(col, exactly=True)
    assert all((hashes[i] == hashes[j]) == same for (i, j), same in zip(pairs, want, strict=True))
    texts = [normal((v,), exactly=True) for v in python_values(ct.dump(col))]
    alike = [texts[i] == texts[j] for i, j in pairs]
    assert ct.equal(left, right, exactly=True).tolist() == alike
    assert all((exact[i] == exact[j]) == same for (i, j), same in zip(pairs, alike, strict=True))
    middle = pa.concat_arrays([pa.array(values * 2, kind)]).slice(3, n)  # not at the beginning
    assert ct.hash(columns.from_arrow(middle)).tolist() == [*hashes, *hashes][3 : 3 + n]
    # The hash does not depend on the batch: alone, in company, with or without NULLs around.
    for i, value in enumerate(values):
        alone = columns.from_arrow(pa.array([value], kind))
        assert ct.hash(alone)[0] == hashes[i]
        assert columns.column_type(kind).dump(alone).type == kind


def test_intervals_compare_normalised() -> None:
    con = duckdb.connect()
    texts = [
        "1 month",
        "30 days",
        "720 hours",
        "1 month 1 second",
        "-1 month",
        "12 months",
        "1 year",
    ]
    query = " UNION ALL ".join(f"SELECT {i} i, INTERVAL '{t}' v" for i, t in enumerate(texts))
    table = con.sql(query + " ORDER BY i").to_arrow_table()
    col = columns.from_arrow(table["v"])
    kind = columns.column_type(table["v"].type)
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            want = con.execute(f"SELECT INTERVAL '{a}' = INTERVAL '{b}'").fetchone()[0]  # type: ignore[index]
            one, other = columns.take(col, np.array([i])), columns.take(col, np.array([j]))
            assert kind.equal(one, other)[0] == want
            if want:
                assert kind.hash(one)[0] == kind.hash(other)[0]


@pytest.mark.parametrize(("depth", "least"), [(0, 1 << 20), (0, 8), (1, 8), (2, 8)])
def test_spine_holds_what_was_put_in(
    depth: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many batches of many sizes, merged with little fuel, equal one multiset; lookups too.

    From `least` rows on what goes is taken out of the largest run.
    """
    monkeypatch.setattr(spine, "LEAST", least)
    monkeypatch.setattr(spine, "HEAD", 4)
    monkeypatch.setattr(spine, "AT_ONCE", 64)
    monkeypatch.setattr(merge, "SLICE", 128)
    monkeypatch.setattr(spine, "FUEL", 4)
    rng = np.random.default_rng(depth)
    schema = Schema(["k", "v"], [pa.int64(), pa.int64()])
    arrangement = Arrangement(schema, [0], depth)
    want: Counter[tuple[int, ...]] = Counter()
    for _ in range(300):
        n = int(rng.choice([1, 1, 2, 5, 70, 300]))
        data = rng.integers(0, 12, (n, 2 + depth))
        weights = rng.integers(-1, 2, n)
        for row, w in zip(data.tolist(), weights.tolist(), strict=True):
            want[tuple(row)] += w
        delta = Delta(schema, [data[:, 0].copy(), data[:, 1].copy()], weights)
        if depth:
            arrangement.spine.insert(arrangement.layout.rows(delta, data[:, 2:]))
        else:
            arrangement.insert(delta)
        key = np.array([int(rng.integers(0, 12))])
        found = arrangement.fetch(key)
        if found is not None and not depth:
            assert found.weights.all()
        got: Counter[tuple[int, ...]] = Counter()
        if found is not None:
            for i in range(len(found)):
                times = () if found.times is None else tuple(found.times[i].tolist())
                got[(*(int(c[i]) for c in found.cols), *times)] += int(found.weights[i])
        expected = {k: w for k, w in want.items() if w and k[0] == key[0]}
        assert {k: w for k, w in got.items() if w} == expected
    whole = arrangement.spine.all()
    assert len(whole) == sum(1 for w in want.values() if w)
    assert len(list(arrangement.spine.runs())) < 40


def test_nothing_is_found_where_all_rows_went_at_once() -> None:
    values = np.arange(spine.LEAST) * 1000
    arrangement = Arrangement(Schema(["k", "x"], [pa.int64()] * 2), [0])
    for weight in (1, -1):
        weights = np.full(len(values), weight)
        arrangement.insert(Delta(arrangement.schema, [values, values], weights))
    assert arrangement.fetch(np.array([1000, 2000])) is None
    assert len(arrangement) == 0
    arrangement.insert(Delta(arrangement.schema, [values[:2], values[:2]], np.ones(2, np.int64)))
    found = arrangement.fetch(values[:3])
    assert found is not None
    assert found.keys.tolist() == [0, 1000]


def test_rows_with_several_weights_vanish_only_when_all_are_zero() -> None:
    schema = Schema(["k"], [pa.int64()])
    layout = Arrangement(schema, [0]).layout
    delta = Delta(schema, [np.array([1, 1, 2, 2])], np.array([[1, 5], [-1, 0], [1, 1], [-1, -1]]))
    out = sort_rows(layout.rows(delta))
    assert out.keys.tolist() == [1]
    assert out.weights.tolist() == [[0, 5]]


def test_arrow_round_trip_keeps_every_type() -> None:
    con = duckdb.connect()
    con.execute("SET arrow_lossless_conversion = true")
    table = con.sql(
        """SELECT 1::HUGEINT h, uuid() u, '101'::BIT b, '12:00:00+02'::TIMETZ tz, true bo,
        '{"a":1}'::JSON j, INTERVAL 1 MONTH i, 1.5::DECIMAL(4,1) d, 1.5::DECIMAL(38,1) dd,
        TIMESTAMPTZ '2020-01-01' ts, TIME '12:00' ti, [1, 2] l, MAP {'a': 1} m, NULL n,
        -1.5::DECIMAL(18, 3) neg, 'x'::ENUM ('x', 'y') e, [1,2]::INT[2] arr
        FROM range(3)"""
    ).to_arrow_table()
    delta = Delta.from_arrow(table, weight=1)
    back = delta.to_arrow(weight=None)
    for name in table.column_names:
        before = table[name].combine_chunks()
        if pa.types.is_dictionary(before.type):
            before = before.dictionary_decode()
        assert back[name].type == before.type
        assert back[name].to_pylist() == before.to_pylist()
    arrangement = Arrangement(delta.schema, range(len(delta.schema)))
    arrangement.insert(delta)
    arrangement.insert(delta.take(np.array([0])).negate())
    assert arrangement.contents().weights.tolist() in ([2], [3, -1], [1, 1], [1])


@pytest.mark.parametrize(
    "arrow",
    [
        pa.bool8(),
        pa.list_(pa.bool8()),
        pa.struct([("a", pa.list_(pa.uuid()))]),
        pa.map_(pa.string(), pa.bool8()),
    ],
)
def test_a_column_without_rows_has_its_type(arrow: pa.DataType) -> None:
    kind = columns.column_type(arrow)
    column = kind.dump(kind.empty())
    assert (len(column), column.type) == (0, arrow)


@pytest.mark.parametrize("span", [5_000, 150_000, 1 << 62])
def test_unsorted_probes_are_more_than_the_keys(span: int) -> None:
    rng = np.random.default_rng(span)
    keys = np.sort(rng.integers(-span, span, 5_000))
    probes = np.concatenate([rng.integers(-span, span, 80_000), keys[::-1]])
    schema = Schema(["k"], [pa.int64()])
    rows = Layout(schema, [0]).rows(Delta(schema, [keys], np.ones(len(keys), np.int64)))
    begin, counts = rows.find(probes)
    first, last = keys.searchsorted(probes), keys.searchsorted(probes, "right")
    assert counts.tolist() == (last - first).tolist()
    assert begin[counts > 0].tolist() == first[counts > 0].tolist()


@pytest.mark.parametrize("keys", [1, 3, 700])
def test_many_probes_of_few_keys(keys: int) -> None:
    schema = Schema(["k", "v"], [pa.int64(), pa.string()])
    arrangement = Arrangement(schema, [0])
    rng = np.random.default_rng(keys)
    held: list[tuple[int, str]] = []
    for size in (4_000, 900, 30):
        k = rng.integers(0, keys, size)
        v = [str(i) for i in rng.integers(0, 50, size).tolist()]
        arrangement.insert(Delta(schema, [k, pa.array(v)], np.ones(size, np.int64)))
        held += zip(k.tolist(), v, strict=True)
    probes = rng.integers(0, keys + 1, 2_500)
    found = arrangement.match([probes], arrangement.key, probes)
    assert found is not None
    at, rows = found
    counted: Counter[tuple[int, int, str]] = Counter()
    for i, key, value, weight in zip(
        at.tolist(),
        rows.keys.tolist(),
        rows.cols[1].to_pylist(),
        rows.weights.tolist(),
        strict=True,
    ):
        counted[i, key, value] += weight
    by_key: dict[int, Counter[str]] = {}
    for key, value in held:
        by_key.setdefault(key, Counter())[value] += 1
    expected = {
        (i, key, value): n
        for i, key in enumerate(probes.tolist())
        for value, n in by_key.get(key, Counter()).items()
    }
    assert counted == expected


@pytest.mark.parametrize("key", [[], [0], [1], [0, 2], [2]])
@pytest.mark.parametrize("size", [20, 400, 5_000])
def test_rows_of_numbers_and_texts_add_up(key: list[int], size: int) -> None:
    """Rows that agree in their numbers and differ in a text stay two rows."""
    schema = Schema(["k", "n", "t", "u"], [pa.int64(), pa.float64(), pa.string(), pa.string()])
    arrangement = Arrangement(schema, key)
    rng = np.random.default_rng(size)
    total: Counter[tuple[object, ...]] = Counter()
    for _ in range(6):
        k, n, t, u = (rng.integers(0, high, size) for high in (8, 3, 4, 2))
        texts = pa.array([None if x == 0 else f"text {x}" for x in t.tolist()])
        others = pa.array([f"other {x}" for x in u.tolist()])
        weights = rng.integers(-1, 2, size)
        delta = Delta(schema, [k, n.astype(np.float64), texts, others], weights)
        for row in delta.to_pylist():
            total[row[:-1]] += row[-1]
        arrangement.insert(delta)
    rows = arrangement.contents().to_pylist()
    assert len(rows) == len({row[:-1] for row in rows})
    assert {row[:-1]: row[-1] for row in rows} == {k: n for k, n in total.items() if n}


def test_texts_of_all_lengths_hash_alike_wherever_they_stand() -> None:
    rng = np.random.default_rng(1)
    lengths = [*range(20), 31, 32, 33, 255, 256, 257, 1_000]
    values = [rng.bytes(n) for n in lengths for _ in range(3)]
    for kind in (pa.binary(), pa.large_binary()):
        array = pa.array([b"before", *values, None, b"behind"], kind)
        hashes = columns.column_type(kind).hash(array)[1:-2].tolist()
        assert len(set(hashes)) == len(set(values))
        for i, value in enumerate(values):
            alone = columns.column_type(kind).hash(pa.array([value], kind))
            assert alone.tolist() == [hashes[i]]
            part = columns.column_type(kind).hash(array[i + 1 : i + 3])
            assert part[0] == hashes[i]
