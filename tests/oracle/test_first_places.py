"""First places, `row_number()` and `rank()` up to a number, in an order by values of any type."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pytest

import tidewheel

KINDS = {
    "DECIMAL(38, 2)": "x * 1000000000000000000000000.01",
    "HUGEINT": "x * 9223372036854775807::HUGEINT",
    "UHUGEINT": "abs(x)::UHUGEINT * 18446744073709551615",
    "UBIGINT": "18446744073709551615::UBIGINT - abs(x)::UBIGINT",
    "DOUBLE": "CASE x WHEN 3 THEN 'nan'::DOUBLE WHEN 4 THEN '-inf' ELSE x / 3 END",
    "VARCHAR": "['', 'a name', 'a long name of one', 'a long name of two', 'é'][abs(x) % 5 + 1]",
    "BLOB": "encode(repeat('b', 5 + abs(x)))",
    "UUID": "md5(x::VARCHAR)::UUID",
    "INTERVAL": "to_days(x) + to_hours(x * 20)",
    "TIMESTAMPTZ": "TIMESTAMPTZ '2026-01-01 00:00:00+00' + to_hours(x)",
    "INTEGER[]": "[x % 2, x]",
    "STRUCT(a INTEGER, b VARCHAR)": "{'a': x % 3, 'b': x::VARCHAR}",
}
PLACES = [
    "row_number() OVER (PARTITION BY g ORDER BY {by}, i) <= 2",
    "row_number() OVER (ORDER BY {by}, i) = 1",
    "rank() OVER (PARTITION BY g ORDER BY {by}) <= 2",
    "rank() OVER (ORDER BY {by}) < 4",
]


@pytest.mark.parametrize("kind", KINDS)
def test_any_type(kind: str) -> None:
    rng = random.Random(kind)
    ways = ("", " DESC", " NULLS FIRST", " DESC NULLS FIRST")
    views = [
        f"SELECT * FROM t QUALIFY {place.format(by='v' + rng.choice(ways))}" for place in PLACES
    ]
    with tidewheel.connect() as con, duckdb.connect() as plain:
        for at in (con, plain):
            at.execute(f"CREATE TABLE t (i INTEGER, g INTEGER, v {kind})")
        for n, view in enumerate(views):
            con.execute(f"CREATE MATERIALIZED VIEW v{n} AS {view}")
        kept = "SELECT DISTINCT vertex[-19:] FROM tidewheel_vertices() WHERE kind = 'ordered'"
        assert con.execute(kept).fetchall() == [("first of each group",)]
        for i in range(25):
            x, g = rng.choice(["NULL", *map(str, range(-6, 7))]), rng.randint(0, 3)
            change = rng.choice(
                [
                    f"INSERT INTO t SELECT {i}, {g}, {KINDS[kind]} FROM (SELECT {x}::INT AS x)",
                    f"INSERT INTO t SELECT {i}, {g}, {KINDS[kind]} FROM (SELECT {x}::INT AS x)",
                    f"DELETE FROM t WHERE i % 7 = {g}",
                    f"UPDATE t SET g = {g} WHERE i % 5 = {g}",
                ]
            )
            for at in (con, plain):
                at.execute(change)
            for n, view in enumerate(views):
                found = con.execute(f"FROM v{n}").fetchall()
                assert Counter(map(repr, found)) == Counter(
                    map(repr, plain.execute(view).fetchall())
                ), (change, view)
