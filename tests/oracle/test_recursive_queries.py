"""Random queries with WITH RECURSIVE, run once and as views under changes, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel
from oracle.edges import TABLES, change, created, inserted
from oracle.recursive_queries import Queries
from tidewheel.planner import choice, view_choice


def run(seed: int) -> None:
    rng = random.Random(seed)
    query, plain = Queries(rng).query()
    threads = rng.choice([1, 2])
    done: list[str] = []
    with tidewheel.connect(threads=threads) as con, duckdb.connect(config={"threads": 1}) as duck:

        def both(text: str) -> None:
            done.append(text)
            duck.execute(text)
            con.execute(text)

        for name in TABLES:
            both(created(name))
            if rng.random() < 0.95:
                both(inserted(rng, name, rng.randint(2, 7)))
        wanted = Counter(duck.execute(plain).fetchall())
        for fusion in ("on", "off"):
            con.execute(f"SET fusion = '{fusion}'")
            assert Counter(con.execute(query).fetchall()) == wanted, (fusion, query, done)
        width = len(duck.execute(plain).description or ())
        names = ", ".join(f"c{i}" for i in range(width))
        con.execute(f"CREATE MATERIALIZED VIEW v({names}) AS {query}")
        for _ in range(4):
            assert Counter(con.execute("FROM v").fetchall()) == wanted, ("view", query, done)
            both(change(rng))
            wanted = Counter(duck.execute(plain).fetchall())


@pytest.fixture(autouse=True)
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB is not asked first: it would be compared with itself. No operators wait."""
    monkeypatch.setattr(choice, "FIRST", 0)
    monkeypatch.setattr(view_choice, "AT_ONCE", 1e9)


@pytest.mark.parametrize("seed", range(24))
def test_recursive_queries(seed: int) -> None:
    run(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 4_000))
def test_recursive_queries_long(seed: int) -> None:
    run(seed)
