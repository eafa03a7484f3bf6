"""Is a step structural: joins on equality, arithmetic and comparisons of integers, nothing else?

Then its loop needs no SQL (engine/operators/traverse.py). What concerns one relation alone (its
filters, any expression over its columns) is pushed into the query that reads it, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidewheel.engine.quoting import quoted

from ..engine.operators.step_program import (
    FAR,
    Compare,
    Compute,
    Limits,
    Number,
    Program,
    Slot,
    Value,
)
from ..planner.logical import Column
from .bind_names import conjuncts
from .recursion_flow import NotStructural, carried, flows, slots

Describe = Callable[[str], Sequence[tuple[str, str]]]

_INTEGERS = frozenset(
    ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"]
)
_LIMITS = {"INTEGER": (-(1 << 31), (1 << 31) - 1), "BIGINT": (-FAR, FAR)}
"""Types whose arithmetic is done here: with values and literals of one of them it stays in it."""
_COMPARE = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_COMPUTE = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


@dataclass(frozen=True)
class Structure:
    """A program, the queries of its relations (key first), and where its columns come from.

    `sources[i]`: (input port, column) of values that column i takes over (port 0 is the anchor);
    `bounds[i]`: least and greatest value of a computed column, as far as known.
    """

    program: Program
    relations: tuple[str, ...]
    sources: tuple[tuple[tuple[int, int], ...], ...]
    bounds: tuple[tuple[int, int] | None, ...]
    carried: int | None


@dataclass
class _Relation:
    alias: str
    text: str
    columns: dict[str, str]
    where: list[str]
    key: str = ""
    appended: list[str] | None = None


def structure(
    select: exp.Expr | None,
    name: str,
    columns: Sequence[Column],
    describe: Describe,
    improving: Sequence[str | None] = (),
    every: bool = False,
    alone: bool = False,
) -> Structure | None:
    """The structure of the step `select` of recursive table `name`; None if it has none.

    `describe` gives the columns of a query that stands where the step stands. `improving`: the
    aggregate of each column whose step is grouped (None for a key). `every`: values may
    be any of their types. `alone`: there may be no relation that is joined.
    """
    if not isinstance(select, exp.Select) or any(c.type not in _INTEGERS for c in columns):
        return None
    try:
        return _Analysis(select, name, columns, describe, improving, every, alone).result()
    except NotStructural:
        return None


class _Analysis:
    def __init__(
        self,
        select: exp.Select,
        name: str,
        columns: Sequence[Column],
        describe: Describe,
        improving: Sequence[str | None],
        every: bool,
        alone: bool,
    ) -> None:
        self.select = select
        self.columns = columns
        self.describe = describe
        self.improving = improving
        self.every = every
        self.types: dict[str, str] = {}
        self.own = ""
        self.relations: dict[str, _Relation] = {}
        self.order: list[_Relation] = []
        self.slots: dict[tuple[str, str], int] = {}
        self.check_clauses()
        self.tables(name)
        if not self.own or not (self.relations or alone):
            raise NotStructural("no join")

    def check_clauses(self) -> None:
        allowed = {"expressions", "from_", "from", "joins", "where", "kind"}
        if self.improving:
            allowed.add("group")
        for key, value in self.select.args.items():
            if key in allowed or not value:
                continue
            plain = not self.improving and not self.every
            if key == "distinct" and not value.args.get("on") and plain:
                continue
            raise NotStructural(key)
        if self.select.args.get("kind"):
            raise NotStructural("kind")

    def tables(self, name: str) -> None:
        """The recursive table and the relations of the FROM clause; all joins are inner."""
        source = self.select.args.get("from_") or self.select.args.get("from")
        if source is None:
            raise NotStructural("no FROM")
        self.conditions: list[exp.Expr] = []
        items = [source.this]
        for join in self.select.args.get("joins") or ():
            plain = (
                not join.side and not join.method and (join.kind or "") in ("", "INNER", "CROSS")
            )
            if not plain or join.args.get("using"):
                raise NotStructural("join")
            if join.args.get("on") is not None:
                self.conditions += conjuncts(join.args["on"])
            items.append(join.this)
        where = self.select.args.get("where")
        if where is not None:
            self.conditions += conjuncts(where.this)
        for item in items:
            if any(
                item.args.get(k) for k in ("joins", "pivots", "sample", "laterals", "ordinality")
            ):
                raise NotStructural("table")
            alias = item.alias_or_name.lower()
            if alias in self.relations or alias == self.own or not alias:
                raise NotStructural("alias")
            if isinstance(item, exp.Table) and item.name.lower() == name.lower() and not item.db:
                named = item.args.get("alias")
                if self.own or (named is not None and named.columns):
                    raise NotStructural("self-join")
                self.own = alias
                continue
            if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
                raise NotStructural("no plain table")
            text = item.sql(dialect="duckdb", comments=False)
            known = {n.lower(): t for n, t in self.describe(f"SELECT * FROM {text}")}
            self.relations[alias] = _Relation(alias, text, known, [])
        for i, column in enumerate(self.columns):
            self.slots[self.own, column.label.lower()] = i

    # -- columns

    def place(self, column: exp.Column) -> tuple[str, str]:
        """Alias and name of a column."""
        name = column.name.lower()
        if column.table:
            alias = column.table.lower()
            if alias == self.own or name in getattr(self.relations.get(alias), "columns", {}):
                return alias, name
            raise NotStructural(column.sql())
        found = [a for a, r in self.relations.items() if name in r.columns]
        if (self.own, name) in self.slots:
            found.append(self.own)
        if len(found) != 1:
            raise NotStructural(column.sql())
        return found[0], name

    def aliases(self, node: exp.Expr) -> set[str]:
        """Whose columns an expression reads."""
        if list(node.find_all(exp.Query, exp.Window, exp.AggFunc)):
            raise NotStructural("subquery")
        return {self.place(c)[0] for c in node.find_all(exp.Column)}

    def result(self) -> Structure:
        joins, mixed = self.split_conditions()
        keys: list[int] = []
        waiting = dict(self.relations)
        available = {self.own}
        while waiting:
            step = next(
                (
                    (i, a, mine, theirs)
                    for i, (left, right) in enumerate(joins)
                    for mine, theirs in ((left, right), (right, left))
                    for a in [self.place(theirs)[0]]
                    if a in waiting and self.place(mine)[0] in available
                ),
                None,
            )
            if step is None:
                raise NotStructural("a relation without a key")
            position, alias, mine, theirs = step
            joins.pop(position)
            relation = waiting.pop(alias)
            relation.key = self.integer(relation, theirs)
            relation.appended = []
            keys.append(self.slot(mine))
            self.order.append(relation)
            available.add(alias)
        compares = [Compare("=", Slot(self.slot(a)), Slot(self.slot(b))) for a, b in joins] + [
            self.compare(c) for c in mixed
        ]
        if len(self.select.expressions) != len(self.columns):
            raise NotStructural("width")
        outputs = tuple(self.output(i, e) for i, e in enumerate(self.select.expressions))
        for value, how in zip(outputs, self.improving, strict=False):
            if how is None and not isinstance(value, Slot):
                raise NotStructural("a computed key")
        return self.finish(keys, compares, outputs)

    def split_conditions(self) -> tuple[list[tuple[exp.Column, exp.Column]], list[exp.Expr]]:
        """Equalities between tables, and other conditions; those of one relation are pushed."""
        joins: list[tuple[exp.Column, exp.Column]] = []
        mixed: list[exp.Expr] = []
        for condition in self.conditions:
            read = self.aliases(condition)
            if len(read) == 1 and self.own not in read:
                relation = self.relations[next(iter(read))]
                relation.where.append(condition.sql(dialect="duckdb", comments=False))
            elif (
                isinstance(condition, exp.EQ)
                and isinstance(condition.this, exp.Column)
                and isinstance(condition.expression, exp.Column)
                and len(read) == 2
            ):
                joins.append((condition.this, condition.expression))
            else:
                mixed.append(condition)
        return joins, mixed

    def integer(self, relation: _Relation, node: exp.Expr) -> str:
        """The text of an expression over one relation, which must give integers."""
        text = node.sql(dialect="duckdb", comments=False)
        described = self.describe(f"SELECT {text} AS c FROM {relation.text}")
        if described[0][1] not in _INTEGERS:
            raise NotStructural(described[0][1])
        self.types[text] = described[0][1]
        return text

    def slot(self, column: exp.Column) -> int:
        """The slot of a column, added to its relation's query where it is new."""
        alias, name = self.place(column)
        if alias == self.own:
            if (alias, name) not in self.slots:
                raise NotStructural(name)
            return self.slots[alias, name]
        return self.append(self.relations[alias], column)

    def append(self, relation: _Relation, node: exp.Expr) -> int:
        """A number for an expression over a relation; `finish` turns it into its slot."""
        text = self.integer(relation, node)
        assert relation.appended is not None
        if text not in relation.appended:
            relation.appended.append(text)
        # Slots of relations are numbered when all are known: until then below zero.
        return -1 - (self.order.index(relation) * 1000 + relation.appended.index(text))

    # -- values

    def value(self, node: exp.Expr) -> Value:
        """An expression over several tables as a value."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            inner = self.value(node.this)
            assert isinstance(inner, Number)
            return Number(-inner.value)
        if isinstance(node, exp.Literal):
            if node.is_string or not node.this.isdecimal() or int(node.this) >= 1 << 31:
                raise NotStructural("literal")
            return Number(int(node.this))
        read = self.aliases(node)
        pushed = not self.every or isinstance(node, exp.Column)
        if len(read) == 1 and self.own not in read and pushed:
            # (where all rows stay, an error is to be one of a row that is joined)
            return Slot(self.append(self.relations[next(iter(read))], node))
        if isinstance(node, exp.Column):
            return Slot(self.slot(node))
        operator = next((o for t, o in _COMPUTE.items() if type(node) is t), None)
        if operator is not None:
            return Compute(operator, self.value(node.this), self.value(node.expression))  # type: ignore[arg-type]
        if isinstance(node, (exp.Least, exp.Greatest)):
            parts = [node.this, *node.expressions]
            name = "least" if isinstance(node, exp.Least) else "greatest"
            found = self.value(parts[0])
            for part in parts[1:]:
                found = Compute(name, found, self.value(part))  # type: ignore[arg-type]
            return found
        raise NotStructural(type(node).__name__)

    def compare(self, node: exp.Expr) -> Compare:
        while isinstance(node, exp.Paren):
            node = node.this
        operator = next((o for t, o in _COMPARE.items() if type(node) is t), None)
        if operator is None:
            raise NotStructural(type(node).__name__)
        return Compare(operator, self.value(node.this), self.value(node.expression))  # type: ignore[arg-type]

    def output(self, i: int, item: exp.Expr) -> Value:
        while isinstance(item, (exp.Alias, exp.Paren)):
            item = item.this
        if self.improving and self.improving[i] is not None:
            wanted = exp.Min if self.improving[i] == "min" else exp.Max
            if type(item) is not wanted:
                raise NotStructural("aggregate")
            item = item.this
        if isinstance(item, exp.Star):
            raise NotStructural("*")
        return self.value(item)

    # -- the end

    def finish(
        self, keys: list[int], compares: list[Compare], outputs: tuple[Value, ...]
    ) -> Structure:
        width = len(self.columns)
        bases: list[int] = []
        for relation in self.order:
            bases.append(width)
            assert relation.appended is not None
            width += len(relation.appended)

        def index(slot: int) -> int:
            if slot >= 0:
                return slot
            which, column = divmod(-1 - slot, 1000)
            return bases[which] + column

        def settle(value: Value) -> Value:
            if isinstance(value, Slot):
                return Slot(index(value.index))
            if isinstance(value, Compute):
                return Compute(value.operator, settle(value.left), settle(value.right))
            return value

        own = len(self.columns)
        before: list[Compare] = []
        after: list[Compare] = []
        for c in compares:
            settled = Compare(c.operator, settle(c.left), settle(c.right))
            early = all(s < own for s in slots(settled.left) | slots(settled.right))
            (before if early else after).append(settled)
        settled_outputs = tuple(settle(o) for o in outputs)
        program = Program(
            own,
            tuple(index(k) for k in keys),
            tuple(len(r.appended or ()) for r in self.order),
            tuple(before),
            tuple(after),
            settled_outputs,
        )
        origin = {s: (0, s) for s in range(own)}
        for port, (relation, base) in enumerate(zip(self.order, bases, strict=True), 1):
            for n in range(len(relation.appended or ())):
                origin[base + n] = (port, n + 1)
        queries = tuple(self.query(r) for r in self.order)
        if self.every:
            types = [c.type for c in self.columns]
            types += [self.types[t] for r in self.order for t in r.appended or ()]
            limits = tuple(
                _type_limits(o, types, c.type) if isinstance(o, Compute) else None
                for o, c in zip(settled_outputs, self.columns, strict=True)
            )
            return Structure(replace(program, limits=limits), queries, (), (), None)
        sources, bounds = flows(program, origin, self.improving)
        limits = tuple(
            (-FAR, FAR) if isinstance(o, Compute) and b is None else None
            for o, b in zip(settled_outputs, bounds, strict=True)
        )
        carries = carried(program)
        return Structure(replace(program, limits=limits), queries, sources, bounds, carries)

    def query(self, relation: _Relation) -> str:
        items = [f"{relation.key} AS k"]
        items += [f"{t} AS {quoted(f'c{i}')}" for i, t in enumerate(relation.appended or ())]
        where = " AND ".join(f"({w})" for w in relation.where)
        tail = f" WHERE {where}" if where else ""
        return f"SELECT {', '.join(items)} FROM {relation.text}{tail}"


def _type_limits(value: Value, types: Sequence[str], wanted: str) -> Limits:
    """What values of a computed column DuckDB has no error for, where all in it is of its type."""
    if wanted not in _LIMITS or any(types[s] != wanted for s in slots(value)):
        raise NotStructural("arithmetic over several types")
    return _LIMITS[wanted]
