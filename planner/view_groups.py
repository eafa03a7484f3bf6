"""About how many groups rows make, before DuckDB computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.planner.plans import Queries
from tidewheel.planner.rewrites.measured import Text
from tidewheel.planner.text import OWN, to_sql
from tidewheel.planner.view_bounds import Known
from tidewheel.planner.view_sums import groups_of

_LOOKED_AT: Final = (32_768, 131_072)
"""Rows of each of two samples: the more, the less it is left to chance where groups lie in blocks.

Only where there seem to be many, which takes long whatever is done, so many are looked at.
"""


class Groups:
    """The groups of an `Accumulate`: its rows are `text`, of which so much is `known`."""

    def __init__(self, op: Accumulate, text: Text | None, known: Mapping[int, Known]) -> None:
        self._op = op
        self._text = text
        self._known = known

    def many(self, run: Queries, rows: float, limit: int) -> bool:
        """Are there more than `limit`? The table has so many `rows`.

        DuckDB keeps how many values a column has. Of groups by terms it is only known that they
        are not more; then two samples of the table's rows say it.
        """
        known = [self._known[i] for i in self._op.key if i in self._known]
        if groups_of(self._op, self._known) > limit:
            return True
        if math.prod(k.different or k.most for k in known) <= limit or self._text is None:
            return False
        return all(self._sampled(run, rows, sample) > limit for sample in _LOOKED_AT)

    def _sampled(self, run: Queries, rows: float, sample: int) -> float:
        """Of n groups in each of two samples of blocks, m are in both: then there are n² / m.

        (Lincoln and Petersen's estimate.) Values that come one after the other, as days do, are
        in neither's blocks, so that few long groups are not taken for many.
        """
        assert self._text is not None
        text, percent = self._text, min(100.0, 100 * sample / max(rows, 1))
        names = list(text.columns)
        terms = [to_sql(text.columns[names[i]]) for i in self._op.key]
        where = f" WHERE {' AND '.join(text.conditions)}" if text.conditions else ""
        items = ", ".join(f"{term} AS k{i}" for i, term in enumerate(terms))
        both = " UNION ALL ".join(
            f"SELECT {seed} AS s, {items} FROM {text.source} "
            f"TABLESAMPLE SYSTEM ({percent:.6f}%) REPEATABLE ({seed}){where}"
            for seed in (1, 2)
        )
        keys = ", ".join(f"k{i}" for i in range(len(terms)))
        found = f"SELECT {OWN}min(s) < {OWN}max(s) AS twice FROM ({both}) GROUP BY {keys}"
        counted = f"SELECT {OWN}count(*), {OWN}count(*) FILTER (twice) FROM ({found})"
        once, twice = run.row(counted)
        return float(((once + twice) / 2) ** 2 / max(twice, 1))
