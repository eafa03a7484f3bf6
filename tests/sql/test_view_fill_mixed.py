"""An arrangement that joins of DuckDB's and of operators read; rows evaluated as they come.

The thresholds are put down, so that few rows take the ways of many.
"""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from tidewheel.engine.operators.tally import Tally
from tidewheel.planner import view_fill

TABLES = """
CREATE TABLE item (k INTEGER, brand VARCHAR, class VARCHAR);
CREATE TABLE sales (i INTEGER, k INTEGER, d INTEGER, x INTEGER);
CREATE TABLE orders (i INTEGER, k INTEGER, d INTEGER, x INTEGER);
CREATE TABLE days (d INTEGER, y INTEGER)
"""
BOTH = """
SELECT brand, class FROM sales JOIN item USING (k) JOIN days USING (d) WHERE y < 3
{op} SELECT brand, class FROM orders JOIN item USING (k) JOIN days USING (d) WHERE y < 3
"""
QUERIES = {
    "intersect": f"""
        WITH shared AS ({BOTH.format(op="INTERSECT")})
        SELECT brand, class, sum(s.x), count(*) FROM sales s JOIN item USING (k) JOIN days USING (d)
        WHERE y = 1 AND s.k IN (SELECT k FROM item JOIN shared USING (brand, class))
        GROUP BY brand, class
    """,
    "except all": f"""
        SELECT brand, count(*) FROM ({BOTH.format(op="EXCEPT ALL")}) GROUP BY brand
        UNION ALL SELECT brand, sum(x) FROM orders JOIN item USING (k) WHERE x < 3 GROUP BY brand
    """,
    "window over sums": """
        WITH v AS (
            SELECT brand, y, sum(x) AS s, avg(sum(x)) OVER (PARTITION BY brand) AS a,
                rank() OVER (PARTITION BY brand ORDER BY y) AS r
            FROM sales JOIN item USING (k) JOIN days USING (d) GROUP BY brand, y)
        SELECT v.*, w.s AS before FROM v JOIN v w ON w.brand = v.brand AND w.r = v.r - 1
    """,
    "window over a union": """
        SELECT k, x, d, sum(x) OVER (PARTITION BY k ORDER BY d, i, x),
            count(*) OVER (PARTITION BY k)
        FROM (SELECT * FROM sales UNION ALL SELECT * FROM orders)
    """,
    "window over rows that come twice": """
        SELECT *, count(*) OVER (PARTITION BY brand) AS n, sum(x) OVER (PARTITION BY class) AS s
        FROM (SELECT brand, class, x % 3 AS x FROM sales JOIN item USING (k))
    """,
    "window over one group": """
        SELECT *, sum(n) OVER (ORDER BY brand) AS r, n * 1.0 / sum(n) OVER () AS share
        FROM (SELECT brand, count(*) AS n FROM sales JOIN item USING (k) GROUP BY brand)
    """,
}


def same(con: tidewheel.Connection, oracle: duckdb.DuckDBPyConnection, query: str) -> None:
    found, wanted = con.execute("FROM v").fetchall(), oracle.execute(query).fetchall()
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


@pytest.mark.parametrize("most", [1, 40])
@pytest.mark.parametrize("name", QUERIES)
def test_all_begin_and_stay_right(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_fill, "MANY", most)
    monkeypatch.setattr(view_fill, "_SMALL", 2)
    query = QUERIES[name]
    rng, keys = random.Random(most), [*range(14), "NULL"]
    with tidewheel.connect() as con, duckdb.connect() as oracle:

        def both(sql: str) -> None:
            con.execute(sql)
            oracle.execute(sql)

        for sql in TABLES.split(";"):
            both(sql)
        for k in range(12):
            both(f"INSERT INTO item VALUES ({k}, 'b{k % 4}', 'c{k % 3}')")
            both(f"INSERT INTO days VALUES ({k}, {k % 4})")

        def rows(table: str, first: int, n: int) -> None:
            values = (
                f"({i}, {rng.choice(keys)}, {rng.randrange(12)}, {rng.randrange(9)})"
                for i in range(first, first + n)
            )
            both(f"INSERT INTO {table} VALUES {', '.join(values)}")

        rows("sales", 0, 60)
        rows("orders", 0, 30)
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        same(con, oracle, query)
        for at in range(5):
            table = rng.choice(["sales", "orders"])
            rows(table, 100 + 10 * at, rng.choice([1, 1, 5]))
            both(f"DELETE FROM {table} WHERE i % 7 = {at % 7} AND i < 60")
            same(con, oracle, query)
            both(f"UPDATE item SET brand = 'b{at % 5}' WHERE k = {at}")
            same(con, oracle, query)
        both("DELETE FROM sales")
        same(con, oracle, query)
        rows("sales", 0, 20)
        same(con, oracle, query)


def test_a_set_operation_over_joins_is_counted_by_a_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though another join, of few rows, reads the same table by the same key, as an operator."""
    monkeypatch.setattr(view_fill, "MANY", 1000)
    counted: list[int] = []
    step = Tally.step

    def noted(op, counters, deltas):  # type: ignore[no-untyped-def]
        if op.arity == 2:
            counted.extend(len(delta) for delta in deltas if delta is not None)
        return step(op, counters, deltas)

    monkeypatch.setattr(Tally, "step", noted)
    with tidewheel.connect() as con:
        for sql in TABLES.split(";"):
            con.execute(sql)
        con.execute(
            "INSERT INTO item SELECT i, 'b' || i % 40, 'c' || i % 3 FROM range(400) AS t(i)"
        )
        con.execute("INSERT INTO days SELECT i, i % 40 FROM range(400) AS t(i)")
        for table in ("sales", "orders"):
            con.execute(
                f"INSERT INTO {table} SELECT i, i % 400, i * 7 % 400, i FROM range(4000) AS t(i)"
            )
        query = QUERIES["intersect"].replace("y < 3", "y < 30")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert not counted
        assert con.execute("VERIFY VIEW v").fetchall() == []
        con.execute("DELETE FROM orders WHERE i < 200")
        assert counted
