"""``x > ALL (query)`` and the like: a comparison with what one row says of the query's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidewheel.planner.text import atomic

VALUE = "__tw_value"


def values_of(query: exp.Expr) -> exp.Subquery:
    """A FROM item: the rows of a query of one column, called `VALUE`."""
    alias = exp.TableAlias(
        this=exp.to_identifier("__tw_values"), columns=[exp.to_identifier(VALUE)]
    )
    return exp.Subquery(this=query.copy(), alias=alias)


@dataclass(frozen=True, slots=True)
class Quantified:
    """`operator` ALL (`every`) or ANY."""

    operator: type[exp.Binary]
    every: bool

    def _ends(self) -> list[type[exp.AggFunc]]:
        if self.operator in (exp.EQ, exp.NEQ):
            return [exp.Min, exp.Max]
        greater = self.operator in (exp.GT, exp.GTE)
        return [exp.Max if greater == self.every else exp.Min]

    def summary(self, query: exp.Expr) -> exp.Select:
        """The query's ends that decide, whether it has no row, and whether it has a NULL.

        (Compared where they are counted: a count that moves on would move the rows around, too.)
        """
        rows, known = exp.Count(this=exp.Star()), exp.Count(this=exp.column(VALUE))
        items: list[exp.Expr] = [end(this=exp.column(VALUE)) for end in self._ends()]
        items.append(exp.EQ(this=rows, expression=exp.Literal.number(0)))
        items.append(exp.LT(this=known, expression=rows.copy()))
        return exp.select(*items).from_(values_of(query))

    def value(self, operand: exp.Expr, summary: Sequence[exp.Expr]) -> exp.Expr:
        """TRUE over no rows, FALSE unless x > max, and unknown where a NULL is; ANY the reverse.

        ``x = ALL (query)`` is FALSE unless x is the least and the greatest, ``<> ANY`` the reverse.
        """
        *ends, none, nulls = summary
        x = atomic(operand)
        decides: exp.Expr
        if self.operator in (exp.EQ, exp.NEQ):
            decides = exp.or_(*(exp.NEQ(this=x.copy(), expression=atomic(e)) for e in ends))
        else:
            decides = self.operator(this=x.copy(), expression=atomic(ends[0]))
            if self.every:
                decides = exp.Not(this=exp.Paren(this=decides))
        unknown = exp.or_(exp.Is(this=x.copy(), expression=exp.null()), nulls)
        ifs = [(none, exp.Boolean(this=self.every)), (decides, exp.Boolean(this=not self.every)),
               (unknown, exp.null())]  # fmt: skip
        cases = [exp.If(this=condition, true=value) for condition, value in ifs]
        return exp.Paren(this=exp.Case(ifs=cases, default=exp.Boolean(this=self.every)))
