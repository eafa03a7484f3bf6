"""Random recursions of grouped steps that were not made to be monotone: most should be refused."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import duckdb

COLUMNS = {"t": ("x", "v"), "u": ("x", "v"), "s": ("x",)}
Rows = Sequence[tuple[int, int, int]]


class LooseProgram:
    """Some tables over the edges e(a, b, w), as one statement; `naive` evaluates it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.best = dice.choice(["min", "min", "max"])
        self.names = dice.choice(["t", "t", "tu", "ts", "tus"])
        self.anchors: dict[str, str] = {}
        self.steps: dict[str, list[str]] = {}
        self._kept: dict[str, list[str]] = {}
        for name in self.names:
            both = name != "s"
            self.anchors[name] = dice.choice(
                [
                    "SELECT 0" + ", 5" * both,
                    "SELECT a" + ", w" * both + " FROM e WHERE a < 2",
                    "SELECT a" + ", max(w)" * both + " FROM e WHERE a < 3 GROUP BY a",
                ]
            )
            made = [self._step(name) for _ in range(dice.choice([1, 1, 2]))]
            self.steps[name] = [text for text, _ in made]
            self._kept[name] = [how for _, how in made]

    @property
    def query(self) -> str:
        """All rows of all tables."""
        tables = ", ".join(
            f"{n}({', '.join(COLUMNS[n])}) AS ({' UNION '.join([self.anchors[n], *self.steps[n]])})"
            for n in self.names
        )
        rows = " UNION ALL ".join(
            f"SELECT '{n}' AS n, x, {COLUMNS[n][-1]} AS v FROM {n}" for n in self.names
        )
        return f"WITH RECURSIVE {tables} {rows}"

    # -- making

    def _value(self, columns: Sequence[str], depth: int = 2) -> str:
        dice = self.dice
        if depth == 0 or dice.random() < 0.35:
            return dice.choice([*columns, "1", "2", "0"])
        a, b = self._value(columns, depth - 1), self._value(columns, depth - 1)
        column = dice.choice(columns)
        return dice.choice(
            [
                f"{a} + {b}",
                f"{a} + {b}",
                f"{a} - {b}",
                f"{a} * {b}",
                f"greatest({a}, {b})",
                f"least({a}, {b})",
                f"coalesce({a}, {b})",
                f"nullif({a}, {b})",
                f"abs({a})",
                f"-({a})",
                f"({a}) % 4",
                f"({a}) // 2",
                f"CAST({a} AS BIGINT)",
                f"(SELECT {a})",
                f"CASE WHEN {self._condition(columns, 0)} THEN {a} ELSE {b} END",
                f"CASE {column} WHEN 1 THEN {a} WHEN 2 THEN {b} ELSE 3 END",
                f"if({self._condition(columns, 0)}, {a}, {b})",
            ]
        )

    def _condition(self, columns: Sequence[str], depth: int = 1) -> str:
        dice = self.dice
        a, b = self._value(columns, depth), self._value(columns, depth)
        operator = dice.choice(["<", "<=", ">", ">=", "=", "<>"])
        plain = [f"{a} {operator} {b}"] * 6 + [
            f"{a} IS {dice.choice(['', 'NOT '])}NULL",
            f"{a} BETWEEN {b} AND 6",
            f"{a} IN ({b}, 3)",
        ]
        if depth and dice.random() < 0.3:
            one, other = self._condition(columns, 0), self._condition(columns, 0)
            return dice.choice([f"{one} AND {other}", f"({one} OR {other})", f"NOT ({one})"])
        return dice.choice(plain)

    def _source(self, name: str, alias: str) -> tuple[str, list[str]]:
        """An item of a FROM clause that reads a table, and its columns."""
        dice, last = self.dice, COLUMNS[name][-1]
        if dice.random() < 0.55:
            return f"{name} {alias}", [f"{alias}.{c}" for c in COLUMNS[name]]
        held = f"{dice.choice(['min', 'max'])}({last}) {dice.choice('<>')} 3"
        inner = dice.choice(
            [
                f"SELECT x, {self._value(COLUMNS[name], 1)} AS v FROM {name}",
                f"SELECT x, {last} AS v FROM {name} WHERE {self._condition(COLUMNS[name])}",
                f"SELECT DISTINCT x, {last} AS v FROM {name}",
                f"SELECT x, {dice.choice(['min', 'max', 'sum', 'count'])}({last}) AS v "
                f"FROM {name} GROUP BY x",
                f"SELECT x, {last} AS v FROM {name} UNION ALL SELECT a, w FROM e",
                f"SELECT x, {last} AS v FROM {name} UNION SELECT a, w FROM e",
                f"SELECT x, {last} AS v FROM {name} EXCEPT SELECT a, w FROM e",
                f"SELECT x, {last} AS v, row_number() OVER (ORDER BY {last}) AS n FROM {name}",
                f"SELECT x, {last} AS v FROM {name} ORDER BY {last}, x LIMIT 2",
                f"SELECT x, max({last}) AS v FROM {name} GROUP BY x HAVING {held}",
            ]
        )
        return f"({inner}) {alias}", [f"{alias}.x", f"{alias}.v"]

    def _subquery(self, columns: Sequence[str]) -> str:
        """A condition that reads a table once more."""
        dice = self.dice
        other = dice.choice(self.names)
        last = COLUMNS[other][-1]
        inner = self._condition([f"o.{last}", "o.x", *columns], 0)
        a, less = dice.choice(columns), dice.choice("<>")
        return dice.choice(
            [
                f"EXISTS (SELECT 1 FROM {other} o WHERE o.x = p.x AND {inner})",
                f"NOT EXISTS (SELECT 1 FROM {other} o WHERE o.x = p.x AND o.{last} > 3)",
                f"{a} IN (SELECT {last} FROM {other})",
                f"{a} {less} (SELECT {dice.choice(['min', 'max', 'count'])}({last}) FROM {other})",
                f"{a} {less} {dice.choice(['ANY', 'ALL'])} (SELECT {last} FROM {other})",
            ]
        )

    def _step(self, own: str) -> tuple[str, str]:
        """A step, and the aggregate by which it is grouped, if it is."""
        dice = self.dice
        aliases = dice.choice([["p"], ["p"], ["p"], ["p", "q"]])
        sources = [self._source(dice.choice(self.names), a) for a in aliases]
        reads = [text for text, _ in sources]
        columns = [c for _, found in sources for c in found]
        conditions = [dice.choice(["p.x = q.x", "p.x < q.x"])] if len(aliases) > 1 else []
        keys = ["p.x", aliases[-1] + ".x"]
        if len(aliases) == 1 or dice.random() < 0.8:
            reads.append("e")
            columns += ["e.w", "e.a", "e.b"]
            conditions.append("e.a = p.x")
            keys = ["e.b", "e.b", "p.x"]
        if dice.random() < 0.35:
            conditions.append(self._condition(columns))
        if dice.random() < 0.12:
            conditions.append(self._subquery(columns))
        key = dice.choice([*keys, self._value(columns, 1)])
        rest = f"FROM {', '.join(reads)} WHERE {' AND '.join(conditions or ['true'])}"
        by = dice.choice(["ALL", "1"])
        given = self._value(columns, dice.choice([0, 2, 2, 2]))
        condition = self._condition(columns, 0)
        if own == "s":
            held = dice.choice(
                [
                    "count(*) > 1",
                    f"count(*) FILTER (WHERE {condition}) > 1",
                    f"count(DISTINCT {dice.choice(columns)}) >= 2",
                    f"max({given}) > 2",
                    f"min({given}) < 3",
                    f"sum({given}) > 4",
                    f"sum(greatest({given}, 0)) > 4",
                    f"bool_or({condition})",
                ]
            )
            return f"SELECT {key} {rest}" + dice.choice(["", f" GROUP BY {by} HAVING {held}"]), ""
        if dice.random() < 0.25:
            return f"SELECT {key}, {given} {rest}", ""
        best = dice.choice(["min", "max"]) if dice.random() < 0.1 else self.best
        value = f"{best}({given})"
        if dice.random() < 0.1:
            value += f" FILTER (WHERE {condition})"
        having = f" HAVING {dice.choice([value, 'count(*)'])} {dice.choice('<>')} 3"
        having *= dice.random() < 0.15
        return f"SELECT {key}, {value} {rest} GROUP BY {by}{having}", best

    # -- evaluating

    def _reached(self, name: str) -> set[str]:
        """The tables that a table reads, directly or through others."""
        seen: set[str] = set()
        todo = {name}
        while todo:
            text = " ".join(s for n in todo for s in self.steps[n])
            todo = {n for n in self.names if re.search(rf"(FROM|,) {n}\b", text)} - seen
            seen |= todo
        return seen

    def improving(self) -> dict[str, str]:
        """The aggregate of each table that keeps its best values."""
        found = {}
        for name in self.names:
            group = {n for n in self._reached(name) if name in self._reached(n)}
            for step, how in zip(self.steps[name], self._kept[name], strict=True):
                if how and any(re.search(rf"(FROM|,) {n}\b", step) for n in group):
                    found.setdefault(name, how)
        return found

    def is_least(self) -> bool:
        """Is every recursion in it one that keeps best values? (Others have a working table.)"""
        best = self.improving()
        recursive = [n for n in self.names if n in self._reached(n)]
        return all(
            any(n in self._reached(b) and b in self._reached(n) for b in best) for n in recursive
        )

    def naive(self, edges: Rows) -> list[str] | None:
        """Its rows by evaluating everything until nothing changes; None if there is no end."""
        best = self.improving()
        with duckdb.connect() as con:
            con.execute("CREATE TABLE e (a INT, b INT, w INT)")
            if edges:
                con.executemany("INSERT INTO e VALUES (?, ?, ?)", edges)
            for n in self.names:
                con.execute(f"CREATE TABLE {n} ({', '.join(f'{c} BIGINT' for c in COLUMNS[n])})")
            before: list[tuple[str, list[tuple[int, ...]]]] = []
            for _ in range(60):
                now = []
                for n in self.names:
                    every = " UNION ALL ".join(
                        f"(FROM ({q}) r({', '.join(COLUMNS[n])}))"
                        for q in [self.anchors[n], *self.steps[n]]
                    )
                    rows = f"SELECT DISTINCT * FROM ({every})"
                    if n in best:
                        rows = f"SELECT x, {best[n]}(v) FROM ({every}) GROUP BY x"
                    now.append((n, con.execute(f"{rows} ORDER BY ALL").fetchall()))
                if now == before:
                    return sorted(repr((n, r[0], r[-1])) for n, rows in now for r in rows)
                if sum(len(rows) for _, rows in now) > 1000:
                    return None
                before = now
                for n, rows in now:
                    con.execute(f"DELETE FROM {n}")
                    if rows:
                        marks = ", ".join("?" * len(rows[0]))
                        con.executemany(f"INSERT INTO {n} VALUES ({marks})", rows)
        return None
