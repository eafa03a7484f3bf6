"""EXISTS and NOT EXISTS of a greater or smaller value are kept by the ends of groups."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel

KEPT = {
    "NOT EXISTS (FROM t u WHERE u.k = t.k AND u.x > t.x)": "max",
    "EXISTS (FROM t u WHERE u.k = t.k AND t.x < u.x)": "max",
    "NOT EXISTS (FROM o WHERE o.k = t.k AND o.x <= t.x)": "min",
    "EXISTS (FROM o WHERE t.k IS NOT DISTINCT FROM o.k AND t.x >= o.x)": "min",
    "NOT EXISTS (FROM o WHERE o.x > t.x)": "max",
    "EXISTS (FROM o WHERE o.x < t.x AND o.k > 1)": "min",
    "NOT EXISTS (FROM o WHERE o.k = t.k AND o.d > t.x)": "max",
    "EXISTS (FROM t u WHERE u.k = t.k AND u.d > t.d)": "max",
    "NOT EXISTS (FROM t u WHERE u.k = t.k AND u.s >= t.s)": "max",
    # the greatest value may be of a row that is left out
    "NOT EXISTS (FROM o WHERE o.k = t.k AND o.x > t.x AND o.s <> t.s)": "matched",
}


def row(rng: random.Random) -> str:
    number = rng.choice(["NULL", "1", "2", "3"])
    double = rng.choice(["NULL", "'nan'", "-0.0", "0.0", "1.5", "'infinity'"])
    return f"({rng.choice(['NULL', '1', '2'])}, {number}, {double}, '{rng.choice('19')}')"


@pytest.mark.parametrize("condition", KEPT)
def test_a_greater_or_smaller_value(condition: str) -> None:
    rng = random.Random(condition)
    query = f"SELECT * FROM t WHERE {condition}"
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for c in (con, duck):
            c.execute("CREATE TABLE t (k INT, x INT, d DOUBLE, s VARCHAR)")
            c.execute("CREATE TABLE o (k BIGINT, x DECIMAL(4, 1), d DOUBLE, s VARCHAR)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        shown = con.execute("EXPLAIN VIEW v").fetchall()[0][1]
        assert f" {KEPT[condition]} " in shown, shown
        for _ in range(60):
            table = rng.choice("to")
            change = rng.choice(
                [
                    f"INSERT INTO {table} VALUES {row(rng)}, {row(rng)}",
                    f"DELETE FROM {table} WHERE x = {rng.randint(1, 3)} OR d IS NULL",
                    f"UPDATE {table} SET x = {rng.randint(1, 3)} WHERE k = {rng.randint(1, 2)}",
                ]
            )
            for c in (con, duck):
                c.execute(change)
            found = sorted(map(repr, con.execute("FROM v").fetchall()))
            assert found == sorted(map(repr, duck.execute(query).fetchall())), change
