"""Views that are computed anew and compared, and how rows are compared."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tidewheel.engine.arrow import pa
from tidewheel.engine.quoting import quoted
from tidewheel.planner.iterations import Iterations
from tidewheel.planner.plans import Deltas, Run

if TYPE_CHECKING:
    from tidewheel.engine.operators.circuit import Circuit
    from tidewheel.engine.state.change import Change, Replaced

WEIGHT = "weight"
FEW = 1 << 15
"""So many rows before and after are compared at once."""


def difference(old: pa.Table, new: pa.Table, run: Callable[..., pa.Table]) -> pa.Table:
    """`new` − `old` as a delta; `run(sql, **tables)` executes SQL over registered tables."""
    names = ", ".join(quoted(n) for n in new.column_names)
    return run(
        f"SELECT {names}, 1::BIGINT AS {WEIGHT} FROM (FROM __tw_new EXCEPT ALL FROM __tw_old) "
        f"UNION ALL SELECT {names}, -1::BIGINT FROM (FROM __tw_old EXCEPT ALL FROM __tw_new)",
        __tw_old=old,
        __tw_new=new,
    )


def rounded(table: pa.Table, run: Callable[..., pa.Table]) -> pa.Table:
    """`table` with floating-point columns to 12 significant digits.

    A maintained sum is exact and rounded once, DuckDB's depends on the order of its additions; so
    a comparison of both must leave the last digits out.
    """
    items = []
    floating = False
    for column in table.schema:
        name = quoted(column.name)
        if pa.types.is_floating(column.type):
            floating = True
            kind = "FLOAT" if pa.types.is_float32(column.type) else "DOUBLE"
            digits = 5 if kind == "FLOAT" else 11
            text = f"CAST(printf('%.{digits}e', {name}) AS {kind})"
            items.append(f"CASE WHEN isfinite({name}) THEN {text} ELSE {name} END AS {name}")
        else:
            items.append(name)
    return run(f"SELECT {', '.join(items)} FROM __tw_t", __tw_t=table) if floating else table


def change(delta: pa.Table) -> Change:
    """A delta in Arrow, for views to read."""
    # Imported here: it takes long to load, and not everybody has views.
    from tidewheel.engine.state.change import Change

    return Change(delta)


def compared(
    old: pa.Table, new: pa.Table, run: Callable[..., pa.Table], read: bool
) -> Change | Replaced:
    """What differs; of many rows not worked out before somebody asks, unless views `read` it."""
    from tidewheel.engine.state.change import Change, Replaced
    from tidewheel.engine.state.change import difference as found

    if not read and len(old) + len(new) > FEW:
        return Replaced(old, new)
    if old.schema.types != new.schema.types:
        return change(difference(old, new, run))
    return Change.of(found(old, new), new.column_names)  # DuckDB takes 5 ms for two rows


class Recompute:
    """The fallback: run the query again and emit the difference. Always right, never fast."""

    def __init__(self, sql: str, reason: str, scratch: Callable[..., pa.Table]) -> None:
        self.sql = sql
        self.reason = reason
        self.circuit: Circuit | None = None
        self.keeper: object | None = None
        self._scratch = scratch
        self._rows: pa.Table | None = None
        self._before: pa.Table | None = None
        self._seconds = 0.0
        self._steps = self._in = self._out = 0

    def hydrate(self, run: Run) -> None:
        self._rows = run(self.sql)

    def take_over(self, rows: pa.Table) -> None:
        """What the view was before the next step, as another plan had it."""
        self._rows = rows

    def step(self, changes: Deltas, run: Run, read: bool = True) -> Change | Replaced:
        started = perf_counter()
        new, old = run(self.sql), self.rows()
        found = compared(old, new, self._scratch, read)
        self._rows, self._before = new, old
        self._steps += 1
        self._in += sum(map(len, changes.values()))
        self._out += found.rows or 0
        self._seconds += perf_counter() - started
        return found

    def rows(self) -> pa.Table:
        assert self._rows is not None
        return self._rows

    def before(self) -> pa.Table:
        return self.rows() if self._before is None else self._before

    def settle(self) -> None:
        self._before = None

    def iterations(self) -> list[Iterations]:
        return []

    def statistics(self) -> list[dict[str, Any]]:
        held = self._rows
        return [
            {
                "vertex": "recompute",
                "kind": "recompute",
                "detail": self.reason,
                "rows": 0 if held is None else held.num_rows,
                "bytes": 0 if held is None else held.nbytes,
                "rows_in": self._in,
                "rows_out": self._out,
                "steps": self._steps,
                "seconds": self._seconds,
            }
        ]
