"""Random recursive queries whose rows carry values of many types along the edges of a graph.

Prices that multiply along a path, paths as lists and as text, the latest of some days … Each ends:
it counts its steps, or never comes to a node of its path again. The query over it counts, sorts,
joins, or takes lists apart. What DuckDB says depends on the rows alone.
"""

# ruff: noqa: E501
from __future__ import annotations

import random
from typing import Final

from oracle.random_values import value

EDGES: Final = {
    "a": "int", "b": "int", "w": "decimal", "x": "double", "s": "text", "day": "date",
    "ok": "bool", "e": "enum", "ts": "zoned", "h": "huge",
}  # fmt: skip
NODES: Final = {"n": "int", "name": "text", "cost": "decimal", "l": "list", "p": "row"}
TABLES: Final = {"e": EDGES, "n": NODES}
_ENUM = "ENUM('x', 'c', 'b', 'a', 'é')"
_ID = "('00000000-0000-0000-8000-00000000000' || coalesce(abs(e.{}), 9))::UUID"

CARRIED: Final[dict[str, tuple[str, list[str], list[str]]]] = {
    "list": (
        "INTEGER[]",
        ["[e.a]", "[e.a, e.b]", "[]"],
        ["list_append(#, e.b)", "# || [e.a]", "list_prepend(e.b, #)", "list_sort(# || [e.b])"],
    ),
    "text": (
        "VARCHAR",
        ["e.s", "concat(e.s, e.a)"],
        ["# || '/' || e.s", "concat(#, e.b)", "upper(#)", "left(# || e.s, 3)", "greatest(#, e.s)"],
    ),
    "money": (
        "DECIMAL(18, 4)",
        ["e.w", "1", "e.w + 1"],
        ["# * e.w", "# + e.w", "least(#, e.w)", "coalesce(# + e.w, e.w)"],
    ),
    "double": ("DOUBLE", ["e.x", "0"], ["# + e.x", "# * 0.5", "greatest(#, e.x)", "# * e.x"]),
    "date": (
        "DATE",
        ["e.day", "DATE '2024-01-01'"],
        ["greatest(#, e.day)", "# + 1", "e.day", "least(#, e.day)"],
    ),
    "flag": ("BOOLEAN", ["e.ok", "true"], ["# AND e.ok", "# OR e.ok", "NOT #", "e.w > 1"]),
    "enum": (_ENUM, ["e.e"], ["e.e", "greatest(#, e.e)", "CASE WHEN # = 'x' THEN e.e ELSE # END"]),
    "zoned": ("TIMESTAMPTZ", ["e.ts"], ["greatest(#, e.ts)", "# + INTERVAL 1 HOUR", "e.ts"]),
    "huge": ("HUGEINT", ["e.h", "1"], ["# + e.h", "# * 2", "greatest(#, e.h)"]),
    "row": (
        "STRUCT(k INTEGER, v VARCHAR)",
        ["{'k': e.a, 'v': e.s}", "{'k': 0, 'v': 'z'}"],
        ["{'k': #.k + 1, 'v': e.s}", "{'k': e.b, 'v': #.v}"],
    ),
    "map": (
        "MAP(VARCHAR, INTEGER)",
        ["MAP {'a': e.a}"],
        ["map_concat(#, MAP {'b': e.b})", "MAP {coalesce(e.s, '-'): e.b}"],
    ),
    "span": (
        "INTERVAL",
        ["INTERVAL 1 HOUR", "to_hours(e.a)"],
        ["# + to_hours(e.b)", "greatest(#, to_hours(e.b))"],
    ),
    "uuid": ("UUID", [_ID.format("a")], ["#", f"greatest(#, {_ID.format('b')})"]),
}
"""Type, values where a path begins, values one edge on; # is the value so far."""

_BY_PAIR = (
    "(SELECT a, b, sum(w) AS w, max(x) AS x, min(s) AS s, max(day) AS day, bool_and(ok) AS ok, "
    "max(e) AS e, min(ts) AS ts, max(h) AS h FROM e GROUP BY a, b)"
)


def rows(rng: random.Random, table: str, count: int) -> str:
    """So many rows for INSERT."""
    made = (", ".join(value(rng, k, 0.12) for k in TABLES[table].values()) for _ in range(count))
    return ", ".join(f"({row})" for row in made)


