"""The catalog as the binder sees it: which table or view a name means."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp

from tidewheel.planner.dialect import Tidewheel
from tidewheel.planner.text import to_sql

from . import reads
from .bind_scope import NotTaken
from .bind_types import Oracle
from .statements import mentions_recursion
from .view_text import bare_lambdas

Path = tuple[str, ...]
_FRAME = re.compile(r"python_.*_scan\(", re.IGNORECASE | re.DOTALL)
"""In a registered frame's query, which stands for a Python object and can't be bound again."""


class Catalog:
    """Tables and views of the session's connection, read once per statement."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def table(self, item: exp.Table) -> tuple[str, Path, reads.Relation | None]:
        """The name of a FROM item as SQL, in full where it is a table's, its parts, and what it is
        in the catalog."""
        written = tuple(p.name for p in item.parts)
        names = self._oracle.names
        found = names.find(written)
        if found is not None and found.kind == "table":
            return found.quoted, (found.database, found.schema, found.name), found
        there = names.has(written[-1]) if found is None else not found.temporary
        if self._oracle.elsewhere and there:
            raise NotTaken("a name that means something else in the view's schema")
        plain = exp.Table(**{k: item.args.get(k) for k in ("this", "db", "catalog")})
        # A file is named by its path and known by its stem.
        known = written
        if len(written) == 1 and ("." in written[0] or "/" in written[0]):
            known = (written[0].rsplit("/", 1)[-1].split(".", 1)[0],)
        return to_sql(plain), known, found

    def view(self, path: Path) -> tuple[reads.Relation, str] | None:
        """A view that `path` can only mean, and its query."""
        relation = self._oracle.names.find(path)
        if relation is None or relation.kind != "view":
            return None
        if relation.temporary and _FRAME.search(self._oracle.names.sql(relation)):
            return None
        if mentions_recursion(self._oracle.names.sql(relation)):
            return relation, reads.body(self._oracle.names.sql(relation))
        try:
            text = bare_lambdas(self._oracle.names.sql(relation))
            statement = sqlglot.parse_one(text, read=Tidewheel)
        except sqlglot.errors.SqlglotError:
            return None
        if not isinstance(statement, exp.Create) or not isinstance(statement.expression, exp.Query):
            return None
        query = statement.expression
        if self._oracle.names.maintained(relation):  # what is handed on has none in our rows
            for item in list(query.find_all(exp.Collate)):
                item.replace(item.this)
        return relation, to_sql(query)
