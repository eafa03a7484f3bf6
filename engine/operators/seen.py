"""Which rows a loop has seen: each is one number, kept in a bitmap or in sorted runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.operators.budget import Meter
from tidewheel.engine.operators.lookup import SPARE, Relation, distinct
from tidewheel.engine.operators.step_program import NULL, Ints, Program, Slot, Unfit

BITMAP = 1 << 26
"""The largest space of rows that gets a bitmap (64 MB)."""
FEW = 8
"""Rows of a small step."""
_AT_ONCE = 64  # small steps between two looks at the bounds
_FIRST32 = np.arange(SPARE, dtype=np.int32)

Bools = npt.NDArray[np.bool_]


class Space:
    """One integer per row, and back, from the ranges of its columns."""

    def __init__(self, lows: Sequence[int], sizes: Sequence[int]) -> None:
        self.lows, self.sizes = lows, sizes
        self.strides = [1] * len(sizes)
        for i in range(len(sizes) - 2, -1, -1):
            self.strides[i] = self.strides[i + 1] * sizes[i + 1]
        self.size = self.strides[0] * sizes[0] if sizes else 1
        if self.size >= 1 << 62:
            raise Unfit("the rows do not fit into 64 bits")

    def fits(self, column: int, type_: pa.DataType) -> bool:
        """Is the type an integer that holds all values of a column?"""
        if not pa.types.is_integer(type_):
            return False
        held = np.iinfo(type_.to_pandas_dtype())
        low = self.lows[column]
        return bool(held.min <= low and low + self.sizes[column] - 2 <= held.max)

    def pack(self, columns: Sequence[Ints], nulls: bool, known: bool = False) -> Ints:
        """`known`: all values are in their ranges."""
        key: Ints | None = None
        for column, low, size, stride in zip(
            columns, self.lows, self.sizes, self.strides, strict=True
        ):
            part = column - low if low or nulls else column
            if nulls:
                part = np.where(column == NULL, size - 1, part)
            if not known and len(part) and (part.min() < 0 or part.max() >= size):
                raise Unfit("a value is outside of the range of the data")
            if stride != 1:
                part = part * stride
            key = part if key is None else key + part
        assert key is not None
        return key

    def unpack(self, keys: Ints) -> list[Ints]:
        """The columns of rows that have no NULL."""
        found = []
        for i, (low, size, stride) in enumerate(
            zip(self.lows, self.sizes, self.strides, strict=True)
        ):
            column = keys // stride if stride != 1 else keys
            if i:
                column = column % size
            found.append(column + low if low else column)
        return found


class Bitmap:
    """Row numbers seen, a byte each; it is used again by the next part of a run."""

    def __init__(self, size: int) -> None:
        self.seen: Bools = np.zeros(size, dtype=bool)
        self.first = np.empty(size, dtype=np.int32)
        self.mark: Bools | None = None
        self.touched: list[Ints] = []

    @classmethod
    def of(cls, size: int, owner: Any) -> Bitmap:
        kept: Bitmap | None = getattr(owner, "_bitmap", None)
        if kept is None or len(kept.seen) < size:
            kept = cls(size)
            owner._bitmap = kept
        return kept

    def add(self, keys: Ints) -> Ints:
        """Positions of the keys that are new, each key once."""
        new = (~self.seen[keys]).nonzero()[0]
        if not len(new):
            return new
        fresh = keys[new]
        number = len(fresh)
        order = _FIRST32[:number] if number <= SPARE else np.arange(number, dtype=np.int32)
        # Of equal keys one wins: the last that is written.
        self.first[fresh] = order
        won = self.first[fresh] == order
        if not won.all():
            new, fresh = new[won], fresh[won]
        self.seen[fresh] = True
        self.touched.append(fresh)
        return new

    def unseen(self, keys: Ints) -> Ints:
        """Positions of keys that were not added, and are not added now; `keys` if it is all."""
        seen = self.seen[keys]
        return (~seen).nonzero()[0] if seen.any() else keys

    def add_many(self, keys: Ints, size: int) -> Ints:
        """The keys that are new, all below `size`, each once, in order."""
        if self.mark is None:
            self.mark = np.zeros(len(self.seen), dtype=bool)
        mark, seen = self.mark[:size], self.seen[:size]
        mark[keys] = True
        np.greater(mark, seen, out=mark)
        fresh = mark.nonzero()[0]
        mark[fresh] = False
        seen[fresh] = True
        self.touched.append(fresh)
        return fresh

    def clear(self) -> None:
        if sum(map(len, self.touched)) * 8 > len(self.seen):
            self.seen.fill(False)
        else:
            for keys in self.touched:
                self.seen[keys] = False
        self.touched = []


class Small:
    """Steps of a few rows each, without arrays: a chain of 20,000 steps has one row in each.

    A row is its number. What a row of the relation adds to the number of a derived row is known
    beforehand, as is where the deriving row's number has the rest.
    """

    def __init__(self, program: Program, relation: Relation, space: Space, seen: Bitmap) -> None:
        self.space = space
        self.seen = seen
        self._program = program
        self._relation = relation
        self._parts: memoryview[int] | None = None

    @staticmethod
    def fits(program: Program, relations: Sequence[Relation]) -> bool:
        """One lookup in dense offsets, and values that are only taken over."""
        return (
            len(relations) == 1
            and relations[0].keys is None
            and not program.before
            and not program.after
            and all(isinstance(o, Slot) for o in program.outputs)
        )

    def _prepare(self) -> memoryview[int]:
        space, relation = self.space, self._relation
        own = self._program.columns
        parts = np.zeros(len(relation), dtype=np.int64)
        self._base = 0
        self._taken: list[tuple[int, int, int]] = []  # (stride, size) of a column, new stride
        for i, output in enumerate(self._program.outputs):
            assert isinstance(output, Slot)
            low, stride, slot = space.lows[i], space.strides[i], output.index
            if slot >= own:
                parts += (relation.columns[slot - own] - low) * stride
            else:
                self._taken.append((space.strides[slot], space.sizes[slot], stride))
                self._base += (space.lows[slot] - low) * stride
        return parts.data

    def run(
        self, columns: list[Ints], iteration: int, meter: Meter, chunks: list[list[Ints]]
    ) -> tuple[int, list[Ints]]:
        """Go on while the steps are small; the next iteration and the rows it is to look at."""
        if self._parts is None:
            self._parts = self._prepare()
        parts, base, taken = self._parts, self._base, self._taken
        space, key, span = self.space, self._program.keys[0], self._relation.span
        stride, size = space.strides[key], space.sizes[key]
        shift = space.lows[key] - self._relation.low
        starts, bits = self._relation.starts.data, self.seen.seen.view(np.uint8).data
        budget, width = meter.budget, 8 * len(space.sizes)
        last_step = budget.iterations or 1 << 62
        room = min(budget.rows or 1 << 62, (budget.bytes or 1 << 62) // width) - meter.rows
        counts: list[int] = []  # of steps that the meter has not been told of
        numbers: list[int] = []
        rows: list[int] = space.pack(columns, False, True).tolist()
        while True:
            new: list[int] = []
            for row in rows:
                at = row // stride % size + shift
                if not 0 <= at < span:
                    continue
                first = base
                for old_stride, old_size, new_stride in taken:
                    first += row // old_stride % old_size * new_stride
                for part in parts[starts[at] : starts[at + 1]]:
                    number = first + part
                    if not bits[number]:
                        bits[number] = 1
                        new.append(number)
            iteration += 1
            rows = new
            numbers += new
            if len(rows) > FEW or not rows:
                break
            counts.append(len(rows))
            if len(counts) == _AT_ONCE or iteration > last_step or len(numbers) > room:
                bound = meter.spend_all(iteration, counts, width)
                counts = []
                if bound is not None and budget.on_limit == "error":
                    raise meter.error(bound)
                if bound is not None:
                    del numbers[len(numbers) - len(rows) :]
                    rows = []
                    break
        if counts:
            # (the step of `rows` is counted by the caller)
            meter.spend_all(iteration - 1, counts, width)
        found = np.array(numbers, dtype=np.int64)
        # The last rows are given back as if they were not seen: the caller adds them.
        kept = len(found) - len(rows)
        self.seen.seen[found[kept:]] = False
        self.seen.touched.append(found)
        if kept:
            chunks.append(space.unpack(found[:kept]))
        return iteration, space.unpack(found[kept:])


class Runs:
    """Row numbers seen, in sorted runs that are merged geometrically."""

    def __init__(self) -> None:
        self.runs: list[Ints] = []
        self.total = 0

    def dense(self, space: Space, owner: Any) -> Seen:
        """The same as a bitmap, if the space is small enough for one."""
        if space.size > BITMAP:
            return self
        bitmap = Bitmap.of(space.size, owner)
        for run in self.runs:
            bitmap.seen[run] = True
            bitmap.touched.append(run)
        return bitmap

    def add(self, keys: Ints) -> Ints:
        """Positions of the keys that are new, each key once."""
        unique, first = distinct(keys)
        fresh = np.ones(len(unique), dtype=bool)
        for run in self.runs:
            at = np.searchsorted(run, unique)
            at[at == len(run)] = 0
            fresh &= run[at] != unique
        new = unique[fresh]
        if len(new):
            self.total += len(new)
            self.runs.append(new)
            while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
                merged = np.concatenate([self.runs.pop(), self.runs.pop()])
                merged.sort(kind="stable")
                self.runs.append(merged)
        return first[fresh]

    def clear(self) -> None:
        self.runs = []


class Anchored:
    """The rows of the anchor, where no later row comes twice: those alone are looked for.

    A filter tells of most numbers that they are not among them.
    """

    def __init__(self) -> None:
        self._rows = np.zeros(0, dtype=np.int64)
        self._filter = np.zeros(1, dtype=bool)

    def add(self, keys: Ints) -> Ints:
        """Positions of the keys that are new, each key once."""
        self._rows, first = distinct(keys)
        self._filter = np.zeros(1 << (_FILTER * len(self._rows)).bit_length(), dtype=bool)
        self._filter[self._rows & (len(self._filter) - 1)] = True
        return first

    def unseen(self, keys: Ints) -> Ints:
        """Positions of keys that were not added, and are not added now; `keys` if it is all."""
        maybe = self._filter[keys & (len(self._filter) - 1)].nonzero()[0]
        if not len(maybe):
            return keys
        some = keys[maybe]
        at = np.searchsorted(self._rows, some)
        at[at == len(self._rows)] = 0
        found = maybe[self._rows[at] == some]
        if not len(found):
            return keys
        new = np.ones(len(keys), dtype=bool)
        new[found] = False
        return new.nonzero()[0]

    def clear(self) -> None:
        self._rows = self._rows[:0]


_FILTER = 8  # places for each row, at least

Seen = Bitmap | Runs | Anchored
