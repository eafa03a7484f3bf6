"""Results as text: table, markdown, csv, json, jsonl. One writer per format, all streaming."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TextIO

from ..sql.cursor import Cursor
from ..sql.types import NUMBER

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def names_of(cursor: Cursor) -> list[str]:
    """The column names; a name that comes again gets a number, so that all differ."""
    seen: set[str] = set()
    names: list[str] = []
    for column in cursor.description or ():
        name, number = column[0], 1
        while name in seen:
            name, number = f"{column[0]}_{number}", number + 1
        seen.add(name)
        names.append(name)
    return names


def explained(cursor: Cursor) -> str | None:
    """What EXPLAIN gave, as it is; None for other rows."""
    if [c[0] for c in cursor.description or ()] != ["explain_key", "explain_value"]:
        return None
    return "".join(f"{row[1].rstrip()}\n" for row in cursor.fetchall())


# -- table -----------------------------------------------------------------------------------------


def table(cursor: Cursor, max_rows: int = 0, width: int = 0) -> str:
    """A box with names and types, then the row count.

    `max_rows` > 0 shows only the first and the last rows, half and half. `width` > 0, in
    characters, is what the box must fit into: columns are cut or left out to that end.
    """
    lines: list[str] = []
    description = cursor.description or []
    types = [_short(str(c[1])) for c in description]
    numeric = [c[1] == NUMBER for c in description]
    head, tail, count = _ends(cursor.text_rows(), max_rows)
    status = f"{cursor.status}\n" if cursor.status else ""
    if status and not count:
        return status
    cells = [[_cell(v) for v in row] for row in (*head, *tail)]
    shown = _fit([str(c[0]) for c in description], types, cells, width)
    widths = [w for _, w in shown]

    def line(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (w + 2) for w in widths) + right + "\n"

    def row(values: Sequence[str], align: Sequence[str]) -> str:
        parts = (_pad(v, w, a) for v, w, a in zip(values, widths, align, strict=True))
        return "│ " + " │ ".join(parts) + " │\n"

    def pick(values: Sequence[str]) -> list[str]:
        return [values[i] if i is not None else "…" for i, _ in shown]

    centred = ["^"] * len(shown)
    align = [">" if i is not None and numeric[i] else "<" for i, _ in shown]
    lines.append(line("┌", "┬", "┐"))
    lines.append(row(pick([_CONTROL.sub(" ", str(c[0])) for c in description]), centred))
    lines.append(row(pick(types), centred))
    if cells:
        lines.append(line("├", "┼", "┤"))
    for i, values in enumerate(cells):
        if tail and i == len(head):
            lines.append(row(["·"] * len(shown), centred))
        lines.append(row(pick(values), align))
    lines.append(line("└", "┴", "┘"))
    present = sum(i is not None for i, _ in shown)
    lines.append(_footer(count, len(cells), len(description), present))
    lines.append(status)
    return "".join(lines)


def _short(name: str) -> str:
    return name.lower() if len(name) <= 24 else name.partition("(")[0].lower()


def _footer(count: int, rows: int, columns: int, shown: int) -> str:
    text = f"{count:,} row{'' if count == 1 else 's'}"
    if rows < count:
        text += f" ({rows:,} shown)"
    if shown < columns:
        text += f", {columns} columns ({shown} shown)"
    return text + "\n"


def _ends(
    rows: Iterator[tuple[str | None, ...]], limit: int
) -> tuple[list[tuple[str | None, ...]], list[tuple[str | None, ...]], int]:
    """The first rows, the last ones if some between them are left out, and the number of all."""
    if limit <= 0:
        head = list(rows)
        return head, [], len(head)
    head = list(islice(rows, limit))
    keep = limit // 2
    tail: list[tuple[str | None, ...]] = []
    count = len(head)
    for row in rows:
        count += 1
        tail.append(row)
        if len(tail) > 1000 + keep:
            del tail[:-keep]
    if count == len(head):
        return head, [], count
    return head[: limit - keep], [*head[limit - keep :], *tail][-keep:] if keep else [], count


def _cell(value: str | None) -> str:
    if value is None:
        return "NULL"
    return _CONTROL.sub(lambda m: _ESCAPES.get(m[0]) or ascii(m[0])[1:-1], value)


def _fit(
    names: list[str], types: list[str], cells: list[list[str]], width: int
) -> list[tuple[int | None, int]]:
    """Which columns are shown, each with its width; None stands for those that are left out."""
    from rich.cells import cell_len

    wanted = []
    for i, name in enumerate(names):
        longest = max((cell_len(row[i]) for row in cells), default=0)
        wanted.append(max(cell_len(name), len(types[i]), longest, 1))
    shown: list[tuple[int | None, int]] = list(enumerate(wanted))
    if not width:
        return shown

    def total() -> int:
        return 1 + sum(w + 3 for _, w in shown)

    # First the widest columns give way, down to 12 characters each …
    while total() > width:
        at = max(range(len(shown)), key=lambda k: shown[k][1])
        column, size = shown[at]
        if size <= 12:
            break
        second = max((w for k, (_, w) in enumerate(shown) if k != at), default=12)
        shown[at] = (column, max(12, second if second < size else size - 1, size - total() + width))
    # … then columns in the middle are left out.
    while total() > width and len(shown) > 2:
        middle = len(shown) // 2
        gap = next((k for k, (column, _) in enumerate(shown) if column is None), None)
        if gap is None:
            shown[middle] = (None, 1)
        else:
            del shown[gap - 1 if gap > len(shown) - 1 - gap else gap + 1]
    # What is still too wide for a narrow terminal is cut further.
    while total() > width and max(w for _, w in shown) > 1:
        at = max(range(len(shown)), key=lambda k: shown[k][1])
        column, size = shown[at]
        shown[at] = (column, size - 1)
    return shown


def _pad(text: str, width: int, align: str) -> str:
    from rich.cells import cell_len, set_cell_size

    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    free = width - size
    left = 0 if align == "<" else free if align == ">" else free // 2
    return " " * left + text + " " * (free - left)


# -- markdown and csv ------------------------------------------------------------------------------


def markdown(cursor: Cursor, out: TextIO) -> None:
    """A GitHub-flavoured table, numbers to the right."""
    description = cursor.description or []

    def row(values: Iterable[str | None]) -> str:
        cells = ("NULL" if v is None else v for v in values)
        return "| " + " | ".join(_MARKDOWN.sub(_markdown_escape, c) for c in cells) + " |\n"

    out.write(row(str(c[0]) for c in description))
    out.write("|" + "|".join(" ---: " if c[1] == NUMBER else " --- " for c in description) + "|\n")
    for values in cursor.text_rows():
        out.write(row(values))


_MARKDOWN = re.compile(r"[|\\]|\r?\n|[<>]")


def _markdown_escape(match: re.Match[str]) -> str:
    return {"<": "&lt;", ">": "&gt;"}.get(match[0], "<br>" if "\n" in match[0] else "\\" + match[0])


_QUOTE = re.compile(r'[",\r\n]|^\s|\s$')


def csv(cursor: Cursor, out: TextIO) -> None:
    """RFC 4180, CRLF line ends; NULL is nothing, the empty string is two quotes."""

    def field(value: str | None) -> str:
        if value is None:
            return ""
        if not value or _QUOTE.search(value):
            return '"' + value.replace('"', '""') + '"'
        return value

    names = [str(c[0]) for c in cursor.description or ()]
    out.write(",".join(map(field, names)) + "\r\n")
    for values in cursor.text_rows():
        # A line with nothing on it would be no record at all.
        line = ",".join(map(field, values))
        out.write((line or '""' if len(values) == 1 and values[0] is not None else line) + "\r\n")


# -- json ------------------------------------------------------------------------------------------


def jsonl(cursor: Cursor, out: TextIO) -> None:
    """One JSON object per line."""
    for line in _objects(cursor):
        out.write(line + "\n")


def json_array(cursor: Cursor, out: TextIO) -> None:
    """One JSON array of objects, an object per line."""
    out.write("[")
    for i, line in enumerate(_objects(cursor)):
        out.write(("," if i else "") + "\n" + line)
    out.write("\n]\n")


def _objects(cursor: Cursor) -> Iterator[str]:
    keys = [_quote(name) + ": " for name in names_of(cursor)]
    raw = [str(c[1]) == "JSON" for c in cursor.description or ()]
    while rows := cursor.fetchmany(10_000):
        for values in rows:
            fields = (
                key + (_embedded(v) if is_json else _json(v))
                for key, v, is_json in zip(keys, values, raw, strict=True)
            )
            yield "{" + ", ".join(fields) + "}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _embedded(value: Any) -> str:
    """A value of type JSON: it is JSON already, but for NaN and the like."""
    if value is None:
        return "null"
    try:
        loaded = json.loads(value, parse_constant=lambda _: None, parse_float=decimal.Decimal)
    except ValueError:
        return _quote(value)
    return _json(loaded)


def _json(value: Any) -> str:
    """Strictly valid JSON: no NaN, no Infinity; dates in ISO 8601; decimals as exact numbers."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    if isinstance(value, decimal.Decimal):
        return format(value, "f") if value.is_finite() else "null"
    if isinstance(value, datetime.date | datetime.time):
        return _quote(value.isoformat())
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, dict):
        pairs = (f"{_key(k)}: {_json(v)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bytes):
        import base64

        return _quote(base64.b64encode(value).decode())
    if isinstance(value, datetime.timedelta):
        return _quote(_duration(value))
    return _quote(str(value))


def _key(key: Any) -> str:
    text = _json(key)
    return text if text.startswith('"') else _quote(text)


def _duration(value: datetime.timedelta) -> str:
    """ISO 8601, e.g. P1DT2H3M4.5S."""
    sign = "-" if value.days < 0 else ""
    value = abs(value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0") if value.microseconds else ""
    return f"{sign}P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"
