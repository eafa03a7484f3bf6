"""Texts of one row, without a statement: CASE, COALESCE, concatenation and the common functions.

Only what surely means the same as in DuckDB is taken; None: needs a kernel. What depends on letters
is computed of ASCII alone, and `NeedsKernel` leaves other texts to DuckDB. Of many rows
`text_columns` computes what Arrow has a function for.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.linear import Compute
from tidewheel.engine.state.delta import Schema
from tidewheel.engine.state.rowwise import ByRow, Row
from tidewheel.planner.by_rows import Values, column_of
from tidewheel.planner.constants import natural
from tidewheel.planner.number import NeedsKernel, Number, unless_null


@dataclass(frozen=True, slots=True)
class Text:
    """An expression that is a text: of columns, and of one row."""

    run: Compute
    of_row: ByRow

    def column(self, kind: pa.DataType) -> Compute | None:
        """A column of it; None where it has another type in DuckDB."""
        return self.run if pa.types.is_string(kind) else None


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition as a value, for which `rows` gives columns those of each row."""

    true: ByRow
    false: ByRow
    rows: Callable[[ByRow], Values]

    def column(self, kind: pa.DataType) -> Compute | None:
        """As that of a text."""
        return column_of(self.rows(self.of_row), kind) if is_bool(kind) else None

    def of_row(self, row: Row) -> bool | None:
        """NULL where it is neither TRUE nor FALSE."""
        return True if self.true(row) else False if self.false(row) else None


def is_bool(kind: pa.DataType) -> bool:
    """Are these truth values?"""
    return isinstance(kind, pa.Bool8Type) or bool(pa.types.is_boolean(kind))


def case_pairs(expression: exp.Case | exp.If) -> list[tuple[exp.Expr | None, exp.Expr]]:
    """The arms of CASE or IF and their conditions, the last one's None; NULL where it has none."""
    pairs: list[tuple[exp.Expr | None, exp.Expr]]
    if isinstance(expression, exp.If):
        pairs = [(expression.this, expression.args["true"])]
        default = expression.args.get("false")
    else:
        default = expression.args.get("default")
        pairs = []
        for branch in expression.args["ifs"]:
            test = branch.this
            if expression.this is not None:
                test = exp.EQ(this=expression.this.copy(), expression=test.copy())
            pairs.append((test, branch.args["true"]))
    return [*pairs, (None, default if default is not None else exp.Null())]


def too_deep(expression: exp.Case | exp.If) -> bool:
    """Does it decide by a CASE that decides by another, and so on?

    Each condition is compiled for many rows and for one, and an operand for each WHEN: twice, or
    more often, what is inside.
    """
    return _depth(expression) > _DEEPEST


_DEEPEST = 3


def _depth(expression: exp.Expr) -> int:
    """How deep CASE and IF stand in what others decide by."""
    deepest, todo = 0, [expression]
    while todo:
        node = todo.pop()
        parts = list(node.iter_expressions())
        if isinstance(node, exp.Case | exp.If):
            branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
            decides = [b.this for b in branches]
            if isinstance(node, exp.Case) and node.this is not None:
                decides.append(node.this)
            deepest = max(deepest, 1 + max(map(_depth, decides)))
            values = (v for b in branches for k, v in b.args.items() if k != "this")
            parts = [v for v in (*values, node.args.get("default")) if isinstance(v, exp.Expr)]
        todo += parts
    return deepest


