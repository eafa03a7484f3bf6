"""What operators give for all rows of their groups, in one statement, while the rows wait.

For a median, or the least value of each of a million groups, an operator has all rows in order; a
statement reads them once, as they come. Which groups a change will ask for nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.text import column, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT
from tidewheel.planner.view_statements import as_delta
from tidewheel.planner.view_sums import OWN

if TYPE_CHECKING:
    from sqlglot import exp

    from tidewheel.planner.view_reuse import Reusing

MANY: Final = 100_000
"""Rows that take longer to be put in order than a statement over them."""
Answer = Callable[["Reusing", str], Delta]
"""The output for all rows of a query."""


def by_kernel(query: str, names: Sequence[str], schema: Schema) -> Answer:
    """What a statement over `INPUT`, which has columns of these names, gives."""

    def answer(run: Reusing, given: str) -> Delta:
        listed = ", ".join(to_sql(identifier(n)) for n in names)
        table = f"({given}) AS {INPUT}({listed})"
        return as_delta(run(re.sub(rf"\b{INPUT}\b", lambda _: table, query)), schema)

    return answer


def by_tables(ask: Ask) -> Answer:
    """What tables give, as it depends on the order of their rows."""
    return lambda run, given: ask(None)


class Ends:
    """Least and greatest values of the same groups: several operators' outputs by one statement.

    `text` is the query of the operators' source, with a projection on top.
    """

    def __init__(
        self, keys: Sequence[L.Named], text: Callable[[Sequence[L.Named]], str | None]
    ) -> None:
        self._keys = list(keys)
        self._text = text
        self._arguments: list[L.Named] = []
        self._calls: list[str] = []

    def answer(self, function: str, arguments: Sequence[exp.Expr], schema: Schema) -> Answer:
        """The groups and a function of their rows."""
        named = []
        for argument in arguments:
            name = f"__tw_arg{len(self._arguments)}"
            named.append(to_sql(identifier(name)))
            self._arguments.append(L.Named(L.Column(name, name, ""), argument.copy()))
        at = len(self._keys) + len(self._calls)
        self._calls.append(f"{OWN}{function}({', '.join(named)})")

        def answer(run: Reusing, given: str) -> Delta:
            table = run.once(self._statement())
            return as_delta(table.select([*range(len(self._keys)), at]), schema)

        return answer

    def _statement(self) -> str:
        group = [to_sql(column(k.column.name)) for k in self._keys]
        given = self._text([*self._keys, *self._arguments])
        by = f" GROUP BY {', '.join(group)}" if group else ""
        return f"SELECT {', '.join([*group, *self._calls])} FROM ({given}){by}"
