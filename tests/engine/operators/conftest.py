"""Random edits on base tables, recomputed by DuckDB after each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidewheel.engine.operators.circuit import Circuit, Node
from tidewheel.engine.operators.operator import Source
from tidewheel.engine.operators.sink import Sink
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.engine.state.python_values import canonical

Row = tuple[Any, ...]
Wire = Callable[[Circuit, list[Node]], Node]


def bag(rows: Sequence[Row]) -> Counter[str]:
    """A multiset of rows, compared as DuckDB compares values; doubles to 12 digits."""
    return Counter(repr(tuple(rounded(canonical(v)) for v in row)) for row in rows)


def rounded(value: Any) -> Any:
    return float(f"{value:.11e}") if isinstance(value, float) else value


class Oracle:
    """A circuit over tables `t0`, `t1` … and the SQL that it must agree with."""

    def __init__(self, schemas: Sequence[Schema], wire: Wire, sql: str) -> None:
        self.schemas = list(schemas)
        self.sql = sql
        self.circuit = Circuit()
        self.sources = [self.circuit.add(Source(s, f"t{i}")) for i, s in enumerate(schemas)]
        self.result = wire(self.circuit, self.sources)
        self.sink = Sink(self.result.op.schema)
        self.circuit.add(self.sink, self.result)
        self.tables: list[Counter[Row]] = [Counter() for _ in schemas]
        self.connection = duckdb.connect()
        self.followed: Counter[str] = Counter()

    def step(self, changes: Sequence[Sequence[Row]]) -> None:
        """One epoch: per table the rows with their weights."""
        for i, rows in enumerate(changes):
            if not rows:
                continue
            for *row, weight in rows:
                self.tables[i][tuple(row)] += weight
            self.circuit.push(self.sources[i], Delta.from_pylist(self.schemas[i], rows))
        self.circuit.run()
        self.circuit.end_epoch()
        assert not self.circuit.pending()
        change = self.sink.taken()
        for *row, weight in change.to_pylist():
            self.followed[repr(tuple(rounded(canonical(v)) for v in row))] += weight

    def rows(self) -> list[Row]:
        return [tuple(r.values()) for r in self.sink.rows().to_pylist()]

    def expected(self) -> list[Row]:
        for i, (schema, table) in enumerate(zip(self.schemas, self.tables, strict=True)):
            data = [row for row, n in table.items() for _ in range(n)]
            assert all(n >= 0 for n in table.values())
            arrays = [pa.array([r[c] for r in data], t) for c, t in enumerate(schema.types)]
            self.connection.register(f"t{i}", pa.Table.from_arrays(arrays, names=schema.names))
        self.connection.execute("SET arrow_lossless_conversion = true")
        table = self.connection.sql(self.sql).to_arrow_table()
        return [tuple(r) for r in zip(*(c.to_pylist() for c in table.columns), strict=True)]

    def check(self) -> None:
        want = bag(self.expected())
        got = bag(self.rows())
        assert got == want, f"missing {want - got}, too many {got - want}"
        assert {k: n for k, n in self.followed.items() if n} == dict(want)


def joined(changes: Sequence[list[list[Row]]]) -> list[list[Row]]:
    """Several epochs' changes as those of one."""
    return [list(chain.from_iterable(part)) for part in zip(*changes, strict=True)]


def random_edits(
    rng: np.random.Generator,
    tables: list[Counter[Row]],
    make: Sequence[Callable[[], Row]],
    size: int,
) -> list[list[Row]]:
    """Some inserts, deletes and updates that keep all multiplicities at or above zero."""
    out: list[list[Row]] = []
    for table, new in zip(tables, make, strict=True):
        change: Counter[Row] = Counter()
        present = [r for r, n in table.items() if n > 0]
        for _ in range(int(rng.integers(0, size + 1))):
            if present and rng.random() < 0.45:
                row = present[int(rng.integers(len(present)))]
                if table[row] + change[row] > 0:
                    change[row] -= 1
            else:
                change[new()] += 1
        out.append([(*row, n) for row, n in change.items() if n])
    return out


@pytest.fixture
def run_oracle() -> Callable[..., None]:
    def run(
        schemas: Sequence[Schema],
        wire: Wire,
        sql: str,
        make: Callable[[np.random.Generator], Sequence[Callable[[], Row]]],
        steps: int = 12,
        seeds: int = 3,
        sizes: Sequence[int] = (1, 3, 12),
    ) -> None:
        """Stepwise = batched = all at once = DuckDB."""
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            stepwise, batched, at_once = (Oracle(schemas, wire, sql) for _ in range(3))
            waiting: list[list[list[Row]]] = []
            everything: list[list[list[Row]]] = []
            stepwise.step([[] for _ in schemas])
            stepwise.check()
            for step in range(steps):
                size = sizes[step % len(sizes)]
                change = random_edits(rng, stepwise.tables, make(rng), size)
                stepwise.step(change)
                stepwise.check()
                waiting.append(change)
                everything.append(change)
                if len(waiting) == 4:
                    batched.step(joined(waiting))
                    waiting = []
                    batched.check()
            at_once.step(joined(everything))
            at_once.check()

    return run
