"""About how many groups rows make, before DuckDB computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


def many_groups(
    op: Accumulate,
    text: Text | None,
    known: Mapping[int, Known],
    run: Queries,
    rows: float,
    limit: int,
) -> bool:
    """Does `op` make more than `limit` groups of `text`, of a table of so many `rows`?

    DuckDB keeps how many values a column has. Of groups by terms it is only known that they are
    not more; then two samples of the table's rows say it.
    """
    if groups_of(op, known) > limit:
        return True
    most = math.prod(known[i].different or known[i].most for i in op.key if i in known)
    if most <= limit or text is None:
        return False
    names = list(text.columns)
    terms = [to_sql(text.columns[names[i]]) for i in op.key]
    parts = (min(1.0, sample / max(rows, 1)) for sample in _LOOKED_AT)
    return all(_sampled(text, terms, part, run) > limit for part in parts)


def _sampled(text: Text, terms: Sequence[str], part: float, run: Queries) -> float:
    """Of n groups in each of two samples of blocks, m are in both: then there are n² / m.

    (Lincoln and Petersen's estimate.) Values that come one after the other, as days do, are
    in neither's blocks, so that few long groups are not taken for many.
    """
    keys = [f"k{i}" for i in range(len(terms))]
    items = ", ".join(f"{term} AS {key}" for term, key in zip(terms, keys, strict=True))
    both = " UNION ALL ".join(
        f"SELECT {seed} AS s, {items} FROM {text.sampled(part, seed)}" for seed in (1, 2)
    )
    found = f"SELECT {OWN}min(s) < {OWN}max(s) AS twice FROM ({both}) GROUP BY {', '.join(keys)}"
    counted = f"SELECT {OWN}count(*), {OWN}count(*) FILTER (twice) FROM ({found})"
    once, twice = run.row(counted)
    return float(((once + twice) / 2) ** 2 / max(twice, 1))
