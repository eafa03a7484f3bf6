"""Writes a query in Spark's SQL.

sqlglot translates syntax and most functions; the rules in `MENDS` carry over the meaning where
the two engines differ, for example that ``/`` divides decimals as doubles here. A rule sees typed
trees: names are resolved and types inferred first, from the schemas of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from ..engine.kernels.spark import SparkError
from .spark_aggregates import (
    any_order,
    average,
    choice,
    collected,
    quantile,
)
from .spark_functions import (
    any_order_of_lists,
    comprehension,
    function,
    milliseconds,
    of_lists,
    part_of_list,
)
from .spark_types import (
    DATES,
    DECIMALS,
    FLOATS,
    INTEGERS,
    INTERVALS,
    TYPES,
    double,
    kind_of,
    unwrapped,
)

DIALECT = "duckdb"

# Relation name → column name → type. The types are Spark's spelling, e.g. ``decimal(15,2)``.
Schemas = Mapping[str, Mapping[str, str]]

# Their answers depend on the run or on an engine's own algorithm: comparing them says nothing.
_NOT_COMPARABLE = {
    "RANDOM", "RAND", "UUID", "GEN_RANDOM_UUID", "UUIDV4", "UUIDV7", "SETSEED", "NEXTVAL",
    "CURRVAL", "NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "TODAY",
    "GET_CURRENT_TIMESTAMP", "TRANSACTION_TIMESTAMP", "HASH", "APPROX_COUNT_DISTINCT",
    "APPROX_DISTINCT", "APPROX_QUANTILE", "RESERVOIR_QUANTILE", "VERSION", "TXID_CURRENT",
}  # fmt: skip


def to_spark(query: exp.Expr, schemas: Schemas) -> str:
    """The text of `query` (parsed with DuckDB's dialect) for Spark.

    `schemas` are the tables that the query reads. Raises SparkError where the query has a part
    whose answer cannot be compared, such as ``random()``.
    """
    refuse(query)
    return mended(_resolve(query.copy(), schemas)).sql("spark")


def mended(query: exp.Expr) -> exp.Expr:
    """Applies `MENDS` from the leaves up; a replacement keeps the type of what it replaces."""
    for node in reversed(list(query.dfs())):
        current = node
        for mend in MENDS:
            replacement = mend(current)
            if replacement is current:
                continue
            if replacement.type is None:
                replacement.type = current.type
            if current is query:
                query = replacement
            else:
                current.replace(replacement)
            current = replacement
    return query


def refuse(query: exp.Expr) -> None:
    """Raises SparkError if the query calls what gives another answer on every run or engine."""
    for call in query.find_all(exp.Func):
        name = call.name.upper() if isinstance(call, exp.Anonymous) else call.sql_name()
        if name in _NOT_COMPARABLE:
            called = call.sql(DIALECT).partition("(")[0].lower()
            raise SparkError(
                f"{called}() gives another answer on each engine or run; nothing to compare"
            )
    if query.find(exp.TableSample) is not None:
        raise SparkError("a sample is another one on each engine; nothing to compare")


def _literal(annotator: Any, node: exp.Expr) -> exp.Expr:
    """``2.5`` is a decimal, ``25e-1`` a double."""
    kind = exp.DType.VARCHAR
    if not node.is_string:
        double = "e" in node.name.lower()
        kind = (
            exp.DType.DOUBLE if double else exp.DType.DECIMAL if "." in node.name else exp.DType.INT
        )
    annotated: exp.Expr = annotator._set_type(node, kind)
    return annotated


_METADATA = {**DuckDB.EXPRESSION_METADATA, exp.Literal: {"annotator": _literal}}


def _resolve(query: exp.Expr, schemas: Schemas) -> exp.Expr:
    """Expands stars and aliases and infers types, as far as sqlglot can."""
    schema = MappingSchema(
        {
            table: {
                column: exp.DataType.build(kind, dialect="spark")
                for column, kind in columns.items()
            }
            for table, columns in schemas.items()
        },
        dialect=DIALECT,
    )
    try:
        resolved = qualify(
            query.copy(),
            schema=schema,
            dialect=DIALECT,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        return annotate_types(
            resolved, schema=schema, dialect=DIALECT, expression_metadata=_METADATA
        )
    except SqlglotError:
        return query  # Spark resolves names itself; the rules then see no types


def divide(node: exp.Expr) -> exp.Expr:
    """``a / b`` divides doubles, by zero too: infinity or NaN, where Spark raises an error."""
    if not isinstance(node, exp.Div) or kind_of(node.this) in INTERVALS:
        return node
    over, under = double(node.this), double(node.expression)
    divisor = unwrapped(node.expression)
    quotient = exp.Div(this=over, expression=under, typed=False, safe=False)
    if isinstance(divisor, exp.Literal) and float(divisor.this) != 0:
        return exp.Paren(this=quotient)
    infinity = exp.Anonymous(this="DOUBLE", expressions=[exp.Literal.string("Infinity")])
    return exp.If(
        this=exp.EQ(this=under.copy(), expression=exp.Literal.number(0)),
        true=exp.Mul(this=over.copy(), expression=infinity),
        false=quotient,
    )


def integer_division(node: exp.Expr) -> exp.Expr:
    """``a // b`` divides doubles here unless both are integers; there it is cut off."""
    if not isinstance(node, exp.IntDiv):
        return node
    if not {kind_of(node.this), kind_of(node.expression)} & (FLOATS | DECIMALS):
        return node
    return divide(exp.Div(this=node.this, expression=node.expression))


def cast(node: exp.Expr) -> exp.Expr:
    """A cast to an integer rounds here and truncates there; types that Spark lacks are replaced."""
    if not isinstance(node, (exp.Cast, exp.TryCast)):
        return node
    target = node.to.this
    source = kind_of(node.this)
    if target in INTEGERS and source in DECIMALS:
        node.set("this", exp.Anonymous(this="ROUND", expressions=[node.this]))
    elif target in INTEGERS and source in FLOATS:
        node.set("this", exp.Anonymous(this="RINT", expressions=[node.this]))
    return node


def data_type(node: exp.Expr) -> exp.Expr:
    """Spark's name of a type."""
    if not isinstance(node, exp.DataType) or node.this not in TYPES:
        return node
    return exp.DataType(this=exp.DType.USERDEFINED, kind=TYPES[node.this])


def date_difference(node: exp.Expr) -> exp.Expr:
    """``date - date`` is a number of days here and an interval there."""
    if not isinstance(node, exp.Sub):
        return node
    if kind_of(node.this) not in DATES or kind_of(node.expression) not in DATES:
        return node
    days = exp.Anonymous(this="DATEDIFF", expressions=[node.this, node.expression])
    return exp.Cast(this=days, to=exp.DataType.build("BIGINT"))


def element(node: exp.Expr) -> exp.Expr:
    """``list[i]`` counts from 1 and is NULL beyond the ends."""
    if not isinstance(node, exp.Bracket) or len(node.expressions) != 1:
        return node
    index = node.expressions[0]
    if isinstance(index, exp.Slice) or kind_of(node.this) == exp.DType.STRUCT:
        return node
    # sqlglot's parser has taken 1 from constant indexes, and from those only.
    constant = index.this if isinstance(index, exp.Neg) else index
    if isinstance(constant, exp.Literal) and not constant.is_string:
        number = int(constant.this) * (-1 if isinstance(index, exp.Neg) else 1) + 1
        index = exp.Literal.number(number)
    return exp.Anonymous(this="TRY_ELEMENT_AT", expressions=[node.this, index])


def logarithm(node: exp.Expr) -> exp.Expr:
    """``log(x)`` is the decimal logarithm here and the natural one there."""
    if isinstance(node, exp.Log) and node.args.get("expression") is None:
        return exp.Anonymous(this="LOG10", expressions=[node.this])
    return node


def day_of_week(node: exp.Expr) -> exp.Expr:
    """Sunday is 0 here and 1 there, or 7 and 6."""
    part, of = "", node.this
    if isinstance(node, exp.DayOfWeek):
        part = "DOW"
    elif isinstance(node, exp.DayOfWeekIso):
        part = "ISODOW"
    elif isinstance(node, exp.Extract):
        part, of = node.name.upper(), node.expression
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "WEEKDAY":
        part, of = "DOW", node.expressions[0]
    elif isinstance(node, exp.Anonymous) and node.name.upper() in ("DATE_PART", "DATEPART"):
        named, of = node.expressions
        part = named.name.upper() if named.is_string else ""
    if part in ("DOW", "DAYOFWEEK", "WEEKDAY"):
        number = exp.Anonymous(this="DAYOFWEEK", expressions=[of])
        return exp.Paren(this=exp.Sub(this=number, expression=exp.Literal.number(1)))
    if part == "ISODOW":
        number = exp.Anonymous(this="WEEKDAY", expressions=[of])
        return exp.Paren(this=exp.Add(this=number, expression=exp.Literal.number(1)))
    return node


def part_of_moment(node: exp.Expr) -> exp.Expr:
    """Names of months and days are written out here; seconds are whole."""
    if isinstance(node, exp.Monthname | exp.Dayname):
        pattern = "MMMM" if isinstance(node, exp.Monthname) else "EEEE"
        return exp.Anonymous(
            this="DATE_FORMAT", expressions=[node.this, exp.Literal.string(pattern)]
        )
    if isinstance(node, exp.Extract) and node.name.upper() == "SECOND":
        return exp.Anonymous(this="SECOND", expressions=[node.expression])
    return node


def first_match(node: exp.Expr) -> exp.Expr:
    """``regexp_replace`` replaces the first match here, unless it is told 'g', and all there."""
    if isinstance(node, exp.RegexpReplace):
        modifiers = node.args.get("modifiers")
        if modifiers is None or "g" not in modifiers.name:
            raise SparkError("Spark's regexp_replace replaces every match: give it 'g' here, too")
    return node


def date_and_interval(node: exp.Expr) -> exp.Expr:
    """``date + INTERVAL …`` is a timestamp here and a date there; compared, they are the same."""
    if not isinstance(node, (exp.Add, exp.Sub)) or isinstance(node.parent, exp.Predicate):
        return node
    sides = [node.this, node.expression]
    spans = [isinstance(s, exp.Interval) or kind_of(s) in INTERVALS for s in sides]
    if not any(spans) or kind_of(sides[spans[0]]) not in DATES:
        return node
    to = exp.DataType(this=exp.DType.USERDEFINED, kind=TYPES[exp.DType.TIMESTAMP])
    moment = exp.Cast(this=node.copy(), to=to)
    moment.type = exp.DataType.build("TIMESTAMP")
    return moment


def boundaries(node: exp.Expr) -> exp.Expr:
    """``date_diff`` counts the boundaries that lie between here, and whole months, … there."""
    if not isinstance(node, exp.DateDiff) or node.args.get("unit") is None:
        return node
    unit = exp.Literal.string(node.args["unit"].name.upper())
    for side in ("this", "expression"):
        cut = exp.Anonymous(this="DATE_TRUNC", expressions=[unit.copy(), node.args[side]])
        node.set(side, cut)
    return node


def before_the_first(node: exp.Expr) -> exp.Expr:
    """Place 0 of a text is before its first letter here, and is the first one there."""
    if not isinstance(node, exp.Substring) or node.args.get("start") != exp.Literal.number(0):
        return node
    node.set("start", exp.Literal.number(1))
    length = node.args.get("length")
    if length is not None:
        less = exp.Sub(this=exp.paren(length), expression=exp.Literal.number(1))
        node.set("length", less)
    return node


def from_the_end(node: exp.Expr) -> exp.Expr:
    """``left('abc', -1)`` is all but the last letter here, and nothing there."""
    if not isinstance(node, (exp.Left, exp.Right)) or isinstance(node.expression, exp.Literal):
        return node
    text, count = node.this, exp.paren(node.expression)
    if isinstance(node, exp.Left):
        left = exp.Add(this=exp.Length(this=text.copy()), expression=count.copy())
        less = exp.Greatest(this=left, expressions=[exp.Literal.number(0)])
        rest = exp.Substring(this=text.copy(), start=exp.Literal.number(1), length=less)
    else:
        start = exp.Sub(this=exp.Literal.number(1), expression=count.copy())
        rest = exp.Substring(this=text.copy(), start=start)
    negative = exp.LT(this=count.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=negative, true=rest)], default=node.copy())


