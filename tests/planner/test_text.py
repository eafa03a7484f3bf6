"""What is written without a copy of the tree is what sqlglot writes of a copy."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from tidewheel.planner import text
from tidewheel.planner.dialect import Tidewheel

CORPUS = Path(__file__).with_name("corpus.sql")
QUERIES = [line for line in CORPUS.read_text().splitlines() if line and not line.startswith("--")]
MORE = [
    "SELECT CASE WHEN NOT a = -1 THEN 'it''s' WHEN b IS NOT NULL THEN \"x y\" ELSE t.c END FROM t",
    "SELECT CAST(a AS TIME(3)), CAST(a AS DECIMAL(15, 2)), a::INTEGER[][3], a::MAP(TEXT, DATE)",
    'SELECT CAST(a AS STRUCT("x y" INTEGER, z TEXT)), CAST(a AS "my type"), a::my_type',
    "SELECT d + INTERVAL '1' YEAR - INTERVAL (n) DAY, a BETWEEN SYMMETRIC 1 AND 2, count(*)",
    'SELECT DATE \'2020-01-01\' <> d AND (a < 1 OR a >= .5) AND (b IS TRUE) AS c, "a""b" * (1 - c)',
]


@pytest.mark.parametrize("query", [*QUERIES, *MORE])
def test_expressions(query: str) -> None:
    try:
        tree = sqlglot.parse_one(query, read=Tidewheel)
    except sqlglot.errors.ParseError:
        pytest.skip("sqlglot does not parse it")
    for node in tree.walk():
        before = node.copy()
        written = before.sql(dialect=Tidewheel, comments=False)
        assert text.to_sql(node) == written
        assert node == before
        if isinstance(node, exp.Query) and node is not tree:
            assert text.to_sql(node) == written  # again
