"""Running a part of a view's query where the view was made: in its schemas, under its settings.

The session goes there and comes back; it stays as it was for the user, also after an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.engine.kernels.duckdb import arrow_types
from tidewheel.engine.quoting import quoted
from tidewheel.planner import meaning
from tidewheel.planner.maintain import MaintainedView
from tidewheel.planner.meaning import Meaning
from tidewheel.planner.plans import Home
from tidewheel.sql import errors
from tidewheel.sql.reads import Names, Relation
from tidewheel.sql.search_path import is_said, place
from tidewheel.sql.view_registry import Registry


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a session is: `search_path` is the setting behind the path."""

    home: Home
    search_path: str


class Homes(Registry):
    """A session's place, and how it changes."""

    _own_place: _Place | None = None
    """The session's own place, while it is elsewhere."""
    _depth = 0
    """How many blocks of `at` are open."""
    _hiding: tuple[int, bool, set[str]] | None = None
    """Has this connection something temporary, and the views that it does not hide things from."""
    _found_path: tuple[int, tuple[tuple[str, str], ...], str] | None = None
    _found_meaning: tuple[int, Meaning] | None = None
    _arrow: tuple[tuple[int, int, Meaning | None] | None, dict[str, pa.DataType]] = None, {}
    """How results had columns of some types when catalog and settings were these."""
    _answers: tuple[int, dict[str, pa.Schema]] = -1, {}
    """DuckDB's answers, as of this version of the catalog, to who asks for all of a view."""

    @contextmanager
    def at(self, home: Home) -> Iterator[None]:
        """Let names and expressions mean what they mean to a view that was made at `home`."""
        here = self._place()
        changes = meaning.assignments(here.home.meaning, home.meaning)
        path = _path_setting(home.path) if home.path != here.home.path else None
        if not (changes or path):
            yield
            return
        # The settings of a whole database: nobody else must bind a query in the meantime.
        shared = changes.keys() & meaning.DATABASE_WIDE.keys()
        with self.database.reading if shared else nullcontext():
            if self._own_place is None:
                self._own_place = here
            self._depth += 1
            try:
                self._go(_Place(home, path or here.search_path), changes, path is not None)
                yield
            except BaseException:
                self._depth -= 1
                with suppress(duckdb.Error):  # a transaction that failed takes no statement
                    self._return(here, changes, path is not None)
                raise
            else:
                self._depth -= 1
                self._return(here, changes, path is not None)

    @contextmanager
    def there(self, view: MaintainedView) -> Iterator[None]:
        """Be where a view was made; an error if what it reads can't be seen from here.

        DuckDB takes whatever is temporary before anything else of its name.
        """
        if self._hiding is None or self._hiding[0] != self.host.catalog.version:
            self._hides(self._present())
        assert self._hiding is not None
        with self.at(view.home):
            if self._hiding[1] and view.key not in self._hiding[2]:
                hidden = Names(self.host.connection).temporary(view.sql, self._keys())
                if hidden is not None:
                    kind, name = hidden
                    raise errors.ProgrammingError(
                        f"a temporary {kind} of this connection hides {name}, which the "
                        f"maintained view {view.key.split('.', 1)[1]} reads",
                        hint=f"drop the temporary {kind}, or make it anew under another name",
                    )
                self._hiding[2].add(view.key)
            yield

    def _hides(self, names: Names, *seen: str) -> None:
        """Note if this connection has something temporary, of which views `seen` have nothing."""
        self._hiding = self.host.catalog.version, names.hiding, set(seen)

    def _went_on(
        self, read: Names, version: int, come: Sequence[Relation] = (), gone: Collection[str] = ()
    ) -> None:
        """The catalog that was `read` at a version is another one, but by these relations only.

        They are views, and what belongs to them. So what is known of all else need not be asked
        again, unless somebody else has changed something, too.
        """
        old, new = self.host.catalog.changed()
        if old != version or self.host.in_transaction:
            return
        self._catalog = (new, self.database.catalog_version), read.after(come, gone)
        if self._found_path is not None and self._found_path[0] == old:
            self._found_path = new, *self._found_path[1:]
        if self._hiding is not None and self._hiding[0] == old:
            self._hiding = new, *self._hiding[1:]
        state, types = self._arrow
        if state is not None and state[0] == old:
            self._arrow = (new, *state[1:]), types
        if self._answers[0] == old and not gone:
            self._answers = new, self._answers[1]

    def come_back(self) -> None:
        """Be at the session's own place again, where an error has kept it from that."""
        if self._own_place is not None and self._depth == 0:
            with suppress(duckdb.Error):
                self._return(self._own_place, meaning.DEFAULTS, True)

    def _return(self, place: _Place, changed: Collection[str], moved: bool) -> None:
        settings: Mapping[str, str] = {}
        if changed:
            # RESET first: a setting that the session has not made follows the database's.
            self._found_meaning = None
            self._do(";".join(f"RESET {name}" for name in changed))
            wanted = tuple(pair for pair in place.home.meaning if pair[0] in changed)
            settings = meaning.assignments(self._read_meaning(changed), wanted)
        self._go(place, settings, moved)
        if self._depth == 0:
            self._own_place = None

    def _go(self, place: _Place, settings: Mapping[str, str], moves: bool) -> None:
        statements = [meaning.statement(settings)] if settings else []
        if moves:
            path = place.search_path.replace("'", "''")
            if not is_said(place.search_path):  # what does not name its database follows the last
                statements.append("RESET search_path")
            statements.append(f"SET search_path = '{path}'")
        self._found_path = self._found_meaning = None
        if statements:
            self._do(";".join(statements))
        catalog = self.host.catalog
        self._found_path = catalog.version, place.home.path, place.search_path
        self._found_meaning = catalog.settings_version, place.home.meaning

    def home(self) -> Home:
        """Where the session is now."""
        return self._place().home

    def home_of(self, key: str) -> Home:
        """Where a view of the registry was made; any other means what it means here."""
        known = self._maintainer.views.get(key)
        return self.home() if known is None else known.home

    def _place(self) -> _Place:
        version = self.host.catalog.version
        if self._found_path is None or self._found_path[0] != version:
            self._found_path = version, *place(self.host.connection)
        settings_version = self.host.catalog.settings_version
        if self._found_meaning is None or self._found_meaning[0] != settings_version:
            self._found_meaning = settings_version, self._read_meaning()
        _, path, setting = self._found_path
        return _Place(Home(path, self._found_meaning[1]), setting)

    def known_meaning(self) -> Meaning | None:
        """The settings that give expressions their meaning now, if they were read."""
        found, version = self._found_meaning, self.host.catalog.settings_version
        return found[1] if found is not None and found[0] == version else None

    def arrow(self, types: Sequence[str]) -> list[pa.DataType]:
        """How results have columns of these types of DuckDB's, here and now."""
        catalog = self.host.catalog
        state = catalog.version, catalog.settings_version, self.known_meaning()
        if self._arrow[0] != state:
            self._arrow = state, {}
        known = self._arrow[1]
        asked = [t for t in dict.fromkeys(types) if t not in known]
        if asked:
            known.update(zip(asked, arrow_types(self.host.connection, asked), strict=True))
        return [known[t] for t in types]

    def _read_meaning(self, names: Collection[str] = meaning.DEFAULTS) -> Meaning:
        row = self.host.connection.execute(meaning.query(names)).fetchall()[0]
        return meaning.meaning(row, names)


def own_settings(home: Home) -> str:
    """SQL by which a connection comes to a place, but for what all connections have in common."""
    settings = meaning.DEFAULTS | dict(home.meaning)
    own = {name: value for name, value in settings.items() if name not in meaning.DATABASE_WIDE}
    path = _path_setting(home.path).replace("'", "''")
    return f"{meaning.statement(own)};SET search_path = '{path}'"


def _path_setting(path: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{quoted(d)}.{quoted(s)}" for d, s in path)
