"""Random queries as views, some over others, while tables change; against DuckDB."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import duckdb
import pytest

import tidewheel
from oracle.counted import NoOracle, answer, bag
from oracle.random_queries import Queries
from oracle.random_values import TABLES, TYPES, Columns, value


class _Pair:
    """The same tables in Tidewheel, with maintained views, and in DuckDB, with plain ones."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.most, sizes = rng.choice([(6, (0, 1, 5, 12)), (6, (0, 1, 5, 12)), (60, (20, 80))])
        self.con = tidewheel.connect(threads=rng.choice([1, 2]))
        self.duck = duckdb.connect(config={"threads": 1})
        self.done: list[str] = []
        self.tables: dict[str, Columns] = dict(TABLES)
        self.views: dict[str, str] = {}
        self._made = 0
        for name, columns in TABLES.items():
            self.both(f"CREATE TABLE {name} ({', '.join(f'{c} {TYPES[k]}' for c, k in columns)})")
            if size := rng.choice(sizes):
                self.both(f"INSERT INTO {name} VALUES {self._rows(name, size)}")

    def both(self, text: str) -> None:
        """The same statements on both sides."""
        self.done.append(text)
        self.duck.execute(text)
        self.con.execute(text)

    def theirs(self, query: str) -> list[tuple[Any, ...]]:
        """DuckDB's answer. A mistake of its own ends a run."""
        return answer(self.duck, query, duckdb.InternalException)

    def _rows(self, table: str, count: int) -> str:
        given = (
            ", ".join(value(self.rng, k, most=self.most) for _, k in TABLES[table])
            for _ in range(count)
        )
        return ", ".join(f"({row})" for row in given)

    def one_shot(self) -> None:
        """A query, text and all, and vertex by vertex."""
        query, _ = Queries(self.rng, 3, self.tables).query()
        wanted = bag(self.theirs(query))
        for fusion in ("off", "on"):
            self.con.execute(f"SET fusion = '{fusion}'")
            assert bag(self.con.execute(query).fetchall()) == wanted, (query, self.done)

    def create(self) -> None:
        """One more view, over tables and views."""
        query, columns = Queries(self.rng, self.rng.choice([2, 3]), self.tables).query()
        typed = ", ".join(f"CAST({c} AS {TYPES[k]}) AS {c}" for c, k in columns)
        query = f"SELECT {typed} FROM ({query})"
        self._made += 1
        name = f"v{self._made}"
        self.done.append(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.duck.execute(f"CREATE VIEW {name} AS {query}")
        self.con.execute(self.done[-1])
        self.views[name], self.tables[name] = query, columns

    def drop(self) -> None:
        """A view that no other reads."""
        name = next(reversed(self.views))
        self.done.append(f"DROP MATERIALIZED VIEW {name}")
        self.con.execute(self.done[-1])
        self.duck.execute(f"DROP VIEW {name}")
        del self.views[name], self.tables[name]

    def change(self) -> None:
        """A statement, or a transaction of three."""
        count = self.rng.choice([1, 1, 1, 3])
        made = [self._statement() for _ in range(count)]
        end = self.rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        self.both(made[0] if count == 1 else f"BEGIN; {'; '.join(made)}; {end}")

    def _statement(self) -> str:
        rng = self.rng
        table = rng.choice(sorted(TABLES))
        (a, kind), (b, other) = rng.choice(TABLES[table]), rng.choice(TABLES[table])
        many = rng.choice([1, 1, 3, 8] if self.most == 6 else [1, 20, 100])
        literal = [value(rng, k, 0, self.most) for k in (kind, other)]
        operator = rng.choice(["=", "=", "<="])
        return rng.choices(
            [
                f"INSERT INTO {table} VALUES {self._rows(table, many)}",
                f"DELETE FROM {table} WHERE {a} {operator} {literal[0]}",
                f"UPDATE {table} SET {a} = {literal[0]} WHERE {b} {operator} {literal[1]}",
                f"UPDATE {table} SET {a} = NULL WHERE {b} = {literal[1]}",
                f"DELETE FROM {table}",
            ],
            [8, 2, 3, 1, 0.2],
        )[0]

    def compare(self) -> None:
        """Every view holds what its query gives."""
        for name, query in self.views.items():
            wanted = bag(self.theirs(query))
            found = bag(self.con.execute(f"FROM {name}").fetchall())
            assert found == wanted, (name, found - wanted, wanted - found, self.done)


def _run(seed: int, steps: int = 10) -> None:
    pair = _Pair(seed)
    with pair.con, suppress(NoOracle):
        pair.one_shot()
        for _ in range(steps):
            if not pair.views or (len(pair.views) < 4 and pair.rng.random() < 0.5):
                pair.create()
            elif len(pair.views) > 2 and pair.rng.random() < 0.15:
                pair.drop()
            pair.change()
            pair.compare()


@pytest.mark.parametrize("seed", range(16))
def test_random_queries(seed: int) -> None:
    _run(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 4_000))
def test_random_queries_long(seed: int) -> None:
    _run(seed, 16)
