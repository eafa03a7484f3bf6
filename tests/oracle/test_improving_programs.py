"""Random recursions that keep the best value of each key, with several references and tables.

The oracle evaluates the very texts of anchors and steps in plain DuckDB, over all rows and again
and again, until nothing gets better.
"""

from __future__ import annotations

import random
import re
from typing import Any

import duckdb
import pytest

import tidewheel

ANCHORS = {
    "t": [
        "SELECT a, b, w FROM e",
        "SELECT a, b, {best}(w) FROM e GROUP BY a, b",
        "SELECT a, b, w FROM e WHERE a < 3",
    ],
    "u": ["SELECT a, w FROM e WHERE a < 2", "SELECT 0, 5", "SELECT a, {best}(w) FROM e GROUP BY a"],
    "s": ["SELECT 0", "SELECT a FROM e WHERE w = 1"],
}
STEPS = {
    "t": [
        "SELECT p.x, q.y, {best}({both}) FROM t p JOIN t q ON p.y = q.x GROUP BY p.x, q.y",
        "SELECT p.x, q.y, {both} FROM t p JOIN t q ON p.y = q.x",
        "SELECT p.x, r.y, {best}({three}) FROM t p, t q, t r "
        "WHERE p.y = q.x AND q.y = r.x GROUP BY ALL",
        "SELECT p.x, e.b, {best}({edge}) FROM t p JOIN e ON e.a = p.y GROUP BY p.x, e.b",
        "SELECT k, y, {best}(v) FROM (SELECT e.a AS k, p.y, {edge} AS v FROM e JOIN t p "
        "ON p.x = e.b) GROUP BY k, y",
        "SELECT p.y, p.x, p.v FROM t p WHERE p.v {good} 6",
        "SELECT p.x, e.b, {best}({edge}) FROM t p JOIN e ON e.a = p.y GROUP BY p.x, e.b "
        "HAVING {best}({edge}) {good} 7",
        "SELECT p.x, q.y, {best}({both}) AS found FROM t p JOIN t q ON p.y = q.x GROUP BY ALL "
        "HAVING found {good} 6 OR p.x = 1",
        "SELECT p.x, q.y, {best}({both}) FROM t p JOIN t q ON p.y = q.x "
        "WHERE EXISTS (SELECT 1 FROM t o WHERE o.x = q.y AND o.v {good} 4) GROUP BY p.x, q.y",
    ],
    "u": [
        "SELECT e.b, {best}({edge}) FROM u p JOIN e ON e.a = p.x GROUP BY e.b",
        "SELECT p.x, p.v FROM u p JOIN u q ON q.x = p.x + 1 AND q.v {good} 5",
        "SELECT e.b, {best}(CASE WHEN e.w < 4 THEN {edge} ELSE p.v END) FROM u p "
        "JOIN e ON e.a = p.x GROUP BY e.b",
        "SELECT e.b, {best}(CASE e.w WHEN 1 THEN 5 WHEN 2 THEN {edge} END) FROM u p "
        "JOIN e ON e.a = p.x WHERE p.v IS NOT NULL GROUP BY e.b",
        "SELECT q.x, {best}({both}) FROM u p JOIN u q ON p.x < q.x GROUP BY q.x",
    ],
    "s": [
        "SELECT e.b FROM s JOIN e ON e.a = s.x AND e.w < 4",
        "SELECT e.b FROM s JOIN e ON e.a = s.x GROUP BY e.b HAVING count(*) >= 2",
    ],
    "tu": [
        "SELECT p.x, q.y, {best}({both}) FROM u p JOIN t q ON p.x = q.x GROUP BY p.x, q.y",
    ],
    "ut": [
        "SELECT p.y, {best}({edge}) FROM t p JOIN e ON e.a = p.x GROUP BY p.y",
        "SELECT p.y, {best}({both}) FROM t p JOIN u q ON q.x = p.x GROUP BY p.y",
        "SELECT p.x, p.v FROM t p WHERE p.v {good} 5",
        "SELECT q.y, {best}({three}) FROM t p JOIN u r ON r.x = p.x JOIN t q ON q.x = p.y "
        "GROUP BY q.y",
    ],
    "ts": [
        "SELECT p.x, e.b, {best}({edge}) FROM t p JOIN e ON e.a = p.y JOIN s ON s.x = e.b "
        "GROUP BY p.x, e.b",
    ],
    "us": ["SELECT s.x, {best}(e.w) FROM s JOIN e ON e.b = s.x GROUP BY s.x"],
    "st": [
        "SELECT p.y FROM t p WHERE p.v {good} 4",
        "SELECT p.y FROM t p JOIN s ON s.x = p.x GROUP BY p.y HAVING count(*) >= 2",
    ],
    "su": ["SELECT p.x FROM u p WHERE p.v {good} 5"],
}
COLUMNS = {"t": "x, y, v", "u": "x, v", "s": "x"}
KEYS = {"t": "x, y", "u": "x", "s": "x"}


