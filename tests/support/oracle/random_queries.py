"""Random SELECTs: whatever SQL lets one put together, over small tables.

`Queries(rng).query()` gives one whose answer, as a multiset, depends on the rows alone: ORDER BY
that ends in a LIMIT names all columns, windows that tell ties apart are ordered by all of them.
Doubles are quarters, so that sums in any order are exact.
"""

# ruff: noqa: E501
from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oracle.random_values import COMPARED, KINDS, TABLES, TYPES, Columns, made_of, value


@dataclass
class Scope:
    """Columns that can be named: (text, type); `outer`: those of the queries around."""

    columns: Columns
    outer: Columns = field(default_factory=list)

    def of(self, kind: str) -> list[str]:
        return [c for c, k in self.columns if k == kind]


class Queries:
    """A source of queries; `depth` bounds how deep they nest."""

    def __init__(
        self,
        rng: random.Random,
        depth: int = 3,
        tables: Mapping[str, Columns] = TABLES,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.rng = rng
        self.depth = depth
        self.tables = tables
        self._numbers = numbers or itertools.count(1)
        self._ctes: list[tuple[str, Columns]] = []

    # -- helpers ------------------------------------------------------------------------------

    def _chance(self, p: float) -> bool:
        return self.rng.random() < p

    def _name(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def _one(self, *ways: tuple[float, Callable[[], str]]) -> str:
        weights, made = zip(*ways, strict=True)
        return self.rng.choices(made, weights)[0]()

    # -- expressions --------------------------------------------------------------------------

    def expression(self, kind: str, scope: Scope, deep: int = 2) -> str:
        """A scalar expression of a type; `deep` bounds its height."""
        rng = self.rng
        known = scope.of(kind)
        outer = [c for c, k in scope.outer if k == kind]
        if deep <= 0 or self._chance(0.45):
            if outer and self._chance(0.15):
                return rng.choice(outer)
            if known and self._chance(0.85):
                return rng.choice(known)
            # (a typed NULL: the type of a set operation's column shall be what is said)
            return f"CAST({value(rng, kind)} AS {TYPES[kind]})"
        e = lambda k: self.expression(k, scope, deep - 1)  # noqa: E731
        p = lambda: self.predicate(scope, deep - 1)  # noqa: E731
        common = [
            (1.0, lambda: f"CASE WHEN {p()} THEN {e(kind)} ELSE {e(kind)} END"),
            (0.5, lambda: f"CASE WHEN {p()} THEN {e(kind)} END"),
            (1.0, lambda: f"coalesce({e(kind)}, {e(kind)})"),
            (0.5, lambda: f"nullif({e(kind)}, {e(kind)})"),
        ]
        if self.depth > 0:
            common.append((0.35, lambda: self._scalar_query(kind, scope)))
        if kind == "int":
            return self._one(
                *common,
                (3, lambda: f"({e('int')} {rng.choice('+-')} {e('int')})"),
                (1, lambda: f"({e('int')} % {rng.randrange(2, 5)})"),
                (0.5, lambda: f"(({e('int')}) // {rng.randrange(2, 5)})::INTEGER"),
                (0.5, lambda: f"abs({e('int')})"),
                (0.5, lambda: f"length({e('text')})::INTEGER"),
                (0.5, lambda: f"extract(day FROM {e('date')})::INTEGER"),
                (0.5, lambda: f"least({e('int')}, {e('int')})"),
                (0.3, lambda: f"len({e('list')})::INTEGER"),
                (0.3, lambda: f"({e('list')})[1]"),
                (0.3, lambda: f"({e('row')}).p"),
                (0.3, lambda: f"({e('map')})['a']"),
                (0.3, lambda: f"extract(hour FROM {e('zoned')})::INTEGER"),
                (0.5, lambda: f"({p()})::INTEGER"),
            )
        if kind == "text":
            return self._one(
                *common,
                (2, lambda: f"({e('text')} || {e('text')})"),
                (1, lambda: f"upper({e('text')})"),
                (1, lambda: f"left({e('text')}, 1)"),
                (0.5, lambda: f"({e('int')})::VARCHAR"),
                (0.5, lambda: f"concat({e('text')}, {e('int')})"),
                (0.3, lambda: f"({e('row')}).q"),
                (0.3, lambda: f"({e('enum')})::VARCHAR"),
                (0.2, lambda: f"({e('list')})::VARCHAR"),
            )
        if kind == "double":
            return self._one(
                *common,
                (2, lambda: f"({e('double')} {rng.choice('+-')} {e('double')})"),
                (1, lambda: f"({e('int')})::DOUBLE"),
                (0.5, lambda: f"({e('int')} / 4)"),
            )
        if kind == "decimal":
            return self._one(
                *common,
                (1, lambda: f"({e('decimal')} + {e('decimal')})::DECIMAL(9, 2)"),
                (0.5, lambda: f"({e('int')})::DECIMAL(9, 2)"),
            )
        if kind == "date":
            return self._one(
                *common,
                (1, lambda: f"({e('date')} + {e('int')})"),
                (0.5, lambda: f"date_trunc('month', {e('date')})::DATE"),
            )
        if kind == "bool":
            return self._one(*common, (3, p))
        return self._one(*common, *made_of(kind, e))

    def predicate(self, scope: Scope, deep: int = 2) -> str:
        """A condition."""
        rng = self.rng
        kind = rng.choice(COMPARED)
        e = lambda: self.expression(kind, scope, deep - 1)  # noqa: E731
        if deep > 0 and self._chance(0.3):
            p = lambda: self.predicate(scope, deep - 1)  # noqa: E731
            return self._one(
                (2, lambda: f"({p()} AND {p()})"),
                (2, lambda: f"({p()} OR {p()})"),
                (1, lambda: f"(NOT {p()})"),
            )
        ways = [
            (4.0, lambda: f"{e()} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {e()}"),
            (1.0, lambda: f"{e()} IS {rng.choice(['', 'NOT '])}NULL"),
            (0.7, lambda: f"{e()} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {e()}"),
            (0.7, lambda: f"{e()} {rng.choice(['', 'NOT '])}BETWEEN {e()} AND {e()}"),
            (0.7, lambda: f"{e()} {rng.choice(['', 'NOT '])}IN ({e()}, {value(rng, kind)})"),
            (
                0.5,
                lambda: (
                    f"{self.expression('text', scope, 0)} LIKE '{rng.choice(['a%', '%b', '_b'])}'"
                ),
            ),
            (0.5, lambda: f"coalesce({self.expression('bool', scope, 0)}, false)"),
        ]
        if self.depth > 0:
            ways += [
                (0.8, lambda: self._exists(scope)),
                (0.8, lambda: self._in(kind, scope)),
                (0.2, lambda: self._quantified(kind, scope)),
                (0.3, lambda: self._of_values(kind, scope)),
                (0.2, lambda: self._rows_in(kind, scope)),
            ]
        return f"({self._one(*ways)})"

    # -- subqueries ---------------------------------------------------------------------------

    def _inner(self) -> Queries:
        inner = Queries(self.rng, self.depth - 1, self.tables, self._numbers)
        inner._ctes = self._ctes
        return inner

    def _below(self, scope: Scope) -> Columns:
        """What a subquery may name of the queries around it."""
        if not self._chance(0.6):
            return []
        return scope.columns + (scope.outer if self._chance(0.25) else [])

    def _source_of(self, scope: Scope) -> tuple[str, Scope, str]:
        """FROM and WHERE of a subquery, correlated or not."""
        inner = self._inner()
        text, columns = inner._from()
        below = self._below(scope)
        made = Scope(columns, below)
        conditions = []
        if below:
            kinds = {k for _, k in columns} & {k for _, k in below}
            if kinds:
                kind = self.rng.choice(sorted(kinds))
                mine = self.rng.choice(made.of(kind))
                theirs = self.rng.choice([c for c, k in below if k == kind])
                operator = self.rng.choice(["=", "=", "=", "=", "<", ">=", "<>"])
                if kind == "bool":
                    operator = "="
                conditions.append(f"{mine} {operator} {theirs}")
        if self._chance(0.4):
            conditions.append(inner.predicate(Scope(columns), 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return text, made, where

    def _exists(self, scope: Scope) -> str:
        text, _, where = self._source_of(scope)
        return f"{self.rng.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {text}{where})"

    def _in(self, kind: str, scope: Scope) -> str:
        text, made, where = self._source_of(scope)
        given = self.rng.choice(
            made.of(kind) or [f"CAST({value(self.rng, kind)} AS {TYPES[kind]})"]
        )
        left = self.expression(kind, Scope(scope.columns), 1)
        return f"{left} {self.rng.choice(['', 'NOT '])}IN (SELECT {given} FROM {text}{where})"

    def _of_values(self, kind: str, scope: Scope) -> str:
        """A condition on rows of the values of a row."""
        name, e = self._name("q"), lambda: self.expression(kind, Scope(scope.columns), 0)
        rows = self._one(
            (1, lambda: f"unnest([{e()}, {e()}, {value(self.rng, kind)}]) AS {name}(x)"),
            (1, lambda: f"(VALUES ({e()}), ({e()})) AS {name}(x)"),
        )
        operator = self.rng.choice(["=", "<", ">=", "<>"]) if kind != "bool" else "="
        negated = self.rng.choice(["", "NOT "])
        return self._one(
            (2, lambda: f"{negated}EXISTS (SELECT 1 FROM {rows} WHERE {name}.x {operator} {e()})"),
            (1, lambda: f"{e()} {negated}IN (SELECT x FROM {rows} WHERE x {operator} {e()})"),
            (1, lambda: f"(SELECT max(x) FROM {rows} WHERE x IS NOT NULL) {operator} {e()}"),
        )

    def _rows_in(self, kind: str, scope: Scope) -> str:
        """IN over two columns, which DuckDB takes without correlation alone."""
        inner = self._inner()
        text, columns = inner._from()
        made = Scope(columns)
        other = self.rng.choice(COMPARED)
        left, given = (
            ", ".join(self.expression(k, s, 0) for k in (kind, other))
            for s in (Scope(scope.columns), made)
        )
        return f"({left}) {self.rng.choice(['', 'NOT '])}IN (SELECT {given} FROM {text})"

    def _quantified(self, kind: str, scope: Scope) -> str:
        text, made, where = self._source_of(scope)
        given = self.rng.choice(
            made.of(kind) or [f"CAST({value(self.rng, kind)} AS {TYPES[kind]})"]
        )
        left = self.expression(kind, Scope(scope.columns), 1)
        operator = self.rng.choice(["<", ">=", "=", "<>"])
        return f"{left} {operator} {self.rng.choice(['ANY', 'ALL'])} (SELECT {given} FROM {text}{where})"

    def _scalar_query(self, kind: str, scope: Scope) -> str:
        text, made, where = self._source_of(scope)
        plain = Scope(made.columns)
        if kind == "int" and self._chance(0.4):
            return f"(SELECT count(*)::INTEGER FROM {text}{where})"
        if kind == "bool":
            return f"(SELECT bool_or({self.predicate(plain, 0)}) FROM {text}{where})"
        end = self._end(kind, lambda k: self.expression(k, plain, 0))
        return f"(SELECT {end} FROM {text}{where})"

    # -- FROM ---------------------------------------------------------------------------------

    def _relation(self) -> tuple[str, Columns]:
        """A table, a subquery, a common table expression, rows as given."""
        name = self._name("q")
        if self._ctes and self._chance(0.35):
            table, columns = self.rng.choice(self._ctes)
        elif self.depth > 1 and self._chance(0.25):
            inner = self._inner()
            text, columns = inner.select()
            return f"({text}) AS {name}", [(f"{name}.{c}", k) for c, k in columns]
        elif self._chance(0.05):
            low, high = sorted(self.rng.randrange(4) for _ in range(2))
            return f"range({low}, {high + 1}) AS {name}(i)", [(f"({name}.i)::INTEGER", "int")]
        elif self._chance(0.05):
            rows = ", ".join(
                f"(CAST({value(self.rng, 'int')} AS INTEGER), CAST({value(self.rng, 'text')} AS VARCHAR))"
                for _ in range(self.rng.randrange(1, 4))
            )
            return f"(VALUES {rows}) AS {name}(i, w)", [(f"{name}.i", "int"), (f"{name}.w", "text")]
        else:
            table = self.rng.choice(sorted(self.tables))
            columns = self.tables[table]
        return f"{table} AS {name}", [(f"{name}.{c}", k) for c, k in columns]

    def _from(self, most: int = 3) -> tuple[str, Columns]:
        text, columns = self._relation()
        while most > 1 and self._chance(0.4):
            most -= 1
            other, theirs = self._relation()
            both = Scope(columns + theirs)
            kind = self.rng.choice(
                ["JOIN"] * 4
                + ["LEFT JOIN"] * 3
                + ["RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]
                + ["SEMI JOIN", "ANTI JOIN", "LATERAL"]
            )
            if kind == "CROSS JOIN":
                text += f" CROSS JOIN {other}"
            elif kind == "LATERAL" and self._chance(0.4):
                name = self._name("l")
                least, most_ = (self.expression("int", Scope(columns), 0) for _ in range(2))
                text += f", unnest([{least}, {most_}, 2]) AS {name}(g)"
                columns = [*columns, (f"{name}.g", "int")]
                continue
            elif kind == "LATERAL":
                name = self._name("l")
                there, made, where = self._source_of(Scope(columns))
                got = self.expression("int", Scope(made.columns), 1)
                aggregate = self.rng.choice(["max({})", "count({})::INTEGER", "{}"])
                join = self.rng.choice(["CROSS JOIN LATERAL", "LEFT JOIN LATERAL"])
                if aggregate == "{}" and self._chance(0.5):
                    where += f" ORDER BY 1{self.rng.choice(['', ' DESC'])} LIMIT {self.rng.randrange(1, 3)}"
                on = " ON true" if join.startswith("LEFT") else ""
                text += f" {join} (SELECT {aggregate.format(got)} AS g FROM {there}{where}) AS {name}{on}"
                columns = [*columns, (f"{name}.g", "int")]
                continue
            else:
                on = self._on(columns, theirs, both)
                text += f" {kind} {other} ON {on}"
                if kind in ("SEMI JOIN", "ANTI JOIN"):
                    continue
            columns = both.columns
        return text, columns

    def _on(
        self, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]], both: Scope
    ) -> str:
        kinds = sorted({k for _, k in left} & {k for _, k in right})
        if not kinds or self._chance(0.1):
            return "true"
        conditions = []
        for _ in range(1 if self._chance(0.75) else 2):
            kind = self.rng.choice(kinds)
            a = self.rng.choice([c for c, k in left if k == kind])
            b = self.rng.choice([c for c, k in right if k == kind])
            operator = self.rng.choice(["="] * 8 + ["<", ">=", "<>", "IS NOT DISTINCT FROM"])
            conditions.append(f"{a} {operator} {b}")
        if self._chance(0.2):
            depth = self.depth
            if self._chance(0.7):
                self.depth = 0
            conditions.append(self.predicate(both, 1))
            self.depth = depth
        return " AND ".join(conditions)

    # -- SELECT -------------------------------------------------------------------------------

    def _kinds(self, wanted: Sequence[str] | None) -> list[str]:
        if wanted is not None:
            return list(wanted)
        return [self.rng.choice(KINDS) for _ in range(self.rng.randrange(1, 4))]

    def _labelled(self, items: Sequence[tuple[str, str]]) -> tuple[str, Columns]:
        text = ", ".join(f"{e} AS c{i}" for i, (e, _) in enumerate(items))
        return text, [(f"c{i}", k) for i, (_, k) in enumerate(items)]

    def _aggregate(self, kind: str, scope: Scope) -> str:
        """An aggregate of a type."""
        e = lambda k, deep=1: self.expression(k, scope, deep)  # noqa: E731
        distinct = "DISTINCT " if self._chance(0.2) else ""
        if kind == "int":
            made = self._one(
                (2, lambda: "count(*)"),
                (2, lambda: f"count({distinct}{e(self.rng.choice(list(TYPES)))})"),
                (2, lambda: f"sum({distinct}{e('int')})"),
                (1, lambda: f"max({e('int')})"),
                (1, lambda: f"min({e('int')})"),
                (0.5, lambda: f"{self.rng.choice(['bit_xor', 'bit_and', 'bit_or'])}({e('int')})"),
                (0.5, lambda: f"count_if({distinct}{self.predicate(scope, 1)})"),
                (0.5, lambda: f"sum({distinct}{self.predicate(scope, 1)})"),
            )
            # (a filter belongs to the aggregate, and the type to both)
            filtered = f" FILTER (WHERE {self.predicate(scope, 1)})" if self._chance(0.15) else ""
            return f"({made}{filtered})::INTEGER"
        if kind == "double":
            made = self._one(
                (2, lambda: f"sum({distinct}{e('double')})"),
                (2, lambda: f"avg({distinct}{e('double')})"),
                (1, lambda: f"avg({e('int')})"),
                (1, lambda: f"median({e('double')})"),
                (0.5, lambda: f"var_pop({e('int')})"),
                (0.5, lambda: f"round({self._statistic(e)}, 6)"),
                (0.3, lambda: f"round(entropy({e(self.rng.choice(list(TYPES)))}), 6)"),
                (0.5, lambda: f"quantile_disc({e('double')}, 0.25)"),
                (0.5, lambda: f"quantile_cont({e('int')}, [0.1, 0.9])[2]"),
                (0.5, lambda: f"max({e('double')}, 2)[2]"),
                (0.5, lambda: (lambda x: f"last({x} ORDER BY {x})")(e("double"))),
            )
            return made
        if kind == "decimal":
            which = self.rng.choice(["sum", "max", "min"])
            return f"{which}({e('decimal')})::DECIMAL(9, 2)"
        if kind == "text":
            return self._one(
                (1, lambda: f"max({e('text')})"),
                (1, lambda: f"min({e('text')})"),
                (1, lambda: (lambda x: f"string_agg({x}, ',' ORDER BY {x})")(e("text"))),
                (0.5, lambda: (lambda x: f"list({x} ORDER BY {x})::VARCHAR")(e("int"))),
                (0.5, lambda: (lambda x: f"string_agg(DISTINCT {x}, ',' ORDER BY {x})")(e("text"))),
                (0.5, lambda: f"histogram({e('int')})::VARCHAR"),
            )
        if kind == "bool":
            return f"{self.rng.choice(['bool_and', 'bool_or'])}({self.predicate(scope, 1)})"
        if kind == "list" and self._chance(0.5):
            x = e("int")
            return f"list({distinct}{x} ORDER BY {x})"
        if kind == "huge" and self._chance(0.5):
            return f"sum({distinct}{e('huge')})"
        return self._end(kind, e)

    def _end(self, kind: str, e: Callable[[str], str]) -> str:
        """The least or greatest value of a type. (DuckDB has none of maps.)"""
        which = self.rng.choice(["min", "max"])
        return f"MAP {{'n': {which}({e('int')})}}" if kind == "map" else f"{which}({e(kind)})"

    def _statistic(self, e: Callable[[str], str]) -> str:
        """A function of how integers lie together."""
        pairs = ["covar_pop", "covar_samp", "corr", "regr_slope", "regr_avgx", "regr_r2"]
        function = self.rng.choice([*pairs, "sem", "skewness", "kurtosis_pop"])
        arguments = [e("int") for _ in range(2 if function in pairs else 1)]
        return f"{function}({', '.join(arguments)})"

    def _grouped(
        self, source: str, scope: Scope, where: str, kinds: Sequence[str]
    ) -> tuple[str, Columns]:
        count = self.rng.randrange(0, min(3, len(kinds)) + 1)
        depth, self.depth = self.depth, 0  # DuckDB takes no subquery in some of these places
        keys = [self.expression(k, scope, 1) for k in kinds[:count]]
        rest = [self._aggregate(k, scope) for k in kinds[count:]]
        text, columns = self._labelled(list(zip([*keys, *rest], kinds, strict=True)))
        group = ""
        if keys:
            ones = [str(i + 1) for i in range(len(keys))]
            group = f" GROUP BY {', '.join(ones)}"
            if self._chance(0.12):
                sets = self.rng.choice(["ROLLUP ({})", "CUBE ({})", "GROUPING SETS (({}), ())"])
                group = f" GROUP BY {sets.format(', '.join(keys))}"
            elif self._chance(0.08):
                of = self._aggregate("int", scope)
                rest[-1:] = (
                    [f"rank() OVER (ORDER BY {of})::INTEGER"]
                    if rest and kinds[-1] == "int"
                    else rest[-1:]
                )
                text, columns = self._labelled(list(zip([*keys, *rest], kinds, strict=True)))
        having = ""
        if self._chance(0.25):
            having = f" HAVING {self._aggregate('int', scope)} {self.rng.choice(['>', '<='])} 2"
        self.depth = depth
        return f"SELECT {text} FROM {source}{where}{group}{having}", columns

    def _window(self, kind: str, scope: Scope) -> str:
        part = self.rng.choice(scope.columns)[0]
        by = self.rng.choice(scope.columns)[0]
        everything = ", ".join(c for c, _ in scope.columns)
        partition = f"PARTITION BY {part} " if self._chance(0.7) else ""
        down = self.rng.choice(["", " DESC", " NULLS FIRST"])
        if kind == "int":
            return self._one(
                (1, lambda: f"rank() OVER ({partition}ORDER BY {by}{down})::INTEGER"),
                (1, lambda: f"dense_rank() OVER ({partition}ORDER BY {by}{down})::INTEGER"),
                (1, lambda: f"row_number() OVER ({partition}ORDER BY {everything})::INTEGER"),
                (
                    1,
                    lambda: (
                        f"(sum({self.expression('int', scope, 0)}) OVER ({partition}ORDER BY {by}{down}))::INTEGER"
                    ),
                ),
                (1, lambda: f"(count(*) OVER ({partition.strip()}))::INTEGER"),
                (
                    1,
                    lambda: (
                        f"lag({self.expression('int', scope, 0)}) OVER ({partition}ORDER BY {everything})"
                    ),
                ),
            )
        if kind == "bool":
            return f"bool_or({self.predicate(Scope(scope.columns), 0)}) OVER ({partition.strip()})"
        which = self.rng.choice(["min", "max", "first_value"][2 * (kind == "map") :])
        frame = (
            f" ROWS BETWEEN {self.rng.randrange(1, 3)} PRECEDING AND CURRENT ROW"
            if self._chance(0.4)
            else ""
        )
        return f"{which}({self.expression(kind, scope, 0)}) OVER ({partition}ORDER BY {everything}{frame})"

    def select(self, wanted: Sequence[str] | None = None) -> tuple[str, Columns]:
        """A SELECT and its columns, named c0, c1 …; of types `wanted`, if given."""
        rng = self.rng
        kinds = self._kinds(wanted)
        if self.depth > 1 and self._chance(0.15):
            return self._set_operation(kinds)
        source, columns = self._from()
        scope = Scope(columns)
        where = f" WHERE {self.predicate(scope)}" if self._chance(0.5) else ""
        if self._chance(0.35):
            return self._grouped(source, scope, where, kinds)
        windows = self._chance(0.12)
        depth = self.depth
        if windows:
            self.depth = 0
        items = [(self.expression(k, scope), k) for k in kinds]
        if windows:  # one: two of them may number rows that are equal in different orders
            items[-1] = (self._window(kinds[-1], scope), kinds[-1])
        self.depth = depth
        text, found = self._labelled(items)
        distinct = "DISTINCT " if self._chance(0.2) else ""
        everything = ", ".join(c for c, _ in columns)
        if not distinct and not windows and self._chance(0.05):
            by = rng.choice(columns)[0]
            made = (
                f"SELECT DISTINCT ON ({by}) {text} FROM {source}{where} ORDER BY {by}, {everything}"
            )
            return f"SELECT * FROM ({made})", found
        made = f"SELECT {distinct}{text} FROM {source}{where}"
        if not distinct and not windows and self._chance(0.06):
            which = rng.choice(["row_number", "rank", "dense_rank"])
            by = rng.choice(columns)[0]
            operator = rng.choice(["= 1", "<= 2", "> 1"])
            made += f" QUALIFY {which}() OVER (PARTITION BY {by} ORDER BY {everything}) {operator}"
        if self._chance(0.08):
            order = ", ".join(
                f"{c}{rng.choice(['', ' DESC'])}{rng.choice(['', ' NULLS FIRST'])}"
                for c, _ in found
            )
            offset = f" OFFSET {rng.randrange(3)}" if self._chance(0.3) else ""
            made = f"SELECT * FROM ({made}) ORDER BY {order} LIMIT {rng.randrange(1, 6)}{offset}"
        return made, found

    def _set_operation(self, kinds: Sequence[str]) -> tuple[str, Columns]:
        inner = self._inner()
        left, columns = inner.select(kinds)
        right, _ = inner.select(kinds)
        operator = self.rng.choice(
            ["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
        )
        casts = ", ".join(f"CAST({c} AS {TYPES[k]}) AS {c}" for c, k in columns)
        sides = [f"SELECT {casts} FROM ({side})" for side in (left, right)]
        return f"(({sides[0]}) {operator} ({sides[1]}))", columns

    def recursion(self, name: str) -> tuple[str, Columns]:
        """The body of a recursive table of one or two integers, of which there are few."""
        kinds = ["int"] * self.rng.choice([1, 2])
        anchor, columns = self.select(kinds)
        mine = [(f"{name}.{c}", k) for c, k in columns]
        depth, self.depth = self.depth, 0
        other, theirs = self._relation()
        both = Scope(mine + theirs)
        on = self._on(mine, theirs, both)
        items = [f"(({self.expression('int', both, 1)}) % 7)::INTEGER" for _ in kinds]
        where = f" WHERE {self.predicate(both, 1)}" if self._chance(0.3) else ""
        self.depth = depth
        return (
            f"SELECT * FROM ({anchor}) UNION SELECT {', '.join(items)} "
            f"FROM {name} JOIN {other} ON {on}{where}"
        ), columns

    def query(self) -> tuple[str, Columns]:
        """A whole query, perhaps with common table expressions, and its columns."""
        before = ""
        if self._chance(0.3):
            parts = []
            for _ in range(self.rng.randrange(1, 3)):
                name = self._name("w")
                inner = self._inner()
                text, columns = inner.recursion(name) if self._chance(0.25) else inner.select()
                parts.append(f"{name} AS ({text})")
                self._ctes = [*self._ctes, (name, columns)]
            before = f"WITH RECURSIVE {', '.join(parts)} "
        text, columns = self.select()
        return before + text, columns
