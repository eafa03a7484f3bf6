"""Random programs of WITH MUTUALLY RECURSIVE, and their meaning, evaluated naively by DuckDB.

A program is some tables, each a query over tables and itself. All start empty; the queries run in
order, again and again, each over what those before it have given, until nothing changes.
"""

# ruff: noqa: E501
from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from oracle.edges import TABLES, Rows


@dataclass
class Table:
    name: str
    types: list[str]
    query: str = ""

    @property
    def columns(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.types))]


@dataclass
class Program:
    """`limit`: iterations after which it returns what it has; `fails`: or is an error."""

    tables: list[Table]
    limit: int | None = None
    fails: bool = False
    sql_rows: str = ""
    """All rows of all tables."""

    def sql(self) -> str:
        defined = ",\n".join(
            f"{t.name}({', '.join(map(' '.join, zip(t.columns, t.types, strict=True)))}) AS ("
            f"{t.query})"
            for t in self.tables
        )
        action = "ERROR" if self.fails else "RETURN"
        limit = "" if self.limit is None else f"({action} AT RECURSION LIMIT {self.limit}) "
        return f"WITH MUTUALLY RECURSIVE {limit}{defined}\n{self.sql_rows}"


class Endless(Exception):
    """No end, or too many rows, after so many iterations."""

    def __init__(self, iterations: int) -> None:
        super().__init__(iterations)
        self.iterations = iterations


def naive(con: duckdb.DuckDBPyConnection, program: Program, most: int = 150) -> tuple[Rows, int]:
    """The program's rows, and the number of iterations in which something changed."""
    kept: dict[str, Counter[tuple[Any, ...]]] = {}
    for t in program.tables:
        columns = ", ".join(map(" ".join, zip(t.columns, t.types, strict=True)))
        con.execute(f"CREATE OR REPLACE TEMP TABLE {t.name} ({columns})")
        kept[t.name] = Counter()
    limit = None if program.fails else program.limit
    iteration = 0
    while limit is None or iteration < limit:
        changed = False
        for t in program.tables:
            typed = ", ".join(f"#{i}::{kind}" for i, kind in enumerate(t.types, 1))
            con.execute(
                f"CREATE OR REPLACE TEMP TABLE next_rows AS SELECT {typed} FROM ({t.query})"
            )
            found = Counter(con.execute("FROM next_rows").fetchall())
            if found != kept[t.name]:
                changed, kept[t.name] = True, found
                con.execute(f"DELETE FROM {t.name}; INSERT INTO {t.name} FROM next_rows")
        if not changed:
            break
        if iteration == 25 or sum(map(Counter.total, kept.values())) > most:
            raise Endless(iteration)
        iteration += 1
    return con.execute(program.sql_rows).fetchall(), iteration


def bounded(program: Program, iterations: int) -> Program:
    """The same program, that ends after so many iterations."""
    return replace(program, limit=max(iterations, 1), fails=False)


