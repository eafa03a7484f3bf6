"""A step of a loop as Python's own code, for a few rows at a time, where arrays cost more.

The program is written as nested loops, one for each relation, and compiled: what a step costs then
is a microsecond or two for each row.

Source: Neumann, "Efficiently Compiling Efficient Query Plans for Modern Hardware" (VLDB 2011),
section 3, for the form: a pipeline as one nest of loops.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidewheel.engine.operators.step_program import (
    FAR,
    Compare,
    Compute,
    Limits,
    Number,
    Operator,
    Program,
    Slot,
    Unfit,
    Value,
)

if TYPE_CHECKING:
    from tidewheel.engine.operators.lookup import Relation

Row = tuple[int, ...]
Step = Callable[[Sequence[Row]], list[Row]]


def compiled(program: Program, relations: Sequence[Relation]) -> Step:
    """The step from rows to rows; no value is NULL. It raises Unfit, as `Program.run` does."""
    lines = ["def step(rows):", " found = []", f" for {_tuple(0, program.columns)} in rows:"]
    depth = 2
    for condition in program.before:
        _condition(condition, lines, " " * depth)
    slot = program.columns
    for n, (key, width) in enumerate(zip(program.keys, program.widths, strict=True)):
        lines.append(" " * depth + f"for {_tuple(slot, width)} in lookup{n}(s{key}):")
        slot += width
        depth += 1
    for condition in program.after:
        _condition(condition, lines, " " * depth)
    outputs = ""
    for output, limit in program.limited:
        value = _value(output) if limit is None else _within(output, limit, lines, " " * depth)
        outputs += f"{value}, "
    lines += [" " * depth + f"found.append(({outputs}))", " return found"]
    scope: dict[str, Any] = {f"lookup{n}": _lookup(r) for n, r in enumerate(relations)}
    scope["unfit"] = _unfit
    exec("\n".join(lines), scope)  # made of numbers and names of its own alone
    step: Step = scope["step"]
    return step


def _lookup(relation: Relation) -> Callable[[int], Sequence[Row]]:
    """The rows of a key, without it."""
    starts = relation.starts.tolist()
    rows: list[Row] = list(zip(*(c.tolist() for c in relation.columns), strict=True))
    if not relation.columns:
        rows = [()] * len(relation)
    if relation.keys is None:
        low, span = relation.low, relation.span

        def dense(key: int) -> Sequence[Row]:
            at = key - low
            return rows[starts[at] : starts[at + 1]] if 0 <= at < span else ()

        return dense
    keys = relation.keys.tolist()

    def sparse(key: int) -> Sequence[Row]:
        at = bisect_left(keys, key)
        there = at < len(keys) and keys[at] == key
        return rows[starts[at] : starts[at + 1]] if there else ()

    return sparse


def _unfit() -> None:
    raise Unfit("a value is too large for its type")


def _tuple(first: int, width: int) -> str:
    return "(" + "".join(f"s{i}, " for i in range(first, first + width)) + ")"


def _condition(condition: Compare, lines: list[str], indent: str) -> None:
    operator = {"=": "==", "<>": "!="}.get(condition.operator, condition.operator)
    left = _within(condition.left, (-FAR, FAR), lines, indent)
    right = _within(condition.right, (-FAR, FAR), lines, indent)
    lines.append(f"{indent}if not {left} {operator} {right}: continue")


def _within(value: Value, limit: Limits, lines: list[str], indent: str) -> str:
    """`_value` with a check of whatever is computed on the way, in lines of its own."""
    if not isinstance(value, Compute):
        return _value(value)
    left = _within(value.left, limit, lines, indent)
    right = _within(value.right, limit, lines, indent)
    name = f"v{len(lines)}"
    lines.append(f"{indent}{name} = {_computed(value.operator, left, right)}")
    lines.append(f"{indent}if not {limit[0]} <= {name} <= {limit[1]}: unfit()")
    return name


def _value(value: Value) -> str:
    if isinstance(value, Slot):
        return f"s{value.index}"
    if isinstance(value, Number):
        return f"({value.value})"
    return _computed(value.operator, _value(value.left), _value(value.right))


def _computed(operator: Operator, left: str, right: str) -> str:
    if operator in ("least", "greatest"):
        return f"{'min' if operator == 'least' else 'max'}({left}, {right})"
    return f"({left} {operator} {right})"