class Program:
    """Anchors and steps of some tables, as text."""

    def __init__(self, dice: random.Random) -> None:
        self.best = dice.choice(["min", "min", "max"])
        adds = self.best == "min" and dice.random() < 0.6
        rise = "greatest" if self.best == "min" else "least"
        forms = {
            "best": self.best,
            "good": dice.choice(["<", "<="] if self.best == "min" else [">", ">="]),
            "both": "p.v + q.v" if adds else f"{rise}(p.v, q.v)",
            "three": "p.v + q.v + r.v" if adds else f"{rise}(p.v, q.v, r.v)",
            "edge": "p.v + e.w" if adds else f"{rise}(p.v, e.w)",
        }
        while True:
            names = dice.choice(["t", "t", "u", "tu", "tu", "ts", "us", "tus"])
            self.tables = {name: self._table(dice, name, names, forms) for name in names}
            if all(self._is_recursive(name) for name in names):
                break

    def _table(
        self, dice: random.Random, name: str, names: str, forms: dict[str, str]
    ) -> tuple[str, list[str]]:
        others = STEPS.get(name + names[0], [])
        alone = [s for s in others if "{best}(" in s and not re.search(rf"(FROM|JOIN) {name}\b", s)]
        if alone and name != names[0] and dice.random() < 0.3:  # neither anchor nor UNION
            return dice.choice(alone).format(**forms), []
        possible = [*STEPS[name]]
        for other in names:
            possible += STEPS.get(name + other, []) * 2
        steps = dice.sample(possible, dice.randint(1, min(3, len(possible))))
        if name != "s" and not any("{best}(" in s for s in steps):
            steps.append(STEPS[name][0])  # (a table without a grouped step keeps all values)
        return dice.choice(ANCHORS[name]).format(**forms), [s.format(**forms) for s in steps]

    def _is_recursive(self, name: str) -> bool:
        """Else its UNION is of two sets of rows."""
        seen: set[str] = set()
        todo = {name}
        while todo:
            steps = " ".join(s for n in todo for s in (self.tables[n][0], *self.tables[n][1]))
            todo = {n for n in self.tables if re.search(rf"(FROM|JOIN|,) {n}\b", steps)} - seen
            seen |= todo
        return name in seen

    def query(self) -> str:
        """All rows of all tables."""
        tables = ",\n".join(
            f"{n}({COLUMNS[n]}) AS (" + "\nUNION ".join([anchor, *steps]) + ")"
            for n, (anchor, steps) in self.tables.items()
        )
        rows = " UNION ALL ".join(
            f"SELECT '{n}' AS name, x, {'y' if n == 't' else '0'} AS y, "
            f"{'0' if n == 's' else 'v'} AS v FROM {n}"
            for n in self.tables
        )
        return f"WITH RECURSIVE {tables}\n{rows}"

    def naive(self, edges: list[tuple[Any, ...]]) -> list[str]:
        """The same by evaluating everything until nothing changes."""
        with duckdb.connect() as con:
            con.execute("CREATE TABLE e (a INT, b INT, w INT)")
            if edges:
                con.executemany("INSERT INTO e VALUES (?, ?, ?)", edges)
            for n in self.tables:
                types = ", ".join(f"{c} INT" for c in COLUMNS[n].split(", "))
                con.execute(f"CREATE TABLE {n} ({types})")
            before: list[Any] = []
            while True:
                now = []
                for n, (anchor, steps) in self.tables.items():
                    every = " UNION ALL ".join(
                        f"(FROM ({q}) r({COLUMNS[n]}))" for q in [anchor, *steps]
                    )
                    value = "" if n == "s" else f", {self.best}(v)"
                    rows = f"SELECT {KEYS[n]}{value} FROM ({every}) GROUP BY {KEYS[n]} ORDER BY ALL"
                    now.append((n, con.execute(rows).fetchall()))
                if now == before:
                    break
                before = now
                for n, rows in now:
                    con.execute(f"DELETE FROM {n}")
                    if rows:
                        marks = ", ".join("?" * len(rows[0]))
                        con.executemany(f"INSERT INTO {n} VALUES ({marks})", rows)
        found = []
        for n, rows in now:
            for row in rows:
                found.append((n, row[0], row[1] if n == "t" else 0, 0 if n == "s" else row[-1]))
        return sorted(map(repr, found))


@pytest.mark.parametrize("seed", range(20))
def test_programs_that_keep_the_best(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 600))
def test_programs_that_keep_the_best_long(seed: int) -> None:
    check(seed)


def check(seed: int) -> None:
    dice = random.Random(seed)
    program = Program(dice)
    query = program.query()

    def row() -> tuple[int, int, int]:
        return dice.randrange(6), dice.randrange(6), dice.randrange(1, 7)

    with tidewheel.connect() as con:
        con.execute("CREATE TABLE e (a INT, b INT, w INT)")
        con.executemany(
            "INSERT INTO e VALUES (?, ?, ?)", [row() for _ in range(dice.randrange(12))] + [row()]
        )
        con.execute(f"CREATE MATERIALIZED VIEW view AS {query}")
        found = con.execute("SELECT maintenance, reason FROM tidewheel_views()").fetchall()
        for n in range(5):
            if n % 2:
                con.execute("INSERT INTO e VALUES (?, ?, ?)", row())
            elif n:
                con.execute("DELETE FROM e WHERE a = ? OR w = ?", row()[1:])
            wanted = program.naive(con.execute("FROM e").fetchall())
            for fusion in ("on", "off"):
                con.execute(f"SET fusion = '{fusion}'")
                assert sorted(map(repr, con.execute(query).fetchall())) == wanted, query
            assert sorted(map(repr, con.execute("FROM view").fetchall())) == wanted, query
        assert found[0][0] == "incremental", (found, query)
