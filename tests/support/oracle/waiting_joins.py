"""Joins and filters whose state may wait until somebody asks, and edits of their tables."""

# ruff: noqa: E501
from __future__ import annotations

import random

SCHEMA = """
CREATE TABLE item (id INTEGER, o INTEGER, p VARCHAR, q INTEGER, x DOUBLE, t TIMESTAMPTZ);
CREATE TABLE ord (o INTEGER PRIMARY KEY, c INTEGER, d DATE, note VARCHAR NOT NULL);
CREATE TABLE cust (c INTEGER, n INTEGER, name VARCHAR);
CREATE TABLE nation (n INTEGER, name VARCHAR)
"""
ORD = "o.d < DATE '2024-01-04'"
SHAPES = {
    "filtered": f"SELECT i.id, o.d FROM item i JOIN ord o USING (o) WHERE i.q > 2 AND {ORD}",
    "joined": "SELECT i.id, o.note, c.name FROM item i, ord o, cust c WHERE i.o = o.o AND o.c = c.c AND c.n = 1",
    "chain": f"SELECT n.n, sum(i.q) AS s, count(*) AS k FROM item i, ord o, cust c, nation n WHERE i.o = o.o AND o.c = c.c AND c.n = n.n AND {ORD} GROUP BY n.n",
    "semi": f"SELECT id, x FROM item WHERE o IN (SELECT o FROM ord o WHERE {ORD}) AND q <> 3",
    "anti": "SELECT id, x FROM item i WHERE q < 5 AND NOT EXISTS (FROM ord o WHERE o.o = i.o AND o.c = 1)",
    "outer": "SELECT o.o, c.n, i.id FROM item i LEFT JOIN ord o ON i.o = o.o AND o.c > 0 LEFT JOIN cust c ON c.c = o.c",
    "calculated": "SELECT i.id, o.o FROM item i JOIN ord o ON i.o / 2 = o.c AND i.p || 'x' = o.note",
    "by_day": "SELECT i.id, o.o FROM item i JOIN ord o ON i.t::DATE = o.d",
    "highest": "SELECT o.c, max(i.q) AS h, min(i.x) AS l FROM item i JOIN ord o USING (o) WHERE i.q <> 4 GROUP BY o.c",
    "itself": "SELECT a.id, b.id AS other FROM item a JOIN item b ON a.o = b.q JOIN ord o ON o.o = a.o",
    "pairs": "SELECT a.id, a.x, a.p, b.id AS other, b.x AS y, b.p AS q FROM item a JOIN item b ON a.o = b.q WHERE a.id <> b.id",
    "before": "SELECT a.id, a.q, a.p, a.t, b.id AS was, b.x, b.p AS q FROM item a LEFT JOIN item b ON b.id = a.id - 1 AND b.q < 5",
    "between": "SELECT a.id, a.x, b.id AS b, b.x AS y, c.id AS c, c.x AS z FROM item a, item b, item c WHERE a.o = b.q AND b.id = c.id + 1",
    "named": "SELECT c.c, n.n FROM cust c JOIN nation n ON c.name = n.name",
    "folded": "SELECT i.id, c.c FROM item i JOIN cust c ON i.p = c.name",
    "large": "SELECT o.o, i.id, i.q FROM ord o, item i WHERE o.o = i.o AND o.o IN (SELECT o FROM item GROUP BY o HAVING sum(q) > 80)",
    "others": f"SELECT i.id FROM item i JOIN ord o USING (o) WHERE {ORD} AND i.q > 4 AND EXISTS (FROM item j WHERE j.o = i.o AND j.q <> i.q)",
    "alone": "SELECT i.id FROM item i JOIN ord o USING (o) WHERE o.c = 1 AND NOT EXISTS (FROM item j WHERE j.o = i.o AND j.q > i.q)",
    "exists": "SELECT o.o, o.c FROM ord o WHERE EXISTS (FROM item i WHERE i.o = o.o AND i.q > 2)",
    "none": "SELECT o.o, o.c FROM ord o WHERE NOT EXISTS (FROM item i WHERE i.o = o.o AND i.q < 2)",
    "both": "SELECT o.o, o.c FROM ord o WHERE (o.c, substr(o.note, 1, 1)) IN (SELECT o, p FROM item i)",
    "apart": "SELECT i.id, i.x, o.note, o.c FROM item i JOIN ord o USING (o)",
    "far": "SELECT i.q, count(*) AS n, max(o.d) AS d FROM item i, ord o, cust c WHERE i.o = o.o AND o.c = c.c AND i.p <> c.name GROUP BY i.q",
    "branches": "SELECT i.id, o.c, o.note FROM item i JOIN ord o USING (o) UNION ALL SELECT i.id, l.s, i.p FROM item i JOIN (SELECT c AS o, max(n) AS s FROM cust GROUP BY c HAVING max(n) > 0) l USING (o)",
    "twice": "SELECT a.name AS one, b.name AS other, count(*) AS k FROM item i JOIN nation a ON a.n = i.q JOIN ord o USING (o) JOIN nation b ON b.n = o.c GROUP BY ALL",
    "mean": "SELECT i.id, i.q FROM item i WHERE i.q / 7 > (SELECT avg(q / 7) FROM item WHERE q > 0) AND NOT EXISTS (FROM ord o WHERE o.o = i.o)",
    "above": "SELECT o.c, count(*) AS n FROM ord o JOIN item i USING (o) WHERE i.q * 1.0 >= (SELECT sum(n) / 10 FROM cust) GROUP BY o.c",
    "of_view": "SELECT v.s, o.o FROM v_chain v JOIN ord o ON o.c = v.n JOIN item i ON i.o = o.o",
}  # fmt: skip


