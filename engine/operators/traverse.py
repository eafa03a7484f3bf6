"""A linear recursion whose step is structural, loop and all in one vertex: no SQL inside.

Values are 64-bit integers. Every relation that the step joins is sorted by its key once (`lookup`).
Rows are recognised by one integer made of all their columns (`seen`). So a step costs some tens of
microseconds and what its rows cost, whatever the relations' sizes.

Law: the same answer as the loop context with `Variable` of kind union or improve; `step` is the
program of planner.structure, given as a function over slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers
from tidewheel.engine.dataflow.vertex import Vertex
from tidewheel.engine.operators.appending import Appending, Unbounded
from tidewheel.engine.operators.budget import Budget, Meter
from tidewheel.engine.operators.lookup import Relation
from tidewheel.engine.operators.seen import (
    BITMAP,
    FEW,
    Anchored,
    Bitmap,
    Bools,
    Runs,
    Seen,
    Small,
    Space,
)
from tidewheel.engine.operators.step_program import NULL, Ints, Program, Unfit
from tidewheel.engine.progress.timestamp import Timestamp
from tidewheel.engine.state.delta import unique

_SMALL = 1 << 22  # a bitmap that is made at once
_THIN = 7  # runs become a bitmap when there are more rows than one in 2^7 of the space
_ARRAYS = 5_000  # rows of a relation that are prepared for small steps in the time of one step


STEP = 1 << 25
"""How many rows one step is to make at once, where there are columns to divide it by."""


@dataclass(frozen=True)
class Traversal:
    """`sources[i]`: where the values of column i come from, as (input port, its column), and the
    bounds of a computed one. `merge`: per column None (a key), "min" or "max". `every`: values may
    be any, and `enough` rows may be the answer; rows that come again stay, unless it is `distinct`.
    """

    label: str
    program: Program
    sources: tuple[tuple[tuple[int, int], ...], ...]
    bounds: tuple[tuple[int, int] | None, ...]
    merge: tuple[str | None, ...] = ()
    carried: int | None = None
    """A column that every step takes over from the row that it extends, if there is one."""
    every: bool = False
    enough: int | None = None
    distinct: bool = False


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
            nulls = any(c.null_count for t in tables for c in t.columns)
            if self._plan.every:
                table = _table(self._append(inputs, nulls, anchor.schema), anchor.schema, nulls)
            elif self._plan.merge:
                table = _table(self._improve(inputs, nulls), anchor.schema, nulls)
            else:
                space = self._space(inputs)
                result = self._union(inputs, space, nulls, anchor.schema)
                table = _table(result, anchor.schema, nulls, space)
        except Unfit:
            table = self._otherwise()
        self.send_by(0, table, time)

    # -- union all

    def _append(self, inputs: list[list[Ints]], nulls: bool, schema: pa.Schema) -> list[list[Ints]]:
        plan = self._plan
        relations = [Relation(c) for c in inputs[1:]]
        meter = Meter(self._budget, f'"{plan.label}"', "union" if plan.distinct else "union_all")
        seen = Unbounded() if plan.distinct else None
        loop = Appending(plan.program, relations, nulls, meter, plan.enough, seen)

        def told(iteration: int, columns: list[Ints]) -> None:
            assert self._record is not None
            self._record((iteration,), _table([columns], schema, nulls))

        return loop.run(inputs[0], told if self._record is not None else None)

    # -- union

    def _union(
        self, inputs: list[list[Ints]], space: Space, nulls: bool, schema: pa.Schema
    ) -> list[list[Ints]]:
        plan = self._plan
        relations = [Relation(c) for c in inputs[1:]]
        meter = Meter(self._budget, f'"{plan.label}"', "union")
        carried, inverse = plan.carried, plan.program.inverse
        once = inverse is not None and all(
            r.told_by(columns) for r, columns in zip(relations, inverse, strict=True)
        )
        pairs = 1.0 if once else prod(r.degree for r in relations)  # that a row makes, on average
        at_once = BITMAP if pairs == 1 else int(STEP / pairs)
        if carried is None or space.size <= at_once:
            found = self._run(inputs[0], relations, space, nulls, meter, once)
            self._told(found, schema, nulls)
            return found
        # Rows that differ in the carried column never meet: one part of its values at a time.
        part = max(1, at_once // (space.size // space.sizes[carried]))
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
            own = Space(lows, sizes)
            meter.deltas.clear()
            found = self._run(anchor, relations, own, nulls, meter, once)
            for columns in found:
                columns[carried] = distinct[columns[carried]]
            self._told(found, schema, nulls)
            chunks += found
            low_index = high_index
        return chunks

    def _told(self, chunks: list[list[Ints]], schema: pa.Schema, nulls: bool) -> None:
        """Record the rows of a run, a chunk per iteration."""
        if self._record is not None:
            for iteration, columns in enumerate(chunks):
                self._record((iteration,), _table([columns], schema, nulls))

    def _run(
        self,
        anchor: list[Ints],
        relations: Sequence[Relation],
        space: Space,
        nulls: bool,
        meter: Meter,
        once: bool,
    ) -> list[list[Ints]]:
        """All rows, by iteration.

        `once`: each row of a step comes from one row alone. That row is new once, so that no row
        comes twice; but it may be one of the anchor's.
        """
        seen: Seen = self._seen(space, once)
        chunks: list[list[Ints]] = []
        columns = anchor
        program = self._plan.program
        small = None
        few = isinstance(seen, Bitmap) and not nulls and self._record is None
        if few and Small.fits(program, relations):
            assert isinstance(seen, Bitmap)
            small = Small(program, relations[0], space, seen)
        iteration = 0
        key = program.keys[0]
        if not nulls and key < program.columns:
            relations[0].cover(space.lows[key], space.lows[key] + space.sizes[key] - 1)
        known = program.plain  # values that are taken over are in their ranges
        small_steps = 0
        while True:
            fresh: Ints | None = None
            many = False
            if len(columns[0]):
                keys = space.pack(columns, nulls, known and iteration > 0)
                if once and iteration and not isinstance(seen, Runs):
                    fresh = seen.unseen(keys)
                elif isinstance(seen, Bitmap) and not nulls and len(keys) * 8 > space.size:
                    many, fresh = True, seen.add_many(keys, space.size)
                else:
                    fresh = seen.add(keys)
            rows = 0 if fresh is None else len(fresh)
            if isinstance(seen, Runs) and seen.total > space.size >> _THIN:
                seen = seen.dense(space, self)
            bound = meter.spend(iteration, rows, rows * 8 * len(columns))
            if bound is not None:
                if self._budget.on_limit == "error":
                    raise meter.error(bound)
                break
            if fresh is None or rows == 0:
                break
            if many:
                columns = space.unpack(fresh)
            elif rows != len(columns[0]):
                columns = [c[fresh] for c in columns]
            chunks.append(columns)
            small_steps += rows <= FEW
            if rows <= FEW and small is not None and small_steps * _ARRAYS >= len(relations[0]):
                iteration, columns = small.run(columns, iteration, meter, chunks)
            else:
                columns = program.run(columns, relations, nulls)
                iteration += 1
        seen.clear()
        return chunks

    def _seen(self, space: Space, once: bool) -> Seen:
        """A bitmap, where one is kept or small; else runs, which few rows may stay in."""
        kept: Bitmap | None = getattr(self, "_bitmap", None)
        if space.size <= _SMALL or (kept is not None and len(kept.seen) >= space.size):
            return Bitmap.of(space.size, self)
        return Anchored() if once else Runs()

    def _space(self, inputs: list[list[Ints]]) -> Space:
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
        return Space(lows, sizes)

    # -- improve

    def _improve(self, inputs: list[list[Ints]], nulls: bool) -> list[list[Ints]]:
        """Keys get better values until none does; the value of a key lies in an array by key."""
        plan = self._plan
        keys = [i for i, m in enumerate(plan.merge) if m is None]
        value = next(i for i, m in enumerate(plan.merge) if m is not None)
        sign = 1 if plan.merge[value] == "min" else -1
        asked = nulls and plan.program.passes_over(value, "greatest" if sign > 0 else "least")
        space = self._key_space(inputs, keys)
        if space.size > BITMAP // 2:
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
                if asked and (candidate == NULL).any():
                    raise Unfit("a NULL is better than some values")  # an error, or not for long
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

    def _key_space(self, inputs: list[list[Ints]], keys: Sequence[int]) -> Space:
        lows, sizes = [], []
        for i in keys:
            parts = [inputs[port][column] for port, column in self._plan.sources[i]]
            values = np.concatenate([p[p != NULL] for p in parts]) if parts else np.zeros(1, int)
            low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
            lows.append(low)
            sizes.append(high - low + 2)
        return Space(lows, sizes)

    def _rows(
        self,
        space: Space,
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
        every = unique(np.concatenate([fresh, waiting]))
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


def _integers(column: pa.ChunkedArray) -> Ints:
    if column.type.bit_width > 32:
        known = numbers(column.drop_null())
        limit = 1 << 61
        if len(known) and (known.min() <= -limit or known.max() >= limit):
            raise Unfit("a value is too large")
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(int(NULL))
    values: Ints = numbers(column).astype(np.int64, copy=False)
    return values


def _table(
    chunks: list[list[Ints]], schema: pa.Schema, nulls: bool, space: Space | None = None
) -> pa.Table:
    """`space`: what values there can be."""
    if not chunks:
        return schema.empty_table()
    columns = []
    for i, field in enumerate(schema):
        if space is not None and not nulls and space.fits(i, field.type):
            own = np.concatenate(
                [c[i] for c in chunks], dtype=field.type.to_pandas_dtype(), casting="unsafe"
            )
            array = array_of(own)
            columns.append(array if array.type == field.type else pa.array(own, field.type))
            continue
        values = np.concatenate([c[i] for c in chunks]) if len(chunks) > 1 else chunks[0][i]
        mask = None
        if nulls:
            mask = values == NULL
            values = np.where(mask, 0, values)
        # A value that does not fit its type is an error, as in DuckDB.
        whole = array_of(values, None if mask is None else ~mask)
        try:
            columns.append(whole if whole.type == field.type else whole.cast(field.type))
        except pa.ArrowInvalid:
            raise duckdb.OutOfRangeException(
                f"Out of Range Error: a value of the recursion does not fit its type {field.type}"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)
