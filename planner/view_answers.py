"""What operators give for all rows of their groups, in one statement, while the rows wait.

For a median, or the least value of each of a million groups, an operator has all rows in order; a
statement reads them once, as they come. Which groups a change will ask for nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tidewheel.engine.operators.asked import Ask
from tidewheel.engine.operators.shared import KEYS, Read
from tidewheel.engine.state.delta import Delta, Schema
from tidewheel.planner import logical as L
from tidewheel.planner.first_rows import END, Taken, of_first_rows
from tidewheel.planner.text import column, identifier, to_sql
from tidewheel.planner.view_kernels import INPUT
from tidewheel.planner.view_statements import as_delta

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from tidewheel.engine.operators.circuit import Node
    from tidewheel.planner.view_reuse import Reusing

MANY: Final = 100_000
"""Rows that take longer to be put in order than a statement over them."""
Answer = Callable[["Reusing", str], Delta]
"""The output for all rows of a query."""
Projected = Callable[[Sequence[L.Named]], str | None]
"""A query with a projection on top; None where there is none."""


def by_kernel(query: str, names: Sequence[str], schema: Schema) -> Answer:
    """What a statement over `INPUT`, which has columns of these names, gives."""

    def answer(run: Reusing, given: str) -> Delta:
        listed = ", ".join(to_sql(identifier(n)) for n in names)
        table = f"({given}) AS {INPUT}({listed})"
        return as_delta(run(re.sub(rf"\b{INPUT}\b", lambda _: table, query)), schema)

    return answer


def of_groups(
    query: str,
    names: Sequence[str],
    key: Sequence[int],
    schema: Schema,
    read: Read,
    given: str,
    keys: Delta | None,
) -> Delta:
    """What a statement over `INPUT` gives of some groups of the rows of `given`; or of all."""
    rows, table = f"({given}) AS {INPUT}", None
    if keys is not None:
        columns = (to_sql(identifier(names[i])) for i in key)
        same = (f"{c} IS NOT DISTINCT FROM __tw_k{j}" for j, c in enumerate(columns))
        rows = f"(FROM {rows} SEMI JOIN {KEYS} ON {' AND '.join(same)}) AS {INPUT}"
        table = keys.to_arrow(None).rename_columns([f"__tw_k{j}" for j in range(len(key))])
    return as_delta(read(re.sub(rf"\b{INPUT}\b", lambda _: rows, query), table), schema)


def by_tables(ask: Ask) -> Answer:
    """What tables give, as it depends on the order of their rows."""
    return lambda run, given: ask(None)


class Together:
    """Groups of the same rows: what several operators want of them is computed by one statement.

    `text` is the query of their source, with a projection on top: the `keys`, and the operators'
    arguments. `rows` is the same with the place of each row, if they are those of one table.
    """

    def __init__(self, keys: Sequence[L.Named], text: Projected, rows: Projected) -> None:
        self.keys = list(keys)
        self.calls: list[str] = []
        """Functions of the rows of a group, which `operators` begin with."""
        self.operators: list[Node] = []
        self._text, self._rows = text, rows
        self._firsts: list[str] = []
        self._ends: list[str] = []
        self._arguments: dict[str, L.Named] = {}

    def argument(self, expression: exp.Expr) -> L.Named:
        """A column that is the argument of an operator."""
        name = f"__tw_arg{len(self._arguments)}"
        named = L.Named(L.Column(name, name, ""), expression.copy())
        return self._arguments.setdefault(to_sql(expression), named)

    def query(self) -> str | None:
        """The groups' columns, and all arguments."""
        return self._text(self._columns())

    def names(self) -> Sequence[str]:
        """What `query` calls its columns."""
        return [named.column.name for named in self._columns()]

    def _columns(self) -> Sequence[L.Named]:
        return [*self.keys, *self._arguments.values()]

    def answer(self, calls: Sequence[str], schema: Schema, operator: Node) -> Answer:
        """The groups, and functions of their rows, for an operator."""
        at = [self._call(call, operator) for call in calls]

        def answer(run: Reusing, given: str) -> Delta:
            table = run.once(self.statement())
            return as_delta(table.select([*range(len(self.keys)), *at]), schema)

        return answer

    def first(
        self,
        chosen: Taken,
        value: str,
        by: str,
        kind: pa.DataType,
        schema: Schema,
        operator: Node,
    ) -> Answer:
        """The groups, and what is taken of the first row, `by` a column of a type."""
        end = self._call(chosen.end(by), operator)
        at = len(self.keys) + len(self._firsts)
        self._firsts.append(chosen.first(value, by, end, kind))
        self._ends.append(chosen.at(by, end))

        def answer(run: Reusing, given: str) -> Delta:
            ends = run.once(self.statement())
            names = [f"{END}{i}" for i in range(ends.num_columns)]
            rows = f"({self._rows(self._columns())})"
            text = of_first_rows(self._firsts, self._group(), KEYS, rows, self._ends)
            table = run.once(text, ends.rename_columns(names))
            return as_delta(table.select([*range(len(self.keys)), at]), schema)

        return answer

    def _call(self, call: str, operator: Node) -> int:
        self.calls.append(call)
        self.operators.append(operator)
        return len(self.keys) + len(self.calls) - 1

    def _group(self) -> list[str]:
        return [to_sql(column(k.column.name)) for k in self.keys]

    def statement(self) -> str:
        """The groups, and all functions of their rows."""
        group = self._group()
        by = f" GROUP BY {', '.join(group)}" if group else ""
        return f"SELECT {', '.join([*group, *self.calls])} FROM ({self.query()}){by}"
