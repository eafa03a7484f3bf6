"""Random queries with WITH RECURSIVE that mean the same to DuckDB, and surely end.

Each table is an anchor and one step that names it once, with any SQL around the name: outer, semi
and anti joins, windows, DISTINCT ON, subqueries, WITH clauses and recursions of its own. Values are
of a small domain; under UNION ALL every row has the number of its iteration, which ends there.
"""

# ruff: noqa: E501
from __future__ import annotations

import random
from dataclasses import dataclass

from oracle.edges import TABLES


@dataclass
class Found:
    """A table that can be named; `text` is what stands in FROM, or None for its name."""

    name: str
    columns: list[str]


class Queries:
    """A source of queries. What DuckDB has no words for, SEARCH and CYCLE, are marks in the text."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._marks: dict[str, tuple[str, str]] = {}
        self.known = [Found(n, c) for n, c in TABLES.items()]
        self._count = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    # -- the query ----------------------------------------------------------------------------

    def query(self) -> tuple[str, str]:
        """A query, and the same one without SEARCH and CYCLE."""
        ours = plain = self._query()
        for mark, (clause, written_out) in self._marks.items():
            ours, plain = ours.replace(mark, clause), plain.replace(mark, written_out)
        return ours, plain

    def _mark(self, ours: str, plain: str) -> str:
        mark = f"«{len(self._marks)}»"
        self._marks[mark] = ours, plain
        return mark

    def _query(self) -> str:
        """Recursions as tables of WITH, in subqueries, LATERAL or correlated."""
        kind = self.rng.choices(["with", "correlated", "lateral", "from"], [6, 3, 2, 1])[0]
        if kind == "correlated":
            return self._correlated()
        if kind == "lateral":
            base = self.rng.choice(self.known)
            inner = self._recursion(f"o.{self.rng.choice(base.columns)}", 1)
            join = self.rng.choice([", LATERAL", "CROSS JOIN LATERAL"])
            items = ", ".join(f"o.{c} AS o_{c}" for c in base.columns)
            more = self.rng.choice(["x.*", "x.c0", "count(*)"])
            group = " GROUP BY ALL" if more == "count(*)" else ""
            return f"SELECT {items}, {more} FROM {base.name} o {join} ({inner}) x{group}"
        if kind == "from":
            base = self.rng.choice(self.known)
            inner, key = self._recursion(None, 1), self.rng.choice(base.columns)
            join = self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
            return f"SELECT * FROM {base.name} o {join} ({inner}) x ON x.c0 = o.{key}"
        before = len(self.known)
        tables = [self._table(None, 1) for _ in range(self.rng.choice([1, 1, 2, 3]))]
        made = self.known[before:]
        text = f"WITH RECURSIVE {', '.join(tables)} {self._select(self.rng.randint(1, 3), made, 1)}"
        del self.known[before:]
        return text

    def _correlated(self) -> str:
        rng = self.rng
        base = rng.choice(self.known)
        start = f"o.{rng.choice(base.columns)}"
        inner = self._recursion(start, 1)
        items = ", ".join(f"o.{c}" for c in base.columns)
        return rng.choice(
            [
                f"SELECT {items}, (SELECT count(*) FROM ({inner}) x) AS n FROM {base.name} o",
                f"SELECT {items}, (SELECT max(x.c0) FROM ({inner}) x) AS n FROM {base.name} o",
                f"SELECT {items} FROM {base.name} o WHERE EXISTS (FROM ({inner}) x WHERE x.c0 > 2)",
                f"SELECT {items} FROM {base.name} o WHERE {start} {rng.choice(['', 'NOT '])}IN "
                f"(SELECT x.c0 FROM ({inner}) x WHERE x.c0 <> 1)",
            ]
        )

    def _recursion(self, outer: str | None, depth: int) -> str:
        """A recursion as a query of its own."""
        before = len(self.known)
        table = self._table(outer, depth)
        made = self.known[-1]
        del self.known[before:]
        items = ", ".join(f"{c} AS c{i}" for i, c in enumerate(made.columns))
        return f"WITH RECURSIVE {table} SELECT {items} FROM {made.name}"

    def _table(self, outer: str | None, depth: int) -> str:
        """A table of WITH, mostly recursive; it is known from here on."""
        rng = self.rng
        name = self._name("r")
        if outer is None and depth and self.chance(0.15):
            width = rng.randint(1, 2)
            columns = [f"c{i}" for i in range(width)]
            text = self._select(width, self.known, 1)
            self.known.append(Found(name, columns))
            return f"{name}({', '.join(columns)}) AS ({text})"
        if outer is None and self.chance(0.1):
            return self._keyed(name)
        width = rng.randint(1, 3)
        if self.chance(0.2):
            return self._searched(name, width, outer)
        every = self.chance(0.4)
        columns = [f"c{i}" for i in range(width)] + (["n"] if every else [])
        anchor = self._anchor(width, every, outer)
        step = self._step(Found(name, columns), width, every, outer, depth)
        self.known.append(Found(name, columns))
        operator = "UNION ALL" if every else "UNION"
        return f"{name}({', '.join(columns)}) AS ({anchor} {operator} {step})"

    def _keyed(self, name: str) -> str:
        """USING KEY. Of each key there is one row per iteration: none depends on their order."""
        rng = self.rng
        base, other = rng.choice(self.known), rng.choice(self.known)
        self.known.append(Found(name, ["c0", "c1", "n"]))
        pick, key = rng.choice(["min", "max"]), rng.choice(base.columns)
        anchor = f"SELECT {key}, {pick}({rng.choice(base.columns)}), 0 FROM {base.name} GROUP BY 1"
        more = rng.choice(
            [
                "",
                f" AND {rng.choice(['', 'NOT '])}EXISTS (FROM recurring.{name} z WHERE z.c0 = q.q0)",
                f" AND p.c1 <= (SELECT max(z.c1) FROM recurring.{name} z)",
            ]
        )
        step = (
            f"SELECT q.q1, {pick}(p.c1) % 4 + {rng.randrange(2)}, p.n + 1 FROM {name} p "
            f"{rng.choice(['JOIN', 'LEFT JOIN'])} (SELECT {rng.choice(other.columns)} AS q0, "
            f"{rng.choice(other.columns)} AS q1 FROM {other.name}) q ON q.q0 = p.c0 "
            f"WHERE p.n < 3{more} GROUP BY q.q1, p.n"
        )
        union = rng.choice(["UNION", "UNION ALL"])
        return f"{name}(c0, c1, n) USING KEY (c0) AS ({anchor} {union} {step})"

    def _searched(self, name: str, width: int, outer: str | None) -> str:
        """SEARCH or CYCLE or both, and a table that tells what they gave as numbers."""
        rng = self.rng
        columns = [f"c{i}" for i in range(width)]
        cycle, search = rng.choice([("CYCLE", ""), ("", "DEPTH"), ("CYCLE", "BREADTH")])
        every = not cycle or self.chance(0.3)  # else it would not end
        own = [*columns, "n"] if every else columns
        by = rng.sample(columns, rng.randint(1, width))
        base, start = rng.choice(self.known), rng.choice(self.known)
        anchor = [str(rng.randrange(4)) if self.chance(0.2) else f"p.{rng.choice(start.columns)}"]
        anchor += [f"p.{rng.choice(start.columns)}" for _ in columns[1:]]
        if outer:
            anchor[0] = outer
        values = [f"p.{c}" for c in columns] + [f"q.{c}" for c in base.columns] * 2
        step = [self._value(values, 0) for _ in columns]

        def text(items: list[str]) -> str:
            one = (f"coalesce(({items[columns.index(c)]})::VARCHAR, '~')" for c in by)
            return f"concat({', '.join(one)})"

        header, first, then, where, clause = "", "", "", "", ""
        told = []
        if search == "DEPTH":
            header += ", ord"
            first += f", [{text(anchor)}]"
            then += f", list_append(p.ord, {text(step)})"
        elif search:
            header += ", ord"
            first += f", ['000', {text(anchor)}]"
            then += f", [lpad((p.ord[1]::INT + 1)::VARCHAR, 3, '0'), {text(step)}]"
        if search:
            clause += f" SEARCH {search} FIRST BY {', '.join(by)} SET ord"
            told.append("dense_rank() OVER (ORDER BY ord)")
        if cycle:
            header += ", mark, path"
            first += f", false, [{text(anchor)}]"
            then += f", list_contains(p.path, {text(step)}), list_append(p.path, {text(step)})"
            where = " AND NOT p.mark"
            clause += f" CYCLE {', '.join(by)} SET mark USING path"
            told += ["mark::INT", "len(path)"]
        number, count, bound = (", 0", ", p.n + 1", " AND p.n < 3") if every else ("", "", "")
        join = rng.choice(["JOIN", "JOIN", "LEFT JOIN"])
        on = f"q.{rng.choice(base.columns)} = p.{rng.choice(columns)}"
        condition = self._condition(values, 1) if self.chance(0.3) else "true"
        names = [*own, *(f"d{i}" for i in range(len(told)))]
        self.known.append(Found(f"{name}_told", names))
        return (
            f"{name}({', '.join(own)}{self._mark('', header)}) AS (SELECT {', '.join(anchor)}"
            f"{number}{self._mark('', first)} FROM {start.name} p UNION{' ALL' if every else ''} "
            f"SELECT {', '.join(step)}{count}{self._mark('', then)} FROM {name} p {join} "
            f"{base.name} q ON {on} WHERE {condition}{bound}{self._mark('', where)})"
            f"{self._mark(clause, '')}, {name}_told({', '.join(names)}) AS "
            f"(SELECT {', '.join([*own, *told])} FROM {name})"
        )

    def _anchor(self, width: int, every: bool, outer: str | None) -> str:
        rng = self.rng
        number = ["0"] if every else []
        if outer or self.chance(0.3):
            items = [str(rng.randrange(4)) for _ in range(width)]
            if outer:
                items[0] = outer
            return f"SELECT {', '.join(items + number)}"
        base = rng.choice(self.known)
        items = [rng.choice(base.columns) for _ in range(width)]
        where = (
            f" WHERE {rng.choice(base.columns)} < {rng.randint(0, 3)}" if self.chance(0.6) else ""
        )
        if self.chance(0.1):
            items = [f"min({i})" for i in items]
        return f"SELECT {', '.join(items + number)} FROM {base.name}{where}"

    # -- steps --------------------------------------------------------------------------------

    def _step(self, own: Found, width: int, every: bool, outer: str | None, depth: int) -> str:
        rng = self.rng
        source, columns = self._own(own, every, depth)
        number = "p.n + 1" if every else ""
        values = [f"p.{c}" for c in columns if c != "n"]
        text = f"{source} p"
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            other, those = self._other(depth, values)
            join = rng.choices(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"],
                [6, 3, 2, 2, 2, 2],
            )[0]
            if join in ("RIGHT JOIN", "FULL JOIN") and not every and self.chance(0.5):
                join = "LEFT JOIN"
            on = f"{rng.choice(values)} = {rng.choice(those)}"
            if self.chance(0.2):
                on += f" AND {rng.choice(those)} {rng.choice(['<', '<>'])} {rng.choice(values)}"
            text += f" {join} {other} ON {on}"
            if join not in ("SEMI JOIN", "ANTI JOIN"):
                values = values + those
        conditions = ["p.n < 3"] if every else []
        if self.chance(0.5):
            conditions.append(self._condition(values, depth))
        if outer and self.chance(0.3):
            conditions.append(f"{rng.choice(values)} <> {outer}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        items = [self._value(values, depth) for _ in range(width)]
        kinds, weights = ["plain", "distinct", "window", "distinct on"], [6, 1, 2, 1]
        if every:
            kinds, weights = [*kinds, "group"], [*weights, 2]
        kind = rng.choices(kinds, weights)[0]
        if kind == "group":
            items[-1] = rng.choice(["count(*) % 5", f"max({items[-1]})", f"sum({items[-1]}) % 5"])
            group = ", ".join([*dict.fromkeys(i for i in items[:-1] if not i.isdigit()), "p.n"])
            return f"SELECT {', '.join([*items, number])} FROM {text}{where} GROUP BY {group}"
        if kind == "window":
            over = f"PARTITION BY {rng.choice(values)}" + (
                f" ORDER BY {rng.choice(values)}" if self.chance(0.5) else ""
            )
            function = rng.choice(["count(*)", f"max({rng.choice(values)})", "rank()"])
            if function == "rank()" and "ORDER" not in over:
                over += f" ORDER BY {rng.choice(values)}"
            items[-1] = f"{function} OVER ({over}) % 5"
        items += [number] if every else []
        head = "SELECT "
        if kind == "distinct":
            head += "DISTINCT "
        elif kind == "distinct on":
            head += f"DISTINCT ON ({items[0]}) "
            order = ", ".join(str(i) for i in range(1, len(items) + 1))
            return f"({head}{', '.join(items)} FROM {text}{where} ORDER BY {order})"
        return f"{head}{', '.join(items)} FROM {text}{where}"

    def _own(self, own: Found, every: bool, depth: int) -> tuple[str, list[str]]:
        """The table as its step names it: bare, in a subquery, or a WITH clause of its own."""
        rng = self.rng
        if self.chance(0.7):
            return own.name, own.columns
        columns = ", ".join(own.columns)
        where = (
            f" WHERE {rng.choice(own.columns)} < {rng.randint(2, 4)}" if self.chance(0.4) else ""
        )
        if self.chance(0.3):
            return f"(WITH l AS (SELECT {columns} FROM {own.name}{where}) FROM l)", own.columns
        return f"(SELECT {columns} FROM {own.name}{where})", own.columns

    def _other(self, depth: int, values: list[str]) -> tuple[str, list[str]]:
        """What a step joins its table with."""
        rng = self.rng
        alias = self._name("q")
        if depth and self.chance(0.12):
            text = self._recursion(None, depth - 1)
            return f"({text}) {alias}", [f"{alias}.c0"]
        base = rng.choice(self.known)
        if self.chance(0.15):
            key, value = rng.choice(base.columns), rng.choice(base.columns)
            text = f"(SELECT {key} AS k, count(*) AS v FROM {base.name} GROUP BY {key})"
            if self.chance(0.5):
                text = f"(SELECT {key} AS k, {value} AS v FROM {base.name} WHERE {value} < 4)"
            return f"{text} {alias}", [f"{alias}.k", f"{alias}.v"]
        return f"{base.name} {alias}", [f"{alias}.{c}" for c in base.columns]

    # -- ordinary queries ---------------------------------------------------------------------

    def _select(self, width: int, tables: list[Found], depth: int) -> str:
        rng = self.rng
        one = rng.choice(tables)
        alias = self._name("s")
        text, values = f"{one.name} {alias}", [f"{alias}.{c}" for c in one.columns]
        if self.chance(0.4):
            other = rng.choice(self.known)
            second = self._name("s")
            join = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "ANTI JOIN"])
            those = [f"{second}.{c}" for c in other.columns]
            text += f" {join} {other.name} {second} ON {rng.choice(values)} = {rng.choice(those)}"
            values = values if join == "ANTI JOIN" else values + those
        where = f" WHERE {self._condition(values, depth)}" if self.chance(0.3) else ""
        if self.chance(0.25):
            key = rng.choice(values)
            items = [key] * (width - 1) + [rng.choice(["count(*)", f"sum({rng.choice(values)})"])]
            named = ", ".join(f"{v} AS c{i}" for i, v in enumerate(items))
            return f"SELECT {named} FROM {text}{where} GROUP BY {key}"
        items = [self._value(values, depth) for _ in range(width)]
        named = ", ".join(f"{v} AS c{i}" for i, v in enumerate(items))
        return f"SELECT {named} FROM {text}{where}"

    def _value(self, values: list[str], depth: int) -> str:
        rng = self.rng
        one, other = rng.choice(values), rng.choice(values)
        if self.chance(0.65):
            return one
        options = [
            f"({one} + {rng.randint(1, 3)}) % 5",
            f"coalesce({one}, {rng.randrange(3)})",
            f"least({one}, {other})",
            f"CASE WHEN {one} < {other} THEN {one} ELSE {rng.randrange(3)} END",
        ]
        if depth:
            base, inner = rng.choice(self.known), self._name("i")
            options.append(
                f"(SELECT max({inner}.{rng.choice(base.columns)}) FROM {base.name} {inner} "
                f"WHERE {inner}.{rng.choice(base.columns)} = {one})"
            )
        return rng.choice(options)

    def _condition(self, values: list[str], depth: int) -> str:
        rng = self.rng
        one = rng.choice(values)
        if depth and self.chance(0.5):
            base, inner = rng.choice(self.known), self._name("i")
            key, no = f"{inner}.{rng.choice(base.columns)}", rng.choice(["", "NOT "])
            if self.chance(0.5):
                return f"{one} {no}IN (SELECT {key} FROM {base.name} {inner})"
            return f"{no}EXISTS (FROM {base.name} {inner} WHERE {key} = {one})"
        return rng.choice(
            [
                f"{one} {rng.choice(['<', '>', '<>', '='])} {rng.randrange(4)}",
                f"{one} {rng.choice(['<', '<=', '<>'])} {rng.choice(values)}",
                f"{one} IS NOT NULL",
            ]
        )
