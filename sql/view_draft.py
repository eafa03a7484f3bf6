"""The operators of a view for EXPLAIN: of one that is there, or of one that could be made."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.operators.shared import SharedArrangements
from tidewheel.sql import errors, hidden, view_text
from tidewheel.sql.maintenance import Maintenance
from tidewheel.sql.reads import Names
from tidewheel.sql.statements import Statement, mentions_recursion
from tidewheel.sql.view_checks import check_columns, check_types, named_query, of_itself
from tidewheel.sql.view_create import Creation
from tidewheel.sql.view_registry import row_name

if TYPE_CHECKING:
    from tidewheel.engine.operators.circuit import Circuit
    from tidewheel.planner.meaning import Meaning

_EXPLAIN = "EXPLAIN "


class Drafts(Creation):
    """How views are kept, or would be. Hold `database.reading`."""

    def circuit(self, key: str) -> tuple[Circuit | None, str]:
        """The operators that keep a view; None, and why, for one that is recomputed.

        A view that nobody has read yet is filled; not in a transaction, which may see rows that
        nobody else does, nor while another connection is writing: then the operators are empty.
        """
        view = self._maintainer.views[key]
        if not view.hot and (self.host.in_transaction or not self._heat(key)):
            self._provide(view.reads)
            return self._drafted(view.sql, Maintenance(self, view), view.home.meaning)
        assert view.plan is not None
        return view.plan.circuit, view.plan.reason

    def draft(self, statement: Statement) -> tuple[str, tuple[Circuit | None, str] | None]:
        """The name of the view that a CREATE MATERIALIZED VIEW would make, and its `circuit`.

        Nothing is made, and no operator gets a row. None: the name is taken, which IF NOT EXISTS
        allows.
        """
        parsed = view_text.parse_create(statement)
        name = ".".join(parsed.parts)
        home, present = self.home(), self._present()
        names = present.at(home.path)
        found = self._check(statement, parsed, False, present, names)
        if found is None:
            return name, None
        if found.itself:
            raise of_itself(statement, parsed)
        if found.relation is None:  # is there such a schema?
            self._do(f"{_EXPLAIN}CREATE VIEW {found.target} AS SELECT 1")
        try:
            self._provide(names.reads(parsed.query, self._keys()))
            labels, types = self._described(parsed.query, names)
            columns = check_columns(statement, parsed, labels)
            check_types(statement, parsed, columns, types)
            sql = named_query(parsed, labels, columns)
            return name, self._drafted(sql, Maintenance(self), home.meaning)
        except errors.Error as error:
            error.move(parsed.query, statement.script, parsed.query_at)
            raise
        finally:
            self.forget_bound()

    def _provide(self, reads: Collection[str]) -> None:
        """Let DuckDB find the views among what a query reads."""
        for key in sorted(self._keys().intersection(reads), key=self._order):
            self._register(key, self._rows(key))

    def _drafted(self, sql: str, run: Maintenance, meaning: Meaning) -> tuple[Circuit | None, str]:
        # Imported here: operators and sqlglot take long to load.
        from ..planner.draft import drafted

        run.shared = SharedArrangements()  # what is arranged here nobody else may find
        return drafted(sql, run, row_name(""), meaning)

    def _described(self, sql: str, names: Names) -> tuple[list[str], list[str]]:
        """The names and types of a query's columns."""
        try:
            bound = self.host.bind(sql, names)
        except (errors.Error, duckdb.Error):
            self._run_into(sql)
            raise
        self._bound = sql, bound
        if bound.schema:
            return [c.label for c in bound.schema], [c.type for c in bound.schema]
        # it is kept whole, and only DuckDB knows its columns
        pairs = hidden.describe(self.host.connection, sql, None)
        return [name for name, _ in pairs], [kind for _, kind in pairs]

    def _run_into(self, sql: str) -> None:
        """The error of a query that can't be planned, as DuckDB tells it of the query itself."""
        if mentions_recursion(sql):
            self.host.table(sql)
            return
        try:
            self.host.rows(_EXPLAIN + sql)
        except errors.Error as error:
            error.move(_EXPLAIN + sql, sql, -len(_EXPLAIN))
            raise