class Programs:
    """A source of programs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tables: list[Table] = []
        self._count = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def program(self) -> Program:
        rng = self.rng
        self.tables = [
            Table(f"t{i}", [self._type() for _ in range(rng.randint(1, 3))])
            for i in range(rng.choice([1, 2, 2, 3, 3, 4]))
        ]
        for table in self.tables:
            table.query = self._definition(table)
        rows = " UNION ALL ".join(
            f"SELECT '{t.name}' AS name, "
            + ", ".join(f"{c}::DOUBLE AS {c}" for c in t.columns)
            + "".join(f", NULL::DOUBLE AS c{i}" for i in range(len(t.columns), 3))
            + f" FROM {t.name}"
            for t in self.tables
        )
        return Program(self.tables, sql_rows=rows)

    def _type(self) -> str:
        return self.rng.choices(["INT", "BIGINT", "SMALLINT", "DOUBLE"], [8, 2, 1, 1])[0]

    # -- queries ------------------------------------------------------------------------------

    def _definition(self, table: Table) -> str:
        """Mostly what recursions look like: an anchor, and steps."""
        rng, width = self.rng, len(table.types)
        kind = rng.choices(["steps", "least", "any"], [6, 4 if width > 1 else 0, 1])[0]
        if kind == "least":
            return self._least(table)
        if kind == "any":
            return self._query(width, 2)
        operator = rng.choice(["UNION", "UNION", "UNION", "UNION ALL"])
        parts = [self._plain(width) for _ in range(rng.randint(1, 2))]
        parts += [self._step(table, width) for _ in range(rng.randint(1, 2))]
        if self.chance(0.15):
            rng.shuffle(parts)
        text = f" {operator} ".join(parts)
        if self.chance(0.15):
            text = f"({text}) {rng.choice(['EXCEPT', 'INTERSECT'])} {self._select(width, 1)}"
        return text

    def _plain(self, width: int) -> str:
        """Rows to start with."""
        rng = self.rng
        if self.chance(0.4):
            return f"SELECT {', '.join(str(rng.randrange(3)) for _ in range(width))}"
        name = rng.choice(list(TABLES))
        items = [rng.choice(TABLES[name]) for _ in range(width)]
        where = f" WHERE {rng.choice(items)} < {rng.randint(1, 4)}" if self.chance(0.4) else ""
        return f"SELECT {', '.join(items)} FROM {name}{where}"

    def _step(self, table: Table, width: int) -> str:
        """A join with a recursive table; seldom anything."""
        rng = self.rng
        if self.chance(0.25):
            return self._select(width, 1)
        other = rng.choice([table, table, *self.tables])
        base = rng.choice([("e", TABLES["e"]), ("f", TABLES["f"]), (table.name, table.columns)])
        key, back = rng.choice(other.columns), rng.choice(base[1])
        values = [f"p.{c}" for c in other.columns] + [f"q.{c}" for c in base[1]] * 2
        items = [rng.choice(values) for _ in range(width)]
        if self.chance(0.15):
            at = rng.randrange(width)
            items[at] = f"({items[at]} + {rng.randint(1, 2)}) % 5"
        where = ""
        if self.chance(0.25):
            where = f" WHERE {self._condition(values, 0)}"
        elif self.chance(0.15):
            where = f" WHERE {self._exists(values)}"
        return (
            f"SELECT {', '.join(items)} FROM {other.name} p JOIN {base[0]} q "
            f"ON q.{back} = p.{key}{where}"
        )

    def _least(self, table: Table) -> str:
        """One row of each key, with its best value: what becomes a grouped step, or looks so."""
        rng, keys = self.rng, len(table.types) - 1
        best = rng.choice(
            ["min", "min", "max", "max", "sum", "count"][: 6 if self.chance(0.1) else 4]
        )
        names = [f"k{i}" for i in range(keys)]
        parts = []
        for _ in range(rng.randint(1, 2)):
            items = [rng.choice(["a", "b"]) for _ in range(keys)]
            items.append(rng.choice(["0", "1", "a", "w"]))
            named = ", ".join(f"{i} AS {n}" for i, n in zip(items, [*names, "v"], strict=True))
            where = f" WHERE a < {rng.randint(1, 3)}" if self.chance(0.6) else ""
            parts.append(f"SELECT {named} FROM e{where}")
        for _ in range(rng.randint(1, 2)):
            other = rng.choice([table, table, *self.tables])
            value = f"t.{other.columns[-1]}"
            value = rng.choice(
                [value, f"{value} + e.w", f"greatest({value}, e.w)", f"least({value}, e.w)"]
                + [f"{value} + 1", f"least({value} + e.w, 6)"] * 2
                + [f"4 - {value}", f"t.{other.columns[0]}"][: 2 if self.chance(0.3) else 0]
            )
            items = [rng.choice([f"t.{rng.choice(other.columns)}", "e.b", "e.a"]) for _ in names]
            items[rng.randrange(keys)] = "e.b"
            where = (
                f" WHERE t.{other.columns[-1]} < {rng.randint(2, 6)}" if self.chance(0.3) else ""
            )
            parts.append(
                f"SELECT {', '.join([*items, value])} FROM {other.name} t JOIN e "
                f"ON e.a = t.{other.columns[0]}{where}"
            )
        union = rng.choice([" UNION ALL ", " UNION ALL ", " UNION "])
        having = f" HAVING {best}(v) < {rng.randint(2, 6)}" if self.chance(0.15) else ""
        return (
            f"SELECT {', '.join(names)}, {best}(v) FROM ({union.join(parts)}) "
            f"GROUP BY {', '.join(names)}{having}"
        )

    def _query(self, width: int, depth: int) -> str:
        if depth and self.chance(0.35):
            operator = self.rng.choice(
                ["UNION", "UNION ALL", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"]
            )
            return f"({self._query(width, depth - 1)}) {operator} ({self._query(width, depth - 1)})"
        return self._select(width, depth)

    def _relation(self, depth: int) -> tuple[str, list[str]]:
        """A table or a subquery, with its alias, and its columns."""
        rng = self.rng
        self._count += 1
        alias = f"r{self._count}"
        if depth and self.chance(0.12):
            width = rng.randint(1, 2)
            columns = [f"s{i}" for i in range(width)]
            text = f"({self._select(width, depth - 1)}) {alias}({', '.join(columns)})"
        elif self.chance(0.6):
            table = rng.choice(self.tables)
            text, columns = f"{table.name} {alias}", table.columns
        else:
            name = rng.choice(list(TABLES))
            text, columns = f"{name} {alias}", TABLES[name]
        return text, [f"{alias}.{c}" for c in columns]

    def _select(self, width: int, depth: int) -> str:
        rng = self.rng
        text, columns = self._relation(depth)
        for _ in range(rng.choice([0, 1, 1, 2])):
            other, more = self._relation(depth)
            join = rng.choices(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"],
                [6, 3, 1, 1, 1, 1],
            )[0]
            text += f" {join} {other} ON {rng.choice(columns)} = {rng.choice(more)}"
            if join not in ("SEMI JOIN", "ANTI JOIN"):
                columns = columns + more
        conditions = [self._condition(columns, depth) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        kind = rng.choices(["plain", "distinct", "group", "window"], [6, 2, 3, 1])[0]
        items = [self._value(columns, depth) for _ in range(width)]
        if kind == "group":
            keys = [rng.choice(columns) for _ in range(width - 1)]
            value = rng.choice(columns)
            items = [*keys, self._aggregate(value)]
            group = f" GROUP BY {', '.join(keys)}" if keys else ""
            if keys and self.chance(0.2):
                group += f" HAVING count(*) {rng.choice(['>', '<', '='])} {rng.randint(1, 2)}"
            return f"SELECT {', '.join(items)} FROM {text}{where}{group}"
        if kind == "window":
            over = f"PARTITION BY {rng.choice(columns)}"
            if self.chance(0.4):
                over += f" ORDER BY {rng.choice(columns)}"
            items[-1] = f"{rng.choice(['count(*)', f'max({rng.choice(columns)})'])} OVER ({over})"
        return f"SELECT {'DISTINCT ' if kind == 'distinct' else ''}{', '.join(items)} FROM {text}{where}"

    # -- values and conditions ----------------------------------------------------------------

    def _aggregate(self, value: str) -> str:
        return self.rng.choice(
            [
                "count(*)",
                f"count(DISTINCT {value})",
                f"min({value})",
                f"max({value})",
                f"sum({value}) % 7",
                f"count({value}) FILTER ({value} > 1)",
            ]
        )

    def _value(self, columns: list[str], depth: int) -> str:
        rng = self.rng
        one = rng.choice(columns)
        if self.chance(0.6):
            return one
        other = rng.choice(columns)
        options = [
            str(rng.randrange(4)),
            f"({one} + {rng.randint(1, 3)}) % 5",
            f"coalesce({one}, {rng.randrange(3)})",
            f"least({one}, {other})",
            f"CASE WHEN {one} < {other} THEN {one} ELSE {rng.randrange(3)} END",
        ]
        if depth:
            inner, those = self._relation(0)
            options.append(
                f"(SELECT {rng.choice(['count(*)', f'max({rng.choice(those)})'])} FROM {inner} "
                f"WHERE {rng.choice(those)} = {one})"
            )
        return rng.choice(options)

    def _condition(self, columns: list[str], depth: int) -> str:
        rng = self.rng
        one = rng.choice(columns)
        if depth and self.chance(0.5):
            return self._exists(columns)
        return rng.choice(
            [
                f"{one} {rng.choice(['<', '>', '<>', '='])} {rng.randrange(4)}",
                f"{one} {rng.choice(['<', '<=', '<>', '='])} {rng.choice(columns)}",
                f"{one} IS {rng.choice(['', 'NOT '])}NULL",
            ]
        )

    def _exists(self, columns: list[str]) -> str:
        rng = self.rng
        one = rng.choice(columns)
        inner, those = self._relation(0)
        no = rng.choice(["", "NOT "])
        if self.chance(0.4):
            return f"{one} {no}IN (SELECT {rng.choice(those)} FROM {inner})"
        more = f" AND {rng.choice(those)} < {rng.choice(columns)}" if self.chance(0.25) else ""
        return f"{no}EXISTS (FROM {inner} WHERE {rng.choice(those)} = {one}{more})"
