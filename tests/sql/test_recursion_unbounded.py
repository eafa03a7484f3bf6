"""UNION over values that nothing bounds runs without SQL, and means what the statements mean."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel

DEPTH = (
    "WITH RECURSIVE t(n, d) AS (SELECT {start}, 0 UNION "
    "SELECT e.b, {value} FROM t JOIN e ON e.a = t.n {where}) SELECT n, d FROM t"
)


def without_sql(con: tidewheel.Connection, query: str) -> bool:
    return "the loop without SQL" in str(con.execute(f"EXPLAIN {query}").fetchall())


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_all_ways_to_the_nodes_of_a_graph(seed: int, nulls: bool) -> None:
    dice = random.Random(seed)
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (a INT, b INT, w INT)")
        for _ in range(dice.choice([10, 60, 300])):  # no cycle: edges go up
            a = dice.randrange(40)
            w = None if nulls and dice.random() < 0.2 else dice.randrange(-3, 4)
            con.execute("INSERT INTO e VALUES (?, ?, ?)", [a, a + dice.randrange(1, 5), w])
        value = dice.choice(["d + 1", "d + e.w", "d - e.w * 2", "e.w - d"])
        where = dice.choice(["", "WHERE d + e.w <> 3", "WHERE e.w > -3 AND d * 2 < 9"])
        query = DEPTH.format(start=dice.randrange(3), value=value, where=where)
        assert without_sql(con, query)
        found = con.execute(query).fetchall()
        assert len(found) == len(set(found))
        con.execute("SET fusion = 'off'")
        assert not without_sql(con, query)
        assert sorted(map(repr, found)) == sorted(map(repr, con.execute(query).fetchall()))


def test_a_long_chain_with_a_counter() -> None:
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e AS SELECT i::INT AS a, i::INT + 1 AS b FROM range(30000) t(i)")
        query = DEPTH.format(start=0, value="d + 1", where="")
        assert con.execute(f"SELECT count(*), max(d) FROM ({query})").fetchall() == [(30001, 30000)]
        con.execute("DELETE FROM e WHERE a > 1000")
        con.execute("INSERT INTO e SELECT a, a + 1 + i FROM e, range(1, 12) t(i) WHERE a > 950")
        (found,) = con.execute(f"SELECT count(*), sum(n * d) FROM ({query})").fetchall()
        with duckdb.connect() as plain:
            plain.register("e", con.execute("FROM e").to_arrow_table())
            wanted = plain.execute(f"SELECT count(*), sum(n * d) FROM ({query})").fetchone()
        assert found == wanted
        assert found[0] > 1500  # some steps have had more than a few rows


def test_what_never_ends_is_told_at_the_bound() -> None:
    with tidewheel.connect() as con:
        query = "WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n + 1 FROM t) SELECT count(*) FROM t"
        with pytest.raises(
            tidewheel.OperationalError, match=r"max_iterations = 100,000: .* 100,002"
        ):
            con.execute(query)
        con.execute("SET on_limit = 'return'; SET max_iterations = 50")
        assert con.execute(query).fetchall() == [(51,)]
        con.execute("RESET on_limit; RESET max_iterations")
        query = "WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n * 5 FROM t) FROM t"
        with pytest.raises(tidewheel.DataError, match="Overflow"):
            con.execute(query)
        query = "WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n * -1 FROM t) FROM t"
        assert sorted(con.execute(query).fetchall()) == [(-1,), (1,)]
