"""The rows of a key next to a place, in a spine whose rows have places.

    rows of a key, in order     . . . d d . . .        d: taken back by another run
    limit                                 ^
    looked at, last rows first          4 3 2 1 0 ...  one, then four, then sixteen of each run

What was taken back is passed over so in few steps, however much of it there is.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tidewheel.engine.state.columns import Index, Mask
from tidewheel.engine.state.delta import Int64s
from tidewheel.engine.state.run import Rows, concat_rows, narrowed
from tidewheel.engine.state.spine import Spine

LEAST: Final = int(np.iinfo(np.int64).min)
MOST: Final = int(np.iinfo(np.int64).max)
_MORE: Final = 4
_PART: Final = 4  # so many rows for a probe, at most, are worth to be merged


def nearest(
    spine: Spine, probes: Int64s, limits: Int64s, forward: bool = False
) -> tuple[Index, Rows] | None:
    """Of each key in `probes` the rows at the last place up to its limit; None if there are none.

    `forward`: at the first place from the limit on. Several rows may share the place: pairs of
    (position in `probes`, row), in any order. Outside loops.
    """
    if len(probes) * _PART >= len(spine) and spine.single is None:
        spine.compact()  # what was taken back would be passed over for each of many probes
    found_at: list[Index] = []
    found: list[Rows] = []
    limits, open_, many = limits.copy(), np.arange(len(probes)), 1
    while len(open_):
        keys, limit = probes[open_], limits[open_]
        bound, there = _bounds(spine, keys, limit, forward, many)
        pairs = spine.lookup(keys, (limit, bound) if forward else (bound, limit))
        if pairs is not None:
            at, rows = pairs
            assert rows.rank is not None
            place = ~rows.rank if forward else rows.rank
            last = np.full(len(keys), LEAST)
            np.maximum.at(last, at, place)
            nearest_ = (place == last[at]).nonzero()[0]
            found_at.append(open_[at[nearest_]])
            found.append(rows.take(nearest_))
            there[at] = False
        there &= bound != (MOST if forward else LEAST)
        limits[open_] = bound + (1 if forward else -1)
        open_, many = open_[there], many * _MORE
    return (np.concatenate(found_at), concat_rows(found)) if found else None


def _bounds(
    spine: Spine, probes: Int64s, limits: Int64s, forward: bool, many: int
) -> tuple[Int64s, Mask]:
    """Places up to which some `many` rows of each run lie beyond a limit; are there any rows?"""
    end = np.full(len(probes), MOST if forward else LEAST)
    there = np.zeros(len(probes), bool)
    bound = end.copy()
    within = (limits, end) if forward else (end, limits)
    for rows, order, keys in spine.parts():
        ranks = rows.rank if order is None or rows.rank is None else rows.rank[order]
        assert ranks is not None
        first, counts = narrowed(ranks, *rows.find(probes, keys), within)
        there |= counts > 0
        far = (counts > many).nonzero()[0]
        place = ranks[first[far] + (many - 1 if forward else counts[far] - many)]
        bound[far] = (np.minimum if forward else np.maximum)(bound[far], place)
    return bound, there
