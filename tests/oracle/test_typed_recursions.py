"""Random recursive queries over values of many types, as queries and as views; against DuckDB."""

from __future__ import annotations

import random
from contextlib import suppress

import duckdb
import pytest

import tidewheel
from oracle.counted import NoOracle, answer, bag
from oracle.random_values import TYPES, value
from oracle.typed_recursions import TABLES, query, rows


def _theirs(duck: duckdb.DuckDBPyConnection, text: str) -> list[tuple[object, ...]]:
    """DuckDB's answer. An overflow ends a run."""
    return answer(duck, text, duckdb.OutOfRangeException, duckdb.ConversionException)


def _statement(rng: random.Random) -> str:
    table = rng.choice("een")
    (a, kind), (b, other) = (rng.choice(list(TABLES[table].items())) for _ in range(2))
    return rng.choices(
        [
            f"INSERT INTO {table} VALUES {rows(rng, table, rng.choice([1, 1, 2, 4]))}",
            f"DELETE FROM {table} WHERE {a} = {value(rng, kind, 0)}",
            f"UPDATE {table} SET {a} = {value(rng, kind)} WHERE {b} = {value(rng, other, 0)}",
            f"DELETE FROM {table}",
        ],
        [8, 4, 4, 0.2],
    )[0]


def _run(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    done: list[str] = []
    views: dict[str, str] = {}
    duck = duckdb.connect(config={"threads": 1})
    with tidewheel.connect(threads=rng.choice([1, 2])) as con, suppress(NoOracle):

        def both(text: str) -> None:
            done.append(text)
            duck.execute(text)
            con.execute(text)

        for name, columns in TABLES.items():
            both(
                f"CREATE TABLE {name} ({', '.join(f'{c} {TYPES[k]}' for c, k in columns.items())})"
            )
            if size := rng.choice([0, 3, 6, 10]):
                both(f"INSERT INTO {name} VALUES {rows(rng, name, size)}")
        for i in range(rng.choice([1, 3])):
            text = query(rng)
            wanted = bag(_theirs(duck, text))
            assert bag(con.execute(text).fetchall()) == wanted, (text, done)
            views[f"v{i}"] = text
            done.append(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
            con.execute(done[-1])
        for _ in range(steps):
            made = [_statement(rng) for _ in range(rng.choice([1, 1, 1, 3]))]
            if duck.sql("SELECT count(*) > 14 FROM e").fetchall() == [(True,)]:  # paths get many
                made.append("DELETE FROM e WHERE a IS NULL OR rowid % 2 = 1")
            end = rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            both(made[0] if len(made) == 1 else f"BEGIN; {'; '.join(made)}; {end}")
            for name, text in views.items():
                wanted = bag(_theirs(duck, text))
                found = bag(con.execute(f"FROM {name}").fetchall())
                assert found == wanted, (name, found - wanted, wanted - found, done)


@pytest.mark.parametrize("seed", range(16))
def test_typed_recursions(seed: int) -> None:
    _run(seed, 8)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 3_000))
def test_typed_recursions_long(seed: int) -> None:
    _run(seed, 16)
