"""Random edits of a table with a column `x` of some type, and views over it, against DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb

import tidewheel

Rows = list[tuple[Any, ...]]
OTHERS = ("1", "2.5", "7", "NULL", "-0.1", "1e-3")
"""What `y`, a DOUBLE, may be."""


class Edits:
    """Statements that change `t (i, k, h, x, y)`: `values` are those of x, and NULL."""

    def __init__(
        self, rng: random.Random, values: Sequence[str], others: Sequence[str] = OTHERS
    ) -> None:
        self.rng = rng
        self._values = [*values, "NULL"]
        self._others = others
        self._next = 0

    def some(self, n: int) -> str:
        """An INSERT of n rows, some of them twice."""
        rng, found = self.rng, []
        for _ in range(n):
            k, h = rng.choice(["NULL", "1", "2", "3"]), rng.choice(["NULL", "'x'", "'y'", "'z'"])
            x, y = rng.choice(self._values), rng.choice(self._others)
            found += [f"({self._next}, {k}, {h}, {x}, {y})"] * rng.choice([1, 1, 1, 2])
            self._next += 1
        return f"INSERT INTO t VALUES {', '.join(found)}"

    def one(self) -> str:
        """Any statement."""
        rng = self.rng
        mod = rng.randrange(2, 9)
        where = f"WHERE i % {mod} = {rng.randrange(mod)}"
        return rng.choice(
            [
                self.some(rng.choice([1, 2, 9])),
                f"DELETE FROM t {where}",
                f"UPDATE t SET x = {rng.choice(self._values)} {where}",
                f"UPDATE t SET k = k % 3 + 1, y = y + 0.1 {where}",
                f"DELETE FROM t WHERE x = (SELECT {rng.choice(['max', 'min'])}(x) FROM t)",
                f"DELETE FROM t WHERE k = {rng.choice('123')}",
            ]
        )


def check(
    edits: Edits,
    kind: str,
    queries: Mapping[str, str],
    same: Callable[[Rows, Rows], bool],
    start: int,
    turns: int,
    threads: int = 1,
    kept: bool = True,
) -> None:
    """Transactions; all views after each. All are `kept` by operators, or one is not."""
    rng = edits.rng
    with tidewheel.connect(threads=threads) as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute(f"CREATE TABLE t (i INTEGER, k INTEGER, h VARCHAR, x {kind}, y DOUBLE)")
        if start:
            statement = edits.some(start)
            con.execute(statement)
            oracle.execute(statement)
        for name, query in queries.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name}_ AS {query}")
        for _ in range(turns):
            batch = [edits.one() for _ in range(rng.choice([1, 1, 3]))]
            for statement in batch if len(batch) == 1 else ["BEGIN", *batch, "COMMIT"]:
                con.execute(statement)
                oracle.execute(statement)
            for name, query in queries.items():
                got = con.execute(f"FROM {name}_").fetchall()
                wanted = oracle.execute(query).fetchall()
                assert same(got, wanted), (name, batch, got, wanted)
        reasons = con.execute("SELECT reason FROM tidewheel_views()").fetchall()
        assert kept == all(reason is None for (reason,) in reasons), reasons
