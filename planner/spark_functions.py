"""Functions that Spark calls otherwise, or whose meaning is another one there.

Each is written as Spark's SQL over its arguments `_0`, `_1`, …; see `planner.spark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import sqlglot
from sqlglot import exp

from ..engine.kernels.spark import SparkError

_THERE: Final = "FILTER({}, v -> v IS NOT NULL)"
_FULL_MATCH: Final = r"_0 RLIKE CONCAT('\\A(?:', _1, ')\\z')"
_POSITION: Final = (
    "CASE WHEN _1 IS NULL THEN NULLIF(ARRAY_POSITION(TRANSFORM(_0, v -> v IS NULL), TRUE), 0) "
    "ELSE NULLIF(ARRAY_POSITION(_0, _1), 0) END"
)
_HOLDS: Final = "IF(_0 IS NULL OR _1 IS NULL, NULL, COALESCE(ARRAY_CONTAINS(_0, _1), FALSE))"
_ANY: Final = "IF(_0 IS NULL OR _1 IS NULL, NULL, COALESCE(ARRAYS_OVERLAP(_0, _1), FALSE))"
_ALL: Final = f"SIZE(ARRAY_EXCEPT({_THERE.format('_1')}, _0)) = 0"
_LOOKED_UP: Final = "TRANSFORM(FILTER(MAP_ENTRIES(_0), e -> e.key = _1), e -> e.value)"
_YEAR: Final = "EXTRACT(YEAROFWEEK FROM _0)"
_MICROSECONDS: Final = "UNIX_MICROS(CAST(_0 AS TIMESTAMP_LTZ))"

BY_NAME: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("LIST_UNIQUE", "ARRAY_UNIQUE"), f"SIZE(ARRAY_DISTINCT({_THERE.format('_0')}))"
    ),
    **dict.fromkeys(("LIST_POSITION", "LIST_INDEXOF", "ARRAY_INDEXOF"), _POSITION),
    **dict.fromkeys(("ELEMENT_AT", "MAP_EXTRACT"), _LOOKED_UP),
    **dict.fromkeys(("LIST_HAS_ANY", "ARRAY_HAS_ANY"), _ANY),
    **dict.fromkeys(("LIST_HAS_ALL", "ARRAY_HAS_ALL"), _ALL),
    **dict.fromkeys(("LIST_REVERSE", "ARRAY_REVERSE"), "REVERSE(_0)"),
    "LIST_COUNT": f"SIZE({_THERE.format('_0')})",
    "LIST_FIRST": "TRY_ELEMENT_AT(_0, 1)",
    "LIST_LAST": "TRY_ELEMENT_AT(_0, -1)",
    "EPOCH_US": _MICROSECONDS,
    "ISOYEAR": _YEAR,
    "YEARWEEK": f"{_YEAR} * 100 + WEEKOFYEAR(_0)",
    "ROUND_EVEN": "BROUND(_0, _1)",
    "FMOD": "_0 - FLOOR(CAST(_0 AS DOUBLE) / _1) * _1",
    "KURTOSIS_POP": "KURTOSIS(_0)",
    "FAVG": "AVG(_0)",
    **dict.fromkeys(("FSUM", "KAHAN_SUM", "SUMKAHAN"), "SUM(_0)"),
    "REGEXP_SPLIT_TO_ARRAY": "SPLIT(_0, _1)",
    "PREFIX": "STARTSWITH(_0, _1)",
    "SUFFIX": "ENDSWITH(_0, _1)",
    "ISFINITE": "ABS(_0) < DOUBLE('Infinity')",  # where NaN is the greatest of all
    "JSON_ARRAY_LENGTH": "COALESCE(JSON_ARRAY_LENGTH(_0), IF(_0 IS NULL, NULL, 0))",
}
BY_KIND: Final[Mapping[type[exp.Expr], str]] = {
    exp.ArrayContains: _HOLDS,
    exp.ArrayPosition: _POSITION,
    exp.ArrayOverlaps: _ANY,
    exp.ArrayContainsAll: _ALL,
    exp.ArrayReverse: "REVERSE(_0)",
    exp.Week: "WEEKOFYEAR(_0)",
    exp.TimeToUnix: f"{_MICROSECONDS} / 1000000D",
    exp.SimilarTo: _FULL_MATCH,
    exp.RegexpFullMatch: _FULL_MATCH,
    exp.IsNan: "IF(_0 IS NULL, NULL, ISNAN(_0))",
    exp.IsInf: "ABS(_0) = DOUBLE('Infinity')",
    exp.JSONKeys: "COALESCE(JSON_OBJECT_KEYS(_0), IF(_0 IS NULL, NULL, ARRAY()))",
}
REFUSED: Final[Mapping[type[exp.Expr], str]] = {
    exp.Kurtosis: "Spark's kurtosis is that of a population: compare kurtosis_pop",
    exp.Skewness: "Spark's skewness is that of a population",
}
_TIMES: Final = {exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ}
_ALL_OF_IT: Final = (1 << 31) - 1
_LISTS: Final = {exp.DType.ARRAY, exp.DType.LIST}


def function(node: exp.Expr) -> exp.Expr:
    """A call written as Spark would have it, if the tables here tell how."""
    if type(node) in REFUSED:
        raise SparkError(REFUSED[type(node)])
    if isinstance(node, exp.Anonymous):
        arguments, text = node.expressions, BY_NAME.get(node.name.upper())
    else:
        second = node.args.get("expression")
        arguments, text = [node.this, *([second] if second else [])], BY_KIND.get(type(node))
    return node if text is None else _filled(text, arguments)


def of_lists(node: exp.Expr) -> exp.Expr:
    """What is called alike for texts and lists, and by its own name for lists there."""
    if isinstance(node, exp.ArrayConcat):  # passes over what is NULL
        given = [node.this, *node.expressions]
        parts = [_filled("COALESCE(_0, ARRAY())", [part]) for part in given]
        return exp.Anonymous(this="CONCAT", expressions=parts)
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("LIST_CAT", "LIST_CONCAT"):
        first, *rest = node.expressions
        return of_lists(exp.ArrayConcat(this=first, expressions=rest))
    of = node.this if isinstance(node, (exp.Length, exp.Contains)) else None
    if of is None or of.type is None or of.type.this not in _LISTS:
        return node
    if isinstance(node, exp.Length):
        return _filled("SIZE(_0)", [of])
    return _filled(_HOLDS, [of, node.expression])


def part_of_list(node: exp.Expr) -> exp.Expr:
    """``list[a:b]`` is from one place to another here, from a place and so many there."""
    if isinstance(node, exp.ArraySlice):
        of, begin, end = node.this, node.args.get("start"), node.args.get("end")
    elif isinstance(node, exp.Bracket) and isinstance(node.expressions[0], exp.Slice):
        (places,) = node.expressions
        of, begin, end = node.this, places.this, places.args.get("expression")
    elif isinstance(node, exp.Anonymous) and node.name.upper() == "LIST_SLICE":
        of, begin, end, *step = node.expressions
        if step:
            return node
    else:
        return node
    ends = [end_ for end_ in (begin, end) if end_ is not None]
    if not all(isinstance(e, exp.Literal) and not e.is_string and int(e.name) > 0 for e in ends):
        raise SparkError("Spark's slices count from 1: give both ends as positive numbers")
    first = 1 if begin is None else int(begin.name)
    count = _ALL_OF_IT if end is None else max(0, int(end.name) - first + 1)
    text = of.type is not None and of.type.this in exp.DataType.TEXT_TYPES
    return _filled(f"{'SUBSTRING' if text else 'SLICE'}(_0, {first}, {count})", [of])


def milliseconds(node: exp.Expr) -> exp.Expr:
    """``epoch_ms`` makes a number of a time, and a time of a number."""
    if not isinstance(node, exp.UnixToTime) or node.this.type is None:
        return node
    if node.args.get("scale") != exp.UnixToTime.MILLIS or node.this.type.this not in _TIMES:
        return node
    return _filled("UNIX_MILLIS(CAST(_0 AS TIMESTAMP_LTZ))", [node.this])


def any_order_of_lists(node: exp.Expr) -> exp.Expr:
    """``list_distinct`` leaves NULLs out here, and gives values in an order of its own."""
    if not isinstance(node, exp.ArrayDistinct):
        return node
    if not isinstance(node.parent, (exp.ArraySize, exp.ArraySort, exp.Length)):
        raise SparkError("list_distinct gives its values in any order: compare list_sort of them")
    found = _filled(f"ARRAY_DISTINCT({_THERE.format('_0')})", [node.this])
    found.type = node.this.type
    return found


def comprehension(node: exp.Expr) -> exp.Expr:
    """``[f(x) FOR x IN list IF g(x)]`` filters, and then maps."""
    if not isinstance(node, exp.Array) or len(node.expressions) != 1:
        return node
    (inner,) = node.expressions
    if not isinstance(inner, exp.Comprehension) or inner.args.get("position") is not None:
        return node
    given, condition = inner.args["iterator"], inner.args.get("condition")
    name = inner.expression
    variable = name.this if isinstance(name, exp.Column) else name
    if condition is not None:
        kept = exp.Lambda(this=condition, expressions=[variable.copy()])
        given = exp.Anonymous(this="FILTER", expressions=[given, kept])
    made = exp.Lambda(this=inner.this, expressions=[variable.copy()])
    return exp.Anonymous(this="TRANSFORM", expressions=[given, made])


@cache
def _parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, read="spark")


def _filled(text: str, arguments: list[exp.Expr]) -> exp.Expr:
    """A text of the tables over these arguments."""
    places = {f"_{i}": _whole(argument) for i, argument in enumerate(arguments)}
    tree = _whole(_parsed(text).copy())
    for column in list(tree.find_all(exp.Column)):
        if column.name in places:
            column.replace(places[column.name].copy())
    return tree


def _whole(tree: exp.Expr) -> exp.Expr:
    operator = isinstance(tree, (exp.Binary, exp.Unary, exp.Predicate))
    return exp.paren(tree) if operator and not isinstance(tree, exp.Paren) else tree
