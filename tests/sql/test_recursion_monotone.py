"""What the check of recursive steps takes for an aggregate, by DuckDB's own list."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

import tidewheel
from tidewheel.sql.recursion_aggregates import UNKNOWN, aggregates
from tidewheel.sql.recursion_monotone import gives_of_none


def test_the_aggregates_that_sqlglot_does_not_know_are_those_listed() -> None:
    listed = "SELECT lower(function_name) FROM duckdb_functions() WHERE function_type = 'aggregate'"
    names = {row[0] for row in duckdb.sql(listed).fetchall()}
    unknown = set()
    for name in names:
        for given in ("", "x", "x, y", "x, y, z"):
            try:
                call = parse_one(f"SELECT {name}({given})", dialect="duckdb").expressions[0]
            except SqlglotError:
                continue
            assert list(aggregates(call)), name
            if isinstance(call, exp.Anonymous):
                unknown.add(name)
    assert unknown == UNKNOWN


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("SELECT b FROM t JOIN e ON a = x", False),
        ("SELECT b FROM e, t WHERE a = x", False),
        ("SELECT b FROM t LEFT JOIN e ON a = x", False),
        ("SELECT b FROM e LEFT JOIN t ON a = x", True),
        ("SELECT b FROM t RIGHT JOIN e ON a = x", True),
        ("SELECT b FROM e ANTI JOIN t ON a = x", True),
        ("SELECT b FROM e SEMI JOIN t ON a = x", False),
        ("SELECT b FROM (e JOIN t ON a = x)", False),
        ("SELECT b FROM ((t LEFT JOIN e ON a = x) JOIN e f ON f.a = e.a)", False),
        ("SELECT b FROM (t RIGHT JOIN e ON a = x)", True),
        ("SELECT b FROM (e LEFT JOIN t ON a = x)", True),
        ("SELECT b FROM t POSITIONAL JOIN e", True),
        ("SELECT count(*) FROM t", True),
        ("SELECT fsum(x) FROM t", True),
        ("SELECT x, count(*) FROM t GROUP BY x", False),
        ("SELECT b FROM e WHERE NOT EXISTS (FROM t)", True),
        ("SELECT b FROM (SELECT * FROM t) JOIN e ON a = x", False),
        ("SELECT b FROM (SELECT x FROM t UNION ALL SELECT 1) JOIN e ON a = x", True),
        ("SELECT b FROM (SELECT x FROM t INTERSECT SELECT 1)", False),
        ("SELECT x FROM t EXCEPT SELECT 1", False),
        ("SELECT 1 EXCEPT SELECT x FROM t", True),
        ("WITH s AS (FROM t) SELECT b FROM e, s", False),
        ("WITH s AS (SELECT 1) SELECT b FROM e, s", True),
        ("SELECT b FROM e WHERE a > 1 AND EXISTS (FROM t)", False),
        ("SELECT b FROM e WHERE a IN (FROM t)", False),
        ("SELECT x, count(*) FROM t GROUP BY ALL", True),  # if x were a constant
        ("SELECT x, count(*) FROM t GROUP BY ROLLUP (x)", True),
        ("SELECT b FROM other.t", True),
        ("VALUES (1)", True),
    ],
)
def test_steps_over_no_rows(step: str, expected: bool) -> None:
    assert gives_of_none(parse_one(step, dialect="duckdb"), {"t"}) == expected


def test_an_unknown_aggregate_is_not_monotone() -> None:
    with tidewheel.connect() as con:
        sql = (
            "WITH RECURSIVE p(n) AS (SELECT 1 UNION SELECT n + 1 FROM q WHERE n < 3), "
            "q(n) AS (SELECT count_star()::INT FROM p) SELECT * FROM p"
        )
        with pytest.raises(tidewheel.ProgrammingError, match=r"an aggregate \(count_star\)"):
            con.execute(sql)
