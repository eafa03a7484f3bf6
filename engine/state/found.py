"""Rows that some keys find in several runs: gathered, and without those that cancel."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidewheel.engine.state.columns import Index, Mask
from tidewheel.engine.state.memory import ensure
from tidewheel.engine.state.run import Rows, concat_rows, stretches
from tidewheel.engine.state.sorting import sort_by

CACHED: Final = 1 << 16
"""Rows whose keys stay in the cache."""


def netted(at: Index, rows: Rows) -> tuple[Index, Rows]:
    """Found rows without those that cancel."""
    if rows.times is not None or rows.weights.ndim > 1:
        return at, rows
    minus = rows.weights < 0
    if not minus.any():
        return at, rows
    touched = np.zeros(int(at.max()) + 1, bool)
    touched[at[minus]] = True
    mask = touched[at]
    if np.count_nonzero(mask) > CACHED:
        _like(rows, minus, mask)
    other = (~mask).nonzero()[0]
    index = mask.nonzero()[0]
    keys = np.zeros(len(touched), np.int64)
    keys[at] = rows.keys
    net = rows.take(index)
    net.keys = at[index]  # so that the rows of each probe are added up by themselves
    net = sort_by(net)
    places, net.keys = net.keys, keys[net.keys]
    return np.concatenate([at[other], places]), concat_rows([rows.take(other), net])


def _like(rows: Rows, some: Mask, mask: Mask) -> None:
    """Clear `mask` where a row can't be the same as one of `some`: there is less to be sorted."""
    words = rows.rest if rows.rank is None else rows.rank
    if words is None:
        return
    sought = np.unique(words[some])
    if len(sought) <= len(words) // 8:
        places = np.minimum(sought.searchsorted(words), len(sought) - 1)
        mask &= sought[places] == words


def collect(
    rows: Rows,
    low: Index,
    counts: Index,
    by_key: Index | None,
    place: Index | None,
    found_at: list[Index],
    found: list[Rows],
) -> None:
    """Add to `found` what a run has from `low` on, `counts` rows for each key.

    `by_key`: the order of its rows; `place`: which of these keys each probe has.
    """
    if place is not None:
        low, counts = low[place], counts[place]
    total = int(counts.sum())
    if not total:
        return
    ensure(total, "pairs of rows in a join", rows)
    at, index = stretches(low, counts, total)
    some = rows.take(index if by_key is None else by_key[index])
    if some.weights.ndim == 1 and not some.weights.all():
        at = at[some.weights != 0]
        some = without_none(some)
    found_at.append(at)
    found.append(some)


def without_none(rows: Rows) -> Rows:
    """Rows without those that were absorbed."""
    return rows if rows.weights.ndim > 1 else rows.where(rows.weights != 0)
