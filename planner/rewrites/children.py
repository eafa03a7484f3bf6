"""What rewrites have in common: the same node over other inputs, and all nodes of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tidewheel.planner.logical import Binding, LetRec, Node


def over(node: Node, change: Callable[[Node], Node]) -> Node:
    """`node` with `change` made to what it reads; of a recursion that is its body only."""
    found = {name: getattr(node, name, None) for name in ("input", "left", "right", "body")}
    changed = {name: change(child) for name, child in found.items() if isinstance(child, Node)}
    if all(changed[name] is found[name] for name in changed):
        return node
    return replace(node, **changed)  # type: ignore[arg-type]


def in_bindings(node: LetRec, change: Callable[[Node], Node]) -> tuple[Binding, ...]:
    """A recursion's tables with `change` made to their anchors and steps."""
    return tuple(
        replace(
            b,
            anchor=None if b.anchor is None else change(b.anchor),
            steps=tuple(map(change, b.steps)),
        )
        for b in node.bindings
    )


def every(*roots: Node) -> Iterator[Node]:
    """All nodes of plans, each once, however many read it."""
    seen = {id(root) for root in roots}
    todo = list(roots)
    while todo:
        node = todo.pop()
        yield node
        for child in node.children:
            if id(child) not in seen:
                seen.add(id(child))
                todo.append(child)
