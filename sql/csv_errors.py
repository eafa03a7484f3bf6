"""What DuckDB says of a CSV file, with the cause first and without the list of all options."""

from __future__ import annotations

import re

_LINE = re.compile(
    r"CSV Error on Line: (?P<line>\d+)\nOriginal Line: ?(?P<text>.*?)\n(?P<rest>[A-Z].*)", re.DOTALL
)
_SNIFFED = re.compile(r'Error when sniffing file "(?P<file>.*?)"\.\n(?P<rest>.*)', re.DOTALL)
_WIDTH = re.compile(
    r"they contain: (\d+) columns\. It does not match the number of columns found by the sniffer: "
    r"(\d+)\."
)
_UNKNOWN = "say how it is written: delim, quote, escape, header, skip, encoding, compression"


def told(message: str) -> tuple[str, str] | None:
    """A message and a hint; None if it is not of a CSV file."""
    if bad := _LINE.match(message):
        lines = bad["rest"].split("\n")
        files = (x.split(" = ", 1)[1] for x in lines if x.startswith("  file = "))
        cures = [x.removeprefix("* ") for x in lines if x.startswith("* ")]
        what = f"{next(files, 'the CSV file')}, line {bad['line']}: {lines[0]}"
        return what, "\n".join([f"the line is: {bad['text']}", *cures])
    if sniffed := _SNIFFED.match(message):
        what = f'no way to read "{sniffed["file"]}" as CSV fits all of it'
        if (width := _WIDTH.search(sniffed["rest"])) and width[2] not in ("0", width[1]):
            what += f": {width[1]} columns are wanted, {width[2]} were found"
        return what, f"{_UNKNOWN}; ignore_errors = true leaves out what does not fit"
    return None
