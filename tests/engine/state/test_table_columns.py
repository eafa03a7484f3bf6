"""Columns of an Arrow table are taken out of it when they are asked for."""

from __future__ import annotations

import decimal
import weakref

import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.sink import LEAF, Sink
from tidewheel.engine.state import table_columns as table_columns_
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.run import Layout
from tidewheel.engine.state.table_columns import OrderedColumns, TableColumns, table_columns
from tidewheel.planner.view_statements import as_delta

TABLE = pa.table(
    {
        "i": pa.chunked_array([[1, None], [3]], pa.int32()),
        "d": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")]),
        "b": [True, None, False],
        "s": ["a", None, "c"],
        "f": [0.5, float("inf"), None],
    }
)


def test_they_are_those_of_the_table() -> None:
    schema = Schema([f"c{i}" for i in range(TABLE.num_columns)], TABLE.schema.types)
    delta = as_delta(TABLE, schema)
    assert isinstance(delta.cols, TableColumns)
    assert len(delta.cols) == len(list(delta.cols)) == TABLE.num_columns
    plain = Delta(schema, list(delta.cols), delta.weights)
    for one in (delta, plain):
        shown = one.to_arrow(weight=None)
        assert shown.column_names == list(schema.names)
        assert shown.to_pydict() == {f"c{i}": c.to_pylist() for i, c in enumerate(TABLE.columns)}
    assert delta.take(np.array([2, 0])).to_pylist() == plain.take(np.array([2, 0])).to_pylist()
    assert [c[:1].tolist() for c in delta.cols[0:1]] == [[1]]
    assert delta.nbytes > TABLE.nbytes


def test_types_are_those_of_the_schema() -> None:
    delta = as_delta(TABLE.select(["i"]), Schema(["x"], [pa.int64()]))
    assert delta.to_arrow(weight=None).schema == pa.schema([("x", pa.int64())])


