"""Subqueries in what other subqueries are compared with: plans grow with the depth, not faster."""

from __future__ import annotations

import random

import duckdb
import pytest

import tidewheel
from tidewheel.planner.context import Context, Settings
from tidewheel.planner.logical import Node
from tidewheel.planner.rewrites import for_views
from tidewheel.planner.rewrites.children import every
from tidewheel.sql.view_logical import logical_view
from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l VALUES (1, 2), (1, 2), (2, 1), (3, 3), (NULL, NULL), (NULL, 5), (6, NULL)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 3), (3, 2), (4, 1), (2, NULL)",
)
FORMS = {
    "in": "(SELECT max(a) FROM l WHERE {} IN (SELECT c FROM r))",
    "not in": "(SELECT max(a) FROM l WHERE {} NOT IN (SELECT c FROM r))",
    "in as a value": "(({} IN (SELECT d FROM r))::INT + 1)",
    "not in, right": "(SELECT max(a) FROM l WHERE a NOT IN (SELECT c FROM r WHERE d <> {}))",
    "all": "(SELECT max(a) FROM l WHERE {} > ALL (SELECT c FROM r))",
    "any": "(SELECT max(a) FROM l WHERE {} <> ANY (SELECT d FROM r))",
    "all, right": "(SELECT max(a) FROM l WHERE a >= ALL (SELECT c FROM r WHERE d > {}))",
    "all, of the row around": "(({} > ALL (SELECT d FROM r WHERE r.c = l.a))::INT + 1)",
    "rows in": "(SELECT max(a) FROM l WHERE ({}, b) IN (SELECT c, d FROM r))",
    "rows not in": "(SELECT max(a) FROM l WHERE ({}, b) NOT IN (SELECT c, d FROM r))",
    "rows in as a value": "((({}, b) IN (SELECT c, d FROM r))::INT + 1)",
    "between": "(SELECT max(a) FROM l WHERE {} BETWEEN b - 2 AND b)",
    "case": "(CASE {} WHEN 1 THEN 2 WHEN (SELECT max(d) FROM r) THEN 4 ELSE a END)",
}


def _query(form: str, depth: int) -> str:
    value = "a"
    for _ in range(depth):
        value = FORMS[form].format(value)
    return f"SELECT b, {value} AS v FROM l"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("depth", [1, 2])
def test_answers(form: str, depth: int) -> None:
    follow(_query(form, depth), SETUP, random.Random(depth))


@pytest.mark.parametrize("form", FORMS)
def test_plans_grow_with_the_depth(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def counted(node: Node) -> Node:
        pieces.append(_tree(node))
        return node

    monkeypatch.setattr(for_views, "counted_limits", counted)
    with duckdb.connect() as duck, tidewheel.connect() as con:
        for statement in SETUP:
            duck.execute(statement)
            con.execute(statement)
        bound, rewritten = [], []
        for depth in (4, 8):
            plan = logical_view(_query(form, depth), Context(duck, Settings()))
            bound.append(sum(1 for _ in every(plan)))
            pieces.clear()
            con.execute(f"CREATE MATERIALIZED VIEW v{depth} AS {_query(form, depth)}")
            rewritten.append(sum(pieces))
        kept = con.execute("SELECT DISTINCT maintenance FROM tidewheel_views()").fetchall()
    assert kept == [("incremental",)]
    most = 600 if form.startswith("rows") else 200  # (NULLs are looked for column by column)
    for at_4, at_8 in (bound, rewritten):
        assert at_4 <= most
        assert at_8 <= 2 * most


def _tree(node: Node) -> int:
    return 1 + sum(map(_tree, node.children))


MORE = """
SELECT a, (2, 3) IN (SELECT c, d FROM r) AS i FROM l
SELECT a, (2, NULL) NOT IN (SELECT c, d FROM r) AS i, NULL IN (SELECT c FROM r) FROM l
WITH RECURSIVE w(n) AS (SELECT a FROM l UNION SELECT n + 1 FROM w WHERE n < 5) SELECT n, (SELECT max(d) FROM r WHERE d = 3 AND n > 2), (SELECT DISTINCT d FROM r WHERE d = 2 AND n > 2) FROM w
WITH RECURSIVE w(n) AS (SELECT a FROM l UNION SELECT n + 1 FROM w WHERE n < 5) SELECT n FROM w WHERE (SELECT count(*) FROM r WHERE n > 2) > 1
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("query", MORE)
def test_operands_of_no_column_and_rows_of_a_recursion(query: str) -> None:
    follow(query, SETUP, random.Random(len(query)))
