"""Rewrites of logical plans: one pass per file, applied in the order of `RULES`.

DuckDB optimizes what it gets whole; these are for plans whose operators run one by one, with state
of their own. Each keeps the rows and the names of the columns, and their order at the root.
"""

from __future__ import annotations

from collections.abc import Callable

from tidewheel.planner.logical import Node
from tidewheel.planner.rewrites.join_graph import join_graph
from tidewheel.planner.rewrites.merge_projects import merge_projects
from tidewheel.planner.rewrites.prune import prune
from tidewheel.planner.rewrites.sharing import in_pieces

RULES: tuple[Callable[[Node], Node], ...] = (join_graph, prune, merge_projects)


def rewritten(node: Node, check: Callable[[Node], object] | None = None) -> Node:
    """`node` after every rule; `check` is called with each piece after each rule."""

    def all_rules(piece: Node) -> Node:
        for rule in RULES:
            piece = rule(piece)
            if check is not None:
                check(piece)
        return piece

    return in_pieces(node, all_rules)
