"""Sizes from which other code is taken, small and at random, under long random changes.

DuckDB tells what is right.
Each module that has a copy of a constant (by `from … import`) gets the same value.
"""

from __future__ import annotations

import importlib
import random
from typing import Any, Final

import duckdb
import pytest

from oracle.shape_checks import compare, opened
from oracle.shapes import SCHEMA, SHAPES

SIZES: Final[dict[str, dict[str, list[Any]]]] = {
    "engine.state.spine": {
        "HEAD": [0, 2, 8], "RATIO": [2, 8], "LARGE": [4, 16, 64], "LARGE_RATIO": [0.6, 1.5],
        "_PART": [1, 16, 1000], "_CROWD": [1, 16], "AT_ONCE": [4, 16, 64], "FUEL": [1, 2, 4],
        "CACHED": [2, 50],
    },
    "engine.state.found": {"CACHED": [2, 50]},
    "engine.state.dense": {"LEAST": [2, 8, 32], "_CLOSE": [2, 20], "_FEW": [0, 2]},
    "engine.state.merge": {"SLICE": [4, 16]},
    "engine.state.run": {"_LARGE": [2, 32], "_WORTH": [1, 1000]},
    "engine.state.rowwise": {"FEW": [0, 1, 100]},
    "engine.state.sorting": {"_SOME": [2, 8], "_LARGE": [2, 16], "_CROWD": [1, 8], "_MANY": [2]},
    "engine.state.table_columns": {"MANY": [2, 50], "_SMALL": [1, 8], "_PART": [1, 100]},
    "engine.operators.sink": {"LEAF": [2, 8], "PARTS": [2, 8], "_WORTH": [1, 50]},
    "engine.operators.slots": {"_RATIO": [1, 8]},
    "engine.operators.members": {"_RATIO": [1, 8]},
    "engine.operators.topk": {
        "_WORTH": [0, 8], "_FEW": [0, 4], "_CROWD": [2, 50], "_KNOWN": [1],
        "_SOUGHT": [-1, 1 << 60],
    },
    "engine.operators.first_rows": {"MOST": [2, 10], "_SPARE": [1, 2], "_LEAST": [1, 4]},
    "engine.operators.accumulate_rows": {"WAITING": [1, 20], "KNOWN": [1, 20]},
    "engine.operators.collate": {"_KNOWN": [1, 30]},
    "engine.operators.fixpoint": {"_FIRST": [2], "_AT_ONCE": [4], "_PASS": [0, 1], "_FEWER": [0]},
    "engine.operators.walk": {"FEW": [0, 2], "WIDE": [2, 16], "AT_ONCE": [1], "MANY": [2, 16]},
    "engine.operators.following": {"SMALL": [0, 5], "MANY": [2, 20], "_HEAD": [0], "APART": [1]},
    "engine.operators.shared": {"TIMES": [0, 4], "MANY": [1], "ROW": [1], "FEWER": [0, 2]},
    "planner.view_fill": {"MANY": [1, 10, 100], "SOON": [1, 20, 1 << 60], "_PAIRS": [10]},
    "planner.view_filling": {"GROUPS": [0, 20], "_SCANNED": [0], "_LEFT": [0, 20]},
    "planner.view_answers": {"MANY": [1, 10]},
    "planner.view_heads": {"LEAST": [1, 3], "PART": [0, 1]},
    "planner.view_choice": {"LARGE": [1, 20, 200]},
    "planner.recompute": {"FEW": [-1, 4]},
    "sql.write_behind": {"MOST": [1, 4, 50]},
    "sql.capture": {"_FEW": [0, 4], "_MANY": [2, 50]},
}  # fmt: skip


def _small(patch: pytest.MonkeyPatch, rng: random.Random) -> None:
    share = rng.choice([0.3, 0.6, 1.0])
    for module, names in SIZES.items():
        at = importlib.import_module(f"tidewheel.{module}")
        for name, values in names.items():
            if rng.random() >= share:
                continue
            value, copied = rng.choice(values), getattr(at, name)
            patch.setattr(at, name, value)
            if module == "engine.state.rowwise" or name == "LEAST":  # whoever imports them
                for other in ("state.spine", "operators.topk", "operators.join", "state.key_index"):
                    there = importlib.import_module(f"tidewheel.engine.{other}")
                    if getattr(there, name, None) == copied:
                        patch.setattr(there, name, value)


def _statement(rng: random.Random, keys: int) -> str:
    def number() -> str:
        return "NULL" if rng.random() < 0.05 else str(rng.randrange(keys))

    def rows(*columns: str) -> str:
        count = rng.choice([1, 1, 2, 20, 60])
        kinds = {
            "n": number,
            "k": lambda: str(rng.randrange(keys)),
            "d": lambda: rng.choice(["0.25", "-1024", "3.5", "NULL"]),
            "s": lambda: rng.choice(["'a'", "'b'", "'ab'", "NULL"]),
        }
        return ", ".join(f"({', '.join(kinds[c]() for c in columns)})" for _ in range(count))

    low = rng.randrange(keys)
    some = f"BETWEEN {low} AND {low + rng.choice([0, 0, 3, keys])}"
    upsert = "ON CONFLICT DO UPDATE SET v = excluded.v"
    made = [
        f"INSERT INTO t VALUES {rows('k', 'n', 'n', 'd', 's')}",
        f"INSERT INTO u VALUES {rows('n', 'n', 's')}",
        f"INSERT INTO e VALUES ({low}, {rng.randrange(keys)})",
        f"INSERT INTO p VALUES ({low}, {rng.randrange(keys)}) {upsert}",
        f"INSERT INTO p SELECT i, i % {low + 1} FROM range({low}) r(i) {upsert}",
        f"DELETE FROM {rng.choice(['t WHERE id', 'u WHERE k', 'e WHERE src', 'p WHERE k'])} {some}",
        f"UPDATE t SET {rng.choice(['x', 'g'])} = {number()} WHERE id {some}",
        f"UPDATE u SET w = {number()} WHERE k {some}",
        f"UPDATE e SET dst = {rng.randrange(keys)} WHERE src {some}",
    ]
    return rng.choices(made, [6, 3, 4, 3, 1, 5, 4, 2, 1])[0]


def _run(patch: pytest.MonkeyPatch, seed: int, steps: int) -> None:
    rng = random.Random(seed)
    _small(patch, rng)
    keys = rng.choice([8, 20])
    names = rng.sample([n for n in SHAPES if not n.startswith("table_order")], 8)
    before = [_statement(rng, keys) for _ in range(rng.choice([0, 10]))]
    oracle = duckdb.connect()
    oracle.execute(f"SET disabled_optimizers = 'row_group_pruner'; {SCHEMA}")
    for text in before:
        oracle.execute(text)
    with opened(rng.choice([1, 2]), names, before) as con:
        for _ in range(steps):
            texts = [_statement(rng, keys) for _ in range(rng.choice([1, 1, 1, 4]))]
            end = rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            for text in texts if len(texts) == 1 else ["BEGIN", *texts, end]:
                con.execute(text)
                oracle.execute(text)
            compare(con, oracle, rng.sample(names, rng.choice([0, 0, 1, 3])))
        compare(con, oracle, names)


@pytest.mark.parametrize("seed", range(4))
def test_small_sizes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    _run(monkeypatch, seed, 50)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_small_sizes_at_length(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    _run(monkeypatch, seed, 200)
