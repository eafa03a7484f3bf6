"""A correlated SELECT of one group as one from that group's row: what it cannot hold itself.

* ``SELECT e FROM … HAVING c`` filters its row:
  ``SELECT * EXCLUDE (met) FROM (SELECT e, c AS met FROM …) WHERE met``.
* ``SELECT sum(x) - (SELECT …) FROM …`` has a subquery beside its aggregates:
  ``SELECT g0 - (SELECT …) FROM (SELECT sum(x) AS g0 FROM …)``.
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.planner.text import to_sql

from .bind_having import parts_around
from .bind_limit import without_limit
from .bind_names import Aggregates, is_query, rebuilt
from .bind_scope import NotTaken


class OneGroup(NotTaken):
    """It has a HAVING, or a subquery beside its aggregates."""


_MET = "__tw_met"
_AGGREGATE = "__tw_g"
_MORE = ("group", "qualify", "distinct", "limit", "offset", "windows")


def from_one_group(select: exp.Select, aggregates: Aggregates) -> exp.Select | None:
    """The same rows from the one row of its group; None if it has more clauses."""
    inner = without_limit(select).copy()
    if any(inner.args.get(k) for k in _MORE):
        return None
    inner.set("order", None)  # of one row
    inner.set("with_", None)  # the binder has its tables
    return _filtered(inner, aggregates) if inner.args.get("having") else _apart(inner, aggregates)


def _filtered(inner: exp.Select, aggregates: Aggregates) -> exp.Select:
    holder = exp.Paren(this=inner.args["having"].this.copy())
    inner.set("having", None)
    aliased = {e.alias.lower(): e.this for e in inner.expressions if isinstance(e, exp.Alias)}
    for c in list(holder.find_all(exp.Column)):
        within = any(p is not c and aggregates.is_unit(p) for p in parts_around(c))
        if not c.table and c.name.lower() in aliased and not within:
            c.replace(exp.Paren(this=aliased[c.name.lower()].copy()))
    inner.append("expressions", exp.alias_(holder, _MET))
    star = exp.Star(except_=[exp.to_identifier(_MET)])
    return exp.select(star).from_(exp.Subquery(this=inner)).where(exp.column(_MET))


def _apart(inner: exp.Select, aggregates: Aggregates) -> exp.Select | None:
    found: dict[str, exp.Expr] = {}

    def walk(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query) or is_query(node):
            return node
        if isinstance(node, exp.Window):
            return rebuilt(node, lambda c: rebuilt(c, walk) if c is node.this else walk(c))
        if aggregates.is_unit(node):
            name = f"{_AGGREGATE}{len(found)}"
            return exp.column(found.setdefault(to_sql(node), exp.alias_(node.copy(), name)).alias)
        return rebuilt(node, walk)

    items = []
    for item in inner.expressions:
        label = item.alias_or_name or to_sql(item)
        items.append(exp.alias_(walk(item.unalias()), label, quoted=True))
    if not found:
        return None
    inner.set("expressions", list(found.values()))
    return exp.select(*items).from_(exp.Subquery(this=inner))
