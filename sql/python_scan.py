"""DataFrames in the caller's variables as tables, where the setting `python_scan` allows it.

DuckDB would look for them in the frame that calls it, which here is ours; so the variables that a
text may mean are registered before it runs, as if the user had called `register`.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ..engine.arrow import pa
from .statements import split, tokens
from .view_text import is_name, unquoted

_PACKAGE = __name__.partition(".")[0]
_FRAMES = {"pandas", "polars", "pyarrow"}
_TABLES = {"DataFrame", "LazyFrame", "Table", "RecordBatch", "RecordBatchReader"}


def caller() -> FrameType | None:
    """The innermost frame outside this package; not one of a comprehension or a lambda."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (_inside(frame) or _unnamed(frame)):
        frame = frame.f_back
    return frame


def _inside(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == _PACKAGE or module == "contextlib"  # ours, left by an error


def _unnamed(frame: FrameType) -> bool:
    name = frame.f_code.co_name
    return name.startswith("<") and not name.startswith(("<module", "<cell"))


def found(script: str, frame: FrameType | None) -> dict[str, object]:
    """The tables among the variables that `frame` sees and `script` names."""
    if frame is None:
        return {}
    parts = [t for statement in split(script) for t in tokens(statement.text)]
    names = {unquoted(t) for t in parts if is_name(t)}
    variables: dict[str, Any] = {}
    for scope in (frame.f_globals, frame.f_locals):
        variables.update((n, scope[n]) for n in names.intersection(scope))
    return {n: v for n, v in variables.items() if is_table(v)}


def hint(name: str) -> str | None:
    """What to do if a table `name` that is not there is a variable of the caller's."""
    frame = caller()
    if frame is None:
        return None
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    if not is_table(value):
        return None
    kind = type(value).__name__
    return f'{name} is a {kind} of yours: con.register("{name}", {name}) or SET python_scan = on'


def is_table(value: object) -> bool:
    """Is it a DataFrame or an Arrow object with columns?"""
    kind = type(value)
    if kind.__module__.partition(".")[0] in _FRAMES:
        return kind.__name__ in _TABLES or "dataset" in kind.__module__
    return not isinstance(value, type) and hasattr(value, "__arrow_c_stream__")


def readable(frame: object) -> object:
    """What DuckDB can read as often as it likes: streams of other libraries are read now."""
    root = type(frame).__module__.partition(".")[0]
    if root in _FRAMES or isinstance(frame, type) or not hasattr(frame, "__arrow_c_stream__"):
        return frame
    return pa.table(frame)
