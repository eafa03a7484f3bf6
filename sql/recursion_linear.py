"""A step that joins its table with itself as one that joins it with its anchor.

    T(x, z) :- E(x, z).   T(x, z) :- T(x, y), Q(y, v), T(v, z).

Call Q what the step joins between its two references (here nothing stands between them but an
equality). If every column of a new row comes, at its place, either from the left reference (the set
L of columns) or from the right one (R), and the join reads of the left one only R and of the right
one only L, then the step is a product of relations T·Q·T. It is associative: what is joined to
(t·Q·u) from the right depends on its R alone, which are u's; from the left on its L, which are t's.
So the least T that holds E and T·Q·T is the union of all E·Q·E·…·E, which is the least T that holds
E and T·Q·E. The latter finds a product once, not once for every place to cut it in two.

The same holds where a column keeps the best of what the two references' values make together, if
that is associative and distributes over the choice: min(t.d + u.d), max(least(t.d, u.d)). (Sums of
floating-point numbers are not associative: `With.composed` has the planner see to that.)
"""

from __future__ import annotations

from sqlglot import exp

from tidewheel.engine.quoting import quoted

from . import errors
from . import recursion_check as check
from .bind_names import conjuncts
from .bind_types import is_volatile
from .recursion_branches import Parts, parts
from .recursion_groups import groups
from .recursion_scan import scan
from .recursion_tables import Cte, Reference, Scan, Span
from .recursion_text import Cutter, Splice


def linear(scanned: Scan) -> Scan | None:
    """The statement with such steps made linear; None if there are none."""
    own = groups(scanned)
    cutter = Cutter(scanned)
    cutter.splices.clear()
    composed = []
    for i, with_ in enumerate(scanned.withs):
        for cte in with_.ctes:
            if own.get(id(cte)) == [cte] and not with_.mutually and cte.using_key is None:
                before = len(cutter.splices)
                _rewrite(scanned, cutter, cte)
                composed += [i] if len(cutter.splices) > before else []
    if not composed:
        return None
    found = scan(cutter.part(Span(0, len(scanned.text))).sql)
    for i in composed:
        found.withs[i].composed = True
    return found


def _rewrite(scanned: Scan, cutter: Cutter, cte: Cte) -> None:
    references = [
        r for r in scanned.references if cte.body.holds(r.name) and scanned.resolve(r) is cte
    ]
    if len(references) != 2 or any(r.recurring for r in references):
        return
    if any(cte.body.holds(w.head) for w in scanned.withs):
        return
    try:
        split = parts(scanned, cte, references)
    except errors.Error:
        return
    if split.operator != "union" or len(split.steps) != 1 or split.anchor is None:
        return
    if split.anchor.end > split.step.start or not _repeatable(scanned, split):
        return
    step, anchor = check.parsed(scanned, split.step), check.parsed(scanned, split.anchor)
    labels = list(cte.columns)
    if not labels and isinstance(anchor, exp.Query):
        labels = anchor.named_selects
    right = _right(step, [label.lower() for label in labels], split.step.start, references)
    if right is None:
        return
    name = f"__tw_anchor{len(cutter.splices)}"
    names = ", ".join(map(quoted, labels))
    text = scanned.text[split.anchor.start : split.anchor.end]
    before = Span(cte.definition.start, cte.definition.start)
    cutter.splices[before] = Splice(before, f"{name}({names}) AS (\n{text}\n), ")
    alias = "" if right.aliased else f" AS {quoted(right.label)}"
    cutter.splices[right.name] = Splice(right.name, name + alias)


