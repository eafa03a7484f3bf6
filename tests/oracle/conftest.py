"""What is done with many rows, done with few in half of the oracles' tests (by their names)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from tidewheel.engine.operators import (
    first_table,
    fixpoint,
    quantiles,
    regroup,
    shared,
    sink,
    topk,
)
from tidewheel.engine.state import dense, found, order, radix, spine, table_columns
from tidewheel.planner import recompute, view_answers, view_choice, view_filling


@pytest.fixture(autouse=True)
def _few_are_many(request: pytest.FixtureRequest) -> Iterator[None]:
    chance = zlib.crc32(request.node.nodeid.encode())
    with pytest.MonkeyPatch.context() as patch:
        if chance & 1:  # arrays by value, and sorting by counting
            patch.setattr(spine, "LEAST", 2)
            patch.setattr(spine, "CACHED", 2)
            patch.setattr(found, "CACHED", 2)
            patch.setattr(dense, "LEAST", 2)
            patch.setattr(dense, "_CLOSE", 20)
            patch.setattr(order, "_LARGE", 2)
            patch.setattr(radix, "FEWEST", 2)
            patch.setattr(topk, "_FEW", 0)
        if chance & 8:  # columns are put in order when somebody asks for them
            patch.setattr(table_columns, "MANY", 2)
        if chance & 2:  # rows of a recursion are taken out one level after the other
            patch.setattr(fixpoint, "_PASS", 0)
        if chance & 4:  # and look themselves for what they can be derived from
            patch.setattr(fixpoint, "_FEWER", 0)
        if chance & 16:  # rows of groups are looked for in tables, or read when they are
            patch.setattr(view_answers, "MANY", 1)
            patch.setattr(shared, "FEWER", 1)
            patch.setattr(shared, "ROW", 1)
            patch.setattr(shared, "TIMES", chance >> 5 & 3)
            if chance & 1024:  # sums, too
                patch.setattr(view_filling, "GROUPS", 0)
        if chance & 128:  # or tables are asked for few groups, from the first change on or later
            patch.setattr(regroup, "LARGE", 5)
            patch.setattr(quantiles, "LARGE", 5)
        elif chance & 256:
            patch.setattr(regroup, "FEW", 0)
        if chance & 2048:  # few rows of one place are a crowd
            patch.setattr(topk, "_CROWD", 2)
            patch.setattr(topk, "_PER_ROW", 1)
        if chance & 4096:  # filtered rows are read again, as those of joins
            patch.setattr(view_filling, "_SCANNED", 0)
            patch.setattr(view_filling, "_LEFT", 0)
        inside = request.node.path.stem in ("test_crowds", "test_groups_wait", "test_waiting")
        if chance & 24576 == 8192 and not inside:  # operators always seem to take too long
            patch.setattr(view_choice, "SHORT", 0.0)
            patch.setattr(view_choice, "longer", lambda seconds, views: True)
            patch.setattr(view_choice, "_SURELY", 4)
            patch.setattr(view_choice, "_REST", 3)
        if chance & 65536:  # first rows of views stay as they came
            patch.setattr(sink, "LEAF", 2)
            patch.setattr(first_table, "BLOCK", 4)
            patch.setattr(first_table, "_BITS", 4)
            patch.setattr(first_table, "_LOOKS", chance >> 17 & 3)
        if chance & 32768:  # what differs is found when a subscriber asks
            patch.setattr(recompute, "FEW", -1)
        if chance & 512:  # quantiles are sought in groups of any size
            patch.setattr(quantiles, "_WORTH", 0)
        yield
