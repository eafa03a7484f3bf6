"""Deltas: what changed in a collection, as rows with weights.

A delta is a bag of rows; a row of weight +n is added n times, of weight -n taken away n times.
Outside of the engine a delta is an Arrow table with an int64 column ``weight``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewheel.engine.state import columns as columns_
from tidewheel.engine.state import hashing, rowwise
from tidewheel.engine.state.columns import Col, ColumnType, Index, Mask, column_type
from tidewheel.engine.state.memory import ensure
from tidewheel.engine.state.order import Int64s as Int64s
from tidewheel.engine.state.order import argsort, ascends, begins
from tidewheel.engine.state.python_values import canonical
from tidewheel.engine.state.rowwise import Row, RowColumns
from tidewheel.engine.state.table_columns import TableColumns, nbytes

WEIGHT: Final = "weight"
_WEIGHTS: Final = column_type(pa.int64())  # (pa.array imports pandas)


class Schema:
    """Names and types of the columns of a collection, without the weight."""

    __slots__ = ("kinds", "names", "types")

    def __init__(self, names: Iterable[str], types: Iterable[pa.DataType]) -> None:
        self.names = tuple(names)
        self.types = tuple(t.value_type if pa.types.is_dictionary(t) else t for t in types)
        self.kinds: tuple[ColumnType, ...] = tuple(column_type(t) for t in self.types)
        if len(self.names) != len(self.types):
            raise ValueError(f"schema: {len(self.names)} names, {len(self.types)} types")

    @classmethod
    def of(cls, arrow: pa.Schema) -> Schema:
        """The schema of an Arrow table."""
        return cls(arrow.names, arrow.types)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self.names == other.names and self.types == other.types

    def __hash__(self) -> int:
        return hash((self.names, self.types))

    def __repr__(self) -> str:
        return (
            "Schema("
            + ", ".join(f"{n}: {t}" for n, t in zip(self.names, self.types, strict=True))
            + ")"
        )

    def select(self, indices: Sequence[int], names: Sequence[str] | None = None) -> Schema:
        """The schema of some columns, by position, perhaps renamed."""
        found = Schema.__new__(Schema)
        found.types = tuple([self.types[i] for i in indices])
        found.kinds = tuple([self.kinds[i] for i in indices])
        found.names = tuple([self.names[i] for i in indices] if names is None else names)
        if len(found.names) != len(found.types):
            raise ValueError(f"schema: {len(found.names)} names, {len(found.types)} types")
        return found

    def renamed(self, names: Sequence[str]) -> Schema:
        """The same columns with other names."""
        return self.select(range(len(self.types)), names)

    def index(self, name: str) -> int:
        """Position of a column by name."""
        return self.names.index(name)


class KeySpec:
    """How some columns of a schema become a 64-bit key.

    The value itself for one integer-like column, else a hash of the columns' values. `exact` says
    whether equal keys mean equal values: only for an integer-like column without NULLs. `exactly`:
    values that are equal and do not look the same have different keys.
    """

    __slots__ = ("exactly", "indices", "integer", "kinds")

    def __init__(self, schema: Schema, indices: Sequence[int], exactly: bool = False) -> None:
        self.indices = tuple(indices)
        self.exactly = exactly
        self.kinds = tuple(schema.kinds[i] for i in self.indices)
        self.integer = len(self.kinds) == 1 and self.kinds[0].integer

    def keys(self, cols: Sequence[Col], n: int) -> Int64s:
        """The key of each row."""
        if self.integer:
            if type(cols) is RowColumns and self.kinds[0].dtype != np.uint64:
                at = self.indices[0]  # no column is made of few rows
                given = [row[at] for row in cols.rows]
                if None not in given:
                    return np.array(given, np.int64)
            col = cols[self.indices[0]]
            if isinstance(col, np.ndarray):
                return col if col.dtype == np.int64 else col.astype(np.int64)
            values, nulls = self.kinds[0].split(col)  # type: ignore[attr-defined]
            out: Int64s = values.astype(np.int64)
            out[nulls] = hashing.NULL_HASH.astype(np.int64)
            return out
        if not self.indices:
            return np.zeros(n, np.int64)
        h = np.full(n, hashing.SEED)
        for i, kind in zip(self.indices, self.kinds, strict=True):
            h = hashing.combine(h, kind.hash(cols[i], self.exactly))
        return h.view(np.int64)

    def exact(self, cols: Sequence[Col]) -> bool:
        """True if rows of these columns with equal keys have equal values."""
        if self.integer:
            if type(cols) is RowColumns:
                return not cols.lacks(self.indices[0])
            return isinstance(cols[self.indices[0]], np.ndarray)
        return not self.indices

    def nulls(self, cols: Sequence[Col]) -> Mask | None:
        """Rows with a NULL among the key's columns; None where there are none."""
        found: Mask | None = None
        for i in self.indices:
            if type(cols) is RowColumns and not cols.lacks(i):
                continue
            mask = columns_.is_null(cols[i])
            if mask is not None:
                found = mask if found is None else found | mask
        return found


