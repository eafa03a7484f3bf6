"""The first rows of each group, as DuckDB finds them in a query's rows.

To sort millions of rows takes many times as long as DuckDB needs for the few that come first. So an
`Ordered` over large groups gets a head of each to begin with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidewheel.engine.arrow import array_of, numbers, pc
from tidewheel.engine.operators.collisions import Groups
from tidewheel.engine.operators.rank import rankable
from tidewheel.engine.operators.topk import Ordered, Rest
from tidewheel.engine.state.columns import is_null, take
from tidewheel.engine.state.delta import Delta, Int64s
from tidewheel.engine.state.heads import Heads
from tidewheel.planner.plans import Queries
from tidewheel.planner.text import OWN, identifier, to_sql
from tidewheel.planner.view_sums import columns, groups_alike

LEAST: Final = 16  # rows of a head; twice as many as are wanted if that is more
PART: Final = 8  # so many times the rows of their heads groups must have
_MOST: Final = 100_000  # rows of a head
Whole = str | Callable[[], str | None]
"""A query, or what makes it when it is run; whoever has the same one shares its statement."""
_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Size(NamedTuple):
    """Rows, groups (nearly), rows with a NULL in their group's name, and as the value."""

    rows: float
    groups: int
    nameless: int
    valueless: int


class Lists:
    """The first values of groups, which operators over the same rows get from one statement."""

    def __init__(self) -> None:
        self._wanted: dict[tuple[Whole, str], list[str]] = {}
        self._found: dict[tuple[Whole, str], pa.Table] = {}

    def want(self, query: Whole, group: str, values: str) -> None:
        """Note that a list of `values` of each group in a query's rows will be asked for."""
        wanted = self._wanted.setdefault((query, group), [])
        if values not in wanted:
            wanted.append(values)

    def take(self, run: Queries, query: Whole, group: str, values: str) -> pa.Table:
        """Columns of the groups; then the list, and how many rows there are."""
        key = query, group
        self.want(query, group, values)
        wanted = self._wanted[key]
        table = self._found.get(key)
        if table is None:
            items = [f"{v} AS __tw_list{i}" for i, v in enumerate(wanted)]
            items = [group, *items, f"{OWN}count(*)"]
            text = query if isinstance(query, str) else query()
            table = run(f"SELECT {', '.join(items)} FROM ({text}) GROUP BY {group}")
        at = table.num_columns - 1 - len(wanted)
        mine = table.select([*range(at), at + wanted.index(values), table.num_columns - 1])
        table = table.remove_column(at + wanted.index(values))
        wanted.remove(values)
        if wanted:
            self._found[key] = table
        else:
            self._found.pop(key, None)
            del self._wanted[key]
        return mine


