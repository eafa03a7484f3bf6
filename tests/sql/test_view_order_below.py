"""A LIMIT over a subquery with an ORDER BY by columns that are not handed on."""

from __future__ import annotations

import random

import pytest

import tidewheel

SHAPES = [
    "SELECT id FROM (SELECT id, g FROM w ORDER BY g, id) WHERE id > 1 LIMIT 2 OFFSET 1",
    "SELECT i FROM (SELECT id + 0 AS i, h FROM (SELECT id, g, h FROM w ORDER BY h DESC, id)) "
    "WHERE i > 2 LIMIT 3",
    "SELECT i FROM (SELECT id * 2 AS i FROM (FROM w ORDER BY h DESC NULLS LAST, g, id) "
    "WHERE h IS NOT NULL) WHERE i > 2 LIMIT 3",
    "SELECT id, h FROM (SELECT * FROM w ORDER BY g || h, id) WHERE g < 'c' LIMIT 4",
    "SELECT count(*), sum(id) FROM (SELECT id FROM (SELECT id, g FROM w ORDER BY g, id) "
    "WHERE id > 1 LIMIT 3)",
]


@pytest.mark.parametrize("query", SHAPES)
def test_as_duckdb_has_it(query: str) -> None:
    dice = random.Random(query)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE w (id INTEGER, g VARCHAR, h INTEGER)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for i in range(40):
            if dice.random() < 0.7:
                row = [i, dice.choice("abcd"), dice.choice([None, 1, 2, 3])]
                con.execute("INSERT INTO w VALUES (?, ?, ?)", row)
            else:
                con.execute("DELETE FROM w WHERE id = ?", [dice.randrange(i + 1)])
            found = sorted(con.execute("FROM v").fetchall(), key=repr)
            assert found == sorted(con.execute(query).fetchall(), key=repr)
        assert "recompute" not in str(con.execute("EXPLAIN VIEW v").fetchall())
