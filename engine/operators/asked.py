"""Groups whose output the tables themselves give, as it depends on the order of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidewheel.engine.operators.operator import Emission, Operator, emit
from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.delta import Delta, Schema, concat, consolidate, groups
from tidewheel.engine.state.order import argsort, begins

Ask = Callable[[Delta | None], Delta]
"""Keys, each once → the output of these groups; None → that of all."""


class Asked(Operator):
    """A function of a group's rows and of their order in a table. Law: keyed.

    A collection has no order, so rows are not kept: the input is the keys of all rows that a change
    touched, those included that it took away and put elsewhere (they must not cancel out before),
    and `ask` reads these groups in the state of the tables that the present turn leaves. Outside
    loops only.
    """

    looks = True

    def __init__(self, keys: Schema, ask: Ask, schema: Schema, name: str = "ask") -> None:
        self.schema = schema
        self.name = name
        self.output = Arrangement(schema, range(len(keys)), 0, name=f"{name} output")
        self._ask = ask
        self._filled = False

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """New output − output so far, of all touched groups."""
        delta = deltas[0]
        if not self._filled:
            self._filled = True
            change = consolidate(self._ask(None))
        elif delta is None or not len(delta):
            return []
        else:
            change = asked_anew(delta, self._ask, self.output)
        self.output.insert(change, counters)
        return emit(counters, change)

    def due(self) -> Iterable[Counters]:
        """The first rows come without a change."""
        return () if self._filled else [()]

    def arrangements(self) -> Sequence[Arrangement]:
        """The output by key."""
        return (self.output,)


def asked_anew(delta: Delta, ask: Ask, output: Arrangement) -> Delta:
    """New output − output so far of the groups whose keys a delta has, changes that cancel too."""
    key = output.key
    if not key.indices:
        return consolidate(concat([ask(None), output.contents().negate()]))
    keys = key.keys(delta.cols, len(delta))
    order = argsort(keys)
    starts, order = groups(begins(keys[order]), order, delta.cols, key.kinds, exactly=False)
    once = delta.take(order[starts])
    asked = Delta(once.schema, once.cols, np.ones(len(once), np.int64))
    parts = [ask(asked)]
    found = output.match(asked.cols, key, keys[order[starts]])
    if found is not None:
        parts.append(found[1].delta().negate())
    return consolidate(concat(parts))
