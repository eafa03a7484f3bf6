"""What changes where rows take the place of others, both in order."""

from __future__ import annotations

import numpy as np

from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.delta import Delta, concat, consolidate
from tidewheel.engine.state.run import Rows


def settled(rows: Rows) -> bool:
    """Are rows, which are sorted, all there, and no two in one place?"""
    assert rows.rank is not None
    return bool(rows.weights.all() and (rows.rank[1:] > rows.rank[:-1]).all())


def difference(new: Rows, old: Rows | None) -> Delta:
    """New rows − old ones, both of one key, sorted and consolidated."""
    if old is None:
        found = new.delta()
        return Delta(found.schema, found.cols, found.weights, True)
    both = [new.delta(), old.delta().negate()]
    if not (settled(new) and settled(old)):
        return consolidate(concat(both))
    assert new.rank is not None
    assert old.rank is not None
    at = old.rank.searchsorted(new.rank)
    same = (old.rank.take(at, mode="clip") == new.rank).nonzero()[0] if len(old) else at[:0]
    at = at[same]
    # what functions say differs mostly, and what rows are where that does not
    for i in reversed(range(len(new.cols))):
        kind = new.layout.schema.kinds[i]
        some, others = columns_.take(new.cols[i], same), columns_.take(old.cols[i], at)
        alike = kind.equal(some, others, exactly=True).nonzero()[0]
        same, at = same[alike], at[alike]
        if not len(same):
            break
    alike = (new.weights[same] == old.weights[at]).nonzero()[0]
    for i, gone in enumerate((same[alike], at[alike])):
        if len(gone):
            left = np.ones(len(both[i]), bool)
            left[gone] = False
            both[i] = both[i].where(left)
    found = concat(both)
    return Delta(found.schema, found.cols, found.weights, True)
