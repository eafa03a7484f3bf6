"""Is a change taken through the operators of the views, or are the views computed anew?

A change passes through the operators row by row, lookups included; filling them takes every row
that is left once, much of it in one statement of DuckDB's. How long a view's filling took is known,
and how long its operators took for changes like the one that comes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidewheel.engine.state.memory import LOOK

if TYPE_CHECKING:
    from tidewheel.planner.maintain import MaintainedView
    from tidewheel.planner.plans import Deltas

LARGE = 10_000
"""Below so many changed rows nobody asks."""
_MADE = 5e-8
"""Seconds to make a pair of rows, at least."""
_SURE = 1.5
"""So many times as long must the change take: the times are estimates."""
SHORT = 0.03
"""Seconds that are not worth a choice."""
_SURELY = 8
"""After so many changes in turn that took too long it is not only that state was made for them."""
_WHOLE = 4
"""For how many of these one counts that changes much of the view: no state helps there."""
AT_ONCE = 0.02
"""Seconds of a query that operators which take long to fill are filled for at once."""
WORTH = 20
"""Otherwise they are once changes have taken so many times as long as the query, at most."""
_QUICK = 2
_PACE = 6_000
"""Of few rows they are filled in twice its time, so that is enough; once more for so many rows."""
_REST = 64
"""So many changes are computed anew before the operators are tried again, then twice as many."""
_LOSS = 8
"""Operators that have taken so many times the query's time more than the query are given up."""
_ONE = 20
"""So many times the query's time they may take for one change, whatever they have gained."""
LEAST = 0.03
"""Seconds that any query is taken to last in that."""
_PATIENCE = 8
"""So many times as long as filling them loops may go round for a change, if that is all we know."""
_PATIENT = 2.0
"""Seconds that they may in any case: the first changes read state."""


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
    filling = anew(readers)
    if passing > _SURE * filling:
        return f"{rows}: some {passing:.2g} s one by one, {filling:.2g} s anew"
    return ""


def most(view: MaintainedView) -> float:
    """How many rows a step of its operators may make: more take longer than to fill them again."""
    return max(LOOK, _SURE * view.fill_seconds / _MADE)


def anew(views: Sequence[MaintainedView]) -> float:
    """About how long it takes to compute views anew; what has no operators does so anyway."""
    return sum(v.fill_seconds for v in views if v.plan is not None and not v.plan.reason)


def longer(seconds: float, views: Sequence[MaintainedView]) -> bool:
    """Is it clear that something took more time than computing views anew?"""
    return seconds > _SURE * anew(views)


def worth(anew: float, rows: int, rests: int) -> float:
    """After how many seconds of changes operators that take long to fill are filled.

    `anew`: the query's seconds; its loop takes a millisecond or two for each iteration, however few
    of the `rows` that it reads move. `rests`: how often they have been given up.
    """
    times = WORTH * 2**rests if rests else min(_QUICK + rows / _PACE, WORTH)
    return anew * times


@dataclass(slots=True)
class Balance:
    """What a view's operators took more than its query would have, since they were filled.

    A change near the source of shortest ways moves all of them: one such change may take the
    operators fifty times as long as the query, and which changes come is not known beforehand.
    """

    lost: float = 0.0
    """In seconds; negative if they gained some, at most what filling them took."""
    rests: int = 0
    """How often they were given up; each time the view is computed anew for twice as long."""
    late: int = 0
    """How often a change took too long where the query's time is not known."""

    def left(self, anew: float, filling: float) -> float:
        """How many seconds they may take for a change. `anew`: those of the query, 0: unknown."""
        if not anew:  # (twice as many each time: it may be state that was read, and lost again)
            return float(max(_PATIENCE * filling, _PATIENT) * 2**self.late)
        anew = max(anew, LEAST)
        return min(_LOSS * anew - self.lost, _ONE * anew)

    def took(self, seconds: float, anew: float, filling: float) -> None:
        """They took a change."""
        self.lost += seconds - anew
        if self.lost < -filling:
            self.lost, self.rests = -filling, 0

    def overtime(self, anew: float) -> None:
        """They took too long for a change."""
        if anew:  # they are given up
            self.lost = 0.0
            self.rests += 1
        else:
            self.late += 1


@dataclass(slots=True)
class _Known:
    slow: int = 0
    took: float = 0.0
    rest: int = _REST
    left: int = 0


class Experience:
    """What changes took in a view's operators, by their kind: of which tables, about how many rows.

    A share of a total changes in all rows with any of them, a rank in half of the rows: then the
    query over a million rows takes DuckDB less time than to say which two million rows come and go.
    """

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[tuple[frozenset[str], int], _Known] = {}

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def note(self, changes: Deltas, seconds: float, whole: bool) -> None:
        """The operators took changes, and more time than computing anew does.

        `whole`: much of the view changed.
        """
        known = self._kinds.setdefault(_kind(changes), _Known())
        known.slow += _WHOLE if whole else 1
        known.took = seconds
        if known.slow >= _SURELY:
            known.left = known.rest
            known.rest *= 2

    def forget(self, changes: Deltas) -> None:
        """They took some in less."""
        self._kinds.pop(_kind(changes), None)

    def asked(self, changes: Deltas) -> float:
        """Changes come: what such ones took, in seconds; 0 if the operators are to take them."""
        known = self._kinds.get(_kind(changes))
        if known is None or not known.left:
            return 0.0
        known.left -= 1
        if not known.left:
            known.slow = 0
        return known.took

    def warns(self, keys: Set[str]) -> bool:
        """Are changes of some kind, of tables among `keys`, computed anew?"""
        return any(known.left and tables & keys for (tables, _), known in self._kinds.items())


def _kind(changes: Deltas) -> tuple[frozenset[str], int]:
    return frozenset(changes), sum(map(len, changes.values())).bit_length()
