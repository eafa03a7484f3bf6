"""A query over `l (a, b)` and `r (c, d)` as a maintained view and by operators, against DuckDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import duckdb

import tidewheel

NULLS_AND_SEVERAL = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (2, 1), (3, 3), (NULL, NULL), (6, NULL), (1, 1)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 4), (2, 3), (3, 2), (4, 1), (NULL, 5), (6, NULL)",
)
"""Tables with NULLs, and several rows of a value."""


def follow(
    query: str,
    setup: Sequence[str],
    rng: random.Random,
    incremental: bool = True,
    keys: Sequence[tuple[str, str]] = (("l", "a"), ("r", "c")),
) -> None:
    """Random changes of both tables, keys that become NULL among them, and both answers."""
    duck = duckdb.connect()
    with tidewheel.connect(threads=1) as con, tidewheel.connect(threads=1, fusion="off") as plain:
        for statement in setup:
            for each in (duck, con, plain):
                each.execute(statement)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        if incremental:
            found = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
            assert found == [("incremental", None)]
        for _ in range(12):
            table, key = rng.choice(keys)
            k, x = rng.randrange(1, 7), rng.randrange(1, 5)
            change = rng.choice(
                (
                    f"INSERT INTO {table} VALUES ({k}, {x})",
                    f"DELETE FROM {table} WHERE {key} = {k}",
                    f"UPDATE {table} SET {key} = {x} WHERE {key} = {k}",
                    f"UPDATE {table} SET {key} = NULL WHERE {key} = {k}",
                )
            )
            for each in (duck, con, plain):
                each.execute(change)
            right = Counter(map(repr, duck.execute(query).fetchall()))
            assert Counter(map(repr, con.execute("FROM v").fetchall())) == right, change
            assert Counter(map(repr, plain.execute(query).fetchall())) == right, change


def same_columns(query: str, setup: Sequence[str]) -> None:
    """Has a maintained view the names and types of columns that DuckDB's view has?"""
    with duckdb.connect() as duck, tidewheel.connect(threads=1) as con:
        for each in (duck, con):
            for statement in setup:
                each.execute(statement)
        duck.execute(f"CREATE VIEW v AS {query}")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("DESCRIBE v").fetchall() == duck.execute("DESCRIBE v").fetchall()
