"""Answers as text: rendering, sorting, hashing and comparing."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from slt.parser import HASHED, Sort

Rows = list[tuple[str, ...]]

# DuckDB's own tests print doubles in a form of their own; ours hold the shortest round trip form.
TOLERANCE = 1e-9


def type_letters(schema: pa.Schema) -> str:
    """The type string: B boolean, D date, I integer, P timestamp, R real, T text, ? other."""
    return "".join(_letter(f.type) for f in schema)


def _letter(kind: pa.DataType) -> str:
    if isinstance(kind, pa.BaseExtensionType):
        name = getattr(kind, "type_name", kind.extension_name)
        return {
            "hugeint": "I",
            "uhugeint": "I",
            "json": "T",
            "arrow.json": "T",
            "arrow.bool8": "B",
        }.get(name, "?")
    checks = [
        (pt.is_boolean, "B"),
        (pt.is_integer, "I"),
        (pt.is_floating, "R"),
        (pt.is_decimal, "R"),
        (pt.is_date, "D"),
        (pt.is_timestamp, "P"),
        (pt.is_string, "T"),
        (pt.is_large_string, "T"),
        (pt.is_string_view, "T"),
        (pt.is_dictionary, "T"),
    ]
    return next((letter for check, letter in checks if check(kind)), "?")


class Renderer:
    """Turns answers into text as DuckDB's cast to VARCHAR does."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.con.execute("SET arrow_lossless_conversion = true")

    def rows(self, table: pa.Table) -> Rows:
        """Every value as text; NULL and (empty) are written out, line ends are escaped."""
        if table.num_columns == 0:
            return []
        return list(zip(*(self._column(c) for c in table.columns), strict=True))

    def _column(self, column: pa.ChunkedArray) -> list[str]:
        kind = column.type
        if not (pt.is_integer(kind) or pt.is_string(kind) or pt.is_null(kind)):
            if pt.is_timestamp(kind) and kind.tz is not None:
                self.con.execute(f"SET TimeZone = '{kind.tz}'")
            answer = self.con.from_arrow(pa.table({"v": column}))
            column = answer.project("v::VARCHAR AS v").to_arrow_table().column(0)
        return [_text(v) for v in column.to_pylist()]


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if not text:
        return "(empty)"
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\0", "\\0")


def sqlite_values(rows: Rows, types: str) -> Rows:
    """SQLite's forms: integers without a fraction, three digits for reals, @ for odd characters."""

    def convert(value: str, letter: str) -> str:
        if value == "NULL":
            return value
        if letter in "IR":
            value = {"true": "1", "false": "0"}.get(value, value)
            try:
                return f"{float(value):.3f}" if letter == "R" else str(math.trunc(float(value)))
            except (ValueError, OverflowError):
                return value
        return re.sub(r"[^ -~]", "@", value)

    return [tuple(convert(v, t) for v, t in zip(row, types, strict=False)) for row in rows]


def arranged(rows: Rows, sort: Sort) -> Rows:
    """Rows in the order that the sort mode asks for; valuesort gives rows of one value."""
    if sort == "rowsort":
        return sorted(rows)
    if sort == "valuesort":
        return [(v,) for v in sorted(v for row in rows for v in row)]
    return rows


def digest(rows: Rows) -> str:
    """The MD5 over all values, each followed by a line end."""
    values = [v for row in rows for v in row]
    text = "".join(f"{v}\n" for v in values)
    md5 = hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False)
    return f"{len(values)} values hashing to {md5.hexdigest()}"


def difference(rows: Rows, columns: int, sort: Sort, expected: Sequence[str]) -> str | None:
    """None if the answer is the expected one, else what differs. `rows` is not sorted yet."""
    got = arranged(rows, sort)
    if len(expected) == 1 and HASHED.fullmatch(expected[0].strip()):
        found = digest(got)
        return None if found == expected[0].strip() else f"expected {expected[0]}\n     got {found}"
    want = _expected_rows(expected, 1 if sort == "valuesort" else columns, len(got))
    if want is None:
        return _report(got, list(expected))
    if sort != "nosort":
        want = arranged(want, sort)
    same = len(want) == len(got) and all(map(_same_row, got, want))
    return None if same else _report(got, ["\t".join(row) for row in want])


def _expected_rows(expected: Sequence[str], columns: int, count: int) -> Rows | None:
    """Expected lines as rows: one row per line with tabs, or one value per line."""
    if columns == 1:
        return [(line,) for line in expected]
    if len(expected) == count or len(expected) != count * columns:
        split = [tuple(line.split("\t")) for line in expected]
        if all(len(row) == columns for row in split):
            return split
    if len(expected) % columns:
        return None
    return [tuple(expected[i : i + columns]) for i in range(0, len(expected), columns)]


def _same_row(got: tuple[str, ...], want: tuple[str, ...]) -> bool:
    return len(got) == len(want) and all(map(same_value, got, want))


def same_value(got: str, want: str) -> bool:
    """Equal as text, as a pattern, as booleans (1 is true) or as numbers."""
    if got == want:
        return True
    if want.startswith("<REGEX>:"):
        return re.fullmatch(want[8:], got, re.DOTALL) is not None
    if want.startswith("<!REGEX>:"):
        return re.fullmatch(want[9:], got, re.DOTALL) is None
    if got in ("true", "false"):
        return want.lower() == got or want == ("1" if got == "true" else "0")
    try:
        a, b = float(got), float(want)
    except ValueError:
        return False
    if got.lstrip("+-").isdigit() and want.lstrip("+-").isdigit():
        return int(got) == int(want)
    return a == b or math.isclose(a, b, rel_tol=TOLERANCE) or (math.isnan(a) and math.isnan(b))


def _report(got: Rows, want: list[str], limit: int = 12) -> str:
    lines = ["\t".join(row) for row in got]
    at = next((i for i, (a, b) in enumerate(zip(lines, want, strict=False)) if a != b), None)
    first = min(len(lines), len(want)) if at is None else at
    start = max(0, first - 2)

    def window(title: str, rows: list[str]) -> str:
        shown = "\n".join(f"    {r}" for r in rows[start : start + limit]) or "    (no rows)"
        return f"  {title} ({len(rows)} rows, from row {start + 1}):\n{shown}"

    return window("expected", want) + "\n" + window("got", lines)