def item(rng: random.Random, i: int) -> str:
    """One row of `item`."""
    value = [
        rng.choice(["NULL", "0", "1", "2", "3", "4"]),
        rng.choice(["NULL", "'a'", "'A'", "'b'", "''"]),
        rng.choice(["NULL", *map(str, range(7))]),
        rng.choice(["'nan'", "0.0", "-0.0", "1.5", "NULL"]),
        rng.choice(["NULL", "'2024-01-02 23:30:00+00'", "'2024-01-03 04:00:00+00'"]),
    ]
    return f"({i}, {', '.join(value)})"


def edit(rng: random.Random, i: int) -> str:
    """Mostly of the small tables, as they ask."""
    o, c, n = rng.randint(0, 6), rng.choice(["NULL", "0", "1", "2"]), rng.randint(0, 2)
    day, name = f"DATE '2024-01-0{rng.randint(1, 6)}'", rng.choice(["'ax'", "'x'", "'Ax'"])
    return rng.choice(
        [
            f"INSERT INTO item VALUES {item(rng, i)}, {item(rng, i + 1)}",
            f"DELETE FROM item WHERE id % 11 = {o}",
            f"UPDATE item SET o = {o} WHERE id % 13 = {n}",
            f"INSERT INTO ord VALUES ({o}, {c}, {day}, {name})",
            f"INSERT OR IGNORE INTO ord VALUES ({o}, {c}, {day}, {name}), ({o + 7}, {c}, {day}, 'bx')",
            f"DELETE FROM ord WHERE o = {o}",
            f"UPDATE ord SET c = {c}, d = {day} WHERE o % 3 = {n}",
            f"INSERT INTO ord VALUES ({o}, {c}, {day}, NULL)",
            f"INSERT INTO cust VALUES ({c}, {n}, {rng.choice(['NULL', chr(39) + 'A' + chr(39), chr(39) + 'b' + chr(39)])})",
            f"DELETE FROM cust WHERE c = {o}",
            f"UPDATE cust SET n = {n} WHERE c = 1",
            f"INSERT INTO nation VALUES ({n}, 'a')",
            f"DELETE FROM nation WHERE n = {n}",
        ]
    )
