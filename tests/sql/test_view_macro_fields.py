"""Macros that read fields of what they are given: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import NULLS_AND_SEVERAL, follow, same_columns

SETUP = (
    *NULLS_AND_SEVERAL,
    "CREATE MACRO x_of(s) AS s.x",
    "CREATE MACRO deep(s) AS s.x.y + s.l[1]",
    "CREATE MACRO total(s) AS sum(s.x) - min(s.y)",
    "CREATE MACRO each(s) AS list_transform([1, 2], lambda e: e + s.x)",
)
QUERIES = {
    "of a column": "SELECT c, x_of(s) FROM (SELECT c, {'x': d, 'y': 1} AS s FROM r)",
    "of a value": "SELECT a, x_of({'x': a + b}) FROM l WHERE x_of({'x': b}) < 3",
    "of a row": "SELECT x_of(s), count(*) FROM (SELECT c AS x FROM r) AS s GROUP BY ALL",
    "beside a table of its name": "SELECT x_of(v) FROM (SELECT {'x': a} AS v, b AS x FROM l) AS s",
    "of a field": "SELECT a, deep({'x': {'y': b}, 'l': [a]}) AS z FROM l",
    "aggregates": "SELECT c, total({'x': d, 'y': c}) FROM r GROUP BY c",
    "of an aggregate": "SELECT c, x_of(max({'x': d})) FROM r GROUP BY c",
    "in a lambda": "SELECT a, each({'x': a}) FROM l JOIN r ON b = c",
    "of a subquery": "SELECT a, x_of((SELECT max({'x': d}) FROM r WHERE c = a)) FROM l",
}


@pytest.mark.parametrize("name", QUERIES)
def test_fields(name: str) -> None:
    follow(QUERIES[name], SETUP, random.Random(name))


@pytest.mark.parametrize("name", QUERIES)
def test_columns(name: str) -> None:
    same_columns(QUERIES[name], SETUP)
