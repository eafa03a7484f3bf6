"""The rewrites of a view's plan, in their order."""

from __future__ import annotations

from tidewheel.planner.logical import Node
from tidewheel.planner.rewrites.counted_limits import counted_limits
from tidewheel.planner.rewrites.dense_ranks import dense_ranks
from tidewheel.planner.rewrites.ends_of_groups import ends_of_groups
from tidewheel.planner.rewrites.first_of_groups import first_of_groups
from tidewheel.planner.rewrites.join_graph import join_graph
from tidewheel.planner.rewrites.join_order import join_order
from tidewheel.planner.rewrites.lonely_rows import lonely_rows
from tidewheel.planner.rewrites.measured import Measures
from tidewheel.planner.rewrites.prune import prune
from tidewheel.planner.rewrites.reduce_groups import reduce_groups
from tidewheel.planner.rewrites.same_in_groups import same_in_groups
from tidewheel.planner.rewrites.same_subplans import same_subplans
from tidewheel.planner.rewrites.sharing import large_in_pieces
from tidewheel.planner.rewrites.single_rows import single_rows
from tidewheel.planner.rewrites.whole_windows import whole_windows


def rewritten(node: Node, measures: Measures) -> Node:
    """The plan after the rewrites for views: what DuckDB would do to a query that it gets whole."""

    def every_rule(piece: Node) -> Node:
        piece = single_rows(join_graph(lonely_rows(counted_limits(piece))), measures.keys)
        piece = first_of_groups(dense_ranks(piece))
        piece = same_in_groups(ends_of_groups(join_order(piece, measures)), measures.keys)
        return whole_windows(reduce_groups(piece), measures)

    return same_subplans(prune(large_in_pieces(node, every_rule)))
