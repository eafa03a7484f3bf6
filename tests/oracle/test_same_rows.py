"""Values that are equal and do not look the same: -0.0 and 0.0, a month, 30 days and 720 hours.

Keys meet by equality, rows are told apart by what they look like: a view shows what is stored.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from typing import Any

import pytest

import tidewheel

EXACT = {
    "whole": "FROM t",
    "texts": "SELECT k, x::VARCHAR AS s, i::VARCHAR AS w FROM t",
    "joined": "SELECT a.k, a.j, a.x, b.j AS o, b.x AS y FROM t a JOIN u b ON a.x = b.x",
    "by_time": "SELECT a.k, b.j, b.i::VARCHAR AS w FROM t a JOIN u b ON a.i = b.i",
    "half": "SELECT k, j, x FROM t SEMI JOIN u ON t.x = u.x",
    "rest": "SELECT k, j, x, i FROM t ANTI JOIN u ON t.x = u.x AND t.k = u.k",
    "padded": "SELECT a.k, a.x, b.k AS l, b.x AS y FROM t a FULL JOIN u b "
    "ON a.x = b.x AND a.k = b.k",
    "ranged": "SELECT a.k, a.x, b.k AS l, b.x AS y FROM t a JOIN u b ON a.x >= b.x",
    "together": "SELECT k, x, i FROM t UNION ALL SELECT k, x, i FROM u",
    "nested": "SELECT k, [x] AS l, {'i': i} AS s FROM t",
    "listed": "SELECT k, list(x ORDER BY j) AS l, list({'x': x} ORDER BY j) AS s FROM t GROUP BY k",
    "last": "SELECT k, arg_max(x, j) AS x, arg_min(i, j) AS i FROM t GROUP BY k",
    "taken": "SELECT k, arg_max(x, j::DECIMAL(9, 1)) AS x, arg_min(x::FLOAT, j) FROM t GROUP BY k",
    "before": "SELECT k, j, x, lag(x) OVER (ORDER BY j) AS y, lag(i) OVER (ORDER BY j) AS w FROM t",
    "alike": "SELECT k, j, x, count(*) OVER (PARTITION BY x) AS n FROM t",
    "top": "SELECT k, j, x, i FROM t ORDER BY j DESC LIMIT 4",
    "first": "SELECT k, j, x, i FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY j) = 1",
    "asked": "SELECT k, j, x, (SELECT max(u.k) FROM u WHERE u.x = t.x) AS m FROM t",
    "found": "SELECT k, j, x, i FROM t WHERE i IN (SELECT i FROM u)",
    "apart": "SELECT k, unnest([x, 1.0]) AS x FROM t",
    "sums": "SELECT k, count(*) AS n, sum(x) AS s, count(DISTINCT x) AS d FROM t GROUP BY k",
}
"""Views whose rows are what the query gives, to the letter."""

OPEN = {
    "grouped": "SELECT x, count(*) AS n, sum(k) AS s FROM t GROUP BY x",
    "timed": "SELECT i, count(*) AS n, avg(j) AS m FROM t GROUP BY i",
    "means": "SELECT x, avg(x + k) AS m FROM t GROUP BY x",
    "once": "SELECT DISTINCT x, i FROM t",
    "merged": "SELECT x FROM t UNION SELECT x FROM u",
    "less": "SELECT x FROM t EXCEPT SELECT x FROM u",
    "common": "SELECT i FROM t INTERSECT ALL SELECT i FROM u",
    "least": "SELECT k, min(x) AS x, max(i) AS i FROM t GROUP BY k",
    "reached": "WITH RECURSIVE r(x, n) AS (SELECT x, 0 FROM t UNION "
    "SELECT u.x, n + 1 FROM r JOIN u ON u.x = r.x WHERE n < 2) FROM r",
    "closed": "WITH RECURSIVE r(x) AS (SELECT x FROM t UNION "
    "SELECT u.x FROM r JOIN u ON u.x <= r.x) FROM r",
}
"""Views that show one of several equal values: which one SQL does not say."""

OVER = {"shown": "SELECT x, x::VARCHAR AS s, n FROM grouped"}
"""Views of other views."""

FLOATS = ["0.0", "-0.0", "-0.0", "1.0", "NULL"]
TIMES = ["INTERVAL 30 DAY", "INTERVAL 1 MONTH", "INTERVAL 720 HOUR", "NULL"]


def texts(connection: tidewheel.Connection, query: str) -> Counter[tuple[Any, ...]]:
    return Counter(connection.execute(f"SELECT v::VARCHAR FROM ({query}) AS v").fetchall())


def statement(draw: random.Random, number: int) -> str:
    table, key = draw.choice("tu"), draw.randrange(5)
    action = draw.random()
    if action < 0.5:
        return (
            f"INSERT INTO {table} VALUES ({key}, {number}, "
            f"{draw.choice(FLOATS)}::DOUBLE, {draw.choice(TIMES)})"
        )
    if action < 0.8:
        return f"DELETE FROM {table} WHERE k = {key}"
    return f"UPDATE {table} SET x = -x, i = {draw.choice(TIMES)} WHERE k = {key}"


_MORE = [pytest.param(s, marks=pytest.mark.long) for s in range(3, 8)]


@pytest.mark.filterwarnings("error:the changes of maintained view")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", [*range(3), *_MORE])
def test_views_show_what_is_stored(seed: int, threads: int) -> None:
    draw, numbers = random.Random(seed), count()
    with tidewheel.connect(threads=threads) as con:
        for table in "tu":
            con.execute(f"CREATE TABLE {table} (k INTEGER, j INTEGER, x DOUBLE, i INTERVAL)")
        for _ in range(12):
            con.execute(statement(draw, next(numbers)))
        for name, query in {**EXACT, **OPEN, **OVER}.items():
            con.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        for _ in range(10):
            con.execute("BEGIN")
            for _ in range(draw.choice([1, 1, 2, 5])):
                con.execute(statement(draw, next(numbers)))
            con.execute("COMMIT")
            for name, query in {**EXACT, **OVER}.items():
                assert texts(con, f"FROM {name}") == texts(con, query), name
            for name, query in OPEN.items():
                found, wanted = (
                    Counter(con.execute(q).fetchall()) for q in (f"FROM {name}", query)
                )
                assert found == wanted, name
            for name, column in [("grouped", "x"), ("timed", "i"), ("once", "x"), ("once", "i")]:
                shown = texts(con, f"SELECT DISTINCT {column} FROM {name}")
                assert shown.keys() <= texts(con, f"SELECT {column} FROM t").keys(), name
        con.execute("DELETE FROM t; DELETE FROM u")
        for name in {**EXACT, **OPEN, **OVER}:
            assert con.execute(f"FROM {name}").fetchall() == [], name
