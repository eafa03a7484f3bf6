"""From a statement to a plan that is ready to run, and the cache of such plans."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping
from operator import attrgetter

from ..planner import execute
from ..planner.context import Context, Parameters, Settings
from ..planner.execute import Physical
from ..planner.logical import Node
from . import recursion
from .statements import Statement

_KEPT = 256
_values = attrgetter(*(f.name for f in dataclasses.fields(Settings)))


def logical(statement: Statement, context: Context) -> Node:
    """The logical plan of a query.

    What needs no rewriting is one block, its text as it was written. Recursions become loops; with
    fusion off the binder takes the query apart.
    """
    if recursion.mentions(statement.text):
        describe = recursion.describer(context.connection, context.parameters)
        plan = recursion.plan_statement(statement, describe)
        if plan is not None:
            return plan.node
    if not context.settings.fusion:
        # Imported here: sqlglot takes as long to load as all else together.
        from .binder import bind

        return bind(statement.text, context)
    return execute.whole(statement.text)


class Plans:
    """The least recently used plans, by text, catalog, settings and the parameters' types."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[object, ...], Physical] = OrderedDict()

    def get(self, statement: Statement, version: object, context: Context) -> Physical:
        """The plan of a query, made now if it is not known."""
        key = (statement.text, version, _values(context.settings), _types(context.parameters))
        plan = self._plans.get(key)
        if plan is None:
            plan = execute.physical(logical(statement, context), context.settings)
            self._plans[key] = plan
            if len(self._plans) > _KEPT:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan


def _types(parameters: Parameters) -> tuple[object, ...]:
    if not parameters:
        return ()
    if isinstance(parameters, Mapping):
        return tuple((name, type(value)) for name, value in sorted(parameters.items()))
    return tuple(map(type, parameters))
