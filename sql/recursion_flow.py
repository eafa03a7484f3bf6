"""What values the columns of a structural step can have: where they come from, how far they go."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.operators.step_program import Compute, Number, Program, Slot, Value


class NotStructural(Exception):
    """The step is more than joins, arithmetic and comparisons of integers; says by what."""


def flows(
    program: Program, origin: dict[int, tuple[int, int]], improving: Sequence[str | None]
) -> tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[tuple[int, int] | None, ...]]:
    """Per column: the inputs whose values can get there, and bounds where it is computed.

    `origin`: input port and column of each slot. `improving` as in `structure`.
    """
    sources: list[set[tuple[int, int]]] = [{(0, i)} for i in range(program.columns)]
    bounds: list[tuple[int, int] | None] = [None] * program.columns
    for i, output in enumerate(program.outputs):
        if isinstance(output, Number):
            bounds[i] = (output.value, output.value)
        elif isinstance(output, Compute) and not (improving and improving[i]):
            bounds[i] = _counter_bound(program, i, output)
    changed = True
    while changed:
        changed = False
        for i, output in enumerate(program.outputs):
            if not isinstance(output, Slot):
                continue
            slot = output.index
            more = sources[slot] if slot < program.columns else {origin[slot]}
            if slot < program.columns and bounds[slot] is not None and slot != i:
                low = bounds[slot]
                if bounds[i] is None or low is None or bounds[i] != low:
                    raise NotStructural("a counter moves")
            if not more <= sources[i]:
                sources[i] |= more
                changed = True
    return tuple(tuple(sorted(s)) for s in sources), tuple(bounds)


def slots(value: Value) -> set[int]:
    """The slots that a value reads."""
    if isinstance(value, Slot):
        return {value.index}
    if isinstance(value, Compute):
        return slots(value.left) | slots(value.right)
    return set()


def _counter_bound(program: Program, i: int, output: Compute) -> tuple[int, int]:
    """The bounds of ``n + c`` (c > 0) where a condition ``n < k`` bounds it."""
    if not (
        output.operator == "+"
        and output.left == Slot(i)
        and isinstance(output.right, Number)
        and output.right.value > 0
    ):
        raise NotStructural("a computed column without a bound")
    for condition in program.before:
        if condition.left == Slot(i) and isinstance(condition.right, Number):
            top = condition.right.value
            if condition.operator == "<":
                return top - 1 + output.right.value, top - 1 + output.right.value
            if condition.operator == "<=":
                return top + output.right.value, top + output.right.value
    raise NotStructural("a counter without a bound")


def carried(program: Program) -> int | None:
    """A column that only is taken over from row to row."""
    used = set(program.keys)
    for condition in (*program.before, *program.after):
        used |= slots(condition.left) | slots(condition.right)
    for i, output in enumerate(program.outputs):
        others = [slots(o) for j, o in enumerate(program.outputs) if j != i]
        if output == Slot(i) and i not in used and not any(i in o for o in others):
            return i
    return None