class First:
    """What an `Ordered` gets from the rows of `query`, whose columns are called `names`.

    `rest` is how it reads them all when that is not enough any more. `sizes`: what is known of
    numbers of rows and groups, `lists`: what others get of the same rows. `about`: how many rows
    are expected of joins; None for one table, filtered perhaps, whose rows are soon counted.
    (`lists` come with the query in which others find what they want as well.)
    """

    def __init__(
        self,
        op: Ordered,
        query: str,
        names: Sequence[str],
        rest: Rest,
        sizes: dict[str, Size],
        lists: tuple[Lists, Whole],
        about: float | None,
    ) -> None:
        self._op = op
        self._sizes = sizes
        self._shared, self._all = lists
        self._query = query
        self._names = [to_sql(identifier(n)) for n in names]
        self._rest = rest
        self._about = about
        self._rows = max(LEAST, 2 * op.count)

    @staticmethod
    def possible(op: Ordered) -> bool:
        """Are DuckDB's groups those of `op`, and have values places, if some share one?"""
        schema = op.input.schema
        key = (schema.types[i] for i in op.input.key.indices)
        kind = schema.types[op.ranking.order.column]
        return all(map(groups_alike, key)) and (rankable(kind) or pa.types.is_string(kind))

    def __call__(self, run: Queries) -> Delta | None:
        """The rows of the heads; None where they would be too many."""
        op = self._op
        group = [self._names[i] for i in op.input.key.indices]
        if self._rows > _MOST:
            return None
        size = self._size(run, group)
        if size.groups * self._rows * PART > size.rows:
            return None
        schema = op.input.schema
        if group and not size.valueless and len(schema) == len(group) + 1:
            kept = self._kept(*self._lists(run, group), whole=False)
            if kept is not None:
                return kept
        counted = all(map(groups_alike, schema.types))
        alone = not group and not (op.ranking.order.nulls_first and size.valueless)
        table = run(self._whole(size, counted)) if alone else None
        if not table:  # or so many values are NULL that the others do not fill a head
            table = run(self._statement(group, counted, size))
        weights = numbers(table.columns[-2]) if counted else np.ones(len(table), np.int64)
        sizes = numbers(table.columns[-1])
        whole = rankable(schema.types[op.ranking.order.column])
        return self._kept(Delta(schema, columns(table, schema), weights), sizes, whole)

    @staticmethod
    def want(op: Ordered, names: Sequence[str], lists: Lists, query: Whole) -> None:
        """Note what `_lists` is going to ask for."""
        named = [to_sql(identifier(n)) for n in names]
        group = [named[i] for i in op.input.key.indices]
        if group and len(names) == len(group) + 1:
            lists.want(query, ", ".join(group), First._values(op, named))

    @staticmethod
    def _values(op: Ordered, names: Sequence[str]) -> str:
        order = op.ranking.order
        first = "max" if order.descending else "min"
        return f"{OWN}{first}({names[order.column]}, {max(LEAST, 2 * op.count)})"

    def _lists(self, run: Queries, group: Sequence[str]) -> tuple[Delta, Int64s]:
        """The first values of each group, where rows are no more than that, and the group's rows.

        Of the last of these values there may be more.
        """
        op, schema = self._op, self._op.input.schema
        values = self._values(op, self._names)
        table = self._shared.take(run, self._all, ", ".join(group), values)
        if not table:  # Arrow makes no array of types of its extensions out of no chunks
            return Delta.empty(schema), np.zeros(0, np.int64)
        *groups, lists, sizes = table.combine_chunks().columns
        firsts = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
        found = pc.list_value_length(firsts)
        none = is_null(found)
        lengths = numbers(found) if none is None else np.where(none, 0, numbers(found))
        at = np.arange(len(lengths)).repeat(lengths)
        arrays = dict(
            zip(op.input.key.indices, (g.take(array_of(at)) for g in groups), strict=True)
        )
        arrays[op.ranking.order.column] = firsts.flatten()
        table = pa.table({str(i): arrays[i] for i in range(len(schema))})
        delta = Delta(schema, columns(table, schema), np.ones(len(at), np.int64))
        return delta, numbers(sizes)[at]

    def _known(self, run: Queries, group: Sequence[str]) -> Size | None:
        """The size by what DuckDB keeps of tables: if there are no NULLs, and few groups."""
        value = self._names[self._op.ranking.order.column]
        stats = [f"{OWN}stats({c}).has_null::BOOLEAN" for c in (*group, value)]
        stats += [f"{OWN}stats({g}).approx_unique::BIGINT" for g in group]
        found = run.rows(f"SELECT {', '.join(stats)} FROM ({self._query}) LIMIT 1")
        nulls = [null for row in found for null in row[: len(group) + 1]]
        values = [count for row in found for count in row[len(group) + 1 :]]
        if nulls != [False] * (len(group) + 1) or None in values:
            return None
        rows = self._about
        if rows is None:
            rows = run.row(f"SELECT {OWN}count(*) FROM ({self._query})")[0]
        groups = math.prod(values)
        return Size(rows, groups, 0, 0) if groups * self._rows * PART <= rows else None

    def _size(self, run: Queries, group: Sequence[str]) -> Size:
        value = self._names[self._op.ranking.order.column]
        groups, nulls = "1", "0"
        if group:
            groups = f"{OWN}approx_count_distinct({OWN}hash({', '.join(group)}))"
            null = " OR ".join(f"{g} IS NULL" for g in group)
            nulls = f"{OWN}count(*) FILTER ({null})"
        items = f"{OWN}count(*), {groups}, {nulls}, {OWN}count(*) - {OWN}count({value})"
        query = f"SELECT {items} FROM ({self._query})"
        if query not in self._sizes:
            # (of all rows together the number itself is needed)
            known = self._known(run, group) if group or self._about is None else None
            self._sizes[query] = known or Size(*run.row(query))
        return self._sizes[query]

    def _whole(self, size: Size, counted: bool) -> str:
        """`_statement` for one group of all rows; it finds none where a head has NULLs."""
        order, depth = self._op.ranking.order, self._rows
        value = self._names[order.column]
        last, before, way = ("min", ">=", "DESC") if order.descending else ("max", "<=", "ASC")
        firsts = f"SELECT {value} AS c FROM ({self._query}) ORDER BY c {way} NULLS LAST"
        end = f"SELECT CASE WHEN {OWN}count(c) = {depth} THEN {OWN}{last}(c) END"
        within = f"g.{value} {before} ({end} FROM ({firsts} LIMIT {depth}))"
        count = [f"{OWN}count(*)"] if counted else []
        chosen = ", ".join([*(f"g.{n}" for n in self._names), *count, f"{size.rows}::BIGINT"])
        query = f"SELECT {chosen} FROM ({self._query}) AS g WHERE {within}"
        return f"{query} GROUP BY ALL" if counted else query

    def _statement(self, group: Sequence[str], counted: bool, size: Size) -> str:
        """The rows up to the place that ends the head of their group; last, the group's rows."""
        order, depth = self._op.ranking.order, self._rows
        value = self._names[order.column]
        first, before = ("max", ">=") if order.descending else ("min", "<=")
        equal = "IS NOT DISTINCT FROM" if size.nameless else "="  # which is quicker
        # without NULLs it is quicker to compare with what is always there
        full = f"THEN {OWN}list_extract(__tw_first, {depth})"
        last = f"CASE WHEN {OWN}len(__tw_first) = {depth} {full} END"
        if not size.valueless:
            last = f"{OWN}list_extract(__tw_first, -1)"
        by = f" GROUP BY {', '.join(group)}" if group else ""
        ends = (
            f"SELECT * EXCLUDE (__tw_first), {last} AS __tw_last FROM (SELECT "
            f"{', '.join([*group, f'{OWN}{first}({value}, {depth})'])} AS __tw_first, "
            f"{OWN}count(*) AS __tw_size FROM ({self._query}){by})"
        )
        same = "".join(f"g.{g} {equal} e.{g} AND " for g in group)
        within = f"g.{value} {before} e.__tw_last"
        if size.valueless:
            within += " OR e.__tw_last IS NULL"
            within += f" OR g.{value} IS NULL" if order.nulls_first else ""
        chosen = [f"g.{n}" for n in self._names]
        count = [f"{OWN}count(*)"] if counted else []
        query = (
            f"SELECT {', '.join([*chosen, *count, 'e.__tw_size'])} "
            f"FROM ({self._query}) AS g JOIN ({ends}) AS e ON {same}({within})"
        )
        return f"{query} GROUP BY ALL" if counted else query

    def _kept(self, delta: Delta, size: Int64s, whole: bool) -> Delta | None:
        """The heads, of groups of `size` rows; `whole`: with all that share their last place."""
        op, n = self._op, len(delta)
        keys, ranks = op.input.key.keys(delta.cols, n), op.ranking(delta.cols, n)
        groups, first, of = np.unique(keys, return_index=True, return_inverse=True)
        key = op.input.key
        names = Groups(groups, [take(delta.cols[i], first) for i in key.indices])
        names.check(key, keys, delta.cols)
        behind = size[first]
        np.subtract.at(behind, of, delta.weights)
        cut = behind > 0
        if not cut.any():
            return delta
        last = np.full(len(groups), _MIN)
        np.maximum.at(last, of, ranks)
        # NULLs share the last of all places with the greatest value, but are not among the rows
        last = np.minimum(last, _MAX - 1)
        if not whole:
            if (last == _MIN).any():
                return None
            last -= 1
        heads = Heads(groups[cut], last[cut], behind[cut], self._rows)
        delta = delta.where(heads.take(keys, ranks, delta.weights))
        keys = op.input.key.keys(delta.cols, len(delta))
        if len(heads.short(op.count, keys, delta.weights, groups)):
            return None
        op.behead(heads, names, self._rest)
        return delta