def map_literal(node: exp.Expr) -> exp.Expr:
    """``map {k: v}`` as a call of ``map(k, v, …)``."""
    if not isinstance(node, exp.ToMap) or not isinstance(node.this, exp.Struct):
        return node
    arguments: list[exp.Expr] = []
    for pair in node.this.expressions:
        arguments += [pair.this, pair.expression]
    return exp.Anonymous(this="MAP", expressions=arguments)


def membership(node: exp.Expr) -> exp.Expr:
    """``x IN (SELECT …)`` may be unknown; as a value Spark makes it FALSE then (ExistenceJoin)."""
    if not isinstance(node, exp.In) or isinstance(node.this.unnest(), exp.Tuple):
        return node
    query = node.args.get("query")
    if query is None or _is_condition(node):
        return node
    rows = query.unnest()
    alias = exp.TableAlias(this=exp.to_identifier("__tw_in"), columns=[exp.to_identifier("__tw_c")])
    null = exp.Is(this=exp.column("__tw_c"), expression=exp.null())
    nulls = exp.select("1").from_(exp.Subquery(this=rows.copy(), alias=alias)).where(null)
    absent = exp.Is(this=exp.paren(node.this.copy()), expression=exp.null())
    unknown = exp.or_(exp.and_(absent, exp.Exists(this=rows.copy())), exp.Exists(this=nulls))
    ifs = [exp.If(this=node.copy(), true=exp.true()), exp.If(this=unknown, true=exp.null())]
    return exp.Paren(this=exp.Case(ifs=ifs, default=exp.false()))


def _is_condition(node: exp.Expr) -> bool:
    """Does it make no difference whether `node` is unknown or FALSE, or does Spark see to it?"""
    negated, parent = False, node.parent
    while isinstance(parent, (exp.And, exp.Or, exp.Paren, exp.Not)):
        negated |= isinstance(parent, exp.Not)
        node, parent = parent, parent.parent
    if isinstance(parent, exp.If) and parent.this is node:
        return not negated
    if isinstance(parent, exp.Where) and isinstance(parent.parent, exp.Filter):
        return not negated
    return isinstance(parent, (exp.Where, exp.Having, exp.Join))


MENDS: tuple[Callable[[exp.Expr], exp.Expr], ...] = (
    any_order,
    collected,
    average,
    date_difference,
    date_and_interval,
    boundaries,
    before_the_first,
    from_the_end,
    divide,
    integer_division,
    choice,
    cast,
    element,
    logarithm,
    day_of_week,
    part_of_moment,
    first_match,
    quantile,
    map_literal,
    membership,
    any_order_of_lists,
    of_lists,
    comprehension,
    part_of_list,
    milliseconds,
    function,
    data_type,
)
