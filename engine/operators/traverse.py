"""A linear recursion whose step is structural, loop and all in one vertex: no SQL inside.

Values are 64-bit integers. Every relation that the step joins is sorted by its key once; a lookup
is
an index into offsets (or a binary search, where keys are sparse). Rows are recognised by one
integer
made of all their columns, in a bitmap where those integers are few, else in sorted runs. So a step
costs some tens of microseconds and what its rows cost, whatever the relations' sizes.

Law: the same answer as the loop context with `Variable` of kind union or improve; `step` is the
program of planner.structure, given as a function over slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.operators.budget import Budget, Meter
from tidewheel.engine.operators.step_program import NULL, Ints, Program, Slot
from tidewheel.engine.progress.timestamp import Timestamp

Bools = npt.NDArray[np.bool_]

_SPARE = 1 << 16  # a span of keys that always gets offsets, however few the keys
_SMALL = 1 << 22  # a bitmap that is made at once
_THIN = 7  # runs become a bitmap when there are more rows than one in 2^7 of the space
_FIRST = np.arange(_SPARE, dtype=np.int64)
_FIRST32 = np.arange(_SPARE, dtype=np.int32)
_BITMAP = 1 << 26  # the largest space of rows that gets a bitmap (64 MB)


class Unfit(Exception):
    """The values do not fit this way of running; the same query has to run as a loop of kernels."""


class Relation:
    """A relation that does not change, by its first column. `lookup` joins."""

    def __init__(self, columns: Sequence[Ints]) -> None:
        key = columns[0]
        kept = key != NULL
        if not kept.all():
            columns = [c[kept] for c in columns]
            key = columns[0]
        self.low = int(key.min()) if len(key) else 0
        high = int(key.max()) if len(key) else -1
        order = _order(key, self.low, high)
        self.columns = [c[order] for c in columns[1:]]
        self.span = high - self.low + 1
        self.keys: Ints | None = None
        self.covers = False
        """Has every value that is looked up a place in `starts`?"""
        if self.span <= 4 * len(key) + _SPARE:
            counts = np.bincount(key - self.low, minlength=max(self.span, 1))
            self.starts = np.zeros(len(counts) + 1, dtype=np.int64)
            np.cumsum(counts, out=self.starts[1:])
            self.counts: Ints = counts.astype(np.int64, copy=False)
        else:
            self.keys, starts = np.unique(key[order], return_index=True)
            self.starts = np.append(starts, len(key)).astype(np.int64)
            self.counts = np.diff(self.starts)

    def cover(self, low: int, high: int) -> None:
        """Make a place for each of low … high, the values that are looked up, if these are few."""
        below, above = max(self.low - low, 0), max(high - self.low - self.span + 1, 0)
        if self.keys is not None or below + self.span + above > 4 * len(self) + _SPARE:
            return
        if below or above:
            self.low -= below
            self.span += below + above
            self.counts = np.pad(self.counts, (below, above))
            self.starts = np.pad(self.starts, (below, above), "edge")
        self.covers = True

    def __len__(self) -> int:
        return int(self.starts[-1])

    def lookup(self, values: Ints, positions: bool = True) -> tuple[Ints | None, list[Ints]]:
        """Per match: the position in `values` (None if not asked for), and the other columns."""
        inside = None
        if self.covers:
            at = values - self.low if self.low else values
        elif self.keys is None:
            at = values - self.low
            inside = (at >= 0) & (at < self.span)
        else:
            at = np.searchsorted(self.keys, values)
            inside = at < len(self.keys)
            at[~inside] = 0
            inside &= self.keys[at] == values if len(self.keys) else False
        kept = inside.nonzero()[0] if inside is not None and not inside.all() else None
        if kept is not None:
            at = at[kept]
        first, count = self.starts[at], self.counts[at]
        where: Ints | None = None
        if len(count) == 1:
            total = int(count[0])
            rows = slice(int(first[0]), int(first[0]) + total)
            found = [c[rows] for c in self.columns]
            if positions:
                where = np.zeros(total, dtype=np.int64)
        else:
            ends = count.cumsum()
            total = int(ends[-1]) if len(ends) else 0
            first -= ends
            first += count
            index = first.repeat(count)
            index += _FIRST[:total] if total <= _SPARE else np.arange(total, dtype=np.int64)
            found = [c[index] for c in self.columns]
            if positions:
                where = np.arange(len(count), dtype=np.int64).repeat(count)
        if kept is not None and where is not None:
            where = kept[where]
        return where, found


def _order(key: Ints, low: int, high: int) -> Ints:
    """The stable order of `key`; packed with the positions into one word where they fit."""
    bits = max(len(key) - 1, 1).bit_length()
    if (high - low + 1).bit_length() + bits < 63:
        packed = ((key - low) << bits) | np.arange(len(key), dtype=np.int64)
        packed.sort()
        packed &= (1 << bits) - 1
        return packed
    return np.argsort(key, kind="stable")


def _unique(keys: Ints) -> tuple[Ints, Ints]:
    """The distinct values of `keys`, which are not negative, in order, and where each stands."""
    order = _order(keys, 0, int(keys.max()))
    ordered = keys[order]
    first = np.empty(len(keys), dtype=bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first], order[first]


@dataclass(frozen=True)
class Traversal:
    """`domains[i]`: where the values of column i come from, as (input port, its column), and the
    bounds of a computed one. `merge`: per column None (a key), "min" or "max"."""

    label: str
    program: Program
    sources: tuple[tuple[tuple[int, int], ...], ...]
    bounds: tuple[tuple[int, int] | None, ...]
    merge: tuple[str | None, ...] = ()
    carried: int | None = None
    """A column that every step takes over from the row that it extends, if there is one."""


class _Space:
    """One integer per row, and back, from the ranges of its columns."""

    def __init__(self, lows: Sequence[int], sizes: Sequence[int]) -> None:
        self.lows, self.sizes = lows, sizes
        self.strides = [1] * len(sizes)
        for i in range(len(sizes) - 2, -1, -1):
            self.strides[i] = self.strides[i + 1] * sizes[i + 1]
        self.size = self.strides[0] * sizes[0] if sizes else 1
        if self.size >= 1 << 62:
            raise Unfit("the rows do not fit into 64 bits")

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
        return [
            keys // stride % size + low
            for low, size, stride in zip(self.lows, self.sizes, self.strides, strict=True)
        ]


class Traverse(Vertex):
    """Input 0 is the anchor, the others are the relations; sends the whole answer.

    `otherwise` computes the answer where the values do not fit (see `Unfit`). `record` is given
    what each iteration of a UNION added; one iteration may be told of in parts.
    """

    def __init__(
        self,
        traversal: Traversal,
        budget: Budget,
        otherwise: Callable[[], pa.Table],
        record: Callable[[tuple[int, ...], pa.Table], None] | None = None,
    ) -> None:
        self._record = record
        self._plan = traversal
        self._budget = budget
        self._otherwise = otherwise
        self._arrived: list[list[pa.Table]] = [[] for _ in range(len(traversal.program.keys) + 1)]

    def on_recv(self, port: int, batch: Any, time: Timestamp) -> None:
        """Keep what arrives."""
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        self._arrived[port].append(table)
        self.notify_at(time)

    def on_notify(self, time: Timestamp) -> None:
        """Everything is here: run the loop and send its rows."""
        tables = [pa.concat_tables(a) for a in self._arrived]
        self._arrived = [[] for _ in self._arrived]
        anchor = tables[0]
        try:
            inputs = [[_integers(c) for c in t.columns] for t in tables]
            if self._plan.merge:
                result = self._improve(inputs)
            else:
                result = self._union(inputs, anchor.schema)
            table = _table(result, anchor.schema)
        except Unfit:
            table = self._otherwise()
        self.send_by(0, table, time)

    # -- union

    def _union(self, inputs: list[list[Ints]], schema: pa.Schema) -> list[list[Ints]]:
        plan = self._plan
        space = self._space(inputs)
        nulls = _has_nulls(inputs)
        relations = [Relation(c) for c in inputs[1:]]
        meter = Meter(self._budget, f'"{plan.label}"', "union")
        carried = plan.carried
        if space.size <= _BITMAP or carried is None:
            found = self._run(inputs[0], relations, space, nulls, meter)
            self._told(found, schema)
            return found
        # Rows that differ in the carried column never meet: one part of its values at a time.
        part = max(1, _BITMAP // (space.size // space.sizes[carried]))
        chunks: list[list[Ints]] = []
        values = inputs[0][carried]
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        starts = np.concatenate([[0], edges, [len(ordered)]])
        low_index = 0
        while low_index < len(starts) - 1:
            high_index = min(low_index + part, len(starts) - 1)
            rows = order[starts[low_index] : starts[high_index]]
            distinct = ordered[starts[low_index:high_index]]
            anchor = [c[rows] for c in inputs[0]]
            anchor[carried] = np.searchsorted(distinct, anchor[carried])
            lows, sizes = list(space.lows), list(space.sizes)
            lows[carried], sizes[carried] = 0, len(distinct) + 1
            own = _Space(lows, sizes)
            meter.deltas.clear()
            found = self._run(anchor, relations, own, nulls, meter)
            for columns in found:
                columns[carried] = distinct[columns[carried]]
            self._told(found, schema)
            chunks += found
            low_index = high_index
        return chunks

    def _told(self, chunks: list[list[Ints]], schema: pa.Schema) -> None:
        """Record the rows of a run, a chunk per iteration."""
        if self._record is not None:
            for iteration, columns in enumerate(chunks):
                self._record((iteration,), _table([columns], schema))

    def _run(
        self,
        anchor: list[Ints],
        relations: Sequence[Relation],
        space: _Space,
        nulls: bool,
        meter: Meter,
    ) -> list[list[Ints]]:
        seen: _Seen = self._seen(space)
        chunks: list[list[Ints]] = []
        columns = anchor
        program = self._plan.program
        small = None
        few = isinstance(seen, _Bitmap) and not nulls and self._record is None
        if few and _Small.fits(program, relations):
            assert isinstance(seen, _Bitmap)
            small = _Small(program, relations[0], space, seen)
        iteration = 0
        key = program.keys[0]
        if not nulls and key < program.columns:
            relations[0].cover(space.lows[key], space.lows[key] + space.sizes[key] - 1)
        known = program.plain  # values that are taken over are in their ranges
        while True:
            fresh = None
            if len(columns[0]):
                fresh = seen.add(space.pack(columns, nulls, known and iteration > 0))
            rows = 0 if fresh is None else len(fresh)
            if isinstance(seen, _Runs) and seen.total > space.size >> _THIN:
                seen = seen.dense(space, self)
            bound = meter.spend(iteration, rows, rows * 8 * len(columns))
            if bound is not None:
                if self._budget.on_limit == "error":
                    raise meter.error(bound)
                break
            if fresh is None or rows == 0:
                break
            if rows != len(columns[0]):
                columns = [c[fresh] for c in columns]
            chunks.append(columns)
            if rows <= _FEW and small is not None:
                iteration, columns = small.run(columns, iteration, meter, chunks)
            else:
                columns = program.run(columns, relations, nulls)
                iteration += 1
        seen.clear()
        return chunks

    def _seen(self, space: _Space) -> _Seen:
        """A bitmap, where one is kept or small; else runs, which few rows may stay in."""
        kept: _Bitmap | None = getattr(self, "_bitmap", None)
        if space.size <= _SMALL or (kept is not None and len(kept.seen) >= space.size):
            return _Bitmap.of(space.size, self)
        return _Runs()

    def _space(self, inputs: list[list[Ints]]) -> _Space:
        """The ranges of the columns, from everything that can flow into them."""
        lows, sizes = [], []
        for sources, bounds in zip(self._plan.sources, self._plan.bounds, strict=True):
            low, high = bounds if bounds is not None else (None, None)
            for port, column in sources:
                values = inputs[port][column]
                if not len(values):
                    continue
                least, most = int(values.min()), int(values.max())
                if most == NULL:
                    known = values[values != NULL]
                    if not len(known):
                        continue
                    most = int(known.max())
                low = least if low is None else min(low, least)
                high = most if high is None else max(high, most)
            low = 0 if low is None else low
            high = 0 if high is None else high
            lows.append(low)
            sizes.append(high - low + 2)  # one more for NULL
        return _Space(lows, sizes)

    # -- improve

    def _improve(self, inputs: list[list[Ints]]) -> list[list[Ints]]:
        """Keys get better values until none does; the value of a key lies in an array by key."""
        plan = self._plan
        keys = [i for i, m in enumerate(plan.merge) if m is None]
        value = next(i for i, m in enumerate(plan.merge) if m is not None)
        sign = 1 if plan.merge[value] == "min" else -1
        space = self._key_space(inputs, keys)
        nulls = _has_nulls(inputs)
        if space.size > _BITMAP // 2:
            raise Unfit("too many keys for an array")
        relations = [Relation(c) for c in inputs[1:]]
        meter = Meter(self._budget, f'"{plan.label}"', "improve")
        worst = NULL
        best = np.full(space.size, worst, dtype=np.int64)
        known = np.zeros(space.size, dtype=bool)
        pending = np.zeros(space.size, dtype=bool)
        columns = inputs[0]
        waiting = np.zeros(0, dtype=np.int64)
        iteration = 0
        while True:
            fresh = np.zeros(0, dtype=np.int64)
            if len(columns[0]):
                at = space.pack([columns[i] for i in keys], nulls)
                candidate = columns[value]
                if sign < 0:
                    candidate = np.where(candidate == NULL, NULL, -candidate)
                better = (candidate < best[at]) | ~known[at]
                if not better.all():
                    at, candidate = at[better], candidate[better]
                np.minimum.at(best, at, candidate)
                known[at] = True
                pending[at] = True
                fresh = at
            bound = meter.spend(iteration, len(fresh), len(fresh) * 16)
            if bound is not None:
                if self._budget.on_limit == "error":
                    raise meter.error(bound)
                break
            waiting, now = _next(fresh, waiting, pending, best)
            if not len(now):
                break
            rows = self._rows(space, now, best, keys, value, sign)
            columns = plan.program.run(rows, relations, nulls)
            iteration += 1
        return [self._rows(space, np.flatnonzero(known), best, keys, value, sign)]

    def _key_space(self, inputs: list[list[Ints]], keys: Sequence[int]) -> _Space:
        lows, sizes = [], []
        for i in keys:
            parts = [inputs[port][column] for port, column in self._plan.sources[i]]
            values = np.concatenate([p[p != NULL] for p in parts]) if parts else np.zeros(1, int)
            low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
            lows.append(low)
            sizes.append(high - low + 2)
        return _Space(lows, sizes)

    def _rows(
        self,
        space: _Space,
        at: Ints,
        best: Ints,
        keys: Sequence[int],
        value: int,
        sign: int,
    ) -> list[Ints]:
        columns: list[Ints] = [at] * (len(keys) + 1)
        for n, i in enumerate(keys):
            part = at // space.strides[n] % space.sizes[n]
            columns[i] = np.where(part == space.sizes[n] - 1, NULL, part + space.lows[n])
        found = best[at]
        columns[value] = found if sign > 0 else np.where(found == NULL, NULL, -found)
        return columns


def _next(fresh: Ints, waiting: Ints, pending: Bools, best: Ints) -> tuple[Ints, Ints]:
    """Which keys wait on, and which are looked at next: those with the best values.

    Any order gives the same answer; a value that is passed on early is more likely to be improved
    again, with all that follows from it.
    """
    if len(fresh) * 16 > len(pending):
        every = np.flatnonzero(pending)
    else:
        every = np.unique(np.concatenate([fresh, waiting]))
        every = every[pending[every]]
    if len(every) > _PATIENCE:
        values = best[every]
        bound = np.partition(values, len(values) // 8)[len(values) // 8]
        good = values <= bound
        now, rest = every[good], every[~good]
    else:
        now, rest = every, every[:0]
    pending[now] = False
    return rest, now


_PATIENCE = 2048


class _Bitmap:
    """Row numbers seen, a byte each; it is used again by the next part of a run."""

    def __init__(self, size: int) -> None:
        self.seen: Bools = np.zeros(size, dtype=bool)
        self.first = np.empty(size, dtype=np.int32)
        self.touched: list[Ints] = []

    @classmethod
    def of(cls, size: int, owner: Any) -> _Bitmap:
        kept: _Bitmap | None = getattr(owner, "_bitmap", None)
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
        order = _FIRST32[:number] if number <= _SPARE else np.arange(number, dtype=np.int32)
        # Of equal keys one wins: the last that is written.
        self.first[fresh] = order
        won = self.first[fresh] == order
        if not won.all():
            new, fresh = new[won], fresh[won]
        self.seen[fresh] = True
        self.touched.append(fresh)
        return new

    def clear(self) -> None:
        if sum(map(len, self.touched)) * 8 > len(self.seen):
            self.seen.fill(False)
        else:
            for keys in self.touched:
                self.seen[keys] = False
        self.touched = []


_FEW = 8
_AT_ONCE = 64  # small steps between two looks at the bounds


class _Small:
    """Steps of a few rows each, without arrays: a chain of 20,000 steps has one row in each.

    A row is its number. What a row of the relation adds to the number of a derived row is known
    beforehand, as is where the deriving row's number has the rest.
    """

    def __init__(self, program: Program, relation: Relation, space: _Space, seen: _Bitmap) -> None:
        self.space = space
        self.seen = seen
        self._program = program
        self._relation = relation
        self._parts: list[int] | None = None

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

    def _prepare(self) -> list[int]:
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
        return parts.tolist()

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
            if len(rows) > _FEW or not rows:
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


class _Runs:
    """Row numbers seen, in sorted runs that are merged geometrically."""

    def __init__(self) -> None:
        self.runs: list[Ints] = []
        self.total = 0

    def dense(self, space: _Space, owner: Any) -> _Seen:
        """The same as a bitmap, if the space is small enough for one."""
        if space.size > _BITMAP:
            return self
        bitmap = _Bitmap.of(space.size, owner)
        for run in self.runs:
            bitmap.seen[run] = True
            bitmap.touched.append(run)
        return bitmap

    def add(self, keys: Ints) -> Ints:
        """Positions of the keys that are new, each key once."""
        unique, first = _unique(keys)
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


_Seen = _Bitmap | _Runs


def _has_nulls(inputs: list[list[Ints]]) -> bool:
    return any(len(c) > 0 and bool(c.max() == NULL) for columns in inputs for c in columns)


def _integers(column: pa.ChunkedArray) -> Ints:
    nulls = column.null_count
    if nulls:
        column = column.cast(pa.int64()).fill_null(int(NULL))
    values: Ints = column.to_numpy().astype(np.int64, copy=False)
    limit = 1 << 61
    if len(values) and (values.min() <= -limit or (not nulls and values.max() >= limit)):
        raise Unfit("a value is too large")
    return values


def _table(chunks: list[list[Ints]], schema: pa.Schema) -> pa.Table:
    if not chunks:
        return schema.empty_table()
    columns = []
    for i, field in enumerate(schema):
        values = np.concatenate([c[i] for c in chunks]) if len(chunks) > 1 else chunks[0][i]
        missing = values == NULL
        mask = missing if missing.any() else None
        if mask is not None:
            values = np.where(missing, 0, values)
        # A value that does not fit its type is an error, as in DuckDB.
        whole = pa.array(values, type=pa.int64(), mask=mask)
        try:
            columns.append(whole.cast(field.type))
        except pa.ArrowInvalid:
            raise duckdb.OutOfRangeException(
                f"Out of Range Error: a value of the recursion does not fit its type {field.type}"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)