def query(rng: random.Random) -> str:
    """One of them."""
    carried = [(f"c{i}", k) for i, k in enumerate(rng.choices(list(CARRIED), k=rng.randint(1, 3)))]

    def items(which: int, node: str) -> list[str]:
        found = [node]
        for name, kind in carried:
            text = rng.choice(CARRIED[kind][which]).replace("#", f"r.{name}")
            found.append(f"CAST({text} AS {CARRIED[kind][0]})")
        return found

    names = ["node", *(n for n, _ in carried)]
    anchor, step = items(1, rng.choice(["e.a", "e.b"])), items(2, "e.b")
    if counted := rng.random() < 0.7:
        names, anchor, step = [*names, "d"], [*anchor, "0"], [*step, "r.d + 1"]
        conditions = [f"r.d < {rng.choice([2, 3])}"]
    else:
        names, anchor = [*names, "path"], [*anchor, "[e.a]"]
        step = [*step, "list_append(r.path, e.b)"]
        conditions = ["NOT list_contains(r.path, e.b)"]
    if rng.random() < 0.3:
        conditions.append(
            rng.choice(
                [
                    "e.ok", "e.w > 0.25", "e.b IS NOT NULL", "e.s <> 'b'", "e.b IN (SELECT n FROM n)",
                    "NOT EXISTS (FROM n z WHERE z.n = e.b AND z.cost > 1)",
                ]
            )
        )  # fmt: skip
    source = rng.choice(["e", "e", "e", "(SELECT * FROM e WHERE w IS NOT NULL)", _BY_PAIR])
    where = rng.choice(["", f" WHERE e.a < {rng.randint(1, 4)}", " WHERE e.ok", " WHERE e.a = 0"])
    join = rng.choice(["JOIN"] * 5 + ["LEFT JOIN"]) if counted else "JOIN"
    on = "e.a = r.node" + (" AND (e.w >= 0.5 OR e.s = 'a')" if rng.random() < 0.15 else "")
    more = ""
    if rng.random() < 0.25:
        grouped = "(SELECT n, max(cost) AS cost, list(name ORDER BY name) AS l FROM n GROUP BY n)"
        more = (
            f" {rng.choice(['LEFT JOIN', 'JOIN'])} {rng.choice(['n', grouped + ' n'])} ON n.n = e.b"
        )
    distinct = "DISTINCT " if rng.random() < 0.1 else ""
    return (
        f"WITH RECURSIVE r({', '.join(names)}) AS (SELECT {', '.join(anchor)} FROM {source} e{where} "
        f"{rng.choice(['UNION', 'UNION', 'UNION ALL'])} SELECT {distinct}{', '.join(step)} FROM r "
        f"{join} {rng.choice([source, 'e'])} e ON {on}{more} WHERE {' AND '.join(conditions)}) "
        + rng.choice(_over(rng, names, carried))
    )


def _over(rng: random.Random, names: list[str], carried: list[tuple[str, str]]) -> list[str]:
    """Queries over such a recursion."""
    c, kind = rng.choice(carried)
    every = ", ".join(names)
    grouped = "FROM r GROUP BY node"
    ways = [
        "FROM r",
        f"SELECT DISTINCT node, {c} FROM r",
        f"SELECT node, count(*), count(DISTINCT {c}) {grouped}",
        "SELECT r.*, n.name, n.l FROM r LEFT JOIN n ON n.n = r.node",
        f"SELECT {c}, count(*) FROM r GROUP BY {c}",
        f"SELECT n.n, n.p FROM n WHERE {rng.choice(['', 'NOT '])}EXISTS (FROM r WHERE r.node = n.n "
        f"AND r.{c} IS NOT NULL)",
        f"SELECT node, {c} FROM r EXCEPT SELECT node, {c} FROM r WHERE node > 2",
        "SELECT n.n, (SELECT count(*) FROM r WHERE r.node = n.n) FROM n",
    ]
    if kind != "map":
        ways += [
            f"SELECT node, min({c}), max({c}) {grouped}",
            f"SELECT node, list({c} ORDER BY {c}) {grouped}",
            f"FROM r WHERE {c} = (SELECT max({c}) FROM r)",
            f"SELECT node, {c}, rank() OVER (PARTITION BY node ORDER BY {c}) FROM r",
            f"SELECT node, lag({c}) OVER (PARTITION BY node ORDER BY {c}) FROM r",
            f"SELECT a.node, b.node FROM r a JOIN r b ON a.{c} = b.{c} AND a.node < b.node",
        ]
    if all(k != "map" for _, k in carried):  # maps have no order
        ways += [
            f"FROM r ORDER BY {every} LIMIT 4",
            f"SELECT DISTINCT ON (node) * FROM r ORDER BY node, {c} DESC, {every}",
            f"SELECT node, arg_min(node, ({every})) {grouped}",
            f"SELECT {every} FROM (SELECT *, row_number() OVER (PARTITION BY node "
            f"ORDER BY {c}, {every}) AS i FROM r) WHERE i <= 2",
        ]
    own = {
        "money": ["SELECT node, sum(#), avg(#) FROM r GROUP BY ROLLUP (node)", "SELECT sum(#) FROM r"],
        "double": [f"SELECT node, sum(#), avg(#) {grouped}"],
        "list": [
            "SELECT node, u FROM r, unnest(#) AS q(u)",
            "SELECT u, count(*) FROM (SELECT unnest(#) AS u FROM r) GROUP BY u",
            "SELECT node, #[1], len(#) FROM r",
        ],
        "row": ["SELECT #.k, max(#.v) FROM r GROUP BY 1"],
        "text": [f"SELECT node, string_agg(#, ',' ORDER BY #) {grouped}", "FROM r WHERE # LIKE 'a%'"],
        "flag": [f"SELECT node, bool_and(#), bool_or(#) {grouped}"],
    }  # fmt: skip
    return ways + [text.replace("#", c) for text in own.get(kind, [])] * 3
