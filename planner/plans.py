"""What a plan of a maintained view is, and what it may ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tidewheel.engine.arrow import pa
from tidewheel.engine.operators.shared import SharedArrangements
from tidewheel.planner.iterations import Iterations
from tidewheel.planner.meaning import Meaning

if TYPE_CHECKING:
    from tidewheel.engine.operators.circuit import Circuit
    from tidewheel.engine.state.change import Change, Replaced
    from tidewheel.engine.state.rowwise import Row
    from tidewheel.planner.logical import Node
    from tidewheel.planner.maintain import MaintainedView
    from tidewheel.planner.rewrites.measured import Remembered

Deltas = Mapping[str, "Change"]
Path = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a view was made: what the names and the expressions of its query mean."""

    path: Path = ()
    """The schemas in which it looks for names, as (database, schema)."""
    meaning: Meaning = ()


class Queries(Protocol):
    """Runs queries; views that they name are read at the epoch being made."""

    def __call__(self, sql: str) -> pa.Table:
        """The result of a query."""

    def rows(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of a query that is DuckDB's, which is planned but once this way."""

    def row(self, sql: str) -> Sequence[Any]:
        """The only row of a query."""


class Run(Queries, Protocol):
    """The epoch's own transaction: what runs in it sees the changes."""

    epoch: int
    """The number of the last committed epoch."""
    shared: SharedArrangements
    """The arrangements that views share."""
    ahead: bool
    """Is the change not in the tables yet?"""
    remembered: Remembered
    """How many values columns had when a view was last filled."""

    def __call__(self, sql: str, keys: pa.Table | None = None) -> pa.Table:
        """The result of a query; views that it names are read at the epoch being made.

        `keys` is a table for it (see `engine.operators.shared.Read`).
        """

    def rows(self, sql: str, keys: pa.Table | None = None) -> Sequence[Sequence[Any]]:
        """The rows of a query that is DuckDB's, or of a statement that makes a table."""

    def committed(self, sql: str, keys: pa.Table | None = None) -> pa.Table:
        """The result of a query over base tables as they were before the epoch being made."""

    def arrow(self, types: Sequence[str]) -> list[pa.DataType]:
        """How results have columns of these types of DuckDB's."""

    def bind(self, sql: str) -> Node:
        """The logical plan of a view's query."""

    def held(self, key: str) -> int | None:
        """How many rows a table has, where a view that reads it knows."""

    def of(self, view: MaintainedView) -> Run:
        """The same for one view: its query means what it meant where it was made."""

    def filling(self) -> int:
        """The view is being filled; how many writers had ended by now."""

    def there(self) -> AbstractContextManager[None]:
        """Be there for several queries: to go there and back may take longer than one."""


class Plan(Protocol):
    """How one view is kept up to date."""

    worth: float
    """After so many seconds of computing anew the view is to be kept by operators; 0: it is."""
    anew: float
    """Seconds that its query takes by itself; 0: nobody knows."""
    reason: str
    """Empty for an incremental plan, else why the view is recomputed."""

    def looks(self, one: bool) -> bool:
        """Must tables have a change before the view can take it? `one`: of a row that comes."""

    def find(self, columns: tuple[int, ...], values: Row) -> pa.Table | None:
        """The view's rows that have some values, as `rowwise` has them, in some columns.

        None where they have to be looked for.
        """

    @property
    def circuit(self) -> Circuit | None:
        """The operators, for a plan that has some."""

    @property
    def keeper(self) -> object | None:
        """Who keeps the view's part of shared arrangements, if it has one."""

    def held(self, key: str) -> int:
        """Rows of a table or view that the view reads, as far as it knows; 0 if it does not."""

    @property
    def size(self) -> int:
        """Rows of the view."""

    @property
    def pace(self) -> float:
        """About how many seconds the operators take for a changed row, among many."""

    def compared(self, old: pa.Table, new: pa.Table) -> Change | Replaced:
        """`new` − `old` as a delta that no view reads."""

    def hydrate(self, run: Run, spent: float, rests: int) -> None:
        """Compute the view from scratch, forgetting any earlier state.

        `spent`: what computing it anew has taken so far, in seconds; `rests`: how often its
        operators were given up as they took longer.
        """

    def step(self, changes: Deltas, run: Run, read: bool = True) -> Change | Replaced:
        """The view's delta for the deltas of what it reads; not `read`: by no other view."""

    def rows(self) -> pa.Table:
        """The view's rows after the last step; a view of its schema, cheap to ask for again."""

    def before(self) -> pa.Table:
        """The rows before the last step, until `settle`; then as `rows`."""

    def settle(self) -> None:
        """All views have taken the epoch: nobody asks for `before`."""

    def iterations(self) -> list[Iterations]:
        """What the last step changed in recursive tables; asked once a step."""

    def statistics(self) -> list[dict[str, Any]]:
        """One record per vertex: vertex, kind, detail, rows and bytes held, rows_in, rows_out,
        steps, seconds."""
