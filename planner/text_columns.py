"""Texts of many rows by Arrow: concatenation, COALESCE, lower and upper case; else row by row.

They mean what they mean in `texts`, of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tidewheel.engine.arrow import array_from, array_of, computed, numbers, text_value
from tidewheel.engine.state.columns import Col, is_null, take
from tidewheel.engine.state.delta import Int64s, Schema
from tidewheel.engine.state.rowwise import ByRow
from tidewheel.planner.by_rows import ByRows
from tidewheel.planner.number import NeedsKernel, Number
from tidewheel.planner.texts import Text, Texts

Run = Callable[[Sequence[Col], int], Any]
"""Columns and number of rows → an array of texts, or one text for all."""


class TextColumns:
    """Compiles texts of the columns of `schema`, of which `texts` compiles those of one row."""

    def __init__(
        self, schema: Schema, texts: Texts, number: Callable[[exp.Expr], Number | None]
    ) -> None:
        self._schema = schema
        self._texts = texts
        self._number = number

    def compiled(self, expression: exp.Expr) -> Text | None:
        """A text of columns, and of one row; None where it is none, or needs a kernel."""
        row = self._texts.text(expression)
        if row is None:
            return None
        run = self._run(expression, row)

        def compute(cols: Sequence[Col], n: int) -> Any:
            found = run(cols, n)
            if isinstance(found, pa.Scalar):
                once = array_from([found.as_py()], pa.string())
                return take(once, np.zeros(n, np.int64))
            return found

        return Text(compute, row)

    def text(self, expression: exp.Expr) -> Run | None:
        """A text, maybe one for all rows, as a part of others; None as in `compiled`."""
        row = self._texts.text(expression)
        return None if row is None else self._run(expression, row)

    def _run(self, expression: exp.Expr, row: ByRow) -> Run:
        while isinstance(expression, exp.Paren):
            expression = expression.this
        if isinstance(expression, exp.Column):
            at = self._schema.index(expression.name)
            return lambda cols, n: cols[at]
        if isinstance(expression, exp.Literal):
            value = text_value(expression.this)
            return lambda cols, n: value
        make = _MAKE.get(type(expression))
        found = None if make is None else make(self, expression)
        if found is None:
            values = ByRows(row, expression, self._schema)
            return lambda cols, n: array_from(values(cols, n), pa.string())
        return found

    def length(self, expression: exp.Length) -> Callable[[Sequence[Col], int], Any] | None:
        """How many characters a text has, and where it is NULL."""
        text = self.compiled(expression.this)
        return None if text is None else lambda cols, n: _lengths(text.run(cols, n))

    def _written(self, expression: exp.Expr) -> Run | None:
        """A text, or an integer as one."""
        return self.text(expression) or self._digits(expression)

    def _digits(self, expression: exp.Expr) -> Run | None:
        number = self._number(expression)
        if number is None or not number.integer or not number.bits or number.moment is not None:
            return None

        def compute(cols: Sequence[Col], n: int) -> Any:
            from pyarrow._compute import CastOptions  # (20 ms)

            values, nulls = number.run(cols, n)
            valid = None if nulls is None else ~np.broadcast_to(nulls, n)
            given = array_of(np.broadcast_to(values, n), valid)
            return computed("cast").call([given], CastOptions(pa.string()))

        return compute

    def joined(self, expression: exp.DPipe) -> Run | None:
        parts: list[exp.Expr] = []
        todo: exp.Expr = expression
        while isinstance(todo, exp.DPipe):
            parts.append(todo.expression)
            todo = todo.this
        return self._listed([todo, *reversed(parts)], lambda text: text)

    def concatenated(self, expression: exp.Concat) -> Run | None:
        # (where all are NULL, Arrow's way to pass over them gives no row)
        return self._listed(
            expression.expressions, lambda text: computed("coalesce").call([text, text_value("")])
        )

    def _listed(self, parts: Sequence[exp.Expr], each: Callable[[Any], Any]) -> Run | None:
        found = [self._written(part) for part in parts]
        runs = [run for run in found if run is not None]
        if len(runs) < len(found):
            return None

        def compute(cols: Sequence[Col], n: int) -> Any:
            from pyarrow._compute import JoinOptions  # (20 ms)

            given = [*(each(run(cols, n)) for run in runs), text_value("")]
            try:
                return computed("binary_join_element_wise").call(given, JoinOptions("emit_null"))
            except (pa.ArrowInvalid, pa.ArrowCapacityError):  # more than 2 GiB
                raise NeedsKernel from None

        return compute

    def first_known(self, expression: exp.Coalesce) -> Run | None:
        found = [self.text(part) for part in (expression.this, *expression.expressions)]
        runs = [run for run in found if run is not None]
        if len(runs) < len(found):
            return None
        return lambda cols, n: computed("coalesce").call([run(cols, n) for run in runs])

    def lower(self, expression: exp.Lower) -> Run | None:
        return self._of_ascii(expression.this, "ascii_lower")

    def upper(self, expression: exp.Upper) -> Run | None:
        return self._of_ascii(expression.this, "ascii_upper")

    def _of_ascii(self, expression: exp.Expr, name: str) -> Run | None:
        text = self.compiled(expression)
        if text is None:
            return None
        return lambda cols, n: computed(name).call([_ascii(text.run(cols, n))])


_MAKE: dict[type[exp.Expr], Callable[[TextColumns, Any], Run | None]] = {
    exp.Coalesce: TextColumns.first_known,
    exp.Concat: TextColumns.concatenated,
    exp.DPipe: TextColumns.joined,
    exp.Lower: TextColumns.lower,
    exp.Upper: TextColumns.upper,
}


def _ascii(texts: pa.Array) -> pa.Array:
    _, ends, letters = texts.buffers()
    if letters is not None and len(texts):
        first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
        if (np.frombuffer(letters, np.uint8)[first:last] > 127).any():
            raise NeedsKernel
    return texts


def _lengths(texts: pa.Array) -> tuple[Int64s, Any]:
    """Per text its characters."""
    nulls = is_null(texts)
    found = numbers(computed("utf8_length").call([texts])).astype(np.int64)
    return (found if nulls is None else np.where(nulls, 0, found)), nulls
