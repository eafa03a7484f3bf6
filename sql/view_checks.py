"""What CREATE MATERIALIZED VIEW refuses: names that are taken, queries that no view can have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidewheel.engine.kernels.duckdb_types import unnamed
from tidewheel.engine.quoting import key_of, quoted
from tidewheel.sql import errors, foreign_views, introspection, view_text
from tidewheel.sql.reads import Names, Relation
from tidewheel.sql.statements import Statement, Token, tokens, writing_cte
from tidewheel.sql.unstable import pivots_by_data, rowid, unstable_call
from tidewheel.sql.view_rows import RowEpochs

_VARIANT = re.compile(r"\bVARIANT\b(?=$|[,)\[])")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a view comes, and what is there now.

    `target` is its qualified name as SQL; `itself`: its query names the view that it replaces.
    """

    relation: Relation | None
    key: str
    target: str
    replaced: bool
    itself: bool


class Checks(RowEpochs):
    """What is looked at before a view is made."""

    def _check(
        self,
        statement: Statement,
        parsed: view_text.CreateView,
        plain: bool,
        present: Names,
        names: Names,
    ) -> Place | None:
        """Where a view comes; None if its name is taken, and IF NOT EXISTS allows that.

        `present`: the catalog as it is; `names`: the same as the view will see it.
        """
        relation, key, target = self._name(parsed, names)
        self._check_unchanged(parsed, statement, names, key)
        if len(parsed.parts) > 1:
            self.in_use(key, statement, parsed)
        replaced = key in self._maintainer.views
        if relation is not None:
            if parsed.if_not_exists:
                return None
            alike = plain and relation.kind == "view"
            if replaced:
                alike = self._maintainer.views[key].plain == plain
            if not (parsed.replace and alike):
                what = "maintained view" if replaced else relation.kind
                hint = f"DROP {what.upper()} {'.'.join(parsed.parts)} first, or take another name"
                if replaced:
                    hint = "CREATE OR REPLACE MATERIALIZED VIEW" if alike else hint
                raise errors.ProgrammingError(
                    f"{what} {parsed.parts[-1]} exists already",
                    hint=hint,
                    text=statement.script,
                    position=parsed.name_at,
                    length=parsed.name_length,
                )
            if self._maintainer.readers([key]):
                self._refuse_dependents(key, statement, parsed.name_at)
        self._check_query(parsed, statement, names, plain)
        unlike = present.unlike(parsed.query, names)
        if unlike is not None:  # the path names no database, which that of the view will
            raise refusal(
                statement,
                parsed,
                f"a view can't keep what {unlike} means under this search_path",
                "name the schema, too: database.schema.table",
            )
        itself = replaced and key in names.reads(parsed.query, self._keys())
        return Place(relation, key, target, replaced, itself)

    def _check_unchanged(
        self, parsed: view_text.CreateView, statement: Statement, names: Names, key: str
    ) -> None:
        """An error if the view, or one that it reads, is another one to those who come after."""
        with self.as_seen():
            if self._past is None:
                return
            read = names.reads(parsed.query, self._keys())
        changed = self.changed_by_others([key, *read])
        if changed is not None:
            at, length = parsed.name_at, parsed.name_length
            raise foreign_views.changed(changed, statement, at, length)

    def _check_query(
        self, parsed: view_text.CreateView, statement: Statement, names: Names, plain: bool
    ) -> None:
        verb = writing_cte(list(tokens(parsed.query)))
        if verb is not None:
            raise refusal(
                statement,
                parsed,
                f"a view can't {verb.text.upper()}: it is read again and again",
                "run the statement by itself",
                verb,
            )
        pivot = None if plain else pivots_by_data(parsed.query, self.host.connection)
        if pivot is not None:
            raise refusal(
                statement,
                parsed,
                "a maintained view can't PIVOT on values that it finds: its columns are fixed",
                "list the values: PIVOT … ON column IN (value, …)",
                pivot,
            )
        for what in () if plain else introspection.named(parsed.query):
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't read {what}(): it changes while no table does",
                "use a plain view",
            )
        if not plain:
            self._check_stable(parsed, statement, names)
        own = names.temporary(parsed.query, self._keys())
        if own is not None:
            kind, name = own
            made = kind in ("macro", "type")
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't read {name}: only this connection has it",
                f"create the {kind} without TEMP"
                if made
                else f"copy it into a table: CREATE TABLE … AS FROM {name}",
            )

    def _check_stable(
        self, parsed: view_text.CreateView, statement: Statement, names: Names
    ) -> None:
        """What changes while no table does could not be kept right."""
        con = self.host.connection
        call = unstable_call(parsed.query, con)
        if call is not None:
            token, word = call
            named = word in ("query", "query_table")
            why = "what it reads is not seen" if named else "its value changes while no table does"
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't call {word}: {why}",
                "write the query itself"
                if named
                else "use a plain view, or filter by it when you read the view",
                token,
            )
        place = rowid(parsed.query, con)
        if place is not None:
            raise refusal(
                statement,
                parsed,
                "a maintained view can't read rowid: a commit may give the rows others",
                "give the table a key column",
                place,
            )
        unlisted = names.unlisted(parsed.query)
        if unlisted is not None:
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't read {unlisted}: its changes would not be seen",
                "is it in a schema in a schema, or in a hidden database? Use a plain view",
            )
        alike = names.alike(parsed.query)
        if alike:
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't read {min(alike)}: {_ALIKE}",
                "give one of them another name",
            )
        own = names.catalog(parsed.query)
        for view, query in names.views(parsed.query).items():
            through = unstable_call(query, con)
            inner = through[1] if through is not None else names.catalog(query)
            if inner is None and rowid(query, con) is not None:
                inner = "rowid"
            own = own or (f"{view.name}: it reads {inner}" if inner is not None else None)
        if own is not None:
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't read {own}, which changes while no table does",
                "use a plain view",
            )

    def _name(self, parsed: view_text.CreateView, names: Names) -> tuple[Relation | None, str, str]:
        """What has the name now, the key, and the qualified name as SQL."""
        relation = names.made(parsed.parts)
        if relation is not None:
            return relation, relation.key, relation.quoted
        database, schema = names.target(parsed.parts)
        name = parsed.parts[-1]
        target = ".".join(map(quoted, (database, schema, name)))
        return None, key_of(database, schema, name), target


