"""What operators read of tables when a change asks for it, in place of rows that they keep."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.operators.join import Join
from tidewheel.engine.operators.shared import KEYS, Read
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Delta, KeySpec
from tidewheel.planner.view_statements import as_delta, each_once, grouped, sought_alike
from tidewheel.planner.view_texts import Texts


class TableReads(Texts):
    """Statements over tables as they are by now, or were before the present turn."""

    def __init__(self) -> None:
        super().__init__()
        self.read: Read | None = None
        """Runs a query over tables as they were before the present turn, as the view means it."""
        self.now: Read | None = None
        """Runs a query over tables as the present turn leaves them."""

    def find(self, node: Node, key: Sequence[int], read: Read, keys: Delta) -> Delta | None:
        """What `collect` gives, but with one of some keys in the columns `key`."""
        schema, sought = node.op.schema, keys.schema
        everywhere = KeySpec(sought, range(len(sought)))
        alike = all(map(sought_alike, sought.types))
        if not key or not alike:
            return None
        # (joins ask for no NULLs)
        equal = "=" if everywhere.nulls(keys.cols) is None else "IS NOT DISTINCT FROM"
        names = [f"c{i}" for i in range(len(schema))]
        table = keys.to_arrow(None).rename_columns([f"k{i}" for i in range(len(key))])
        on = " AND ".join(f"t.{names[i]} {equal} k.k{j}" for j, i in enumerate(key))
        # DuckDB would make all rows distinct before it looks for some
        once = isinstance(node.op, Tally)
        given = self._gives[node.inputs[0].node if once else node]
        query = f"SELECT {'DISTINCT ' if once else ''}* FROM ({given}) AS t({', '.join(names)})"
        return as_delta(read(f"{query} SEMI JOIN {KEYS} AS k ON {on}", table), schema)

    def collect(self, node: Node, read: Read) -> Delta:
        """What `node` gives of the rows that `read` finds in its tables."""
        return as_delta(read(self._gives[node]), node.op.schema)

    def _joined(self, node: Node) -> Delta:
        """What `node` gives by now, after maps, of the pairs of a join."""
        if isinstance(node.op, Join):
            return node.op.contents()
        emitted = node.op.step((), [self._joined(node.inputs[0].node)])
        return emitted[0][2] if emitted else Delta.empty(node.op.schema)

    def counts(self, source: Node, read: Read) -> Delta:
        """Each row of `source` once, with how often it is there."""
        given, schema = self._gives[source], source.op.schema
        if KeySpec(schema, range(len(schema))).integer:
            return each_once(read(given), schema)
        return grouped(read, given, schema)
