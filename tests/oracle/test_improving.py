"""Every aggregate that may stand in a recursive step, over its types, against a naive loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tidewheel

BETTER: dict[str, Callable[[Any, Any], Any]] = {
    "min": min,
    "max": max,
    "bool_or": lambda a, b: a or b,
    "bool_and": lambda a, b: a and b,
    "bit_or": lambda a, b: a | b,
    "bit_and": lambda a, b: a & b,
}
VALUES: dict[str, Callable[[Any, Any], Any]] = {
    "t.v": lambda v, w: v,
    "e.w": lambda v, w: w,
    "greatest(t.v, e.w)": max,
    "least(t.v, e.w)": min,
    "t.v AND e.w": lambda v, w: v and w,
    "t.v OR e.w": lambda v, w: v or w,
    "t.v + e.w": lambda v, w: v + w,
}
NUMBERS = ["TINYINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "DOUBLE", "DECIMAL(9, 2)"]
CASES = [
    *((t, a, x) for t in NUMBERS for a in ("min", "max") for x in ("t.v", "e.w")),
    *((t, "min", x) for t in NUMBERS for x in ("greatest(t.v, e.w)", "t.v + e.w")),
    *((t, "max", "least(t.v, e.w)") for t in NUMBERS),
    *((t, a, x) for t in NUMBERS[:5] for a in ("bit_or", "bit_and") for x in ("t.v", "e.w")),
    *(("BOOLEAN", a, x) for a in ("bool_or", "bool_and") for x in ("t.v", "e.w")),
    ("BOOLEAN", "bool_or", "t.v AND e.w"),
    ("BOOLEAN", "bool_and", "t.v OR e.w"),
    *(("VARCHAR", a, x) for a in ("min", "max") for x in ("t.v", "e.w")),
]


def naive(
    rows: list[tuple[int, int, Any]], aggregate: str, expression: str, below: int = 9
) -> list[str]:
    best: dict[int, Any] = {}

    def improve(found: dict[int, Any], key: int, value: Any) -> None:
        old = found.get(key)
        if value is None or old is None:
            found[key] = old if value is None else value
        else:
            found[key] = BETTER[aggregate](old, value)

    for a, _, w in rows:
        if a == 0:
            improve(best, a, w)
    while True:
        more = dict(best)
        for a, b, w in rows:
            if a in best:
                v = best[a]
                given = w if expression == "e.w" else v if expression == "t.v" else ...
                value = VALUES[expression](v, w) if given is ... else given
                improve(more, b, value if a < below else None)
        if more == best:
            return shown(best.items())
        best = more


def shown(rows: Any) -> list[str]:
    return sorted(repr((key, value)) for key, value in rows)


@pytest.mark.parametrize(("kind", "aggregate", "expression"), CASES)
def test_an_aggregate_that_improves(kind: str, aggregate: str, expression: str) -> None:
    _compare(kind, aggregate, expression)


@pytest.mark.parametrize(
    ("kind", "aggregate", "expression"),
    [c for c in CASES if c[0] in ("INTEGER", "BOOLEAN", "VARCHAR") and c[2] in ("t.v", "e.w")],
)
def test_one_with_a_filter(kind: str, aggregate: str, expression: str) -> None:
    _compare(kind, aggregate, expression, 3)


def _compare(kind: str, aggregate: str, expression: str, below: int = 9) -> None:
    dice = random.Random(f"{kind} {aggregate} {expression}")
    values: list[Any] = {"BOOLEAN": [True, False], "VARCHAR": ["a", "b", "zz"]}.get(kind, [1, 2, 7])
    if expression in ("t.v", "e.w"):
        values = [*values, None]  # (greatest and least pass NULL over)

    def row() -> list[Any]:
        return [dice.randrange(5), dice.randrange(5), dice.choice(values)]

    chosen = f" FILTER (WHERE e.a < {below})" if below < 9 else ""
    query = (
        f"WITH RECURSIVE t(x, v) AS (SELECT a, {aggregate}(w) FROM e WHERE a = 0 GROUP BY a "
        f"UNION SELECT e.b, {aggregate}({expression}){chosen} "
        "FROM t JOIN e ON e.a = t.x GROUP BY e.b) "
        f"SELECT x, v::{kind} FROM t"
    )
    with tidewheel.connect() as con:
        con.execute(f"CREATE TABLE e (a INT, b INT, w {kind})")
        con.executemany("INSERT INTO e VALUES (?, ?, ?)", [row() for _ in range(9)])
        con.execute(f"CREATE MATERIALIZED VIEW view AS {query}")
        for n in range(4):
            if n % 2:
                con.execute("INSERT INTO e VALUES (?, ?, ?)", row())
            elif n:
                con.execute("DELETE FROM e WHERE a = ?", [dice.randrange(5)])
            wanted = naive(con.execute("FROM e").fetchall(), aggregate, expression, below)
            con.execute("SET fusion = 'on'")
            assert shown(con.execute(query).fetchall()) == wanted
            con.execute("SET fusion = 'off'")
            assert shown(con.execute(query).fetchall()) == wanted
            assert shown(con.execute("FROM view").fetchall()) == wanted
