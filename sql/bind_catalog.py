"""The catalog as the binder sees it: which table or view a name means."""

from __future__ import annotations

import re
from functools import cached_property

import sqlglot
from sqlglot import exp

from tidewheel.planner.text import identifier, to_sql

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

    @cached_property
    def _tables(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for r in self._oracle.names.relations:
            if r.kind == "table":
                found.setdefault(r.name.lower(), []).append((r.database, r.schema, r.name))
        return found

    @cached_property
    def _all_views(self) -> dict[str, list[reads.Relation]]:
        found: dict[str, list[reads.Relation]] = {}
        for r in self._oracle.names.relations:
            if r.kind == "view":
                found.setdefault(r.name.lower(), []).append(r)
        return found

    def _views(self, written: Path) -> list[tuple[Path, reads.Relation]]:
        """The views that a name may mean. (To have DuckDB write their queries takes long.)"""
        names = self._oracle.names
        named = (
            ((r.database, r.schema, r.name), r)
            for r in self._all_views.get(written[-1].lower(), ())
            if not (r.temporary and _FRAME.search(names.sql(r)))
        )
        return [(path, r) for path, r in named if _ends(path, written)]

    def table(self, item: exp.Table) -> tuple[str, Path]:
        """The name of a FROM item as SQL, in full where it is certain, and its parts."""
        written = tuple(p.name for p in item.parts)
        found = [p for p in self._tables.get(written[-1].lower(), ()) if _ends(p, written)]
        views = [p for p, _ in self._views(written)]
        if len(found) + len(views) > 1:
            first = self._first([*found, *views], len(written))
            found, views = [p for p in found if p == first], [p for p in views if p == first]
        if len(found) == 1 and not views:
            return ".".join(to_sql(identifier(p)) for p in found[0]), found[0]
        plain = exp.Table(**{k: item.args.get(k) for k in ("this", "db", "catalog")})
        if self._oracle.elsewhere and (found or views):
            raise NotTaken("a name that means something else in the view's schema")
        # A file is named by its path and known by its stem.
        known = written
        if len(written) == 1 and ("." in written[0] or "/" in written[0]):
            known = (written[0].rsplit("/", 1)[-1].split(".", 1)[0],)
        return to_sql(plain), known

    def _first(self, found: list[Path], written: int) -> Path | None:
        """What DuckDB takes of several relations, for a name of `written` parts; None: unknown."""
        names = self._oracle.names
        if written == 1:
            places = [("temp", "main"), *names.path]
            order = [p for place in places for p in found if p[:2] == place]
        else:
            here = [p for p in found if p[0] == names.database]
            order = here or (found if len(found) == 1 else [])
        return order[0] if order else None

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
            statement = sqlglot.parse_one(text, read="duckdb")
        except sqlglot.errors.SqlglotError:
            return None
        if not isinstance(statement, exp.Create) or not isinstance(statement.expression, exp.Query):
            return None
        return relation, to_sql(statement.expression)


def _ends(path: Path, written: Path) -> bool:
    if len(written) == 2:  # database.table is allowed, too
        pairs = {(path[1].lower(), path[2].lower()), (path[0].lower(), path[2].lower())}
        return (written[0].lower(), written[1].lower()) in pairs
    tail = path[-len(written) :]
    return [p.lower() for p in tail] == [w.lower() for w in written]
