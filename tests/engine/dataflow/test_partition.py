"""Partitioning functions: every row goes to one worker, equal keys to the same one."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.engine.dataflow.graph import Graph
from tidewheel.engine.dataflow.partition import HashPartition, KeyPartition, stable_hash
from tidewheel.engine.dataflow.runtime import Dataflow
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.progress.timestamp import Timestamp

rows = st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text(max_size=2)))
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def table(made: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.Table.from_pylist([{"a": a, "b": b} for a, b in made], SCHEMA)


@given(rows, st.integers(1, 5), st.sampled_from([("a",), ("b",), ("a", "b")]))
def test_hash_partition(
    made: list[tuple[int | None, str | None]], workers: int, keys: tuple[str, ...]
) -> None:
    parts = HashPartition(keys)(table(made), workers)
    assert len(parts) == workers
    found = [
        (tuple(r[k] for k in keys), w, r) for w, p in enumerate(parts) if p for r in p.to_pylist()
    ]
    assert sorted(map(repr, (r for _, _, r in found))) == sorted(map(repr, table(made).to_pylist()))
    owner: dict[object, int] = {}
    for key, worker, _ in found:
        assert owner.setdefault(key, worker) == worker


def test_equal_values_of_other_types_meet() -> None:
    values = list(range(-50, 50))
    narrow = pa.table({"k": pa.array(values, pa.int8())})
    wide = pa.table({"k": pa.array(values, pa.int64())})
    partition = HashPartition(("k",))
    assert partition.owners(narrow, 7).tolist() == partition.owners(wide, 7).tolist()
    assert len(set(partition.owners(wide, 7).tolist())) == 7, "all workers get some"


def test_partitions_are_equal_when_their_keys_are() -> None:
    assert HashPartition(("a",)) == HashPartition(("a",)) != HashPartition(("b",))


@given(st.lists(st.integers() | st.text() | st.tuples(st.text(), st.none() | st.integers())))
def test_key_partition(items: list[object]) -> None:
    parts = KeyPartition(lambda x: x)(list(items), 3)
    assert sorted(map(repr, (x for p in parts if p for x in p))) == sorted(map(repr, items))
    assert stable_hash(1) == stable_hash(1.0)


def test_stable_hash_is_the_same_in_every_process() -> None:
    code = (
        "from tidewheel.engine.dataflow.partition import stable_hash as h;"
        "print(h('a'), h(('b', 1, None)), h(b'c'))"
    )
    out = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(out) == 1


def test_group_by_over_workers() -> None:
    """Rows of one key meet in one worker, whatever batch and worker they came from."""

    class Count(Vertex):
        def __init__(self) -> None:
            self.rows: list[pa.Table] = []

        def on_recv(self, port: int, batch: pa.Table, time: Timestamp) -> None:
            self.rows.append(batch)
            self.notify_at(time)

        def on_notify(self, time: Timestamp) -> None:
            whole = pa.concat_tables(self.rows)
            self.send_by(0, whole.group_by("a").aggregate([("b", "count")]), time)

    graph = Graph()
    source = graph.input("in", schema=SCHEMA)
    count = graph.stage("count", Count, [source], partition=[HashPartition(("a",))])
    graph.output("out", count)
    with Dataflow(graph, workers=3) as dataflow:
        for start in range(10):
            dataflow.input("in").send(table([((start + n) % 7, "x") for n in range(20)]))
        dataflow.input("in").close()
        out = pa.concat_tables(batch for _, batch in dataflow.output("out"))
    got = sorted((r["a"], r["b_count"]) for r in out.to_pylist())
    want: dict[int, int] = {}
    for start in range(10):
        for n in range(20):
            want[(start + n) % 7] = want.get((start + n) % 7, 0) + 1
    assert got == sorted(want.items())
