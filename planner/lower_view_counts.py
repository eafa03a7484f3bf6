"""Aggregates of the different values of a group, and of how often each is there.

rows ─┬─▶ Accumulate: count(*) by group and value ─┬─▶ Accumulate: sums over the values (entropy)
      │                                            └─▶ Regroup: values and counts (histogram)
      └─▶ Tally: each value once ────────────────────▶ Regroup: values in order (list(DISTINCT x …))

A change reads the count of a value, and for an entropy nothing else; a histogram or a list is as
long as what it is read from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import sqlglot

from tidewheel.engine.operators.accumulate import Accumulate
from tidewheel.engine.operators.regroup import Regroup
from tidewheel.engine.operators.running_sums import Aggregate
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Schema
from tidewheel.planner import logical as L
from tidewheel.planner.aggregate_parts import AggregatePart
from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.lower_view import Stream, ViewLowering, extended
from tidewheel.planner.text import OWN, column, identifier, substituted, to_sql, unchanged
from tidewheel.planner.view_kernels import INPUT, group_kernel

_COUNT: Final = "__tw_count"
_SUMS: Final[dict[str, tuple[Any, str, pa.DataType]]] = {
    "logs": ("sum", f"CASE WHEN v IS NOT NULL THEN n::DOUBLE * {OWN}log2(n) END", pa.float64()),
    "occurrences": ("sum", "CASE WHEN v IS NOT NULL THEN n END", pa.int64()),
    "values": ("count", "CASE WHEN v IS NOT NULL THEN n END", pa.int64()),
}
"""Of a value v that is there n times: what is added up, and the type of that."""


def counted(low: ViewLowering, stream: Stream, parts: Sequence[AggregatePart]) -> list[Stream]:
    """Functions of the last column of `stream`; the others are its group. Outside loops."""
    schema = stream.arrow
    out = Schema((*schema.names, _COUNT), (*schema.types, pa.int64()))
    counts = [Aggregate("count_star", None, pa.int64())]
    op = Accumulate(schema, list(range(len(schema))), counts, out, name="counts of values")
    placed = low.circuit.add(op, stream.placed)
    low.contents.sums(placed, stream.placed, schema.names)
    columns = (*stream.schema, L.Column(_COUNT, _COUNT, "BIGINT"))
    counted_ = Stream(low.circuit, placed, columns)
    sums = [p for p in parts if p.function in _SUMS]
    found = [_histogram(low, counted_, p.named) for p in parts if p.function not in _SUMS]
    return [*found, _summed(low, counted_, sums)] if sums else found


def _summed(low: ViewLowering, counts: Stream, parts: Sequence[AggregatePart]) -> Stream:
    """Sums over the values of a group."""
    *group, value, count = counts.schema
    of = {"v": column(value.name), "n": column(count.name)}
    exprs = [*unchanged(group)]
    names = [f"__tw_{p.function}" for p in parts]
    for p, name in zip(parts, names, strict=True):
        term = sqlglot.parse_one(_SUMS[p.function][1], dialect=Tidewheel)
        exprs.append(L.Named(L.Column(name, name, ""), substituted(term, of)))
    terms = low.flush(extended(counts, exprs))
    schema, key = terms.arrow, list(range(len(group)))
    aggregates = [
        Aggregate(_SUMS[p.function][0], i, _SUMS[p.function][2])
        for i, p in enumerate(parts, len(group))
    ]
    columns = (*group, *(p.named.column for p in parts))
    types = (*schema.types[: len(group)], *(a.type for a in aggregates))
    out = Schema((c.name for c in columns), types)
    placed = low.circuit.add(Accumulate(schema, key, aggregates, out), terms.placed)
    return Stream(low.circuit, placed, columns)


def _histogram(low: ViewLowering, counts: Stream, named: L.Named) -> Stream:
    *group, value, count = (to_sql(identifier(n)) for n in counts.arrow.names)
    pairs = f"{OWN}list(({value}, {count}::UBIGINT) ORDER BY {value}) FILTER ({value} IS NOT NULL)"
    by = f" GROUP BY {', '.join(group)}" if group else ""
    items = [*group, f"{OWN}map_from_entries({pairs}) AS {to_sql(identifier(named.column.name))}"]
    query = f"SELECT {', '.join(items)} FROM {INPUT}{by}"
    evaluate, out = low.bound(group_kernel, query, counts.arrow)
    key = list(range(len(group)))
    op = Regroup(counts.arrow, key, evaluate, out, key, name="histogram")
    placed = low.circuit.add(op, counts.placed)
    return Stream(low.circuit, placed, (*counts.schema[: len(group)], named.column))


def listed(low: ViewLowering, stream: Stream, parts: Sequence[AggregatePart]) -> list[Stream]:
    """Lists of the different values of the last column of `stream`; the others are its group."""
    schema = stream.arrow
    placed = low.circuit.add(Tally(schema, name="distinct arguments"), stream.placed)
    low.contents.distinct(placed, stream.placed)
    group = [to_sql(identifier(n)) for n in schema.names[:-1]]
    calls = []
    for p in parts:
        call, argument = p.named.expr.copy(), p.argument
        for found in [e for e in call.walk() if e == argument]:
            found.replace(column(schema.names[-1]))
        calls.append(f"{to_sql(call)} AS {to_sql(identifier(p.named.column.name))}")
    by = f" GROUP BY {', '.join(group)}" if group else ""
    query = f"SELECT {', '.join([*group, *calls])} FROM {INPUT}{by}"
    evaluate, out = low.bound(group_kernel, query, schema)
    key = list(range(len(group)))
    placed = low.circuit.add(Regroup(schema, key, evaluate, out, key, name="lists"), placed)
    columns = (*stream.schema[: len(group)], *(p.named.column for p in parts))
    return [Stream(low.circuit, placed, columns)]