def test_a_dictionary_is_decoded() -> None:
    table = pa.table({"s": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert table_columns(table, [pa.string()]) is None
    delta = as_delta(table, Schema(["s"], [pa.string()]))
    assert delta.to_arrow(weight=None).to_pydict() == {"s": ["a", "b", "a"]}


def test_the_first_rows_of_a_view_are_shown_as_they_came() -> None:
    n = 2 * LEAF
    table = pa.table({"k": pa.chunked_array([np.arange(n), np.arange(n)]), "s": ["x"] * 2 * n})
    schema = Schema(["k", "s"], table.schema.types)
    sink = Sink(schema)
    sink.step((), [as_delta(table, schema)])
    sink.begin()
    shown = sink.rows()
    assert shown.column("k").chunk(0).buffers()[1] == table.column("k").chunk(0).buffers()[1]
    gone = Delta(schema, [np.array([0, 1]), pa.array(["x", "x"])], np.array([-2, -1]))
    sink.step((), [gone])
    sink.taken()
    assert sorted(sink.rows().column("k").to_pylist()) == [1, *np.arange(2, n).repeat(2)]


def test_many_small_chunks_are_joined() -> None:
    table = pa.table({"k": pa.chunked_array([[i] for i in range(100)], pa.int64())})
    shown = as_delta(table, Schema(["k"], [pa.int64()])).to_arrow(weight=None)
    assert shown.column("k").num_chunks == 1


@pytest.mark.parametrize("many", [1, 3, 100])
def test_rows_are_put_in_order_when_they_are_asked_for(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_columns_, "MANY", many)
    n = 40
    table = pa.table(
        {
            "k": pa.chunked_array([np.arange(n)[::-1], np.arange(n)]),
            "s": [f"text {i}" for i in range(2 * n)],
            "d": [decimal.Decimal(i) / 4 if i % 7 else None for i in range(2 * n)],
        }
    )
    delta = as_delta(table, Schema(["k", "s", "d"], table.schema.types))
    plain = Delta(delta.schema, list(as_delta(table, delta.schema).cols), delta.weights)
    layout = Layout(delta.schema, [0])
    order = np.random.default_rng(many).permutation(2 * n)
    some = np.array([5, 0, 2 * n - 1, 5])
    rows, same = layout.rows(delta).take(order), layout.rows(plain).take(order)
    assert isinstance(rows.cols, OrderedColumns) == (many <= 2 * n)
    assert rows.take(some).delta().to_pylist() == same.take(some).delta().to_pylist()
    assert rows.slice(3, 9).delta().to_pylist() == same.slice(3, 9).delta().to_pylist()
    assert rows.nbytes > 0
    again = rows.take(order[: n + 1])
    assert list(again.cols[0]) == list(same.cols[0][order[: n + 1]])
    assert again.delta().to_pylist() == same.take(order[: n + 1]).delta().to_pylist()
    assert [len(c) for c in rows.cols[1:]] == [2 * n, 2 * n]
    assert rows.take(some).delta().to_pylist() == same.take(some).delta().to_pylist()


@pytest.mark.parametrize("made", [False, True])
def test_a_run_moves_its_key_alone(made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_columns_, "MANY", 1000)
    n = 20_000
    keys = np.random.default_rng(1).permutation(n)
    table = pa.table({"k": keys, "s": [f"text {k}" for k in keys], "t": ["x"] * n})
    arrangement = Arrangement(Schema(["k", "s", "t"], table.schema.types), [0])
    delta = as_delta(table, arrangement.schema)
    if made:  # by an operator, not of a table
        delta = Delta(delta.schema, list(delta.cols), delta.weights)
    arrangement.post(delta)
    found = arrangement.fetch(np.array([3, n - 1]))
    assert found is not None
    assert sorted(found.delta().to_pylist()) == [
        (3, "text 3", "x", 1),
        (n - 1, f"text {n - 1}", "x", 1),
    ]
    (run,) = arrangement.spine.runs()
    assert isinstance(run.cols, OrderedColumns)
    assert run.nbytes < table.nbytes + 5 * 8 * n
    assert arrangement.contents().to_arrow().sort_by("k").column("s").to_pylist() == [
        f"text {i}" for i in range(n)
    ]


def test_what_is_in_order_is_not_kept_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_columns_, "MANY", 1000)
    n = 20_000
    texts = [f"text {i}" for i in range(n)]
    halves = [texts[: n // 2], texts[n // 2 :]]
    table = pa.table({"k": np.arange(n), "s": pa.chunked_array(halves)})
    places = np.arange(n)[::-1].copy()
    cols = TableColumns(table)
    rows = cols.take(places)
    assert isinstance(rows, OrderedColumns)
    kept = weakref.ref(places)
    del places
    assert rows[-1][0].as_py() == texts[-1]
    assert cols.table.column("s").num_chunks == 1
    assert kept() is not None
    assert rows.nbytes > table.nbytes + 8 * n
    assert rows[0][0] == n - 1
    assert kept() is None
    assert rows.nbytes < table.nbytes + n
    assert [c[:2].tolist() for c in map(np.asarray, rows)] == [[n - 1, n - 2], texts[:-3:-1]]
    assert isinstance(rows.take(np.arange(n)), list)
    with pytest.raises(IndexError):
        rows[2]


def test_few_of_many_rows_do_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_columns_, "MANY", 1000)
    n = 10_000
    cols = TableColumns(pa.table({"k": np.arange(n), "s": ["x"] * n}))
    order = np.arange(n)[::-1]
    assert isinstance(cols.take(order[:2000]), list)
    rows = cols.take(order)
    assert isinstance(rows, OrderedColumns)
    assert isinstance(rows.take(np.arange(n - 2000)), OrderedColumns)
    some = rows.take(np.arange(2000))
    assert isinstance(some, list)
    assert some[0].tolist() == order[:2000].tolist()
