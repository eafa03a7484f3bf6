"""Small pieces of SQL as sqlglot trees, and their text."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from tidewheel.engine.quoting import quoted
from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.logical import AsofJoin, Block, Column, EquiKey, Named, SortKey

OWN = "system.main."
"""Before the name of a function: DuckDB's own, whatever macros there are."""
VOLATILE = re.compile(
    r"\b(random|uuid|gen_random_uuid|uuidv[47]|nextval|currval|setseed|(table)?sample)\b",
    re.IGNORECASE,
)
"""What gives another value each time, in a text."""


def to_sql(expression: exp.Expr) -> str:
    """Text in DuckDB's dialect, always with its own comments removed."""
    name = _name(expression)
    if name is not None:
        return name
    if _is_plain(expression):
        return _writer.generator.generate(expression, copy=False)
    return expression.sql(dialect=_writer.dialect, comments=False)


class _Writer(threading.local):
    """A generator for each thread: one takes longer to set up than to write most texts."""

    def __init__(self) -> None:
        self.dialect = Tidewheel()
        self.generator = self.dialect.generator(comments=False, unsupported_level=ErrorLevel.IGNORE)


_writer = _Writer()
_PLAIN = frozenset(
    {
        *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Alias),
        *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is),
        *(exp.Add, exp.Sub, exp.Mul, exp.Case, exp.If, exp.Cast, exp.DataType, exp.DataTypeParam),
        *(exp.Interval, exp.Var, exp.Between, exp.Count, exp.Sum, exp.Star, exp.Like, exp.In),
        *(exp.Neg, exp.Avg, exp.Min, exp.Max, exp.Extract, exp.Anonymous),
    }
)


def _is_plain(expression: exp.Expr) -> bool:
    """Does a generator write it as it is, without changing the tree or counting names?"""
    for node in expression.walk():
        if type(node) not in _PLAIN:
            return False
        if type(node) is exp.DataType and not _is_usual(node):
            return False
    return True


def _is_usual(kind: exp.DataType) -> bool:
    """Is it no type of the user's, and without parameters that a generator takes away?"""
    args = kind.args
    plain = not args.get("expressions") or kind.this == exp.DataType.Type.DECIMAL
    return plain and not args.get("kind")


def _name(expression: exp.Expr) -> str | None:
    """A name in quotes, alone: most texts are no more, and a generator takes long to set up."""
    if type(expression) is exp.Column:
        args = expression.args
        expression = args["this"]
        if any(value for key, value in args.items() if key != "this"):
            return None
    if type(expression) is exp.Identifier and expression.args.get("quoted"):
        return quoted(str(expression.this))
    return None


def identifier(name: str) -> exp.Identifier:
    """A quoted identifier."""
    return exp.Identifier(this=name, quoted=True)


def column(name: str) -> exp.Column:
    """A reference to the column with this plan-unique name."""
    return exp.Column(this=identifier(name))


def alias_of(expression: exp.Expr, name: str) -> exp.Alias:
    """`expression AS "name"`."""
    return exp.Alias(this=expression, alias=identifier(name))


def cast_to(expression: exp.Expr, kind: str) -> exp.Cast:
    """A cast to a type by the name that DuckDB gives it, also one that sqlglot does not know."""
    to = exp.DataType.build(kind, dialect="duckdb", udt=True)
    return exp.Cast(this=expression, to=to)


def null_of(kind: str) -> exp.Expr:
    """NULL of a type, also of rows whose columns have no names: no cast can name that type."""
    value: exp.Expr
    if kind.startswith("TUPLE(") and kind.endswith(")"):
        fields = [null_of(part) for part in _listed(kind[len("TUPLE(") : -1])]
        value = exp.Anonymous(this="row", expressions=fields)
    elif kind.endswith("[]") and "TUPLE(" in kind:
        value = exp.Array(expressions=[null_of(kind[:-2])])
    else:
        return cast_to(exp.Null(), kind)
    return exp.Case(ifs=[exp.If(this=exp.false(), true=value)])


def _listed(kinds: str) -> list[str]:
    """Types with commas between them."""
    found, depth = [""], 0
    for part in re.findall(r'"(?:[^"]|"")*"|.', kinds):
        depth += (part == "(") - (part == ")")
        if part == "," and not depth:
            found.append("")
        else:
            found[-1] += part
    return [kind.strip() for kind in found]


def unchanged(columns: Iterable[Column]) -> tuple[Named, ...]:
    """Columns as they are, as what a projection gives."""
    return tuple(Named(c, column(c.name)) for c in columns)


def defined(named: Named) -> exp.Expr:
    """`expr AS "name"`, or the bare column where it keeps its name."""
    if isinstance(named.expr, exp.Column) and named.expr.name == named.column.name:
        return named.expr.copy()
    return alias_of(named.expr.copy(), named.column.name)


def written(named: Named) -> str:
    """`defined` as text."""
    text, name = to_sql(named.expr), quoted(named.column.name)
    return text if text == name else f"{text} AS {name}"


def conjunction(parts: Sequence[exp.Expr]) -> exp.Expr | None:
    """The parts joined by AND, each in parentheses where it needs them; None if there are none."""
    if not parts:
        return None
    wrapped = (exp.Paren(this=p) if isinstance(p, exp.Connector) else p for p in parts)
    return paired(exp.And, wrapped) if len(parts) > 1 else parts[0]


def paired(kind: type[exp.Connector], parts: Iterable[exp.Expr]) -> exp.Expr:
    """The parts joined by AND or OR, in a tree that is not deep however many there are."""
    level = list(parts)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        last = level[-1:] if len(level) % 2 else []
        level = [*(kind(this=a, expression=b) for a, b in pairs), *last]
    return level[0]


