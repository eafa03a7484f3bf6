"""A step of a recursion that joins its rows with those of one relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.columns import Col, Index
from tidewheel.engine.state.delta import Int64s, KeySpec, Schema
from tidewheel.engine.state.order import argsort, begins
from tidewheel.engine.state.run import Rows, concat_rows, sort_rows


@dataclass(slots=True)
class Rule:
    """One step: X ⋈ relation, projected. Columns are named by (0, i) in X's key, (1, i) there.

    `forward` arranges the relation by the columns that `join` (positions in X's key) is matched
    with; `reverse` by those that stand in the derived key. `target` says where the columns of a
    derived key come from, `source` where those of the deriving key do: (0, i) is then a position
    in the derived key. `rewrite`, from columns `pairs` (X's, then the relation's), filters and
    computes the value; None: nothing is filtered, and the value is the deriving row's.
    """

    forward: Arrangement
    reverse: Arrangement
    join: tuple[int, ...]
    target: tuple[tuple[int, int], ...]
    source: tuple[tuple[int, int], ...]
    rewrite: Rewrite | None = None
    pairs: Schema | None = None
    by_join: KeySpec = field(init=False)
    by_target: KeySpec = field(init=False)
    members: Arrangement | None = None

    def prepare(self, keys: Schema, name: str) -> None:
        """Once the schema of X's key is known."""
        self.by_join = KeySpec(keys, self.join)
        self.by_target = KeySpec(keys, [p for p, (side, _) in enumerate(self.target) if side])
        if any(side == 0 for side, _ in self.source):
            names, types = ([part[p] for p in self.join] for part in (keys.names, keys.types))
            schema = Schema((*names, "__tw_slot"), (*types, pa.int64()))
            self.members = Arrangement(schema, range(len(names)), name=f"{name} rows by key")


def neighbours(
    arrangement: Arrangement, spec: KeySpec, cols: Sequence[Col], n: int
) -> tuple[Index, Sequence[Col]] | None:
    """Rows that match, each once: (position among the probes, the rows' columns)."""
    found = arrangement.match(cols, spec, spec.keys(cols, n))
    if found is None:
        return None
    at, rows = found
    if not (rows.weights > 0).all():
        at, rows = _standing(at, rows)
    return at, rows.cols


def _standing(at: Index, rows: Rows) -> tuple[Index, Rows]:
    """Of rows found in several runs, those whose weights do not cancel."""
    doubtful = np.zeros(int(at.max()) + 1, bool)
    doubtful[at[rows.weights <= 0]] = True
    mask = doubtful[at]
    index = mask.nonzero()[0]
    sure = (~mask).nonzero()[0]
    # The position among the probes stands for the key: equal rows of one probe add up.
    whole = _whole(at[index], rows, index)
    if whole is not None:
        order = argsort(whole)
        ordered = whole[order]
        begin = begins(ordered).nonzero()[0]
        standing = np.add.reduceat(rows.weights[index[order]], begin) > 0
        kept = np.concatenate((sure, index[order[begin[standing]]]))
        return at[kept], rows.take(kept)
    some = rows.take(index)
    some = sort_rows(Rows(some.layout, at[index], some.rest, None, None, some.weights, some.cols))
    some = some.where(some.weights > 0)
    others = rows.take(sure)
    plain = Rows(others.layout, at[sure], others.rest, None, None, others.weights, others.cols)
    both = concat_rows([some, plain])
    return both.keys, both


def _whole(at: Index, rows: Rows, index: Index) -> Int64s | None:
    """One integer per (position among the probes, row), None where that takes more than 64 bits."""
    layout = rows.layout
    if rows.rest is None or not layout.exact(rows.cols):
        return None
    rest = rows.rest[index]
    if int(rest.min()) < 0 or int(rest.max()) >= 1 << 31:
        return None
    return np.asarray((at << 31) | rest)
