"""EXISTS of a greater or smaller value is kept by the ends of groups, a LEFT JOIN of lonely rows as
an anti join."""

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


LONELY = {
    "SELECT t.* FROM t LEFT JOIN t u ON u.k = t.k AND u.x > t.x WHERE u.k IS NULL": "max",
    "SELECT t.k, o.s, t.x + o.x AS y FROM t LEFT JOIN o ON o.k = t.k WHERE o.k IS NULL": "anti",
    "SELECT t.k, o.x FROM t LEFT JOIN o ON o.k = t.k AND o.s < t.s WHERE t.x > 1 AND o.s IS NULL": (
        "min"
    ),
    "SELECT t.k FROM t LEFT JOIN o ON o.k = t.k AND o.x <> 1 WHERE o.k IS NULL AND o.d IS NULL": (
        "anti"
    ),
    "SELECT t.k FROM o RIGHT JOIN t ON o.k = t.k WHERE o.k IS NULL": "anti",
    "SELECT count(*), count(o.k) FROM t LEFT JOIN o USING (k) WHERE o.k IS NULL": "anti",
    # a partner may have NULL there
    "SELECT t.k, o.k FROM t LEFT JOIN o ON o.k = t.k WHERE o.x IS NULL": "pad",
    "SELECT t.k FROM t LEFT JOIN o ON o.k IS NOT DISTINCT FROM t.k WHERE o.k IS NULL": "pad",
    "SELECT t.k FROM t LEFT JOIN o ON o.k = t.k AND coalesce(o.x, 1) = t.x WHERE o.x IS NULL": (
        "pad"
    ),
    "SELECT t.k FROM t LEFT JOIN o ON o.k = t.k WHERE o.k IS NULL OR t.x = 1": "pad",
}


@pytest.mark.parametrize("query", LONELY)
def test_rows_without_a_partner(query: str) -> None:
    assert_kept(query, LONELY[query])


@pytest.mark.parametrize("condition", KEPT)
def test_a_greater_or_smaller_value(condition: str) -> None:
    assert_kept(f"SELECT * FROM t WHERE {condition}", KEPT[condition])


def assert_kept(query: str, by: str) -> None:
    rng = random.Random(query)
    with tidewheel.connect() as con, duckdb.connect() as duck:
        for c in (con, duck):
            c.execute("CREATE TABLE t (k INT, x INT, d DOUBLE, s VARCHAR)")
            c.execute("CREATE TABLE o (k BIGINT, x DECIMAL(4, 1), d DOUBLE, s VARCHAR)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        shown = con.execute("EXPLAIN VIEW v").fetchall()[0][1]
        assert f" {by} " in shown, shown
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
