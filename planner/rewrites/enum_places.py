"""ENUM columns as the places of their values: order, groups, joins and extremes are of integers.

Expressions that look into a value have it again as the ENUM that it is. The result has texts, of
which the view makes the ENUM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.enum_values import place, text_at, values_of
from tidewheel.planner.lower_view import NoDeltaRule
from tidewheel.planner.plans import Queries
from tidewheel.planner.rewrites.children import every
from tidewheel.planner.rewrites.prune import prune
from tidewheel.planner.text import cast_to, column, substituted, to_sql
from tidewheel.planner.view_kernels import statements

PLACE = "INTEGER"
_MOST = 1000  # values: they are in the text of statements
_TEXT = "__tw_text_{}"
_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_LESS = (exp.LT, exp.LTE, exp.GT, exp.GTE)
"""Of an ENUM and a text DuckDB compares texts."""
_PASSED = re.compile(
    r"(count|min|max|first|last|any_?value|arg_?(min|max)(_null)?|(min|max)_by|lag|lead|nth_?value"
    r"|(first|last)_?value|grouping(_?id)?|row_?number|(dense_?|percent_?)?rank)",
    re.IGNORECASE,
)
"""Functions that give a value as it came, or do not look into it."""
_JOINED = re.compile(r"group_?concat|string_?agg|listagg", re.IGNORECASE)


def enum_places(node: L.Node, run: Queries) -> L.Node:
    """The same relation, but for ENUM columns, which are texts."""
    places = _Places(run)
    if not places.any(node):
        return node
    node = places.node(prune(node))
    return L.Project(node, tuple(places.shown(c) for c in node.schema))


class _Places:
    """`kinds`: the types of all columns that were seen, ENUMs by their values."""

    def __init__(self, run: Queries) -> None:
        self._run = run
        self._kinds: dict[str, str] = {}
        self._done: dict[int, tuple[L.Node, L.Node]] = {}
        self._types: dict[str, str] = {}

    def any(self, node: L.Node) -> bool:
        """Has a node of the plan an ENUM?"""
        return any(values_of(c.type) is not None for n in every(node) for c in n.schema)

    def shown(self, c: L.Column) -> L.Named:
        """A column of the result."""
        kind = self._kinds[c.name]
        if values_of(kind) is None:
            return L.Named(c, column(c.name))
        return L.Named(replace(c, type="VARCHAR"), text_at(column(c.name), kind))

    def _column(self, c: L.Column) -> L.Column:
        self._kinds[c.name] = c.type
        values = values_of(c.type)
        if values is not None and len(values) > _MOST:
            raise NoDeltaRule(f"{c.label} is an ENUM of more than {_MOST} values")
        return c if values is None else replace(c, type=PLACE)

    def node(self, node: L.Node) -> L.Node:
        """A node, once."""
        known = self._done.get(id(node))
        if known is None:  # (the first stays, so that its id is not given again)
            known = self._done[id(node)] = node, self._changed(node)
        return known[1]

    def _changed(self, node: L.Node) -> L.Node:
        if isinstance(node, L.Scan):
            return self._given(node, replace(node, columns=self._texts(node.schema)))
        if isinstance(node, L.Block):
            if node.inputs:
                raise NoDeltaRule(node.reason or "SQL that is kept whole")
            return self._given(node, replace(node, columns=self._texts(node.schema)))
        if isinstance(node, L.RecRef):
            return L.RecRef(node.variable, tuple(map(self._column, node.columns)), node.part)
        if isinstance(node, L.LetRec):
            bindings = tuple(map(self._binding, node.bindings))
            return replace(node, bindings=bindings, body=self.node(node.body), whole=None)
        changed: dict[str, Any] = {
            name: self.node(getattr(node, name))
            for name in ("input", "left", "right")
            if isinstance(getattr(node, name, None), L.Node)
        }
        if isinstance(node, L.Filter):
            changed["predicate"] = self._plain(node.predicate)
        elif isinstance(node, L.Project):
            changed["exprs"] = self._named(node.exprs)
        elif isinstance(node, L.Unnest):
            for e in node.exprs:
                self._kinds[e.column.name] = e.column.type
            changed["exprs"] = tuple(L.Named(e.column, self._plain(e.expr)) for e in node.exprs)
        elif isinstance(node, L.Join):
            changed["keys"] = tuple(map(self._key, node.keys))
            if node.residual is not None:
                changed["residual"] = self._plain(node.residual)
        elif isinstance(node, L.AsofJoin):
            changed["keys"] = tuple(map(self._key, node.keys))
            changed["nearest"] = self._plain(node.nearest)
        elif isinstance(node, L.Aggregate):
            changed["keys"] = self._named(node.keys)
            changed["aggregates"] = self._calls(node.aggregates)
        elif isinstance(node, L.Window):
            changed["exprs"] = self._calls(node.exprs)
        elif isinstance(node, L.TopK):
            keys = (replace(k, expr=self._value(k.expr)) for k in node.keys)
            changed["keys"] = tuple(keys)
        elif isinstance(node, L.SetOp):
            changed["columns"] = tuple(map(self._column, node.columns))
        elif not isinstance(node, L.Distinct):
            raise NoDeltaRule(f"{type(node).__name__} of an ENUM")
        return replace(node, **changed)

    def _texts(self, columns: Sequence[L.Column]) -> tuple[L.Column, ...]:
        """What comes from outside: texts, under names of their own."""
        return tuple(
            c if values_of(c.type) is None else L.Column(_TEXT.format(c.name), c.label, "VARCHAR")
            for c in columns
        )

    def _given(self, node: L.Node, texts: L.Node) -> L.Node:
        exprs = []
        for c, t in zip(node.schema, texts.schema, strict=True):
            known = column(t.name)
            exprs.append(L.Named(self._column(c), known if c is t else place(known, c.type)))
        return texts if node.schema == texts.schema else L.Project(texts, tuple(exprs))

    def _binding(self, b: L.Binding) -> L.Binding:
        columns = tuple(map(self._column, b.columns))
        anchor = None if b.anchor is None else self.node(b.anchor)
        steps = tuple(map(self.node, b.steps))
        return replace(b, columns=columns, anchor=anchor, steps=steps, native=None, structural=None)

    def _named(self, exprs: Sequence[L.Named]) -> tuple[L.Named, ...]:
        values = [self._value(e.expr, e.column.type) for e in exprs]
        return tuple(L.Named(self._column(e.column), v) for e, v in zip(exprs, values, strict=True))

    def _calls(self, exprs: Sequence[L.Named]) -> tuple[L.Named, ...]:
        """Aggregates and window functions."""
        return tuple(L.Named(self._column(e.column), self._call(e.expr)) for e in exprs)

    def _call(self, call: exp.Expr) -> exp.Expr:
        if not self._looks(call):
            return call
        if isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.Window):
            found: exp.Expr = call.copy()
            found.set("this", self._call(call.this))
            if isinstance(call, exp.Filter):
                found.set("expression", self._plain(call.expression))
            if isinstance(call, exp.Window):
                by = call.args.get("partition_by") or ()
                found.set("partition_by", [self._value(e) for e in by])
                if call.args.get("order") is not None:
                    self._ordered(found.args["order"])
            return found
        name = call.name if isinstance(call, exp.Anonymous) else call.key
        if not isinstance(call, exp.Func) or call.find(exp.WithinGroup):
            raise NoDeltaRule(f"{name} of an ENUM")
        passed = _PASSED.fullmatch(name)
        found = call.copy()
        for key, arg in call.args.items():
            several = isinstance(arg, list)
            parts = [self._argument(a, name, bool(passed)) for a in (arg if several else [arg])]
            found.set(key, parts if several else parts[0])
        if isinstance(call, exp.Lag | exp.Lead):
            default = call.args.get("default")
            if isinstance(default, exp.Expr) and not isinstance(default, exp.Null):
                found.set("default", self._default(default, self._type(call.this)))
        return found

    def _default(self, default: exp.Expr, kind: str) -> exp.Expr:
        """What `lag` has where there is no row. DuckDB casts it to the type of the values."""
        if values_of(kind) is None:
            return self._plain(default)
        known = self._constant(default, kind)
        return place(self._plain(default), kind) if known is None else known

    def _argument(self, arg: Any, name: str, passed: bool) -> Any:
        if not isinstance(arg, exp.Expr) or not self._looks(arg):
            return arg
        if isinstance(arg, exp.Distinct | exp.Order):
            found = arg.copy()
            if isinstance(arg, exp.Order):
                found.set("this", self._argument(arg.this, name, passed))
                self._ordered(found)
            else:
                each = [self._argument(e, name, passed) for e in arg.expressions]
                found.set("expressions", each)
            return found
        if passed:
            return self._value(arg)
        kind = self._type(arg)
        if values_of(kind) is None:
            return self._plain(arg)
        if not _JOINED.fullmatch(name):
            raise NoDeltaRule(f"{name} of an ENUM")
        return self._text(arg, kind)

    def _ordered(self, order: exp.Expr) -> None:
        for key in order.expressions:
            key.set("this", self._value(key.this))

    def _key(self, key: L.EquiKey) -> L.EquiKey:
        if not (self._looks(key.left) or self._looks(key.right)):
            return key
        left, right = self._type(key.left), self._type(key.right)
        if left == right:
            return replace(
                key, left=self._value(key.left, left), right=self._value(key.right, right)
            )
        return replace(key, left=self._text(key.left, left), right=self._text(key.right, right))

    def _text(self, expression: exp.Expr, kind: str) -> exp.Expr:
        """A value, as a text if it is one of an ENUM."""
        if values_of(kind) is None:
            return self._plain(expression)
        return text_at(self._value(expression, kind), kind)

    def _looks(self, expression: exp.Expr) -> bool:
        """Is there an ENUM in an expression?"""
        if any(values_of(self._kinds.get(c.name, "")) for c in expression.find_all(exp.Column)):
            return True
        if any(call.name.lower() == "union_tag" for call in expression.find_all(exp.Anonymous)):
            return True  # the one function that makes an ENUM of what is none
        enum, own = exp.DataType.Type.ENUM, exp.DataType.Type.USERDEFINED
        return any(t.this in (enum, own) for t in expression.find_all(exp.DataType))

    def _type(self, expression: exp.Expr) -> str:
        if isinstance(expression, exp.Column):
            return self._kinds[expression.name]
        kinds = {c.name: self._kinds[c.name] for c in expression.find_all(exp.Column)}
        nulls = {name: cast_to(exp.Null(), kind) for name, kind in kinds.items()}
        asked = substituted(self._resolved(expression), nulls)
        try:
            return str(statements().value(f"system.main.typeof({to_sql(asked)})"))
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise NoDeltaRule(f"the type of a part of it is not known: {first}") from None

    def _value(self, expression: exp.Expr, kind: str = "") -> exp.Expr:
        """An expression; the place of its value if its type (`kind`, if known) is an ENUM."""
        if isinstance(expression, exp.Column) or not self._looks(expression):
            return expression
        kind = kind or self._type(expression)
        values = values_of(kind)
        if values is None:
            return self._plain(expression)
        known = self._constant(expression, kind)
        return place(self._plain(expression), kind) if known is None else known

    def _plain(self, expression: exp.Expr) -> exp.Expr:
        """An expression that is no ENUM, over places."""
        if not self._looks(expression):
            return expression
        return self._resolved(expression).transform(self._shorter, copy=False)

    def _resolved(self, expression: exp.Expr) -> exp.Expr:
        """A copy with the user's types as what they are: kernels do not know their names."""
        found = expression.copy()
        for kind in list(found.find_all(exp.DataType)):
            if kind.this == exp.DataType.Type.USERDEFINED:
                name = to_sql(kind)
                if name not in self._types:
                    asked = f"SELECT system.main.typeof(CAST(NULL AS {name}))"
                    self._types[name] = self._run.row(asked)[0]
                kind.replace(cast_to(exp.Null(), self._types[name]).args["to"])
        return found

    def _shorter(self, e: exp.Expr) -> exp.Expr:
        """What stands for a part of an expression; itself if its own parts are to be seen."""
        if isinstance(e, exp.Column):
            kind = self._kinds.get(e.name, "")
            return e if values_of(kind) is None else cast_to(text_at(e.copy(), kind), kind)
        if not isinstance(e.this, exp.Column):
            return e
        kind = self._kinds.get(e.this.name, "")
        if values_of(kind) is None:
            return e
        if type(e) in _EQUAL or type(e) in _LESS:
            other = self._constant(e.expression, kind)
            text = isinstance(e.expression, exp.Literal)
            if other is not None and not (text and type(e) in _LESS):
                return type(e)(this=e.this.copy(), expression=other)
        elif isinstance(e, exp.Is) and isinstance(e.expression, exp.Null):
            return e.copy()
        elif isinstance(e, exp.In) and e.expressions and not e.args.get("query"):
            places = [self._constant(x, kind) for x in e.expressions]
            known = [p for p in places if p is not None]
            if len(known) == len(places):
                return exp.In(this=e.this.copy(), expressions=known)
        elif type(e) is exp.Cast and e.args["to"].this == exp.DataType.Type.TEXT:
            return text_at(e.this.copy(), kind)
        return e

    def _constant(self, e: exp.Expr, kind: str) -> exp.Expr | None:
        """The place of a constant or a column of an ENUM; None for all else."""
        if isinstance(e, exp.Column):
            return e.copy() if self._kinds.get(e.name) == kind else None
        values = values_of(kind) or ()
        if type(e) is exp.Cast:
            resolved = self._resolved(e)
            if to_sql(resolved.args["to"]) != to_sql(cast_to(exp.Null(), kind).args["to"]):
                return None
            e = e.this
        text = e.this if isinstance(e, exp.Literal) and e.is_string else None
        return exp.Literal.number(values.index(text)) if text in values else None
