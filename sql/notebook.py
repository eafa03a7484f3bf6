"""Rows as an HTML table, for notebooks."""

from __future__ import annotations

from html import escape

import pyarrow as pa

from tidewheel.engine.type_names import sql_name_of

from .convert import to_text
from .types import NUMBER, describe

ROWS = 40
"""How many rows are shown."""


def html(schema: pa.Schema, batches: list[pa.RecordBatch], known_total: bool) -> str:
    """A table of the first rows: names, types, values as SQL writes them.

    `known_total`: `batches` are all that there is, so their rows can be counted.
    """
    table = pa.Table.from_batches(batches, schema)
    shown = to_text(table.slice(0, ROWS))
    columns = describe((f.name, sql_name_of(f)) for f in schema)
    styles = ["text-align: right" if c[1] == NUMBER else "text-align: left" for c in columns]
    head = "".join(
        f'<th style="{style}">{escape(c[0])}<br><small>{escape(c[1])}</small></th>'
        for c, style in zip(columns, styles, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_cell(v, s) for v, s in zip(row, styles, strict=True)) + "</tr>"
        for row in zip(*shown, strict=True)
    )
    rows = table.num_rows
    count = f"{rows:,} row{'' if rows == 1 else 's'}" if known_total else "more rows follow"
    if rows > ROWS:
        count += f" ({ROWS} shown)"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{count}</p>"


def _cell(value: str | None, style: str) -> str:
    text = "<i>NULL</i>" if value is None else escape(value).replace("\n", "<br>")
    return f'<td style="{style}">{text}</td>'
