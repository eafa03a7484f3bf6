"""``*`` and its relatives in a SELECT list."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidewheel.planner.text import column

from .bind_scope import NotTaken, Scope, Visible, parts_of

Starred = list[tuple[str, exp.Expr]]


def expanded(
    expression: exp.Expr,
    scope: Scope,
    clause: Callable[[exp.Expr], exp.Expr],
) -> Starred | None:
    """The columns that a star stands for, as label and bound expression; None for what is none.

    `clause` binds the expressions of REPLACE.
    """
    if isinstance(expression, exp.Star):
        columns = [(v.label, v.merged) for v in scope.visible() if v.merged is not None]
        star = expression
    elif isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star):
        qualifier = [p.name for p in expression.parts[:-1]]
        found = [r for r in scope.relations if r.answers_to(qualifier)]
        if len(found) != 1:
            raise NotTaken(f"{'.'.join(qualifier)}.* is not one FROM item")
        visible: list[Visible] = found[0].columns
        columns = [(v.label, v.column) for v in visible]
        star = expression.this
    else:
        return None
    return _modified(star, [(label, column(c.name)) for label, c in columns], clause)


def _modified(star: exp.Star, columns: Starred, clause: Callable[[exp.Expr], exp.Expr]) -> Starred:
    for key, value in star.args.items():
        if value and key not in ("except_", "replace", "rename"):
            raise NotTaken(f"* {key.strip('_').upper()}")
    excluded = {_plain(e) for e in star.args.get("except_") or ()}
    replaced = {e.alias.lower(): e for e in star.args.get("replace") or ()}
    renamed = {_plain(e.this): e.alias for e in star.args.get("rename") or ()}
    result: Starred = []
    for label, value in columns:
        key = label.lower()
        if key in excluded:
            continue
        if key in replaced:
            result.append((replaced[key].alias, clause(replaced[key].this)))
        else:
            result.append((renamed.get(key, label), value))
    return result


def _plain(item: exp.Expr) -> str:
    if isinstance(item, exp.Column) and len(parts_of(item)) == 1:
        return item.name.lower()
    if isinstance(item, exp.Identifier):
        return item.name.lower()
    raise NotTaken("a qualified column behind a star")
