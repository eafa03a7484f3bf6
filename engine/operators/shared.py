"""Arrangements of base tables and views that several circuits need: one copy, whoever reads it.

Every circuit gets the same change of a table in an epoch, and each has its own `Arrange` operator.
The first of them that runs in an epoch writes the change into the shared arrangement; for the
others it is there already, as an arrangement holds the present delta before anybody reads it. A
view that comes later finds the arrangement filled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from tidewheel.engine.state.arrangement import Arrangement
    from tidewheel.engine.state.delta import Delta


KEYS: Final = "__tw_keys"


class Read(Protocol):
    """Runs a query, in which `KEYS` is a table of `keys` if there are any."""

    def __call__(self, sql: str, keys: pa.Table | None = None) -> pa.Table: ...


TIMES: Final = 32
MANY: Final = 64  # keys; who changes so many at once will do so again, and is soon better served
ROW: Final = 5e-8  # seconds to read a row and keep it, at least
FEWER: Final = 8  # so many times the rows there must be, or it is quicker to read them all


class Reads(Protocol):
    """Who knows how tables are read."""

    read: Read | None
    """Runs a query over tables as they were before the present turn."""


class Later:
    """The rows of an arrangement that waits: `collect` reads them when somebody asks.

    Much fewer keys than `rows` are looked for by `find`, which goes through the tables: until that
    took about as long as to read and sort all rows (`row` seconds each), as nobody knows whether
    they will be asked for again. What is asked while the view is filled does not count. Some have
    no such `looks`.
    """

    def __init__(
        self,
        registry: SharedArrangements,
        reads: Reads,
        collect: Callable[[Read], Delta],
        find: Callable[[Read, Delta], Delta | None],
        rows: float,
        looks: bool = True,
        row: float | None = None,
    ) -> None:
        self._registry = registry
        self._reads = reads
        self._collect = collect
        self._find = find
        self._begun = registry.turn
        self._rows = rows
        self._left = TIMES if looks else 0
        self._seconds = rows * (ROW if row is None else row)

    @property
    def nbytes(self) -> int:
        """Bytes that are held for them."""
        return 0

    @property
    def turn(self) -> int:
        """The present turn."""
        return self._registry.turn

    @property
    def refused(self) -> bool:
        """Does it take back a change that the tables have refused?"""
        return self._registry.refused

    def read(self) -> Delta:
        """The rows that were there before the present turn."""
        assert self._reads.read is not None
        return self._collect(self._reads.read)

    def worth(self, keys: int) -> bool:
        """Should so many keys be looked for, or all rows be read?"""
        return self._left > 0 and self._seconds > 0 and keys * FEWER <= self._rows

    def find(self, keys: Delta) -> Delta | None:
        """Those of them that have one of some keys, more perhaps; None if all should be read."""
        if not self.worth(len(keys)):
            return None
        assert self._reads.read is not None
        started = perf_counter()
        found = self._find(self._reads.read, keys)
        if self.turn != self._begun:
            self._left -= 1 if len(keys) <= MANY else (TIMES + 1) // 2
            self._seconds -= perf_counter() - started
        return found


@dataclass(eq=False, slots=True)
class Shared:
    """One arrangement, who needs it, and in which turn it was written last."""

    arrangement: Arrangement
    registry: SharedArrangements
    users: set[object] = field(default_factory=set)
    written: int = -1

    def claim(self) -> bool:
        """Is it the caller who writes the present change? True once per turn."""
        if self.is_written:
            return False
        self.written = self.registry.turn
        return True

    @property
    def is_written(self) -> bool:
        """Has somebody claimed the present change?"""
        return self.written == self.registry.turn


class SharedArrangements:
    """The shared arrangements of one database. A *turn* is an epoch, or the filling of a view."""

    def __init__(self) -> None:
        self.turn = 0
        self.refused = False
        """Does the present turn take back a change that the tables have refused?"""
        self.read: Read | None = None
        """Runs a query over tables as they were before the present epoch."""
        self._found: dict[Hashable, Shared] = {}

    def begin(self, read: Read, refused: bool = False) -> None:
        """A turn begins; until the next one tables are read by `read`."""
        self.turn += 1
        self.read, self.refused = read, refused

    def keep(self, live: Collection[object]) -> None:
        """Let go of what no user in `live` needs: nobody writes there any more."""
        for key, shared in list(self._found.items()):
            shared.users.intersection_update(live)
            if not shared.users:
                del self._found[key]

    def get(self, key: Hashable, user: object, make: Callable[[], Arrangement]) -> Shared:
        """The arrangement of `key` for a user that is being filled; a new one it fills itself."""
        shared = self._found.get(key)
        if shared is None:
            shared = self._found[key] = Shared(make(), self)
        elif user not in shared.users:
            shared.written = self.turn  # all that the user will bring is there
            shared.arrangement.settle()
        shared.users.add(user)
        return shared

    def __len__(self) -> int:
        return len(self._found)
