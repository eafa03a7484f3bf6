"""Rewrites of logical plans: one pass per file, applied in the order of `RULES`."""

from __future__ import annotations

from collections.abc import Callable

from tidewheel.planner.logical import Node

RULES: tuple[Callable[[Node], Node], ...] = ()


def rewritten(node: Node) -> Node:
    """`node` after every rule."""
    for rule in RULES:
        node = rule(node)
    return node
