"""From a statement to a plan that is ready to run, and the cache of such plans."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from ..planner import direct
from ..planner.context import Context, Parameters, Settings
from .statements import Statement, mentions_recursion

if TYPE_CHECKING:
    from ..planner.choice import Choice
    from ..planner.execute import BatchStream, Physical
    from ..planner.logical import Node

_KEPT = 256
_Key = tuple[object, ...]
_Known = TypeVar("_Known")
_values = attrgetter(*(f.name for f in dataclasses.fields(Settings)))


def is_plain(statement: Statement, settings: Settings) -> bool:
    """Does the query reach DuckDB whole, by the look of its text? Such a one needs no plan."""
    return settings.fusion and not mentions_recursion(statement.text)


def logical(statement: Statement, context: Context) -> Node:
    """The logical plan of a query.

    What needs no rewriting is one block, its text as it was written. Recursions become loops; with
    fusion off the binder takes the query apart.
    """
    # Imported here: sqlglot and what is built on it take as long to load as all else together.
    from ..planner import execute
    from . import recursion

    if mentions_recursion(statement.text):
        describe = recursion.Describer(context.connection, context.parameters)
        plan = recursion.plan_statement(statement, describe, rewrite=context.settings.fusion)
        if plan is not None:
            return plan.node
    if not context.settings.fusion:
        from ..planner.rewrites import rewritten
        from ..planner.unions import anywhere
        from .binder import bind

        apart = bind(statement.text, context)
        union = anywhere(rewritten(apart))
        if union is not None:
            return execute.whole(statement.text, f"{union.label} has UNION")
        return apart
    return execute.whole(statement.text)


def run(statement: Statement, context: Context) -> BatchStream:
    """Start a query whose plan need not be kept."""
    if is_plain(statement, context.settings):
        return direct.run(statement.text, context)
    from ..planner import execute

    return execute.run(logical(statement, context), context)


class Plans:
    """The least recently used plans, by text, catalog, settings and the parameters' types."""

    def __init__(self) -> None:
        self._plans: OrderedDict[_Key, Physical] = OrderedDict()
        self._drafts: OrderedDict[_Key, Choice] = OrderedDict()

    def get(self, statement: Statement, version: object, context: Context) -> Physical:
        """The plan of a query, made now if it is not known."""
        key = _key(statement, version, context)
        plan = self._plans.get(key)
        if plan is None:
            from ..planner import execute

            known = self._drafts.pop(key, None)
            plan = execute.physical(logical(statement, context), context.settings, known)
        _keep(self._plans, key, plan)
        return plan

    def draft(self, statement: Statement, version: object, context: Context) -> Choice | None:
        """What is known of a recursive query that DuckDB can run whole, and that has no plan yet.

        To plan its loops takes longer than to run many a small query.
        """
        key = _key(statement, version, context)
        found = self._drafts.get(key)
        if found is None:
            recursive = mentions_recursion(statement.text) and context.settings.fusion
            if key in self._plans or not recursive:
                return None
            from ..planner.choice import Choice
            from . import functions, recursion

            whole = recursion.whole(statement.text)
            if whole is None:
                return None
            query, ends = whole
            found = Choice(query, ends=ends, steady=functions.is_steady(query.sql))
        _keep(self._drafts, key, found)
        return found


def _key(statement: Statement, version: object, context: Context) -> _Key:
    return statement.text, version, _values(context.settings), _types(context.parameters)


def _keep(known: OrderedDict[_Key, _Known], key: _Key, value: _Known) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _KEPT:
        known.popitem(last=False)


def _types(parameters: Parameters) -> tuple[object, ...]:
    if not parameters:
        return ()
    if isinstance(parameters, Mapping):
        return tuple((name, type(value)) for name, value in sorted(parameters.items()))
    return tuple(map(type, parameters))
