"""Where a view's rows end up: readable as an Arrow table at any time, at the cost of the change."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.interruption import unbroken
from tidewheel.engine.operators.first_table import FirstTable
from tidewheel.engine.operators.operator import Emission, Operator
from tidewheel.engine.operators.unsound import Unsound
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.delta import Delta, KeySpec, Schema, concat, consolidate
from tidewheel.engine.state.memory import free
from tidewheel.engine.state.rowwise import Row, RowColumns
from tidewheel.engine.state.run import Layout, Rows, concat_rows
from tidewheel.engine.state.sorting import sort_rows

LEAF: Final = 4096
PARTS: Final = 64
_WORTH: Final = 1 << 16  # rows that are put in order by some columns for each time somebody asks
_INDEXES: Final = 4
_SHARE: Final = 8  # an index takes no more than this part of the memory that is free


class _Leaf:
    """Rows of one range of hashes, and what DuckDB reads of them (made when asked for)."""

    __slots__ = ("batches", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.batches: list[pa.RecordBatch] | None = None


class Sink(Operator):
    """The rows of a view. Law: the sum of all deltas.

    `rows()` gives them as an Arrow table without copying what did not change: rows lie in leaves by
    ranges of their hash, and a change rebuilds only the leaves that it falls into, when somebody
    reads. `taken()` gives the delta since it was last called. A view's first rows, if they are
    many, stay as they came (see `FirstTable`). `find()` gives those with some values in some
    columns.
    """

    def __init__(self, schema: Schema, name: str = "sink") -> None:
        self.schema = schema
        self.name = name
        self._layout = Layout(schema, range(len(schema)), exactly=True)
        self._leaves: list[_Leaf] = []
        self._bounds = np.empty(0, np.int64)  # the first hash of each leaf but the first
        self._waiting: list[Delta | Rows] = []
        self._fresh: list[Delta] = []
        self._first: FirstTable | None = None  # those of the first rows that are still there
        self._table: pa.Table | None = None
        self._recent: Delta | Rows | None = None  # what `taken` gave last, before `settle`
        self._before: pa.Table | None = None  # the rows without that, once known
        self._indexes: dict[tuple[int, ...], Arrangement] = {}
        self._asked: dict[tuple[int, ...], int] = {}

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Keeps the delta for the readers."""
        delta = deltas[0]
        if delta is not None and len(delta):
            self._fresh.append(delta)
        return []

    def begin(self) -> None:
        """What came is the view's first rows: to sort them can wait until one of them changes."""
        if sum(map(len, self._fresh)) > LEAF and all((d.weights >= 0).all() for d in self._fresh):
            fresh, self._fresh = self._fresh, []
            self._first, self._table = FirstTable(concat(fresh), self._layout), None
        else:
            self.taken()

    def taken(self, read: bool = False) -> Delta:
        """What changed since the last call, consolidated; from now on part of `rows`.

        `read`: somebody may ask for `before`.
        """
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return Delta.empty(self.schema)
        delta = concat(fresh)
        kept: Delta | Rows
        if len(delta) <= LEAF or delta.distinct:
            kept = delta = consolidate(delta)
        else:  # `rows` will want them sorted
            kept = sort_rows(self._layout.rows(delta))
            delta = Delta(self.schema, kept.cols, kept.weights, True)
        if len(kept):
            for index in self._indexes.values():
                index.insert(delta)
            if self._waiting and len(self._waiting) % PARTS == 0:
                self._fold()
            self._waiting.append(kept)
            if read:
                self._recent, self._before = kept, self._table
            self._table = None
        return delta

    def before(self) -> pa.Table:
        """The rows without what `taken` gave last, if it was to be known; until `settle`."""
        if self._recent is None:
            return self.rows()
        if self._before is None:
            recent, self._recent = self._recent, None
            self._waiting.pop()
            self._before = self.rows()
            self._waiting.append(recent)
            self._recent, self._table = recent, None
        return self._before

    def settle(self) -> None:
        """Nobody will ask for `before`, until something changes again."""
        self._recent = self._before = None

    def rows(self) -> pa.Table:
        """All rows; the same table as before if nothing changed."""
        if self._table is None:
            if self._recent is not None:
                self.before()  # what is merged cannot be told apart
            batches: list[pa.RecordBatch] = []
            if self._waiting:
                self._merge()
            if self._first is not None:
                batches = self._first.batches()
            for leaf in self._leaves:
                if leaf.batches is None:
                    if (leaf.rows.weights < 0).any():
                        raise Unsound(f"{self.name}: a row was taken away that was not there")
                    table = leaf.rows.delta().repeated().to_arrow(weight=None)
                    leaf.batches = table.to_batches()
                batches.extend(leaf.batches)
            schema = pa.schema(list(zip(self.schema.names, self.schema.types, strict=True)))
            self._table = pa.Table.from_batches(batches, schema)
        return self._table

    def find(self, columns: tuple[int, ...], values: Row) -> Delta | None:
        """The rows with some values, as `rowwise` has them, in some columns.

        None while too few have asked for these columns.
        """
        index = self._indexes.get(columns)
        if index is None:
            self._asked[columns] = self._asked.get(columns, 0) + 1
            if self.state_rows > self._asked[columns] * _WORTH or not self._room():
                return None
            index = Arrangement(self.schema, columns, name=f"{self.name} index")
            if self._first is not None:
                index.insert(self._first.rows())
            for part in (*(leaf.rows for leaf in self._leaves), *self._waiting):
                index.insert(part.delta() if isinstance(part, Rows) else part)
            self._indexes[columns] = index
        cols = RowColumns([self.schema.kinds[i] for i in columns], [values])
        spec = KeySpec(self.schema.select(columns), range(len(columns)))
        found = index.match(cols, spec, spec.keys(cols, 1))
        if found is None:
            return Delta.empty(self.schema)
        if (found[1].weights < 0).any():
            raise Unsound(f"{self.name}: a row was taken away that was not there")
        return found[1].delta()

    def _room(self) -> bool:
        room = free()
        return len(self._indexes) < _INDEXES and (room is None or self.state_bytes * _SHARE <= room)

    def _fold(self) -> None:
        """Make one part of the last ones, so that what nobody reads stays few rows in few parts.

        Parts stay twice as large as the next one, so a row is folded some log n times. Once there
        are more of them than of the rows that they change, they are merged with these.
        """
        parts = self._waiting
        at, size = len(parts) - 1, len(parts[-1])
        while at and len(parts[at - 1]) <= 2 * size:
            at -= 1
            size += len(parts[at])
        folded = concat([p.delta() if isinstance(p, Rows) else p for p in parts[at:]])
        parts[at:] = [sort_rows(self._layout.rows(folded))]
        waiting = sum(map(len, parts))
        if waiting > max(LEAF, self.state_rows - waiting):
            self._merge()

    @unbroken()
    def _merge(self) -> None:
        waiting, self._waiting = self._waiting, []
        change = concat_rows([self._rows(part) for part in waiting])
        if len(waiting) > 1 or not isinstance(waiting[0], Rows):
            change = sort_rows(change)
        if self._first is not None:
            change = self._taken_out(change)
        if not self._leaves:
            self._leaves = self._split(change)
        elif len(self._leaves) == 1 or len(change) > LEAF * len(self._leaves) // 4:
            everything = concat_rows([*(leaf.rows for leaf in self._leaves), change])
            self._leaves = self._split(sort_rows(everything))
        else:
            cuts = [0, *change.keys.searchsorted(self._bounds).tolist(), len(change)]
            leaves: list[_Leaf] = []
            for i, leaf in enumerate(self._leaves):
                begin, end = cuts[i], cuts[i + 1]
                if begin == end:
                    leaves.append(leaf)
                else:
                    merged = concat_rows([leaf.rows, change.slice(begin, end)])
                    leaves.extend(self._split(sort_rows(merged)))
            self._leaves = leaves
        firsts = [int(leaf.rows.keys[0]) for leaf in self._leaves[1:]]
        self._bounds = np.array(firsts, np.int64)

    def _taken_out(self, change: Rows) -> Rows:
        """What is left of a sorted change once the first rows have lost what they can."""
        first = self._first
        assert first is not None
        minus = change.weights < 0
        going = np.count_nonzero(minus)
        if first.worn(int(going)):
            self._first = None
            return sort_rows(concat_rows([self._layout.rows(first.rows()), change]))
        if going:
            rest = first.take_out(change.where(minus))
            change = sort_rows(concat_rows([change.where(~minus), rest]))
        return change

    def _rows(self, part: Delta | Rows) -> Rows:
        return part if isinstance(part, Rows) else self._layout.rows(part)

    def _split(self, rows: Rows) -> list[_Leaf]:
        n = len(rows)
        if n == 0:
            return []
        if n <= 2 * LEAF:
            return [_Leaf(rows)]
        cuts = [0]
        while n - cuts[-1] > 2 * LEAF:
            # Rows of one hash stay in one leaf.
            cut = int(rows.keys.searchsorted(rows.keys[cuts[-1] + LEAF - 1], side="right"))
            cuts.append(cut)
        cuts.append(n)
        return [_Leaf(rows.slice(a, b)) for a, b in pairwise(cuts) if a < b]

    def abort_epoch(self) -> None:
        """Drop what came in this epoch."""
        self._fresh = []

    @property
    def state_rows(self) -> int:
        """Rows held, those that are equal counted once where rows were sorted."""
        first = 0 if self._first is None else len(self._first)
        return first + sum(len(leaf.rows) for leaf in self._leaves) + sum(map(len, self._waiting))

    @property
    def state_bytes(self) -> int:
        """Bytes held."""
        held = sum(leaf.rows.nbytes for leaf in self._leaves)
        held += sum(index.nbytes for index in self._indexes.values())
        held += 0 if self._first is None else self._first.nbytes
        return held + sum(part.nbytes for part in self._waiting)