def own_call(expression: exp.Expr) -> exp.Anonymous | None:
    """The call of a function that has `OWN` before its name."""
    if not isinstance(expression, exp.Dot) or not isinstance(expression.this, exp.Dot):
        return None
    call, before = expression.expression, expression.this
    own = isinstance(call, exp.Anonymous) and f"{before.this.name}.{before.expression.name}." == OWN
    return call if own else None


def shallow(tree: exp.Expr) -> None:
    """Make long chains of AND or OR in a query of pairs: what walks the tree goes down by calls."""
    for node in list(tree.find_all(exp.And, exp.Or)):
        if type(node.parent) is type(node):
            continue
        parts = list(node.flatten(unnest=False))
        if len(parts) > _CHAIN:
            node.replace(paired(type(node), parts))


_CHAIN = 30


_ATOMS = (exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.Var, exp.Anonymous)


def atomic(expression: exp.Expr) -> exp.Expr:
    """`expression`, in parentheses unless it can stand next to any operator."""
    if isinstance(expression, _ATOMS):
        return expression
    if isinstance(expression, exp.Func) and not isinstance(expression, exp.Binary):
        return expression
    return exp.Paren(this=expression)


def substituted(expression: exp.Expr, named: Mapping[str, exp.Expr]) -> exp.Expr:
    """A copy of `expression` with columns replaced by what `named` says."""
    if type(expression) is exp.Column:
        return named.get(expression.name, expression).copy()

    def change(e: exp.Expr) -> exp.Expr:
        if not isinstance(e, exp.Column) or e.name not in named:
            return e
        value = named[e.name].copy()
        return value if e is root else atomic(value)

    root = expression.copy()
    return root.transform(change, copy=False)


def typed(named: Named) -> exp.Expr:
    """What can stand for a projection's column: a constant with its type.

    DuckDB gives a number as written the type of what it meets: TINYINT + 100 is a TINYINT.
    """
    kind = named.column.type
    constant = kind in _WRITTEN and named.expr.find(exp.Column) is None
    return cast_to(named.expr.copy(), kind) if constant else named.expr


_WRITTEN = ("INTEGER", "BIGINT", "HUGEINT", "VARCHAR")
"""The types of numbers and texts as written."""


def select_all(source: exp.Expr) -> exp.Select:
    """``SELECT * FROM source``."""
    return exp.select("*").from_(source, copy=False)


def ordered(key: SortKey) -> exp.Expr:
    """An ORDER BY item with its NULLs placed explicitly, whatever the session's default is.

    (As raw text: sqlglot's generator leaves NULLS LAST out, taking it for the default.)
    """
    direction = "DESC" if key.descending else "ASC"
    return exp.Var(
        this=f"{to_sql(key.expr)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
    )


def raw_subquery(text: str, alias: str, columns: Iterable[str] = ()) -> exp.Subquery:
    """``(text) AS "alias"("columns" …)`` around text that stays as it is."""
    names = [identifier(c) for c in columns]
    return exp.Subquery(
        this=exp.Var(this=text.rstrip().rstrip(";") + "\n"),
        alias=exp.TableAlias(this=identifier(alias), columns=names),
    )


def block_query(block: Block, sources: Sequence[exp.Expr]) -> exp.Select:
    """A block as a query: its inputs as CTEs, its columns renamed by position."""
    inner = raw_subquery(block.sql, "__tw_b", (c.name for c in block.columns))
    query = select_all(inner)
    for name, source in zip(block.aliases, sources, strict=True):
        query = query.with_(identifier(name), as_=select_all(source), copy=False)
    return query


def asof_query(
    node: AsofJoin, left: exp.Expr, right: exp.Expr, more: Sequence[exp.Expr] = ()
) -> exp.Select:
    """An ASOF join of two sources as a query: its columns, then `more`."""
    on = [key_condition(k) for k in node.keys]
    join = exp.Join(this=right, on=exp.and_(*on, node.nearest.copy()), method="ASOF")
    if node.kind != "inner":
        join.set("side", node.kind.upper())
    query = exp.select(*(column(c.name) for c in node.schema), *more).from_(left, copy=False)
    query.set("joins", [join])
    return query


def key_condition(key: EquiKey) -> exp.Expr:
    """An equi-key as a condition."""
    op = exp.NullSafeEQ if key.null_safe else exp.EQ
    return op(this=atomic(key.left.copy()), expression=atomic(key.right.copy()))


def typed_nulls(columns: Sequence[Column]) -> str:
    """A query without rows that has these columns."""
    items = ", ".join(f"CAST(NULL AS {c.type}) AS {to_sql(identifier(c.name))}" for c in columns)
    return f"SELECT {items or 'NULL'} LIMIT 0"


_PARAMETER = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(?P<name>\w+)(?!\w*\$)""", re.DOTALL
)


def used_parameters(sql: str, parameters: Any) -> Any:
    """The named `parameters` that `sql` mentions (DuckDB refuses others); a sequence as it is."""
    if not isinstance(parameters, Mapping):
        return parameters
    names = {m["name"].lower() for m in _PARAMETER.finditer(sql) if m["name"]}
    return {k: v for k, v in parameters.items() if k.lower() in names} or None


def numbered_parameters(sql: str, parameters: Any) -> Any:
    """What of a statement's parameters a text needs that calls them by name or number (`$2`)."""
    if isinstance(parameters, Sequence):
        parameters = {str(i): value for i, value in enumerate(parameters, 1)}
    return used_parameters(sql, parameters)