class Texts:
    """Compiles texts of the columns of `schema`.

    `number` compiles numbers, and `predicate` conditions, of one row.
    """

    def __init__(
        self,
        schema: Schema,
        number: Callable[[exp.Expr], Number | None],
        predicate: Callable[[exp.Expr], ByRow | None],
    ) -> None:
        self._schema = schema
        self._number = number
        self._predicate = predicate

    def text(self, expression: exp.Expr) -> ByRow | None:
        """A text; None where it is none, or needs a kernel."""
        while isinstance(expression, exp.Paren):
            expression = expression.this
        if isinstance(expression, exp.Column):
            known = expression.name in self._schema.names
            at = self._schema.index(expression.name) if known else None
            if at is None or not pa.types.is_string(self._schema.types[at]):
                return None
            return itemgetter(at)
        if isinstance(expression, exp.Literal):
            return _always(expression.this) if expression.is_string else None
        make = _MAKE.get(type(expression))
        return None if make is None else make(self, expression)

    def length(self, expression: exp.Length) -> ByRow | None:
        """How many characters a text has."""
        return unless_null(self.text(expression.this), len)

    def test(self, expression: exp.Expr, wanted: bool = True) -> ByRow | None:
        """Is a condition on texts TRUE, or FALSE? None where it is none, or needs a kernel."""
        if isinstance(expression, exp.EQ | exp.NEQ):
            sides = expression.this, expression.expression
            if all(isinstance(side, exp.Column) for side in sides):
                return None  # they may be of ENUMs
            pair = self._both(*sides)
            if pair is None:
                return None
            alike = isinstance(expression, exp.EQ) == wanted
            return _holds(*pair, lambda a, b: (a == b) == alike)
        if type(expression) in _PARTS:
            pair = self._both(expression.this, expression.expression)
            test = _PARTS[type(expression)]
            return None if pair is None else _holds(*pair, lambda a, b: test(a, b) == wanted)
        return self._member(expression, wanted) if isinstance(expression, exp.In) else None

    def _member(self, expression: exp.In, wanted: bool) -> ByRow | None:
        """Is a text, TRUE or FALSE, IN a list of texts that are written out?"""
        listed, text = expression.expressions, self.text(expression.this)
        if text is None or not listed:
            return None
        if not all(isinstance(e, exp.Literal) and e.is_string for e in listed):
            return None
        values = frozenset(e.this for e in listed)

        def by_row(row: Row) -> bool:
            value = text(row)
            return value is not None and (value in values) == wanted

        return by_row

    def like(self, expression: exp.Like, wanted: bool = True) -> ByRow | None:
        """Is a text TRUE, or FALSE, like a pattern that is written out?"""
        text, pattern = self.text(expression.this), expression.expression
        if text is None or not (isinstance(pattern, exp.Literal) and pattern.is_string):
            return None
        if "\\" in pattern.this:
            return None
        parts = [_WILD.get(c) or re.escape(c) for c in pattern.this]
        like = re.compile("".join(parts), re.DOTALL)
        fits = bool(expression.args.get("negate")) != wanted

        def by_row(row: Row) -> bool:
            value = text(row)
            return value is not None and (like.fullmatch(value) is not None) == fits

        return by_row

    def _both(self, one: exp.Expr, other: exp.Expr) -> tuple[ByRow, ByRow] | None:
        left, right = self.text(one), self.text(other)
        return None if left is None or right is None else (left, right)

    def _written(self, expression: exp.Expr) -> ByRow | None:
        """A text, or an integer as DuckDB casts it to one."""
        return self.text(expression) or self._digits(expression)

    def _digits(self, expression: exp.Expr) -> ByRow | None:
        number = self._number(expression)
        if number is None or not number.integer or not number.bits or number.moment is not None:
            return None
        return unless_null(number.row, str)

    def cast(self, expression: exp.Cast) -> ByRow | None:
        to, value = expression.args["to"], expression.this
        if not isinstance(to, exp.DataType) or to.this != exp.DataType.Type.TEXT or to.expressions:
            return None
        if isinstance(value, exp.Column) and value.name in self._schema.names:
            at = self._schema.index(value.name)
            if pa.types.is_date32(self._schema.types[at]):
                return unless_null(itemgetter(at), _day)
        return self._written(value)

    def uncollated(self, expression: exp.Collate) -> ByRow | None:
        """A text without its collation, which there is none of here."""
        return self.text(expression.this) if expression.expression.name == "binary" else None

    def joined(self, expression: exp.DPipe) -> ByRow | None:
        left, right = self.text(expression.this), self.text(expression.expression)
        if left is None and right is None:
            return None  # it may be of lists, or of two numbers
        left = left or self._digits(expression.this)
        right = right or self._digits(expression.expression)
        return None if left is None or right is None else _of_all((left, right), operator.add)

    def concatenated(self, expression: exp.Concat) -> ByRow | None:
        return self._listed(expression, _always(""), expression.expressions)

    def separated(self, expression: exp.ConcatWs) -> ByRow | None:
        first, *rest = expression.expressions
        separator = self.text(first)
        return None if separator is None else self._listed(expression, separator, rest)

    def _listed(
        self, expression: exp.Expr, separator: ByRow, parts: Sequence[exp.Expr]
    ) -> ByRow | None:
        """Texts and integers one after the other, without NULLs."""
        found = [self._written(part) for part in parts]
        given = [f for f in found if f is not None]
        if len(given) < len(found) or not found or not expression.args.get("coalesce"):
            return None

        def by_row(row: Row) -> str | None:
            between = separator(row)
            if between is None:
                return None
            text: str = between.join([v for f in given if (v := f(row)) is not None])
            return text

        return by_row

    def first_known(self, expression: exp.Coalesce) -> ByRow | None:
        parts = [self.text(part) for part in (expression.this, *expression.expressions)]
        given = [f for f in parts if f is not None]
        if len(given) < len(parts):
            return None
        return lambda row: next((v for f in given if (v := f(row)) is not None), None)

    def unless_equal(self, expression: exp.Nullif) -> ByRow | None:
        pair = self._both(expression.this, expression.expression)
        if pair is None:
            return None
        one, other = pair
        return lambda row: None if (value := one(row)) == other(row) else value

    def chosen(self, expression: exp.Case | exp.If) -> ByRow | None:
        arms: list[tuple[ByRow, ByRow]] = []
        if too_deep(expression):
            return None
        for test, arm in case_pairs(expression):
            holds = _always(True) if test is None else self._predicate(test)
            value = _always(None) if isinstance(arm, exp.Null) else self.text(arm)
            if holds is None or value is None:
                return None
            arms.append((holds, value))
        return lambda row: next(value(row) for holds, value in arms if holds(row))

    def replaced(self, expression: exp.Replace) -> ByRow | None:
        parts = [expression.this, expression.expression, expression.args.get("replacement")]
        found = [None if part is None else self.text(part) for part in parts]
        given = [f for f in found if f is not None]
        return _of_all(given, _replaced) if len(given) == len(parts) else None

    def part(self, expression: exp.Substring) -> ByRow | None:
        start, length = expression.args.get("start"), expression.args.get("length")
        first = None if start is None else natural(start)
        most = None if length is None else natural(length)
        if not first or (length is not None and most is None):
            return None
        end = None if most is None else first - 1 + most
        return self._of_ascii(expression.this, lambda text: text[first - 1 : end])

    def beginning(self, expression: exp.Left) -> ByRow | None:
        n = natural(expression.expression)
        return None if n is None else self._of_ascii(expression.this, lambda text: text[:n])

    def ending(self, expression: exp.Right) -> ByRow | None:
        n = natural(expression.expression)
        if n is None:
            return None
        return self._of_ascii(expression.this, lambda text: text[max(len(text) - n, 0) :])

    def trimmed(self, expression: exp.Trim) -> ByRow | None:
        if expression.expression is not None or expression.args.get("collation"):
            return None
        side = str(expression.args.get("position") or "BOTH").upper()
        strip = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}.get(side)
        if strip is None:
            return None
        return self._of_ascii(expression.this, lambda text: strip(text, " "))

    def lower(self, expression: exp.Lower) -> ByRow | None:
        return self._of_ascii(expression.this, str.lower)

    def upper(self, expression: exp.Upper) -> ByRow | None:
        return self._of_ascii(expression.this, str.upper)

    def _of_ascii(self, expression: exp.Expr, compute: Callable[[str], str]) -> ByRow | None:
        return unless_null(self.text(expression), lambda text: compute(_ascii(text)))


