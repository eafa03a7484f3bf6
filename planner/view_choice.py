"""Is a change taken through the operators of the views, or are the views computed anew?

A change passes through the operators row by row, lookups included; filling them takes every row
that is left once, much of it in one statement of DuckDB's. How long a view's filling took is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidewheel.engine.state.memory import LOOK

if TYPE_CHECKING:
    from tidewheel.planner.maintain import MaintainedView
    from tidewheel.planner.plans import Deltas

LARGE = 10_000
"""Below so many changed rows nobody asks."""
_COMPARED = 1e-6
"""Seconds to compare a row of the view with those before."""
_MADE = 5e-8
"""Seconds to make a pair of rows, at least."""
_SURE = 1.5
"""So many times as long must the change take: the times are estimates."""


def choice(moved: Deltas, readers: Sequence[MaintainedView], tokens: Sequence[str]) -> str:
    """Why `readers`, all hot views that a change reaches, are computed anew; empty if they are not.

    `tokens`: the name that plans have for each table or view of `moved`.
    """
    if sum(map(len, moved.values())) < LARGE:
        return ""
    changed = left = 0
    passing = 0.0
    for (key, delta), token in zip(moved.items(), tokens, strict=True):
        plans = [v.plan for v in readers if v.plan is not None and key in v.reads]
        if plans:
            changed += len(delta)
            left += max(plan.held(token) for plan in plans) + delta.net
            passing += sum(plan.pace for plan in plans if not plan.reason) * len(delta)
    if changed < LARGE:
        return ""
    rows = f"{changed:,} rows changed"
    if changed > left:
        return f"{rows}, {left:,} are left"
    filling = sum(_filling(view) for view in readers)
    if passing > _SURE * filling:
        return f"{rows}: some {passing:.2g} s one by one, {filling:.2g} s anew"
    return ""


def most(view: MaintainedView) -> float:
    """How many rows a step of its operators may make: more take longer than to fill them again."""
    return max(LOOK, _SURE * view.fill_seconds / _MADE)


def _filling(view: MaintainedView) -> float:
    """About how long it takes to compute a view anew; what has no operators does so anyway."""
    if view.plan is None or view.plan.reason:
        return 0
    return view.fill_seconds + _COMPARED * view.plan.size
