"""A step of a recursion that joins its rows with those of relations, each for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidewheel.engine.operators.linear import Rewrite
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.columns import Col, Index, Mask
from tidewheel.engine.state.delta import Int64s, KeySpec, Schema
from tidewheel.engine.state.order import argsort, begins
from tidewheel.engine.state.run import Rows, concat_rows
from tidewheel.engine.state.sorting import sort_rows
from tidewheel.engine.state.spine import Spine


@dataclass(slots=True)
class Related:
    """A relation that a step joins with its rows, by columns that stand in X's key (`join`).

    `forward` arranges it by the columns that these are matched with; `reverse` by those that
    stand in the derived key. The rest is known once it is part of a rule: `first`, where its
    columns begin among those of all relations, and `tells`: does its row tell the whole key of
    X's row?
    """

    forward: Arrangement
    reverse: Arrangement
    join: tuple[int, ...]
    first: int = 0
    by_join: KeySpec = field(init=False)
    by_target: KeySpec = field(init=False)
    tells: bool = False

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.forward.schema)


@dataclass(slots=True)
class Rule:
    """One step: X ⋈ relation ⋈ …, projected; each relation meets X, none needs another.

    Columns are named by (0, i) in X's key, (1, i) among those of the relations, one after the
    other. `target` says where the columns of a derived key come from, `source` where those of the
    deriving key do: (0, i) is then a position in the derived key. `rewrite`, from columns `pairs`
    (X's, then the relations'), filters and computes the value; None: nothing is filtered, and the
    value is the deriving row's.

    `checked`: its value may be the same for two values of the deriving row. Then it must not be
    better than that, or rows could come to hold each other up.
    """

    relations: tuple[Related, ...]
    target: tuple[tuple[int, int], ...]
    source: tuple[tuple[int, int], ...]
    rewrite: Rewrite | None = None
    pairs: Schema | None = None
    checked: bool = False

    def prepare(self, keys: Schema) -> None:
        """Once the schema of X's key is known."""
        first = 0
        tells = len(self.relations) == 1 and all(side for side, _ in self.source)
        for r in self.relations:
            r.first, mine = first, range(first, first + r.width)
            r.by_join = KeySpec(keys, r.join)
            r.by_target = KeySpec(
                keys, [p for p, (side, i) in enumerate(self.target) if side and i in mine]
            )
            r.tells = tells
            first += r.width

    def derived(self, cols: Sequence[Col], n: int, standing: bool = True) -> Pairs | None:
        """Rows of the relations that rows of X, `cols` of its key, are joined with.

        Not only `standing` ones: those that are gone may be among them.
        """
        return self.beside(cols, n, standing=standing)

    def deriving(self, cols: Sequence[Col], n: int) -> Pairs | None:
        """Rows of the relations that stand in derivations of rows with these keys."""
        at: Index | None = None
        parts: list[Sequence[Col]] = []
        for r in self.relations:
            at, parts = _joined(cols, n, at, parts, r.reverse, r.by_target, None)
            if not len(at):
                return None
        assert at is not None
        return at, [c for part in parts for c in part]

    def origins(
        self, cols: Sequence[Col], at: Index, related: Sequence[Col]
    ) -> tuple[list[Col], Mask]:
        """For pairs of `deriving` the keys of X's rows that they are of, and which may be there."""
        keys = [related[i] if side else columns_.take(cols[i], at) for side, i in self.source]
        possible = np.ones(len(at), bool)
        for r in self.relations:
            for j, i, kind in zip(r.join, r.forward.key.indices, r.forward.key.kinds, strict=True):
                col = related[r.first + i]
                nulls = columns_.is_null(col)
                if nulls is not None:  # NULL joins nothing
                    possible &= ~nulls
                if self.source[j] != (1, r.first + i):  # another relation tells this column
                    possible &= kind.equal(keys[j], col)
        return keys, possible

    def beside(
        self,
        cols: Sequence[Col],
        n: int,
        one: Related | None = None,
        given: Sequence[Col] = (),
        gone: Mapping[int, Spine] | None = None,
        standing: bool = True,
    ) -> Pairs | None:
        """Rows of the relations that X's rows are joined with, each pair once.

        Of relation `one` the rows that stand beside X's are `given`. `gone` are rows that shall
        count too, by the number of their relation: those that were there before.
        """
        at: Index | None = None
        parts: list[Sequence[Col]] = [] if one is None else [given]
        for i, r in enumerate(self.relations):
            if r is not one:
                more = None if gone is None else gone.get(i)
                at, parts = _joined(cols, n, at, parts, r.forward, r.by_join, more, standing)
                if not len(at):
                    return None
        if one is not None:
            parts.insert(self.relations.index(one), parts.pop(0))
        at = np.arange(n) if at is None else at
        return at, [c for part in parts for c in part]


Pairs = tuple[Index, Sequence[Col]]
"""The position of each pair among the rows that were asked for, and the relations' columns."""


def _joined(
    cols: Sequence[Col],
    n: int,
    at: Index | None,
    parts: list[Sequence[Col]],
    arrangement: Arrangement,
    spec: KeySpec,
    more: Spine | None,
    standing: bool = True,
) -> tuple[Index, list[Sequence[Col]]]:
    """Pairs, and what one more relation has for the rows of `cols` that are in them."""
    if at is not None:
        wanted = set(spec.indices)
        cols = [columns_.take(c, at) if i in wanted else c for i, c in enumerate(cols)]
        n = len(at)
    found = [neighbours(arrangement, spec, cols, n, standing)]
    if more is not None:
        found.append(_found(arrangement.match(cols, spec, spec.keys(cols, n), more)))
    known = [f for f in found if f is not None]
    if not known:
        return np.empty(0, np.int64), parts
    place, rows = known[0]
    if len(known) > 1:
        place = np.concatenate([p for p, _ in known])
        kinds = arrangement.schema.kinds
        rows = [columns_.concat([r[i] for _, r in known], k) for i, k in enumerate(kinds)]
    parts = [[columns_.take(c, place) for c in part] for part in parts]
    return (place if at is None else at[place]), [*parts, rows]


def _found(found: tuple[Index, Rows] | None) -> Pairs | None:
    return None if found is None else (found[0], found[1].cols)


def neighbours(
    arrangement: Arrangement,
    spec: KeySpec,
    cols: Sequence[Col],
    n: int,
    standing: bool = True,
) -> Pairs | None:
    """Rows that match: (position among the probes, the rows' columns).

    Each once, and only such as are there, if they are to be `standing`.
    """
    found = arrangement.match(cols, spec, spec.keys(cols, n), net=False)
    if found is None:
        return None
    at, rows = found
    if standing and not (rows.weights > 0).all():
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
