"""struct_pack without names, which takes those of its columns: by operators and in views."""

from __future__ import annotations

import random

import pytest

import tidewheel
from two_tables import follow, same_columns

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (4, 1), (NULL, NULL), (NULL, 5), (6, NULL)",
)
QUERIES = """
SELECT struct_pack(a, (b)) AS s FROM l
SELECT struct_pack(l.a, r.d, k := c) AS s FROM l LEFT JOIN r ON a = c
SELECT to_json(struct_pack(a, n)) AS j FROM (SELECT a, count(*) AS n FROM l GROUP BY a)
SELECT a, list(struct_pack(b, a) ORDER BY b) AS rows FROM l GROUP BY a
SELECT a, (SELECT max(struct_pack(l.b, r.d)) FROM r WHERE c = l.a) AS s FROM l
SELECT list_transform([1, 2], lambda x: struct_pack(x, a)) AS s FROM l
""".strip().splitlines()


@pytest.mark.parametrize("query", QUERIES)
def test_names_of_columns(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
    same_columns(query, SETUP)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, struct_pack(A) AS s FROM l GROUP BY a",
        "SELECT a AS z, struct_pack(z, b) AS s FROM l",
    ],
)
def test_names_that_depend_on_where_they_stand(query: str) -> None:
    """The letters of the first are those that are written; without GROUP BY, those of the table."""
    follow(query, SETUP, random.Random(len(query)), incremental=False)
    same_columns(query, SETUP)
    with tidewheel.connect(threads=1) as con:
        con.execute(SETUP[0])
        con.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        (reason,) = con.execute("SELECT reason FROM tidewheel_views()").fetchone() or ()
        assert reason == "struct_pack names a field after an alias, or in other letters"


ODD = (
    'CREATE TABLE l ("First Name" INTEGER, "it\'s ""so""" INTEGER)',
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, NULL), (NULL, NULL), (NULL, 5)",
    'CREATE TABLE r ("true" INTEGER, "(c + 1)" INTEGER)',
    "INSERT INTO r VALUES (2, 3), (2, 3), (3, 2), (NULL, NULL), (NULL, 5)",
)
WHOLE = """
SELECT l FROM l
SELECT to_json(x) AS j, x::VARCHAR AS s, count(*) AS n FROM r x GROUP BY x
SELECT "First Name", to_json(r) AS j, l FROM l LEFT JOIN r ON "First Name" = "true"
SELECT "true", (SELECT max(l) FROM l WHERE "First Name" <= "true") AS m FROM r
""".strip().splitlines()


@pytest.mark.parametrize("query", WHOLE)
def test_rows_of_tables_whose_columns_have_odd_names(query: str) -> None:
    keys = (("l", '"First Name"'), ("r", '"true"'))
    follow(query, ODD, random.Random(len(query)), keys=keys)
    same_columns(query, ODD)


@pytest.mark.parametrize(
    ("query", "incremental"),
    [
        ("SELECT to_json(q) AS j FROM (SELECT a::VARCHAR, list(b) FROM l GROUP BY a) q", False),
        ("UNPIVOT (SELECT a::VARCHAR, len('x' || b)::VARCHAR FROM l) ON COLUMNS(*)", False),
        ('UNPIVOT (SELECT a AS "the a", b FROM l) ON COLUMNS(*)', True),
        ('UNPIVOT (SELECT a, b FROM l) ON a::VARCHAR AS "an a", b::VARCHAR', True),
    ],
)
def test_what_duckdb_calls_an_expression_is_not_guessed(query: str, incremental: bool) -> None:
    """sqlglot writes the name of the first as CAST(a AS TEXT)."""
    follow(query, SETUP, random.Random(1), incremental)
