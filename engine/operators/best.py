"""The least or greatest value of each key, also inside loops: shortest paths, labels."""

from __future__ import annotations

from collections.abc import Sequence

from tidewheel.engine.operators.keyed import Keyed
from tidewheel.engine.operators.rank import Order, Ranking
from tidewheel.engine.operators.topk import extreme
from tidewheel.engine.state.arrangement import Arrangement
from tidewheel.engine.state.delta import Delta, Int64s, Schema


class Best(Keyed):
    """Per key (all columns but one) the row with the least, or greatest, value. Law: keyed.

    NULLs lose against any value. The input is arranged by key and place, so no statement is needed.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        value: int,
        descending: bool = False,
        depth: int = 0,
        name: str = "best",
    ) -> None:
        self._ranking = Ranking(schema, Order(value, descending))
        super().__init__(schema, key, schema, key, depth, name)
        names = [schema.names[i] for i in (*key, value)]
        types = [schema.types[i] for i in (*key, value)]
        self._pick = extreme(schema, key, value, Schema(names, types))
        places = {column: i for i, column in enumerate((*key, value))}
        self._back = [places[i] for i in range(len(schema))]

    def _arrange(self, schema: Schema, key: Sequence[int], depth: int) -> Arrangement:
        return Arrangement(schema, key, depth, self._ranking, name=f"{self.name} input")

    def evaluate(self, keys: Int64s, rows: Delta) -> Delta:
        """The first row of each group."""
        if not len(rows):
            return Delta.empty(self.schema)
        return self._pick(rows).select(self._back, self.schema)