class Delta:
    """Rows with weights. `cols[i]` is a column (see `columns.Col`), `weights` int64; immutable.

    `distinct`: no two rows are the same and no weight is 0, as far as is known.
    """

    __slots__ = ("cols", "distinct", "schema", "weights")

    def __init__(
        self, schema: Schema, cols: Sequence[Col], weights: Int64s, distinct: bool = False
    ) -> None:
        self.schema = schema
        self.cols = cols
        self.weights = weights
        self.distinct = distinct

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"Delta({len(self)} rows, {self.schema})"

    @classmethod
    def empty(cls, schema: Schema) -> Delta:
        """A delta without rows."""
        return cls(schema, [k.empty() for k in schema.kinds], np.empty(0, np.int64))

    @classmethod
    def from_arrow(
        cls,
        table: pa.Table | pa.RecordBatch,
        weight: int | None = None,
        schema: Schema | None = None,
    ) -> Delta:
        """A delta from Arrow. All rows have `weight`, or else the last column says it."""
        names, cols = table.schema.names, [columns_.from_arrow(c) for c in table.columns]
        if weight is None:
            weights = np.asarray(cols.pop())
            names.pop()
        else:
            weights = np.full(table.num_rows, weight, np.int64)
        return cls(schema or Schema(names, table.schema.types[: len(names)]), cols, weights)

    @classmethod
    def from_pylist(cls, schema: Schema, rows: Iterable[Sequence[Any]]) -> Delta:
        """A delta from Python rows whose last item is the weight: for tests and small inputs."""
        data = list(rows)
        cols = [
            columns_.from_arrow(pa.array([r[i] for r in data], t))
            for i, t in enumerate(schema.types)
        ]
        return cls(schema, cols, np.array([r[-1] for r in data], np.int64))

    def to_arrow(self, weight: str | None = WEIGHT) -> pa.Table:
        """As an Arrow table, its last column being the weight (left out where None)."""
        if weight is None and isinstance(self.cols, TableColumns):
            return self.cols.named(self.schema.names)
        arrays = [k.dump(c) for k, c in zip(self.schema.kinds, self.cols, strict=True)]
        names = list(self.schema.names)
        if weight is not None:
            arrays.append(_WEIGHTS.dump(self.weights))
            names.append(weight)
        if not arrays:
            return pa.table({"": pa.nulls(len(self))}).select([])
        return pa.Table.from_arrays(arrays, names=names)

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """As Python rows, each with its weight last."""
        lists = [k.dump(c).to_pylist() for k, c in zip(self.schema.kinds, self.cols, strict=True)]
        return list(zip(*lists, self.weights.tolist(), strict=True))

    @classmethod
    def of_rows(
        cls, schema: Schema, rows: Sequence[Row], weights: Int64s, distinct: bool = False
    ) -> Delta:
        """A few rows, of values as `rowwise` has them."""
        return cls(schema, RowColumns(schema.kinds, rows), weights, distinct)

    @property
    def rows(self) -> Sequence[Row] | None:
        """The rows, where they are so few that they are kept as such."""
        return rowwise.rows_of(self.cols)

    def take(self, index: Index) -> Delta:
        """Rows by position."""
        return Delta(self.schema, [columns_.take(c, index) for c in self.cols], self.weights[index])

    def where(self, mask: Mask) -> Delta:
        """Rows by mask."""
        return self if mask.all() else self.take(mask.nonzero()[0])

    def select(self, indices: Sequence[int], schema: Schema) -> Delta:
        """Columns by position, under another schema; rows are not consolidated."""
        # every column is still there: rows that differed differ still
        distinct = self.distinct and len(set(indices)) == len(self.cols)
        cols = self.cols
        if isinstance(cols, RowColumns):
            return Delta(schema, cols.select(indices, schema.kinds), self.weights, distinct)
        return Delta(schema, [cols[i] for i in indices], self.weights, distinct)

    def negate(self) -> Delta:
        """The delta that undoes this one."""
        return Delta(self.schema, self.cols, -self.weights, self.distinct)

    def repeated(self) -> Delta:
        """Each row `weight` times with weight 1; weights must not be negative."""
        if (self.weights == 1).all():
            return self
        if (self.weights < 0).any():
            raise ValueError("a bag with negative weights has no rows to repeat")
        ensure(int(self.weights.sum()), "rows", self)
        index = np.arange(len(self)).repeat(self.weights)
        out = self.take(index)
        return Delta(self.schema, out.cols, np.ones(len(index), np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes held, more or less."""
        return nbytes(self.cols) + int(self.weights.nbytes)


def concat(deltas: Sequence[Delta]) -> Delta:
    """The sum of deltas of one schema; rows are not consolidated."""
    if len(deltas) == 1:
        return deltas[0]
    first = deltas[0].schema
    cols: Sequence[Col] = rowwise.concat([d.cols for d in deltas]) or [
        columns_.concat([d.cols[i] for d in deltas], kind) for i, kind in enumerate(first.kinds)
    ]
    return Delta(first, cols, np.concatenate([d.weights for d in deltas]))


def consolidate(delta: Delta) -> Delta:
    """The same delta with rows that are the same added up and rows of weight 0 left out."""
    if delta.distinct:
        return delta
    done = _consolidated(delta)
    done.distinct = True
    return done


def net(delta: Delta) -> Delta:
    """The same delta, consolidated unless all of its rows are added, or all are taken away."""
    rows = delta.rows
    few = rows is not None and (len(rows) == 1 or (len(rows) == 2 and rows[0] != rows[1]))
    if few and delta.weights.all():
        return delta
    one_way = (delta.weights > 0).all() or (delta.weights < 0).all()
    return delta if one_way else consolidate(delta)


def _consolidated(delta: Delta) -> Delta:
    n = len(delta)
    if n <= 1:
        return delta if n == 0 or delta.weights[0] != 0 else delta.take(np.empty(0, np.int64))
    rows = delta.rows
    integers = all(k.integer for k in delta.schema.kinds)
    if rows is not None and integers and len(set(rows)) == n and delta.weights.all():
        return delta
    if n <= _TINY and all(
        k.integer and isinstance(c, np.ndarray)
        for k, c in zip(delta.schema.kinds, delta.cols, strict=True)
    ):
        return _consolidate_tiny(delta)
    if n == 2 and delta.weights.all():
        for kind, col in zip(delta.schema.kinds, delta.cols, strict=True):
            if not kind.equal(col[:1], col[1:], exactly=True)[0]:
                return delta
    spec = KeySpec(delta.schema, range(len(delta.schema)), exactly=True)
    keys = spec.keys(delta.cols, n)
    order = argsort(keys)
    cols = None if spec.exact(delta.cols) else delta.cols
    starts, order = groups(begins(keys[order]), order, cols, spec.kinds)
    if len(starts) == n:
        keep = delta.weights != 0
        return delta if keep.all() else delta.take(keep.nonzero()[0])
    sums = np.add.reduceat(delta.weights[order], starts)
    keep = sums != 0
    index = order[starts[keep]]
    return Delta(delta.schema, [columns_.take(c, index) for c in delta.cols], sums[keep])


_TINY: Final = 12
_FEW: Final = 1024


def _consolidate_tiny(delta: Delta) -> Delta:
    """Consolidate a few rows of integers: a dictionary beats a dozen NumPy calls."""
    sums: dict[tuple[int, ...], int] = {}
    first: dict[tuple[int, ...], int] = {}
    weights = delta.weights.tolist()
    lists = [c.tolist() for c in delta.cols]
    for i, row in enumerate(zip(*lists, strict=True) if lists else ((),) * len(weights)):
        if row in sums:
            sums[row] += weights[i]
        else:
            sums[row] = weights[i]
            first[row] = i
    kept = [row for row, weight in sums.items() if weight]
    if len(kept) == len(weights):
        return delta
    index = np.array([first[row] for row in kept], np.int64)
    return Delta(
        delta.schema, [c[index] for c in delta.cols], np.array([sums[r] for r in kept], np.int64)
    )


def unique(keys: Int64s) -> Int64s:
    """Distinct keys, sorted. (NumPy's own hashes them first, which takes many times as long.)"""
    if len(keys) <= 1 or (len(keys) > _FEW and ascends(keys)):
        return keys
    ordered = np.sort(keys)
    return ordered[begins(ordered)]


def groups(
    first: Mask,
    order: Index,
    cols: Sequence[Col] | None,
    kinds: Sequence[ColumnType],
    exactly: bool = True,
) -> tuple[Index, Index]:
    """Where groups of the same (or else equal) rows start in rows sorted by `order`; the order.

    `first`: the rows whose sort keys differ from those of the row before. Rows are equal if their
    sort keys are, and all `cols` (None: the keys say it all). Where equal keys hide different rows
    (a hash collision), the order is refined so that equal rows adjoin.
    """
    if cols is not None:
        same = (~first).nonzero()[0]
        if len(same):
            left, right = order[same], order[same - 1]
            for col, kind in zip(cols, kinds, strict=True):
                equal = kind.equal(columns_.take(col, left), columns_.take(col, right), exactly)
                if not equal.all():
                    return _resolve_collisions(first, order, cols, kinds, exactly)
    return first.nonzero()[0], order


def _numbered(array: pa.Array) -> pa.Array:
    """Times as integers: Python has no infinite ones."""
    kind = array.type
    return array.view(f"int{kind.bit_width}") if pa.types.is_temporal(kind) else array


def _resolve_collisions(
    first: Mask, order: Index, cols: Sequence[Col], kinds: Sequence[ColumnType], exactly: bool
) -> tuple[Index, Index]:
    """Split groups of rows with equal hashes by their values; rare, so in plain Python."""
    starts = first.nonzero()[0]
    ends = np.append(starts[1:], len(order))
    crowded = ends - starts > 1
    out = order.copy()
    first = first.copy()
    for start, end in zip(starts[crowded].tolist(), ends[crowded].tolist(), strict=True):
        members = order[start:end]
        arrays = [k.dump(columns_.take(c, members)) for c, k in zip(cols, kinds, strict=True)]
        lists = [_numbered(array).to_pylist() for array in arrays]
        by_value: dict[str, list[int]] = {}
        for row, member in zip(zip(*lists, strict=True), members.tolist(), strict=True):
            by_value.setdefault(repr(canonical(row, exactly)), []).append(member)
        place = start
        for same_rows in by_value.values():
            first[place] = True
            out[place : place + len(same_rows)] = same_rows
            place += len(same_rows)
    return first.nonzero()[0], out
