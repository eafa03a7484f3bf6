"""How far a recursion may go: iterations, rows, bytes, time; and what to say when it went too
far.
"""

from __future__ import annotations

import os
import threading
import time as clock
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal

from tidewheel.engine.interruption import stop_if_set


class RecursionLimitError(Exception):
    """A recursion reached one of its bounds; the message says which, where and probably why.

    `table`: the name of the recursion's first table.
    """

    def __init__(self, message: str, table: str) -> None:
        super().__init__(message)
        self.table = table


DEFAULT_ITERATIONS = 100_000
DEFAULT_ROWS = 100_000_000


@dataclass(frozen=True)
class Budget:
    """The bounds of every recursion of one statement. None: no bound. `deadline` in monotonic s."""

    iterations: int | None = None
    rows: int | None = None
    bytes: int | None = None
    deadline: float | None = None
    on_limit: Literal["error", "return"] = "error"
    interrupted: threading.Event | None = None
    watch: Callable[[str, tuple[int, ...], int], None] | None = None  # (table, counters, new rows)

    def filled(self, iterations: int = DEFAULT_ITERATIONS) -> Budget:
        """The same with bounds for what it leaves open."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return replace(
            self,
            iterations=self.iterations or iterations,
            rows=self.rows or DEFAULT_ROWS,
            bytes=self.bytes or memory // 4,
        )

    def late(self) -> bool:
        """Is the deadline over?"""
        return self.deadline is not None and clock.monotonic() > self.deadline

    def stop_if_asked(self) -> None:
        """Raise if the statement was interrupted."""
        stop_if_set(self.interrupted)


BOUNDS: ContextVar[Budget] = ContextVar("bounds", default=Budget())  # noqa: B039  frozen
"""What bounds the loops of maintained views while a statement changes what they read."""


def compared(bound: str) -> int:
    """How many rows may be compared to tell why a loop that passed `bound` does not end."""
    return 20_000 if bound == "statement_timeout" else 1_000_000  # (then the time is over)


@dataclass
class Meter:
    """What one run of a loop used up."""

    budget: Budget
    name: str
    kind: str
    rows: int = 0
    bytes: int = 0
    iteration: int = 0
    deltas: deque[int] = field(default_factory=lambda: deque(maxlen=10))
    reports: bool = True  # to the budget's `watch`
    asked: Budget | None = None
    """What `budget` was filled from: whose run this is."""

    @property
    def table(self) -> str:
        """The first of the tables that `name` quotes."""
        return self.name.split('"')[1] if '"' in self.name else self.name

    def spend(self, iteration: int, rows: int, size: int) -> str | None:
        """Count a step's new rows; the name of the bound that they pass, or None.

        Raises Interrupted.
        """
        budget = self.budget
        late = budget.late()
        if not late or rows == 0:  # a statement that is late was asked to stop for that
            budget.stop_if_asked()
        self.iteration = iteration
        self.rows += rows
        self.bytes += size
        self.deltas.append(rows)
        if budget.watch is not None and self.reports:
            budget.watch(self.table, (iteration,), rows)
        if rows == 0:
            return None
        if budget.iterations is not None and iteration > budget.iterations:
            return f"max_iterations = {budget.iterations:,}"
        if budget.rows is not None and self.rows > budget.rows:
            return f"max_recursive_rows = {budget.rows:,}"
        if budget.bytes is not None and self.bytes > budget.bytes:
            return f"max_recursive_bytes = {budget.bytes:,}"
        return "statement_timeout" if late else None

    def spend_all(self, iteration: int, rows: Sequence[int], width: int) -> str | None:
        """Count several steps, the last of which is `iteration`; see `spend`."""
        for earlier in rows[:-1]:
            self.deltas.append(earlier)
        before = sum(rows[:-1])
        self.rows += before
        self.bytes += before * width
        if self.budget.watch is not None and self.reports:
            for step, earlier in enumerate(rows[:-1], iteration - len(rows) + 1):
                self.budget.watch(self.table, (step,), earlier)
        return self.spend(iteration, rows[-1], rows[-1] * width)

    def error(self, bound: str, repeats: bool = False) -> RecursionLimitError:
        """The error for a bound that was passed. `repeats`: the last step gave no row that is
        new.
        """
        sizes = ", ".join(f"{d:,}" for d in self.deltas)
        name = bound.partition(" ")[0]
        return RecursionLimitError(
            f"recursive table {self.name} does not end within {bound}: it is at iteration "
            f"{self.iteration:,} with {self.rows:,} rows; the last steps added {sizes} rows. "
            f"{self._guess(repeats)} If it is meant to go on, SET {name} to more.",
            self.table,
        )

    def endless(self, since: int, alike: Sequence[str] = ()) -> RecursionLimitError:
        """The error for a loop that is where it was at iteration `since`, by columns `alike`."""
        if self.kind in ("mutual", "using_key"):
            return RecursionLimitError(
                f"recursive table {self.name} never ends: at iteration {self.iteration:,} its "
                f"tables are what they were at iteration {since:,}, so some rows come and go for "
                "ever. A row must not depend on its own absence: NOT EXISTS, EXCEPT or an "
                "aggregate takes it away again.",
                self.table,
            )
        if alike:
            names = ", ".join(f'"{name}"' for name in alike)
            return RecursionLimitError(
                f"recursive table {self.name} never ends: the rows of iteration {self.iteration:,} "
                f"have the {names} of those of iteration {since:,}, and nothing else decides what "
                "follows. The data have a cycle: add a CYCLE clause, or a condition that ends it.",
                self.table,
            )
        return RecursionLimitError(
            f"recursive table {self.name} never ends: iteration {self.iteration:,} gave the rows "
            f"of iteration {since:,} again, for the data have a cycle, which UNION ALL follows for "
            "ever. Write UNION, or add a CYCLE clause.",
            self.table,
        )

    def _guess(self, repeats: bool) -> str:
        deltas = list(self.deltas)
        growing = len(deltas) > 1 and deltas[-1] > deltas[0]
        if self.kind == "union_all" and repeats:
            return (
                "The last step gave only rows that were there before: the data probably have a "
                "cycle, which UNION ALL follows for ever; write UNION, or add a CYCLE clause."
            )
        if self.kind == "union_all":
            how = "more and more rows" if growing else "new rows"
            return (
                f"Each step adds {how}: a condition that ends the recursion is missing, or the "
                "data have a cycle."
            )
        if self.kind == "mutual":
            return "Its tables keep changing: some rows may come and go for ever."
        return (
            "Each step makes values that were not there before (a counter, a sum, a longer text): "
            "a condition that bounds them is missing."
        )
