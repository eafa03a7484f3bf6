"""Rows of which most are there many times: added up by their hash, before they are sorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidewheel.engine.arrow import pa
from tidewheel.engine.state.delta import Delta

if TYPE_CHECKING:
    from tidewheel.engine.state.run import Rows

_WEIGHT: Final = "weight"


def added_up(rows: Rows) -> Rows | None:
    """Each row once, in any order, with what its copies weigh; None where Arrow can't group them.

    Of no loop, and with weights of one part. Rows that differ in a bit stay apart.
    """
    layout = rows.layout
    names = [str(i) for i in range(len(layout.schema))]
    table = Delta(layout.schema, rows.cols, rows.weights).to_arrow(_WEIGHT)
    try:
        found = _grouped(table.rename_columns([*names, _WEIGHT]), names)
    except pa.ArrowNotImplementedError:
        return None
    return layout.rows(Delta.from_arrow(found, None, layout.schema))


def _grouped(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """`Table.group_by`, which loads pandas if that is there: 0.2 s."""
    from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

    options = AggregateNodeOptions([(_WEIGHT, "hash_sum", None, _WEIGHT)], keys=names)
    steps = (
        Declaration("table_source", TableSourceNodeOptions(table)),
        Declaration("aggregate", options),
    )
    # (threads would group parts, and then these)
    found = Declaration.from_sequence(steps).to_table(use_threads=False)
    return found.select([*names, _WEIGHT])
