"""Two small tables of a few integers, and random changes to them, for programs that go round."""

from __future__ import annotations

import random
from typing import Any

TABLES = {"e": ["a", "b", "w"], "f": ["a", "b"]}
Rows = list[tuple[Any, ...]]


def created(name: str) -> str:
    """The statement that makes one of the tables."""
    return f"CREATE TABLE {name} ({' INT, '.join(TABLES[name])} INT)"


def inserted(rng: random.Random, name: str, count: int) -> str:
    """An INSERT of some rows."""
    rows = (", ".join(_value(rng) for _ in TABLES[name]) for _ in range(count))
    return f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in rows)}"


def change(rng: random.Random) -> str:
    """A statement that changes one of the tables."""
    name = rng.choice(list(TABLES))
    one, other = rng.choice(TABLES[name]), rng.choice(TABLES[name])
    return rng.choice(
        [
            inserted(rng, name, rng.randint(1, 3)),
            inserted(rng, name, 1),
            f"DELETE FROM {name} WHERE {one} = {rng.randrange(5)}",
            f"DELETE FROM {name} WHERE {one} = {rng.randrange(5)} AND {other} < 3",
            f"UPDATE {name} SET {one} = {_value(rng)} WHERE {other} = {rng.randrange(5)}",
        ]
    )


def _value(rng: random.Random) -> str:
    return "NULL" if rng.random() < 0.06 else str(rng.randrange(5))
