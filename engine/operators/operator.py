"""What an incremental operator is: deltas in, deltas out, at a time.

An operator is driven one time at a time: `step(counters, deltas)` gets all that arrives at this
time, one delta per input (None where nothing came), and returns what it says about this time and
later ones. Times come in progress order. The epoch is not part of it: closed epochs are folded
together, an operator sees loop counters only (`()` outside loops).

Who drives it: `circuit.Circuit` runs many operators in one go, `vertex.OperatorVertex` puts one on
the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidewheel.engine.state.arrangement import Arrangement, Counters
from tidewheel.engine.state.delta import Delta, Schema

Emission = tuple[int, Counters, Delta]
"""Output port, the counters at which the change happens, the change."""


class Operator:
    """The base of all incremental operators.

    `schema` is that of the output. Subclasses state their law in their docstring: *linear* (the
    operator on a sum of deltas is the sum of the operator on each), *bilinear*, or *keyed* (the
    output for a key is a function of the input rows of that key).
    """

    name: str = ""
    detail: str = ""  # a kernel's SQL
    arity: int = 1
    schema: Schema
    looks: bool = False
    """Does a step read the tables as the epoch leaves them?"""
    settles: bool = False
    """Does it read them at times, but never where all that changes is one row that comes?"""
    rounds: list[tuple[Counters, list[int]]] | None = None
    """Of a loop, or in one: counters, and the row changes there and at the next ones. Appended
    while it is a list."""

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """What changes in the output because of `deltas`, which happen at `counters`."""
        raise NotImplementedError

    def due(self) -> Iterable[Counters]:
        """Times at which `step` must be called though nothing may arrive."""
        return ()

    def end_epoch(self) -> None:
        """All times of this epoch are done."""

    def abort_epoch(self) -> None:
        """The epoch failed; called instead of `end_epoch`. State is rebuilt by the caller."""

    def arrangements(self) -> Sequence[Arrangement]:
        """The state that this operator owns."""
        return ()

    @property
    def state_rows(self) -> int:
        """Rows of state held."""
        return sum(len(a) for a in self.arrangements())

    @property
    def state_bytes(self) -> int:
        """Bytes of state held."""
        return sum(a.nbytes for a in self.arrangements())


def emit(counters: Counters, delta: Delta) -> list[Emission]:
    """The usual result of a step: one delta at the present time, or nothing."""
    return [(0, counters, delta)] if len(delta) else []


class Source(Operator):
    """Where the net change of a base table, or of another view, comes in. Law: identity."""

    def __init__(self, schema: Schema, name: str = "source") -> None:
        self.schema = schema
        self.name = name

    def step(self, counters: Counters, deltas: Sequence[Delta | None]) -> list[Emission]:
        """Passes the delta on."""
        delta = deltas[0]
        return [] if delta is None else emit(counters, delta)