_MAKE: dict[type[exp.Expr], Callable[[Texts, Any], ByRow | None]] = {
    exp.Case: Texts.chosen,
    exp.Cast: Texts.cast,
    exp.Coalesce: Texts.first_known,
    exp.Collate: Texts.uncollated,
    exp.Concat: Texts.concatenated,
    exp.ConcatWs: Texts.separated,
    exp.DPipe: Texts.joined,
    exp.If: Texts.chosen,
    exp.Left: Texts.beginning,
    exp.Lower: Texts.lower,
    exp.Nullif: Texts.unless_equal,
    exp.Replace: Texts.replaced,
    exp.Right: Texts.ending,
    exp.Substring: Texts.part,
    exp.Trim: Texts.trimmed,
    exp.Upper: Texts.upper,
}
_PARTS: dict[type[exp.Expr], Callable[[str, str], bool]] = {
    exp.StartsWith: str.startswith,
    exp.EndsWith: str.endswith,
    exp.Contains: lambda text, part: part in text,
}


def _always(value: Any) -> ByRow:
    return lambda row: value


def _of_all(parts: Sequence[ByRow], compute: Callable[..., Any]) -> ByRow:
    """What is computed of several values, NULL where one is."""

    def by_row(row: Row) -> Any:
        values = [f(row) for f in parts]
        return None if None in values else compute(*values)

    return by_row


def _holds(one: ByRow, other: ByRow, test: Callable[[str, str], bool]) -> ByRow:
    def by_row(row: Row) -> bool:
        a, b = one(row), other(row)
        return a is not None and b is not None and test(a, b)

    return by_row


def _ascii(text: str) -> str:
    if not text.isascii():
        raise NeedsKernel
    return text


def _day(days: int) -> str:
    try:
        return datetime.date.fromordinal(days + _DAY_0).isoformat()
    except (ValueError, OverflowError):
        raise NeedsKernel from None  # before Christ, after 9999, or infinity


def _replaced(text: str, part: str, by: str) -> str:
    return text.replace(part, by) if part else text


_WILD = {"%": ".*", "_": "."}
_DAY_0 = datetime.date(1970, 1, 1).toordinal()
