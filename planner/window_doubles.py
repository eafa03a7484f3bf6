"""Windows that sum up doubles: the statement says where frames lie, the sums are exact.

What DuckDB's sums come to depends on what is added first. Asked for is the place of each row in its
group, how many rows are in a frame of values (RANGE), and which is its last; see `frame_sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.operators.frame_sums import FrameSums, Function, framed
from tidewheel.engine.operators.regroup import Evaluate
from tidewheel.engine.operators.running_sums import SQUARED
from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state.columns import Array, Col, ColumnType, Mask
from tidewheel.engine.state.delta import Delta, Int64s, KeySpec, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.text import column, identifier, to_sql, written
from tidewheel.planner.view_answers import Answer
from tidewheel.planner.view_kernels import INPUT, group_kernel
from tidewheel.planner.window_arrays import Frame, Rows, Value, frame_of
from tidewheel.planner.window_reach import by_rows, name_of

if TYPE_CHECKING:
    from tidewheel.planner.view_reuse import Reusing

FUNCTIONS: Final[dict[str, Function]] = {
    "sum": "sum",
    "avg": "avg",
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}
_PLACE, _ROWS, _END, _BEFORE = "__tw_place", "__tw_rows{}", "__tw_end{}", "__tw_before{}"


def summed(window: exp.Expr) -> exp.Expr:
    """What a function over a window sums up, of the rows that it does not leave out."""
    call: exp.Expr = window.this
    kept: exp.Expr | None = None
    if isinstance(call, exp.Filter):
        call, kept = call.this, call.expression.this
    value: exp.Expr = call.this
    if FUNCTIONS[name_of(window)] in SQUARED:
        value = exp.cast(value.copy(), "DOUBLE")
    return value if kept is None else exp.Case(ifs=[exp.If(this=kept.copy(), true=value.copy())])


@dataclass(frozen=True, slots=True)
class _Sum:
    """The function `at` a place among all; `state`: the place of what a running one goes on from.

    `argument`: the column that is summed up. `over`: the window.
    """

    at: int
    function: Function
    argument: int
    over: exp.Expr
    state: int | None

    def values(self, cols: Sequence[Col], source: Schema) -> tuple[Array, Mask | None]:
        """What is summed up: doubles, or integers."""
        values, nulls = source.kinds[self.argument].split(cols[self.argument])  # type: ignore[attr-defined]
        kind = np.float64 if values.dtype.kind == "f" else np.int64
        return values.astype(kind, copy=False), nulls

    def frames(self, cols: Sequence[Col], source: Schema, low: Int64s, high: Int64s) -> FrameSums:
        """What is to be gone on from, or goes on."""
        return FrameSums.of(*self.values(cols, source), low, high, self.function in SQUARED)

    def one(self, source: Schema) -> int:
        """What 1 is, among integers."""
        kind = source.types[self.argument]
        return int(10**kind.scale) if pa.types.is_decimal(kind) else 1


@dataclass
class Doubles:
    """The sums of doubles among window functions of one PARTITION BY, the columns `key`."""

    source: Schema
    key: Sequence[int]
    _sums: list[_Sum] = field(default_factory=list)
    _waits: dict[int, Callable[[], Col]] = field(default_factory=dict)
    """The columns of the first output that nobody has asked for."""

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, at: int, argument: int, window: exp.Expr, state: int | None = None) -> None:
        """The function `at` a place among all sums up a column."""
        self._sums.append(_Sum(at, FUNCTIONS[name_of(window)], argument, window, state))

    def texts(self, named: Sequence[L.Named]) -> list[str]:
        """All functions for a statement: in place of sums and states NULLs of their types."""
        types = {s.at: "DOUBLE" for s in self._sums}
        types |= {s.state: "BLOB" for s in self._sums if s.state is not None}
        return [
            f"CAST(NULL AS {types[i]}) AS {to_sql(identifier(e.column.name))}"
            if i in types
            else written(e)
            for i, e in enumerate(named)
        ]

    def places(self, numbers: exp.Expr) -> tuple[list[str], str]:
        """What a statement has to say of rows and frames, and what it reads.

        `numbers` is the window of places. (The end of a frame of values is that of its last row:
        DuckDB may find another one for a frame that begins elsewhere.)
        """
        place = f"{to_sql(numbers)} AS {_PLACE}"
        found, read = [place] if self._sums else [], INPUT
        for i, s in enumerate(self._sums):
            if by_rows(s.over):
                continue
            found.append(f"{_over(s, exp.Count(this=exp.Star()))} AS {_ROWS.format(i)}")
            if s.state is None:
                found[0], read = _PLACE, f"(SELECT *, {place} FROM {INPUT})"
                last = _over(s, exp.Max(this=column(_PLACE)))
                found.append(f"coalesce({last}, 0) AS {_END.format(i)}")
        return found, read

    def states(self, before: Mapping[int, str]) -> list[str]:
        """What running sums go on from; `before`: columns by the places of states."""
        each = ((i, s.state) for i, s in enumerate(self._sums))
        return [f"{before[at]} AS {_BEFORE.format(i)}" for i, at in each if at is not None]

    def finished(self, evaluate: Evaluate, found: Schema) -> tuple[Evaluate, Schema]:
        """A statement that gives rows of `found`, and what comes of them: with the sums."""
        if not self._sums:
            return evaluate, found
        finish = self._finish(found)
        return lambda rows: finish(evaluate(rows)), finish.schema

    def answer(self, answer: Answer, found: Schema) -> Answer:
        """The same for the first output, the states left out (see `completed`)."""
        if not self._sums:
            return answer
        finish = self._finish(found)

        def first(run: Reusing, given: str) -> Delta:
            self._waits = {}
            return finish(answer(run, given), self._waits)

        return first

    def completed(self, output: Delta) -> Delta:
        """The first output, with the states."""
        waits, self._waits = self._waits, {}
        cols = [waits[i]() if i in waits else col for i, col in enumerate(output.cols)]
        return Delta(output.schema, cols, output.weights, output.distinct)

    def _finish(self, found: Schema) -> Finish:
        return Finish(self.source, self.key, self._sums, found)

    def by_arrays(self, schema: Schema, before: Mapping[int, int]) -> dict[int, Value | None]:
        """What gives sums and states of a few groups, by their places; None: the statement.

        `before`: columns with the states that running ones go on from, by the places of states.
        """
        found: dict[int, Value | None] = {}
        for s in self._sums:
            frame = frame_of(s.over.args.get("spec"), True)
            kind = schema.kinds[len(self.source) + s.at]
            if s.state is None:
                found[s.at] = None if frame is None else partial(self._value, s, frame, kind)
                continue
            found[s.at] = found[s.state] = None
            if frame is not None:
                running = _Running(self.source, s, frame, kind, before.get(s.state))
                found[s.at], found[s.state] = running.value, running.state
        return found

    def _value(self, s: _Sum, frame: Frame, kind: ColumnType, rows: Rows) -> Col:
        result = framed(s.function, *s.values(rows.cols, self.source), *frame(rows))
        return kind.join(*_nulls(result))  # type: ignore[attr-defined]


@dataclass
class _Running:
    """A running sum by arrays, and its states, which are asked for after it."""

    source: Schema
    sum: _Sum
    frame: Frame
    kind: ColumnType
    before: int | None
    _sums: FrameSums | None = None

    def value(self, rows: Rows) -> Col:
        """The sums, or means."""
        self._sums = self.sum.frames(rows.cols, self.source, *self.frame(rows))
        if self.before is not None:
            begins = rows.at == rows.start
            states = columns_.take(rows.cols[self.before], begins.nonzero()[0])
            self._sums.go_on(begins.cumsum() - 1, states.to_pylist())
        result = self._sums.value(self.sum.function, self.sum.one(self.source))
        return self.kind.join(*_nulls(result))  # type: ignore[attr-defined]

    def state(self, rows: Rows) -> Col:
        """What is gone on from."""
        assert self._sums is not None
        states, self._sums = self._sums.states(), None
        return states


class Finish:
    """Computes sums from places; see `Doubles.finished`."""

    def __init__(
        self,
        source: Schema,
        key: Sequence[int],
        sums: Sequence[_Sum],
        found: Schema,
    ) -> None:
        self._source = source
        self._key = KeySpec(source, key)
        self._sums = sums
        self._found = found
        self._at = {name: i for i, name in enumerate(found.names)}
        width = self._at[_PLACE]
        types = list(found.types[:width])
        for at in (s.state for s in sums if s.state is not None):
            types[len(source) + at] = pa.large_binary()
        self.schema = Schema(found.names[:width], types)

    def __call__(self, rows: Delta, waits: dict[int, Callable[[], Col]] | None = None) -> Delta:
        """The rows with sums; states are left out for `waits` to give them by their places."""
        if not len(rows):
            return Delta.empty(self.schema)
        rows, index = self._ordered(rows)
        n, at = len(rows), np.arange(len(rows))
        place = _picked(self._column(rows, _PLACE), index)
        first = place == 1
        begins, group = first.nonzero()[0], first.cumsum() - 1
        end = np.append(begins[1:], n)[group]
        start = begins[group]
        here = Rows((), at, start, end, start, end, at)
        cols, back = list(rows.cols[: len(self.schema)]), at
        if index is not None:
            back = np.empty(n, np.int64)
            back[index] = at
        for i, s in enumerate(self._sums):
            values, nulls = s.values(rows.cols, self._source)
            values, nulls = _picked(values, index), None if nulls is None else _picked(nulls, index)
            if not by_rows(s.over):
                many = _picked(self._column(rows, _ROWS.format(i)), index)
                high = start + many
                if s.state is None:
                    high = start + _picked(self._column(rows, _END.format(i)), index)
                low = high - many
            else:
                frame = frame_of(s.over.args["spec"], True)
                assert frame is not None
                low, high = frame(here)
            if s.state is None:
                result = framed(s.function, values, nulls, low, high)
            else:
                sums = FrameSums.of(values, nulls, low, high, s.function in SQUARED)
                if _BEFORE.format(i) in self._at:
                    before = self._column(rows, _BEFORE.format(i))
                    some = columns_.take(before, begins if index is None else index[begins])
                    sums.go_on(group, some.to_pylist())
                result = sums.value(s.function, s.one(self._source))
                at_state = len(self._source) + s.state
                if waits is None:
                    cols[at_state] = sums.states(index)
                else:
                    empty = self.schema.kinds[at_state]
                    cols[at_state] = empty.load(empty.nulls(n))
                    waits[at_state] = partial(sums.states, index)
            kind = self.schema.kinds[len(self._source) + s.at]
            cols[len(self._source) + s.at] = kind.join(*_nulls(result, back))  # type: ignore[attr-defined]
        return Delta(self.schema, cols, rows.weights)

    def _column(self, rows: Delta, name: str) -> Col:
        return rows.cols[self._at[name]]

    def _ordered(self, rows: Delta) -> tuple[Delta, Int64s | None]:
        """All rows, and where those of each group are, in their order: None if they stand so.

        DuckDB gives groups in pieces, some of them perhaps between those of others.
        """
        n, place = len(rows), self._column(rows, _PLACE)
        new = np.ones(n, bool)
        new[1:] = (place[1:] != place[:-1] + 1) | ~self._alike(rows.cols, n)
        runs = new.nonzero()[0]
        if (place[runs] == 1).all():
            return rows, None
        cols = list(rows.cols)
        for i in self._key.indices:
            cols[i] = columns_.take(cols[i], runs)
        order = np.lexsort([place[runs], self._key.keys(cols, len(runs))])
        many = np.diff(np.append(runs, n))[order]
        begins = many.cumsum() - many
        index = np.repeat(runs[order] - begins, many) + np.arange(n)
        ends = begins[1:]
        goes_on = place[index[ends]] == place[index[ends - 1]] + 1
        cols, pairs = list(rows.cols), np.stack([index[ends - 1], index[ends]], 1).ravel()
        for i in self._key.indices:
            cols[i] = columns_.take(cols[i], pairs)
        goes_on &= self._alike(cols, len(pairs))[::2]
        if (goes_on | (place[index[ends]] == 1)).all():
            return rows, index
        return self._by_statement(rows), None  # two groups of one hash

    def _alike(self, cols: Sequence[Col], n: int) -> Mask:
        """Are rows of the same group as the rows before them? All but the first one."""
        same = np.ones(max(n - 1, 0), bool)
        for i, kind in zip(self._key.indices, self._key.kinds, strict=True):
            same &= kind.equal(cols[i][1:], cols[i][:-1])
        return same

    def _by_statement(self, rows: Delta) -> Delta:
        names = [*(self._found.names[i] for i in self._key.indices), _PLACE]
        by = ", ".join(to_sql(identifier(name)) for name in names)
        evaluate, _ = group_kernel(f"SELECT * FROM {INPUT} ORDER BY {by}", self._found)
        return evaluate(rows)


def _over(s: _Sum, call: exp.Expr) -> str:
    """A function over the frame of a sum."""
    window = s.over.copy()
    window.set("this", call)
    return to_sql(window)


def _picked(values: Array, index: Int64s | None) -> Array:
    return values if index is None else values[index]


def _nulls(found: tuple[Array, Mask], index: Int64s | None = None) -> tuple[Array, Mask | None]:
    """Values, and where they are NULL, if any is."""
    values, nulls = (_picked(part, index) for part in found)
    return values, nulls if nulls.any() else None