def _repeatable(scanned: Scan, split: Parts) -> bool:
    """Does the anchor surely give the same rows when it is read a second time?"""
    assert split.anchor is not None
    if any(t.kind == "parameter" and t.text == "?" for t in scanned.within(split.anchor)):
        return False  # the text would have one more of them
    anchor = check.parsed(scanned, split.anchor)
    if anchor is None or is_volatile(anchor):
        return False
    if list(anchor.find_all(exp.Limit, exp.Offset, exp.Window, exp.Anonymous)):
        return False
    step = check.parsed(scanned, split.step)
    best = (exp.Min, exp.Max) if step is not None and step.args.get("group") else ()
    if any(not isinstance(a, best) for a in anchor.find_all(exp.AggFunc)):
        return False
    if list(anchor.find_all(exp.TableSample, exp.With, exp.Placeholder, exp.Parameter)):
        return False
    return all(isinstance(t.this, exp.Identifier) for t in anchor.find_all(exp.Table))


def _right(
    step: exp.Expr | None, labels: list[str], start: int, references: list[Reference]
) -> Reference | None:
    """The reference that the anchor can stand for; None if the step is no such product."""
    if not isinstance(step, exp.Select) or len(step.expressions) != len(labels):
        return None
    allowed = {"expressions", "from_", "from", "joins", "where", "kind", "group"}
    if any(value and key not in allowed for key, value in step.args.items()):
        return None
    group = step.args.get("group")
    if group is not None and any(
        v and k not in ("expressions", "all") for k, v in group.args.items()
    ):
        return None
    sources = {}
    source = step.args.get("from_") or step.args.get("from")
    conditions: list[exp.Expr] = []
    joins = step.args.get("joins") or []
    for item in [source.this if source else None, *(j.this for j in joins)]:
        if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
            return None
        alias = item.args.get("alias")
        given = {key for key, value in item.args.items() if value}
        if not given <= {"this", "db", "catalog", "alias"} or (alias and alias.columns):
            return None
        sources[item.alias_or_name.lower()] = item.this.meta.get("start")
    for join in joins:
        if join.side or join.method or (join.kind or "") not in ("", "INNER", "CROSS"):
            return None
        if join.args.get("using"):
            return None
        conditions += conjuncts(join.args["on"]) if join.args.get("on") else []
    where = step.args.get("where")
    conditions += conjuncts(where.this) if where else []
    if len(sources) != len(joins) + 1:
        return None
    at = {r.name.start - start: r for r in references}
    mine = {alias: at[place] for alias, place in sources.items() if place in at}
    if len(mine) != 2:
        return None
    origins = []
    both = []
    for item, label in zip(step.expressions, labels, strict=True):
        value = item.unalias()
        if group is not None and _together(value, label) == set(mine):
            both.append(label)
            continue
        if not isinstance(value, exp.Column) or value.name.lower() != label:
            return None
        origins.append(value.table.lower())
    if set(origins) != set(mine) or (group is not None and not both):
        return None
    keys = [label for label in labels if label not in both]
    taken = {
        alias: {*both, *(n for n, o in zip(keys, origins, strict=True) if o == alias)}
        for alias in mine
    }
    for condition in conditions:
        sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ) else ()
        if not sides or not all(isinstance(s, (exp.Column, exp.Literal)) for s in sides):
            return None
        for column in condition.find_all(exp.Column):
            alias = column.table.lower()
            if alias not in sources or column.name.lower() in taken.get(alias, ()):
                return None
    # Left is the one whose columns come first: it is handed on unchanged.
    return mine[next(o for o in origins if o != origins[0])]


def _together(value: exp.Expr, label: str) -> set[str] | None:
    """The two tables whose columns `label` a best value is made of; None if it is not."""
    if not isinstance(value, exp.Min | exp.Max) or value.expressions:
        return None
    made = value.this
    if isinstance(made, exp.Add):
        sides = [made.this, made.expression]
    elif isinstance(made, exp.Least | exp.Greatest):
        sides = [made.this, *made.expressions]
    else:
        return None
    if len(sides) != 2 or not all(isinstance(s, exp.Column) for s in sides):
        return None
    return {s.table.lower() for s in sides} if all(s.name.lower() == label for s in sides) else None
