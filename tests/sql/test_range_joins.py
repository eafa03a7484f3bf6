"""Joins whose only conditions are inequalities: every type, its ends included, against DuckDB."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import tidewheel

TYPES = {
    "TINYINT": ["-128", "127", "0", "1", "5", "9"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807", "0", "7", "9", "-3"],
    "UBIGINT": ["0", "18446744073709551615", "9223372036854775808", "3", "4"],
    "DOUBLE": ["'nan'", "'inf'", "'-inf'", "-0.0", "0.0", "5e-324", "1.5", "-1.5", "1e308"],
    "FLOAT": ["'nan'", "'inf'", "'-inf'", "-0.0", "0", "0.1", "-7.25"],
    "DECIMAL(9,2)": ["-9999999.99", "9999999.99", "0", "0.01", "1.5"],
    "DECIMAL(38,3)": ["-" + "9" * 35, "9" * 35, "0", "0.001", "9223372036854775807.5"],
    "DATE": ["'1970-01-01'", "'2024-02-29'", "'infinity'", "'-infinity'", "'0001-01-01'"],
    "TIMESTAMP": ["'1970-01-01'", "'infinity'", "'-infinity'", "'2024-01-01 12:00:01'"],
    "TIMESTAMPTZ": ["'1970-01-01 00:00+00'", "'infinity'", "'2024-01-01 12:00:01+02'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'", "'12:00:00'"],
    "VARCHAR": ["''", "'a'", "'aaaaaaaaaa'", "'aaaaaaaaab'", "'é'"],
    "BOOLEAN": ["true", "false"],
    "HUGEINT": ["-170141183460469231731687303715884105728", "0", "9223372036854775808"],
    "INTERVAL": ["INTERVAL 1 MONTH", "INTERVAL 30 DAY", "INTERVAL 31 DAY"],
}
QUERIES = {
    "closed": "SELECT a.i, b.i AS j FROM a JOIN b ON a.x BETWEEN b.lo AND b.hi",
    "strict": "SELECT a.i, b.i AS j FROM b LEFT JOIN a ON a.x > b.lo AND b.hi > a.x",
    "low": "SELECT a.i, b.i AS j FROM a FULL JOIN b ON b.lo < a.x",
    "high": "SELECT a.i FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.x <= b.hi)",
}


def same(con: tidewheel.Connection, oracle: Any) -> None:
    for name, query in QUERIES.items():
        got = con.execute(f"FROM {name}").fetchall()
        assert sorted(map(repr, got)) == sorted(map(repr, oracle.execute(query).fetchall())), name


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("filled", [False, True])
def test_every_type(kind: str, filled: bool) -> None:
    rng = random.Random(f"{kind}{filled}")
    values = [*TYPES[kind], "NULL"]
    with tidewheel.connect() as con, duckdb.connect() as oracle:

        def both(statement: str) -> None:
            con.execute(statement)
            oracle.execute(statement)

        def some(table: str, columns: int, count: int) -> str:
            rows = (
                f"({rng.randrange(1000)}, {', '.join(rng.choices(values, k=columns))})"
                for _ in range(count)
            )
            return f"INSERT INTO {table} VALUES {', '.join(rows)}"

        both(f"CREATE TABLE a (i INTEGER, x {kind})")
        both(f"CREATE TABLE b (i INTEGER, lo {kind}, hi {kind})")
        if filled:
            both(some("a", 1, 40))
            both(some("b", 2, 40))
        for name, query in QUERIES.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for _ in range(4):
            for statement in (
                some("a", 1, 9),
                some("b", 2, 9),
                f"DELETE FROM a WHERE i % 7 = {rng.randrange(7)}",
                f"UPDATE b SET lo = hi, hi = lo WHERE i % 7 = {rng.randrange(7)}",
            ):
                both(statement)
            same(con, oracle)
            both(
                f"BEGIN; {some('a', 1, 5)}; {some('b', 2, 5)}; DELETE FROM b WHERE i < 100; COMMIT"
            )
            same(con, oracle)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_ranges_of_all_lengths(threads: int) -> None:
    rng = random.Random(threads)
    until = "b.since + b.days * INTERVAL 1 DAY"
    query = f"SELECT a.i, b.i AS j FROM a JOIN b ON a.t >= b.since AND a.t < {until}"
    with tidewheel.connect(threads=threads) as con, duckdb.connect() as oracle:
        for at in (con, oracle):
            at.execute(
                "CREATE TABLE a AS SELECT i::INTEGER AS i, "
                "DATE '2000-01-01' + (hash(i) % 9000)::INTEGER AS t FROM range(20_000) r(i); "
                "CREATE TABLE b AS SELECT i::INTEGER AS i, "
                "TIMESTAMP '2000-01-01' + (hash(i + 9) % 9000)::INTEGER * INTERVAL 1 DAY AS since, "
                "(2 ** (hash(i + 5) % 12) - 1)::INTEGER AS days FROM range(300) r(i)"
            )
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert con.execute("SELECT reason FROM tidewheel_views()").fetchall() == [(None,)]
        kinds = con.execute("SELECT vertex FROM tidewheel_vertices()").fetchall()
        assert any("arrange ranges" in v for (v,) in kinds)
        for _ in range(6):
            at_ = rng.randrange(20_000)
            for statement in (
                f"DELETE FROM a WHERE i BETWEEN {at_} AND {at_ + rng.choice([0, 5, 2000])}",
                f"UPDATE b SET days = days + {rng.choice([-3, 1, 500])} WHERE i % 50 = {at_ % 50}",
                f"INSERT INTO a VALUES ({at_}, DATE '2010-01-01'), ({at_}, NULL)",
                f"INSERT INTO b VALUES ({at_}, TIMESTAMP '2009-12-01', {rng.randrange(100)})",
            ):
                con.execute(statement)
                oracle.execute(statement)
            got = con.execute("SELECT count(*), sum(i), sum(j), sum(hash(i, j)) FROM v").fetchall()
            assert (
                got
                == oracle.execute(
                    f"SELECT count(*), sum(i), sum(j), sum(hash(i, j)) FROM ({query})"
                ).fetchall()
            )


def test_values_of_subqueries_are_joined_before_pairs_are_made() -> None:
    """Each has one row: whatever it is compared with is filtered first."""
    query = (
        "SELECT sum(x.v - y.v) AS s FROM a x, a y "
        "WHERE x.v > (SELECT max(v) - 3 FROM a) AND y.v > 0.99 * (SELECT max(v) FROM a)"
    )
    with tidewheel.connect() as con:
        con.execute("CREATE TABLE a AS SELECT i::BIGINT AS v FROM range(400) r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        con.execute("INSERT INTO a VALUES (401), (7)")
        assert con.execute("FROM v").fetchall() == con.execute(query).fetchall()
        assert con.execute("SELECT max(rows_out) < 2000 FROM tidewheel_vertices()").fetchall() == [
            (True,)
        ]


MOVING = {
    "above": "SELECT i FROM a WHERE x > (SELECT avg(x) FROM a)",
    "no_less": "SELECT i, x FROM a WHERE x >= (SELECT quantile_disc(x, 0.5) FROM a) AND i % 3 > 0",
    "below": "SELECT i % 7 AS g, count(*) AS n FROM a, (SELECT 2 * min(x) AS m FROM a) "
    "WHERE m > x GROUP BY g",
    "double": "SELECT s.i FROM (FROM a UNION ALL FROM a) s WHERE x <= (SELECT max(x) - 3 FROM a)",
    "shown": "SELECT i, m FROM a, (SELECT avg(x) AS m FROM a) WHERE x < m",
    "twice": "SELECT i FROM a, (SELECT avg(x) AS m FROM a) WHERE x < m AND i < 3 * m",
    "between": "SELECT i FROM a, b WHERE b.lo < a.x",
    "padded": "SELECT i, m FROM a LEFT JOIN (SELECT avg(x) AS m FROM a) ON x > m",
}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bound_that_moves(threads: int) -> None:
    """Only rows between the old and the new one come and go."""
    rng = random.Random(threads)
    with tidewheel.connect(threads=threads) as con, duckdb.connect() as oracle:

        def both(statement: str) -> None:
            con.execute(statement)
            oracle.execute(statement)

        both(
            "CREATE TABLE a AS SELECT i::INTEGER AS i, "
            "(i * 7 % 31)::INTEGER AS x FROM range(90) r(i)"
        )
        both("CREATE TABLE b AS SELECT 15 AS lo")
        for name, query in MOVING.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert con.execute("SELECT DISTINCT reason FROM tidewheel_views()").fetchall() == [(None,)]
        for _ in range(60):
            i, x = rng.randrange(120), rng.choice(["NULL", *range(-40, 60)])
            statement = rng.choice(
                [
                    f"UPDATE a SET x = {x} WHERE i = {i}",
                    f"INSERT INTO a VALUES ({i}, {x})",
                    f"DELETE FROM a WHERE i = {i}",
                    f"UPDATE a SET x = x + {rng.randrange(-9, 9)} WHERE i % 3 = {i % 3}",
                    f"UPDATE b SET lo = {x}",
                    f"INSERT INTO b VALUES ({x})",
                    "DELETE FROM b WHERE lo > 30",
                    f"BEGIN; UPDATE b SET lo = {i}; UPDATE a SET x = 5 WHERE x < {x}; COMMIT",
                ]
            )
            both(statement)
            for name, query in MOVING.items():
                got = sorted(map(repr, con.execute(f"FROM {name}").fetchall()))
                wanted = sorted(map(repr, oracle.execute(query).fetchall()))
                assert got == wanted, (name, statement)


def test_a_bound_that_moves_meets_few_rows() -> None:
    with tidewheel.connect() as con:

        def met() -> int:
            asked = "SELECT rows_out FROM tidewheel_vertices() WHERE vertex LIKE '%cross join'"
            ((rows,),) = con.execute(asked).fetchall()
            return int(rows)

        con.execute("CREATE TABLE a AS SELECT i::INTEGER AS i, i / 7 AS x FROM range(9000) r(i)")
        con.execute(f"CREATE MATERIALIZED VIEW above AS {MOVING['above']}")
        con.execute("UPDATE a SET x = x + 9 WHERE i = 0")
        before = met()
        for i in range(1, 6):
            con.execute(f"UPDATE a SET x = x + 9 WHERE i = {i}")
        assert met() - before < 100
