"""Groups whose output is open where rows tie, settled by who knows the order of the rows.

arg_max(name, score) is the name of the first row with the highest score, and list(name ORDER BY
score) has names of one score as they come. A collection has no order, so rows that tie are found
here, and what depends on them is asked for; nobody is asked where none do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.rank import Ranking
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.state.columns import Mask
from tidewheel.engine.state.delta import Delta, KeySpec, Schema, concat, consolidate, unique


class Settling:
    """`evaluate`, but with groups from `ask` for those that differ if their rows come backwards.

    The first `keys` columns of the output are the group. `orders` are the positions, in the input,
    of the group and what one aggregate goes by: rows do not tie where all differ there. None: where
    rows come says too little, all groups are asked for. So are all at the first call.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        ask: Ask,
        keys: int,
        orders: Sequence[Sequence[int]] | None,
        anyway: bool = False,
    ) -> None:
        """`anyway`: it may be of several rows, so that backwards says nothing where some tie."""
        self._evaluate = evaluate
        self._ask = ask
        self._keys = range(keys)
        self._orders = orders
        self._anyway = anyway
        self._begun = False

    def all(self, _: Delta | None = None) -> Delta:
        """All groups that there are."""
        self._begun = True
        return self._ask(None)

    def __call__(self, rows: Delta) -> Delta:
        """The groups of some rows."""
        if not self._begun:
            return self.all()
        found = self._evaluate(rows)
        if len(rows) < 2:
            return found
        if self._orders is not None and not any(_tie(rows, order) for order in self._orders):
            return found
        if self._orders is None or self._anyway:
            return asked_for(found, np.ones(len(found), bool), self._ask, self._keys)
        backwards = self._evaluate(rows.take(np.arange(len(rows))[::-1]))
        differ = consolidate(concat([found, backwards.negate()]))
        if not len(differ):
            return found
        spec = KeySpec(found.schema, self._keys)
        open_ = np.isin(spec.keys(found.cols, len(found)), spec.keys(differ.cols, len(differ)))
        return asked_for(found, open_, self._ask, self._keys)


def _tie(rows: Delta, order: Sequence[int]) -> bool:
    keys = KeySpec(rows.schema, order).keys(rows.cols, len(rows))
    return len(unique(keys)) < len(rows)


def settling_first(
    evaluate: Evaluate, ask: Ask, ranking: Ranking, keys: Sequence[int], order: Sequence[int]
) -> Evaluate:
    """`evaluate`, which gives the first row of each group, but with rows from `ask` where it ties.

    `keys` and `order` are the positions of the group and of what rows go by, in the input and in
    the output; `ranking` gives the places that the first of `order` has.
    """
    spec = KeySpec(ranking.schema, (*keys, *order))

    def tie(rows: Delta, found: Delta) -> Mask:
        places = np.sort(spec.keys(rows.cols, len(rows)))
        own = spec.keys(found.cols, len(found))
        return np.asarray(places.searchsorted(own, "right") - places.searchsorted(own) > 1)

    def run(rows: Delta) -> Delta:
        found = evaluate(rows)
        if len(rows) == len(found):
            return found
        if len(found) == 1:  # (most changes; to hash their rows takes longer)
            places = ranking(rows.cols, len(rows))
            if np.count_nonzero(places == places.min()) == 1:
                return found
        open_ = tie(rows, found)
        if open_.any():  # but which of rows that are alike comes is no matter
            open_ = tie(consolidate(rows), found)
        return asked_for(found, open_, ask, keys)

    return run


def asked_for(found: Delta, open_: Mask, ask: Ask, keys: Sequence[int]) -> Delta:
    """`found`, but with groups from `ask` for those of the rows that are still open."""
    if not open_.any():
        return found
    if not keys:
        return ask(None)
    some = found.take(open_.nonzero()[0])
    schema = Schema([found.schema.names[i] for i in keys], [found.schema.types[i] for i in keys])
    sought = Delta(schema, [some.cols[i] for i in keys], np.ones(len(some), np.int64))
    return concat([found.take((~open_).nonzero()[0]), ask(sought)])
