"""Which columns of a recursive table decide what its steps give, and which are handed on alone.

    SELECT r.root, e.to, r.depth + 1, r.path || e.to FROM r JOIN e ON e.at = r.node

Here root and node decide. Depth and path are in no condition: they follow the rows. So a loop whose
rows come again, up to such columns, goes round for ever, though its rows are always new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from tidewheel.planner import logical as L
from tidewheel.planner.rewrites.children import every


def deciding(b: L.Binding, steps: Sequence[L.Node]) -> tuple[int, ...]:
    """The columns on which the next rows depend, up to the others. All of them where in doubt."""
    known: set[int] = set()
    while True:
        found = set(known)
        for step in steps:
            asked = _asked(step, {step.schema[i].name for i in known}, b.variable)
            if asked is None:
                return tuple(range(len(b.columns)))
            found |= asked
        if found == known:
            return tuple(sorted(known))
        known = found


def rising(b: L.Binding, steps: Sequence[L.Node]) -> int | None:
    """A column that is greater in each row than in the one row that it was made of, if not NULL."""
    if not all(_readers(step, b.variable) == 1 for step in steps):
        return None
    for i in range(len(b.columns)):
        if all(_rises(step, step.schema[i].name, b.variable, i) for step in steps):
            return i
    return None


def _readers(node: L.Node, variable: str) -> int:
    return sum(isinstance(n, L.RecRef) and n.variable == variable for n in every(node))


def _asked(node: L.Node, names: set[str], variable: str) -> set[int] | None:
    """Which columns of the variable `names` of a node, and its rows, depend on; None: unknown."""
    if isinstance(node, L.RecRef) and node.variable == variable:
        return {i for i, c in enumerate(node.columns) if c.name in names}
    if not _readers(node, variable):
        return set()
    if isinstance(node, L.Filter):
        return _asked(node.input, names | L.references(node.predicate), variable)
    if isinstance(node, L.Project):
        return _asked(node.input, _read(*(e.expr for e in _named(node, names))), variable)
    if isinstance(node, L.Join):
        keys = (part for k in node.keys for part in (k.left, k.right))
        wanted = names | L.references(node.residual) | _read(*keys)
        left, right = (_asked(n, wanted, variable) for n in (node.left, node.right))
        return None if left is None or right is None else left | right
    return None


def _rises(node: L.Node, name: str, variable: str, at: int, more: bool = False) -> bool:
    """Is the column `name` that of the variable at `at` plus something above zero?"""
    if isinstance(node, L.RecRef) and node.variable == variable:
        return more and node.columns[at].name == name
    if isinstance(node, L.Filter):
        return _rises(node.input, name, variable, at, more)
    if isinstance(node, L.Join) and node.kind in ("inner", "cross", "semi", "anti"):
        sides = (n for n in (node.left, node.right) if any(c.name == name for c in n.schema))
        return any(_rises(side, name, variable, at, more) for side in sides)
    if not isinstance(node, L.Project):
        return False
    expression = next(_named(node, {name})).expr
    if isinstance(expression, exp.Add):
        step = expression.expression
        if not (isinstance(step, exp.Literal) and step.is_int and int(step.this) > 0):
            return False
        expression, more = expression.this, True
    if not isinstance(expression, exp.Column):
        return False
    return _rises(node.input, expression.name, variable, at, more)


def _named(node: L.Project, names: set[str]) -> Iterator[L.Named]:
    return (e for e in node.exprs if e.column.name in names)


def _read(*expressions: exp.Expr) -> set[str]:
    return set().union(*map(L.references, expressions))
