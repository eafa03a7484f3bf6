"""Groups whose state may wait until somebody asks, and edits of their tables."""

# ruff: noqa: E501
from __future__ import annotations

import random

SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, o INTEGER, p VARCHAR, q INTEGER, x DECIMAL(8, 2), d DATE, b BIGINT, y BOOLEAN);
CREATE TABLE ord (o INTEGER, c INTEGER)
"""
SHAPES = {
    "twice": "SELECT p, count(*) AS n FROM item GROUP BY p HAVING count(*) > 9",
    "sums": "SELECT o, sum(q) AS s, count(q) AS n, sum(x) AS x, sum(b) AS b FROM item GROUP BY o",
    "several": "SELECT o, p, d, sum(x) AS s FROM item GROUP BY o, p, d HAVING sum(x) > 2",
    "truth": "SELECT q, bool_and(y) AS a, bool_or(y) AS e, count_if(y) AS n FROM item GROUP BY q",
    "filtered": "SELECT o, count(*) FILTER (q > 2) AS n, sum(x) FILTER (p = 'a') AS s FROM item WHERE q < 6 GROUP BY o",
    "computed": "SELECT o % 3 AS m, q + 1 AS r, count(*) AS n FROM item GROUP BY ALL",
    "times": "SELECT d::TIMESTAMP AS t, y, o % 2 AS m, count(*) AS n, sum(q) AS s FROM item GROUP BY ALL",
    "zones": "SELECT d::TIMESTAMP::TIMESTAMPTZ AS z, p = 'a' AS a, sum(x) AS s FROM item GROUP BY ALL HAVING count(*) > 1",
    "none": "SELECT DISTINCT sum(q) AS s FROM item GROUP BY o, p",
    "top": "SELECT o, sum(q) AS s FROM item GROUP BY o ORDER BY s DESC NULLS LAST, o LIMIT 3",
    "top_of_page": "SELECT o, p, sum(x) AS s FROM item GROUP BY o, p HAVING count(*) > 1 ORDER BY s DESC, o, p LIMIT 3 OFFSET 1",
    "ranked": "SELECT o, s, rank() OVER (ORDER BY s DESC) AS r FROM (SELECT o, sum(q) AS s FROM item GROUP BY o)",
    "first": "SELECT * FROM (SELECT o, p, n, row_number() OVER (PARTITION BY p ORDER BY n DESC, o) AS r FROM (SELECT o, p, count(*) AS n FROM item GROUP BY o, p)) WHERE r = 1",
    "median": "SELECT median(s) AS m, max(s) AS h FROM (SELECT o, sum(q) AS s FROM item GROUP BY o)",
    "of_counts": "SELECT n, count(*) AS k FROM (SELECT o, p, count(*) AS n FROM item GROUP BY o, p) GROUP BY n",
    "most": "SELECT max(n) AS m, sum(n) AS s FROM (SELECT p, q, count(*) AS n FROM item GROUP BY p, q)",
    "in": "SELECT o.o, o.c FROM ord o WHERE o.o IN (SELECT o FROM item GROUP BY o HAVING sum(q) > 30)",
    "not_in": "SELECT id FROM item WHERE NOT EXISTS (SELECT 1 FROM (SELECT p, q FROM item GROUP BY p, q HAVING count(*) > 3) g WHERE g.p = item.p AND g.q = item.q)",
    "joined": "SELECT o.c, g.s, g.n FROM ord o JOIN (SELECT o, sum(x) AS s, count(*) AS n FROM item GROUP BY o) g USING (o)",
    "outer": "SELECT o.o, o.c, g.n FROM ord o LEFT JOIN (SELECT o, count(*) AS n FROM item WHERE q > 1 GROUP BY o) g USING (o)",
    "with_itself": "WITH g AS (SELECT o, count(*) AS n FROM item GROUP BY o) SELECT a.o, b.o AS p, a.n FROM g a JOIN g b ON a.n = b.n",
    "compared": "WITH g AS (SELECT o, sum(q) AS s FROM item GROUP BY o) SELECT o, s FROM g WHERE s > (SELECT avg(s) FROM g)",
    "both": "SELECT o, sum(q) AS s FROM item GROUP BY o UNION ALL SELECT q, count(*) FROM item GROUP BY q",
    "above": "SELECT id, q FROM item i WHERE q * 3 > (SELECT sum(q) FROM item j WHERE j.p = i.p AND j.o = i.o)",
    "of_join": "SELECT o.c, i.p, sum(i.x) AS s, count(*) AS n FROM item i JOIN ord o USING (o) GROUP BY o.c, i.p HAVING count(*) > 1",
    "of_view": "SELECT n, count(*) AS k FROM v_twice GROUP BY n",
}  # fmt: skip


def value(rng: random.Random) -> str:
    """All but the number of a row of `item`."""
    found = [
        rng.choice(["NULL", *map(str, range(9))]),
        rng.choice(["NULL", "'a'", "'A'", "'b'", "''", "'a long text that is no short one'"]),
        rng.choice(["NULL", *map(str, range(7))]),
        rng.choice(["NULL", "1.25", "-1.25", "0.01", "999999.99"]),
        rng.choice(["NULL", "DATE '2024-01-02'", "DATE '1960-02-29'", "DATE 'infinity'"]),
        rng.choice(["NULL", "9223372036854775807", "-9223372036854775808", "5"]),
        rng.choice(["NULL", "true", "false"]),
    ]
    return ", ".join(found)


def edit(rng: random.Random, i: int) -> str:
    """Of one row, or of several; some are refused."""
    o, n = rng.randint(0, 9), rng.randint(0, i)
    return rng.choice(
        [
            f"INSERT INTO item VALUES ({i}, {value(rng)})",
            f"INSERT INTO item VALUES ({n}, {value(rng)})",
            f"INSERT INTO item VALUES ({i}, {value(rng)}), ({i + 1}, {value(rng)})",
            f"INSERT INTO item VALUES ({i}, {value(rng)}), ({i}, {value(rng)})",
            f"DELETE FROM item WHERE id = {n}",
            f"DELETE FROM item WHERE id % 11 = {o}",
            f"UPDATE item SET o = {o} WHERE id = {n}",
            f"UPDATE item SET q = {o % 7}, x = -x WHERE id % 13 = {o}",
            f"UPDATE item SET p = 'b' WHERE p = 'A' AND o = {o}",
            f"INSERT INTO ord VALUES ({o}, {n % 4})",
            f"DELETE FROM ord WHERE o = {o}",
        ]
    )
