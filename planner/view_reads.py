"""What operators read of tables when a change asks for it, in place of rows that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidewheel.engine.operators.circuit import Node
from tidewheel.engine.operators.join import Join
from tidewheel.engine.operators.shared import KEYS, Read
from tidewheel.engine.operators.tally import Tally
from tidewheel.engine.state.delta import Delta, KeySpec
from tidewheel.planner.view_statements import as_delta, each_once, grouped, sought_alike
from tidewheel.planner.view_texts import Texts

if TYPE_CHECKING:
    import pyarrow as pa


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
        if not key or not all(map(sought_alike, keys.schema.types)):
            return None
        return as_delta(read(*self.sought(node, key, keys)), node.op.schema)

    def sought(self, node: Node, key: Sequence[int], keys: Delta) -> tuple[str, pa.Table]:
        """A statement for the rows that have one of some keys, which are the table behind it."""
        everywhere = KeySpec(keys.schema, range(len(keys.schema)))
        # (joins ask for no NULLs)
        equal = "=" if everywhere.nulls(keys.cols) is None else "IS NOT DISTINCT FROM"
        names = [f"c{i}" for i in range(len(node.op.schema))]
        table = keys.to_arrow(None).rename_columns([f"k{i}" for i in range(len(key))])
        on = " AND ".join(f"t.{names[i]} {equal} k.k{j}" for j, i in enumerate(key))
        # DuckDB would make all rows distinct before it looks for some
        once = isinstance(node.op, Tally)
        given = self._gives[node.inputs[0].node if once else node]
        query = f"SELECT {'DISTINCT ' if once else ''}* FROM ({given}) AS t({', '.join(names)})"
        return f"{query} SEMI JOIN {KEYS} AS k ON {on}", table

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
