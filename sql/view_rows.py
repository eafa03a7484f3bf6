"""Changes of few rows, in autocommit mode, that are known before DuckDB has them.

They go through the views first. Which they are `row_insert`, `row_by_key` and `frame_insert` tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.arrow import pa
from tidewheel.sql import hidden, row_rules
from tidewheel.sql.capture import TableInfo
from tidewheel.sql.repeated import Repeated, Row
from tidewheel.sql.view_epochs import Epochs

if TYPE_CHECKING:
    from tidewheel.sql.keyed_forms import Copied, Keyed
    from tidewheel.sql.row_rules import Rules
    from tidewheel.sql.upsert import Inserted
    from tidewheel.sql.write_behind import WriteBehind


class RowEpochs(Epochs):
    """How such changes become epochs."""

    def insert(self, row: Row, plans: Repeated) -> int | None:
        """INSERT of a row in autocommit mode by a plan that is kept; None: run it as written.

        What breaks a constraint is not run again where that would draw a default's `nextval` anew.
        """
        key = self.target_key(row.form.statement)
        if key is None or key in self._maintainer.views:
            return None
        info = self._watched(key)
        if info is not None:
            # Imported here: it takes long to load, and not everybody has views.
            from tidewheel.sql import row_insert

            return row_insert.insert(self, key, info, row, plans)
        try:
            return int(plans.run(row, returning=False).fetchall()[0][0])
        except duckdb.Error as refused:
            if row.refuses(refused):
                raise
            return None

    def change_row(self, asked: Keyed) -> int | None:
        """UPDATE or DELETE of a row by its key in autocommit mode; None: run it as written."""
        key = self.target_key(asked.form.statement)
        info = self._watched(key)
        if key is None or info is None or info.layout is None or not info.key:
            return None
        # Imported here: it takes long to load, and not everybody has views.
        from tidewheel.sql import row_by_key

        return row_by_key.change(self, key, info, asked)

    def upsert_rows(self, asked: Inserted) -> int | None:
        """INSERT of several rows, or ON CONFLICT, in autocommit mode; None: run it as written."""
        key = self.target_key(asked.form.statement)
        info = self._watched(key)
        if key is None or info is None or info.layout is None:
            return None
        # Imported here: it takes long to load, and not everybody has views.
        from tidewheel.sql import row_upsert

        return row_upsert.change(self, key, info, asked)

    def insert_rows(self, asked: Copied, rows: pa.Table, again: bool = True) -> int | None:
        """INSERT of an Arrow table's rows in autocommit mode; None: run it as written.

        `again`: the statement can be run, too.
        """
        text = asked.statement.text

        def once() -> object:
            return hidden.execute(self.host.connection, text, None)

        return self._rows_into(self.target_key(asked.statement), rows, once if again else None)

    def append_rows(self, parts: Sequence[str], rows: pa.Table) -> int | None:
        """Rows into the table of a name, column by column by their names; None: nothing is done."""
        return self._rows_into(self.key_of(parts), rows, None, named=True)

    def _rows_into(
        self,
        key: str | None,
        rows: pa.Table,
        once: Callable[[], object] | None,
        named: bool = False,
    ) -> int | None:
        info = self._watched(key)
        if key is None or info is None:
            return None
        # Imported here: it takes long to load, and not everybody has views.
        from tidewheel.sql import frame_insert

        return frame_insert.insert(self, key, info, rows, once, named)

    def _watched(self, key: str | None) -> TableInfo | None:
        """The table of a key, before it is changed; None if it is none that views read."""
        if key is None or key in self._maintainer.views:
            return None
        self.recover()
        return self.watched_tables().get(key)

    @property
    def behind(self) -> WriteBehind:
        """What the session's connection gets later."""
        return self.host.behind

    @property
    def state_of_tables(self) -> object:
        """Another one whenever what is known of tables may have changed, but for their rows."""
        return self._tables[0], self.host.catalog.settings_version

    def rules(self, key: str, info: TableInfo) -> Rules | None:
        """What DuckDB asks of a row of a watched table; None where only DuckDB can tell."""
        state, known = self._rules
        if state != self.state_of_tables:
            known = {}
            self._rules = self.state_of_tables, known
        if key not in known:
            known[key] = row_rules.rules(self.host.connection, key, info, self.database.private)
        return known[key]
