"""Subqueries that read no table, but rows of a value: of a list, of JSON, of VALUES, of a series.

Such a one is a function of the row around it, and stays an expression, as it is written:

    SELECT (SELECT max(x) FROM unnest(t.l) AS u(x) WHERE x < t.a) FROM t

becomes, over the columns ``a_1`` and ``l_2`` of the plan,

    (SELECT (SELECT max(x) FROM unnest(t.l) AS u(x) WHERE x < t.a)
     FROM (SELECT a_1, l_2) AS "t"("a", "l"))

in which DuckDB finds the names as it would in the query. One of a FROM item becomes the list of its
rows, which is then unnested. What might give another value for the same row, next to other rows, is
not taken: a view computes it when the row comes and again when it goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlglot import exp

from tidewheel.planner.logical import Column, Named, Node, Project, Unnest, names_of, references
from tidewheel.planner.text import cast_to, column, identifier, to_sql, unchanged

from .bind_names import Aggregates
from .bind_query import around_of
from .bind_scope import NotTaken, Relation, Scope, Visible, parts_of
from .bind_types import function_name, is_volatile

if TYPE_CHECKING:
    from .binder import Binder

_SOURCES = frozenset({"unnest", "range", "generate_series", "json_each", "json_tree"})
_ANY_ORDER = frozenset(
    {"count", "count_star", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor",
     "median", "quantile", "quantile_cont", "quantile_disc", "approx_count_distinct"}
)  # fmt: skip
"""Aggregates that are the same in any order of the rows."""
_SUMS = frozenset({"sum", "avg", "mean"})
"""So are these, of exact numbers."""
_BY_ORDER = frozenset(
    {"list", "array_agg", "string_agg", "group_concat", "listagg", "first", "last", "any_value",
     "arg_min", "arg_max", "min_by", "max_by", "argmin", "argmax", "histogram"}
)  # fmt: skip
"""These follow the order of the rows: the value's own, where nothing else is read. (Which of
several `mode` takes, and the order of DISTINCT values, depend on how DuckDB divides the rows.)"""
_EXACT = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL", "UTINYINT",
          "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BOOLEAN")  # fmt: skip
_ROWS, _OPERANDS = "__tw_rows", "__tw_operands"

Met = dict[str, exp.Expr]
Level = list[tuple[Relation, list[Visible]]]
"""FROM items of one SELECT around, and those of their columns that may be meant."""


def operand(i: int) -> exp.Column:
    """What stands for the i-th value that a subquery is compared with."""
    return column(f"{_OPERANDS}_{i}")


def reads_values_alone(node: exp.Expr) -> bool:
    """Are there rows of values in a subquery or FROM item, and no table?"""
    tables = [function_name(t.this) in _SOURCES for t in node.find_all(exp.Table)]
    values = node.find(exp.Unnest, exp.Explode, exp.Values, exp.GenerateSeries)
    return all(tables) and (bool(tables) or values is not None)


class OwnRows:
    """Such subqueries of one SELECT."""

    def __init__(self, binder: Binder, aggregates: Aggregates) -> None:
        self._oracle = binder.oracle
        self._names = binder.names
        self._any_row = binder.first_row_of_many
        self._aggregates = aggregates

    def value(
        self,
        node: exp.Expr,
        scope: Scope,
        aliases: Collection[str],
        operands: Sequence[exp.Expr] = (),
    ) -> exp.Expr:
        """A subquery, EXISTS, IN or ANY over columns of `scope` and of the SELECTs around it.

        `aliases`: names of the SELECT list, which it must not use. `operands`: the values that
        `operand` stands for in it.
        """
        levels = self._levels(node, scope, aliases)
        self._check(node, scope, levels)
        return _wrapped(f"({to_sql(node)})", self._read(node, levels), operands)

    def _read(self, node: exp.Expr, levels: list[Level]) -> list[Level]:
        """Without the columns that are called as one of the subquery's own, which is meant.

        (Above GROUP BY there may be no such column.)
        """
        known = [v.column for level in levels for _, vs in level for v in vs]
        text = f"EXISTS ({to_sql(_query_of(node))})"
        for name in sorted(_names_made(node) & {c.label.lower() for c in known}):
            fewer = [
                [(r, kept) for r, vs in level if (kept := [v for v in vs if not v.called(name)])]
                for level in levels
            ]
            with suppress(NotTaken):
                self._oracle.types([_wrapped(text, fewer, ())], known)
                levels = fewer
        if not any(levels):
            raise NotTaken("a subquery that reads nothing of the row around it")
        return levels

    def item(
        self, item: exp.Expr, left: Node, scope: Scope, outer: bool
    ) -> tuple[Node, list[str], list[Column]]:
        """`left` with the rows of a FROM item that reads it; of an outer join if `outer`.

        And the item's columns with their names.
        """
        query, level = self._of_one_level(item, scope)
        if not {v.column.name for _, vs in level for v in vs} <= names_of(left):
            raise NotTaken("a FROM item that reads more than those before it")
        text = to_sql(query)
        described = self._oracle.describe(_shown(text, level))
        places = [f"c{i}" for i in range(len(described))]
        fields = ", ".join(f"'{p}': {p}" for p in places)
        listed = f"(SELECT list({{{fields}}}) FROM ({text}) AS {_ROWS}({', '.join(places)}))"
        value = _wrapped(listed, [level], ())
        if outer:
            value = exp.Coalesce(this=value, expressions=[exp.Array(expressions=[exp.null()])])
        call = exp.Explode(this=value)
        row = self._names.fresh("row", self._oracle.types([call], left.schema)[0])
        new = [self._names.fresh(label, type_) for label, type_ in described]
        kept = unchanged(left.schema)
        parts = (
            Named(c, exp.Dot(this=column(row.name), expression=identifier(p)))
            for c, p in zip(new, places, strict=True)
        )
        unnested = Unnest(left, (Named(row, call),))
        return Project(unnested, (*kept, *parts)), [label for label, _ in described], new

    def around(self, item: exp.Expr, scope: Scope) -> tuple[Node, list[str], list[Column], Met]:
        """The rows of a FROM item beside the values that it reads of a SELECT around.

        And what these are there, by their names outside.
        """
        _, level = self._of_one_level(item, scope)
        node, met = around_of([v.column for _, vs in level for v in vs], self._names)
        here = {c.name: c for c in node.schema}
        inside = [
            Relation(r.path, [Visible(v.label, here[met[v.column.name].name], None) for v in vs])
            for r, vs in level
        ]
        for visible in (v for r in inside for v in r.columns):
            visible.merged = visible.column
        return *self.item(item, node, Scope(inside), False), met

    def _of_one_level(self, item: exp.Expr, scope: Scope) -> tuple[exp.Expr, Level]:
        """A FROM item as a query, and what it reads of one SELECT around."""
        query = item.this if isinstance(item, exp.Subquery) else exp.select("*").from_(item.copy())
        levels = self._levels(query, scope, ())
        self._check(query, scope, levels)
        found = [level for level in levels if level]
        if len(found) > 1:
            raise NotTaken("a FROM item that reads several SELECTs around it")
        return query, found[0]

    # -- what it reads of the SELECTs around

    def _levels(self, node: exp.Expr, scope: Scope, aliases: Collection[str]) -> list[Level]:
        """From the nearest SELECT outwards: the columns whose names are mentioned."""
        if any(isinstance(c.this, exp.Star) and c.table for c in node.find_all(exp.Column)):
            raise NotTaken("all columns of a FROM item in a subquery over a value")
        mentioned = {i.name.lower() for i in node.find_all(exp.Identifier)}
        alone = {parts_of(c)[0].lower() for c in node.find_all(exp.Column)}
        if alone & {a.lower() for a in aliases}:
            raise NotTaken("an alias of the SELECT list in a subquery over a value")
        levels: list[Level] = []
        at: Scope | None = scope
        while at is not None:
            if at.before:  # the items before one that is bound: those that it reads are in `scope`
                others = [r for r in at.relations if not any(r is own for own in scope.relations)]
                if any(_mentioned(r, mentioned) for r in others):
                    raise NotTaken("a subquery over a value of a FROM item before this one")
                at = at.parent
                continue
            level = [(r, _mentioned(r, mentioned)) for r in at.relations]
            labels = [v.label.lower() for _, vs in level for v in vs]
            twice = {n for n in labels if labels.count(n) > 1}
            of_rows = {r.path[-1].lower() for r in at.relations if r.path} - set(labels)
            if alone & (twice | of_rows) - _qualifiers(node):
                raise NotTaken("a name of several columns, or of a row, in a subquery over a value")
            levels.append([(r, vs) for r, vs in level if vs])
            at = at.parent
        while levels and not levels[-1]:
            levels.pop()
        if not any(levels):
            raise NotTaken("a subquery that reads nothing of the row around it")
        return levels

    # -- what is not the same each time

    def _check(self, node: exp.Expr, scope: Scope, levels: Sequence[Level]) -> None:
        if is_volatile(node) or node.find(exp.Parameter, exp.Placeholder, exp.With, exp.Window):
            raise NotTaken("a subquery over a value with WITH, parameters, or windows")
        if not reads_values_alone(node):
            raise NotTaken("a subquery that reads a table")
        if self._any_row:
            raise NotTaken("a subquery over a value, any row of which will do")
        selects = list(node.find_all(exp.Select))
        one = len(selects) == 1 and not selects[0].args.get("joins")
        for select in selects:
            _check_first_rows(select)
        for setop in node.find_all(exp.SetOperation):
            if setop.args.get("limit") or setop.args.get("offset"):
                raise NotTaken("LIMIT of a set operation over a value")
        own = _own_names(selects[0]) if one else set()
        for call in [n for n in node.walk() if self._aggregates.is_unit(n)]:
            self._check_aggregate(call, scope, own)
            name = function_name(call)
            if name in _ANY_ORDER or not name:
                continue  # a wrapper, as FILTER, has its call below it
            if name in _BY_ORDER and one and (call.find(exp.Distinct) is None or _settled(call)):
                continue
            if not (name in _SUMS and one and self._of_exact(call, selects[0], levels)):
                raise NotTaken(f"{name} in a subquery over a value")

    def _check_aggregate(self, call: exp.Expr, scope: Scope, own: set[str]) -> None:
        """One of nothing but columns of a SELECT around is an aggregate of that one."""
        read = [parts_of(c) for c in call.find_all(exp.Column)]
        inner = ({n.lower() for n in p[:2]} <= own or not _found(scope, p) for p in read)
        if read and not any(inner):
            raise NotTaken("an aggregate of the SELECT around, in a subquery")

    def _of_exact(self, call: exp.Expr, select: exp.Select, levels: Sequence[Level]) -> bool:
        """Is what a sum adds up a number without rounding?"""
        rows = select.copy()
        for clause in ("group", "having", "order", "qualify", "distinct", "where"):
            rows.set(clause, None)
        rows.set("expressions", [call.this.copy()])
        text = f"SELECT list(x) FROM ({to_sql(rows)}) AS {_ROWS}(x)"
        inputs = [v.column for level in levels for _, vs in level for v in vs]
        (type_,) = self._oracle.types([_wrapped(f"({text})", levels, ())], inputs)
        return type_.endswith("[]") and type_[:-2].split("(")[0] in _EXACT


def _query_of(node: exp.Expr) -> exp.Expr:
    """What has rows in EXISTS, IN, a comparison with ANY or ALL, ARRAY, or is a value."""
    if isinstance(node, exp.In):
        return node.args["query"]  # type: ignore[no-any-return]
    if isinstance(node, exp.Array):
        return node.expressions[0]  # type: ignore[no-any-return]
    if isinstance(node, exp.Binary):
        return node.expression.this  # type: ignore[no-any-return]
    return node.this if isinstance(node, exp.Exists) else node


def _names_made(node: exp.Expr) -> set[str]:
    """The names, in lower case, that a subquery gives to FROM items and to columns."""
    aliases = list(node.find_all(exp.TableAlias))
    found = [a.name for a in (*aliases, *node.find_all(exp.Alias))]
    return {n.lower() for n in (*found, *(c.name for a in aliases for c in a.columns))}


def _settled(call: exp.Expr) -> bool:
    """Is an aggregate of DISTINCT values ordered by them?"""
    order, distinct = call.find(exp.Order), call.find(exp.Distinct)
    keys = [] if order is None else [k.this for k in order.expressions]
    return distinct is not None and all(e in keys for e in distinct.expressions)


def _mentioned(relation: Relation, names: Collection[str]) -> list[Visible]:
    found = [v for v in relation.columns if v.label.lower() in names or v.also in names]
    if any(v.merged is not None and v.merged is not v.column for v in found):
        raise NotTaken("a column of USING in a subquery over a value")
    return found


def _qualifiers(node: exp.Expr) -> set[str]:
    """Names that only ever stand before a dot."""
    first = [parts_of(c) for c in node.find_all(exp.Column)]
    return {p[0].lower() for p in first} - {p[0].lower() for p in first if len(p) == 1}


def _found(scope: Scope, parts: Sequence[str]) -> bool:
    try:
        return scope.find_around(parts) is not None
    except NotTaken:
        return True


def _own_names(select: exp.Select) -> set[str]:
    """The names of the FROM item of a SELECT, and of its columns as far as they are written."""
    source = select.args.get("from_")
    alias = None if source is None else source.this.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return set()
    return {n.lower() for n in (alias.name, *(c.name for c in alias.columns)) if n}


def _check_first_rows(select: exp.Select) -> None:
    """Only some of the rows: NotTaken unless they are the same, whichever of equals they are."""
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise NotTaken("DISTINCT ON in a subquery over a value")
    if select.args.get("sample") or select.args.get("qualify"):
        raise NotTaken("a sample in a subquery over a value")
    if select.args.get("limit") or select.args.get("offset"):
        order = select.args.get("order")
        keys = [] if order is None else [k.this for k in order.expressions]
        if not all(e.unalias() in keys or e in keys for e in select.expressions):
            raise NotTaken("first rows of a subquery over a value, where others may be equal")


def _source(name: str, labels: Sequence[str], values: Sequence[exp.Expr]) -> exp.Subquery:
    """``(SELECT values) AS name(labels)``: a value never sees a label as the name of another."""
    alias = exp.TableAlias(this=identifier(name), columns=[identifier(x) for x in labels])
    return exp.Subquery(this=exp.Select(expressions=list(values)), alias=alias)


def _name(relation: Relation) -> str:
    return relation.path[-1] if relation.path else f"{_ROWS}_unnamed"


def _shown(text: str, level: Level) -> str:
    """The columns of a query over a row of a level, whatever is in it."""
    sources = [
        _source(_name(r), [v.label for v in vs], [cast_to(exp.null(), v.column.type) for v in vs])
        for r, vs in level
    ]
    listed = ", ".join(map(to_sql, sources))
    return f"SELECT {_ROWS}.* FROM {listed}, LATERAL ({text}) AS {_ROWS}"


def _wrapped(text: str, levels: Sequence[Level], operands: Sequence[exp.Expr]) -> exp.Expr:
    """``(SELECT text FROM (SELECT a_1) AS "t"("a"))``, one in the other for each level."""
    shown = [v for level in levels for _, visible in level for v in visible]
    read = {v.column.name for v in shown}.union(*map(references, operands))
    if {n.lower() for n in read} & {v.label.lower() for v in shown}:
        raise NotTaken("a column that is called as another one is in the plan")
    marks = [operand(i).name for i in range(len(operands))]
    result: exp.Expr = exp.Var(this=text)
    for level in levels:
        items = [
            (_name(r), [v.label for v in vs], [column(v.column.name) for v in vs])
            for r, vs in level
        ]
        sources: list[exp.Expr] = []
        for name, labels, values in items or [(_OPERANDS, [], [])]:
            # (beside the first item's columns: one item is simpler for DuckDB than two)
            sources.append(_source(name, [*labels, *marks], [*values, *operands]))
            marks, operands = [], []
        if items or sources[0].this.expressions:
            select = exp.Select(expressions=[result], from_=exp.From(this=sources[0]))
            select.set("joins", [exp.Join(this=s) for s in sources[1:]])
            result = exp.Paren(this=exp.Subquery(this=select))
    return result