def check_columns(
    statement: Statement, parsed: view_text.CreateView, names: Sequence[str]
) -> list[str]:
    """What a view calls the columns of its query, which has `names` for them."""
    columns = list(names)
    if parsed.columns:
        if len(parsed.columns) > len(columns):
            raise errors.ProgrammingError(
                f"the list names {len(parsed.columns)} columns, the query gives {len(columns)}",
                text=statement.script,
                position=parsed.name_at,
            )
        columns[: len(parsed.columns)] = parsed.columns
    return _distinct(columns)


def check_types(
    statement: Statement, parsed: view_text.CreateView, columns: Sequence[str], types: Sequence[str]
) -> None:
    """An error if a maintained view can't keep one of its columns."""
    for column, kind in zip(columns, types, strict=True):
        if _VARIANT.search(kind):
            raise refusal(
                statement,
                parsed,
                f"a maintained view can't keep {column}, which is a VARIANT",
                "cast it to JSON, VARCHAR, or the type that its values have",
            )
        if odd := unnamed(kind):
            cure = (
                "keep what finalize() makes of it"
                if odd.endswith("STATE")
                else "cast it to VARCHAR"
            )
            does = f"a maintained view can't keep {column}, which is {odd}"
            raise refusal(statement, parsed, does, cure)


def named_query(parsed: view_text.CreateView, names: Sequence[str], columns: Sequence[str]) -> str:
    """A view's query, whose columns are called `names`, with the view's columns."""
    if parsed.columns or list(columns) != list(names):
        return view_text.with_columns(parsed.query, columns)
    return parsed.query


def _distinct(names: Sequence[str]) -> list[str]:
    """What DuckDB calls a view's columns: one whose name is there already gets a number."""
    last: dict[str, int] = {}
    found = []
    for name in names:
        new = name
        while new.lower() in last:
            last[name.lower()] += 1
            new = f"{name}_{last[name.lower()]}"
        last[new.lower()] = 0
        found.append(new)
    return found


def of_itself(statement: Statement, parsed: view_text.CreateView) -> errors.Error:
    name = parsed.parts[-1]
    return errors.ProgrammingError(
        f"a view can't read itself, and the query of {name} reads {name}",
        hint=f"write out what {name} is made of (SELECT sql FROM tidewheel_views() has its query), "
        "or give the new view another name; to be up to date a view needs neither",
        text=statement.script,
        position=parsed.name_at,
        length=parsed.name_length,
    )


def refusal(
    statement: Statement,
    parsed: view_text.CreateView,
    message: str,
    hint: str,
    token: Token | None = None,
) -> errors.Error:
    """The error for a query that no view can have; `token`: what in the query is the cause."""
    return errors.NotSupportedError(
        message,
        hint=hint,
        text=statement.script,
        position=parsed.query_at + (0 if token is None else token.start),
        length=1 if token is None else len(token.text),
    )


_ALIKE = "there are several of that name, but for the case of a letter"
