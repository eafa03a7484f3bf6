"""The settings of a DuckDB session on which the meaning of an expression depends.

A maintained view means what its query meant in the session that created it. So these settings are
kept with the view, and hold wherever a part of its query runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

Meaning = tuple[tuple[str, str], ...]
"""Names and values of those settings that are not DuckDB's defaults."""

ZONES = {"TimeZone": "UTC", "Calendar": "gregorian"}
"""Those for values of TIMESTAMP WITH TIME ZONE. (By default a session has the machine's zone.)"""

VALUES = {
    "integer_division": "false",
    "ieee_floating_point_ops": "true",
    "error_on_division_by_zero": "true",
    "scalar_subquery_error_on_multiple_rows": "true",
    "order_by_non_integer_literal": "false",
    "disable_timestamptz_casts": "false",
    "binary_as_string": "false",
    "file_search_path": "",
    "enable_geoparquet_conversion": "true",
    "ignore_unknown_crs": "false",
    "json_geometry_format": "wkt",
}
"""Others that mean the same for a query and for its parts."""

DATABASE_WIDE = {
    "default_order": "ASC",
    "default_null_order": "NULLS_LAST",
    "default_collation": "",
    "old_implicit_casting": "false",
    "lambda_syntax": "DEFAULT",
}
"""Those that all sessions of a database have in common."""

WRITING = DATABASE_WIDE | {
    "regex_match_operator_semantics": "partial",
    "dialect_compatibility_mode": "NONE",
    "preserve_identifier_case": "preserve_case",
    "legacy_disable_null_type": "false",
    "table_function_identifier_conversion": "DEFAULT",
}
"""Those that make a text another query: it has to stay as it is written."""

DEFAULTS = ZONES | VALUES | WRITING


def query(names: Iterable[str]) -> str:
    """SQL that gives one row: the values of settings."""
    return "SELECT " + ", ".join(f"current_setting('{name}')::VARCHAR" for name in names)


QUERY = query(DEFAULTS)

_SAME = {"ASCENDING": "ASC", "DESCENDING": "DESC"}


def meaning(values: Sequence[str], names: Iterable[str] = DEFAULTS) -> Meaning:
    """What a session's settings are, from the row of `query(names)`."""
    named = zip(names, (_SAME.get(value, value) for value in values), strict=True)
    return tuple((name, value) for name, value in named if value != DEFAULTS[name])


def assignments(now: Meaning, wanted: Meaning) -> dict[str, str]:
    """The settings that differ, with the values that are wanted."""
    have, want = DEFAULTS | dict(now), DEFAULTS | dict(wanted)
    return {name: value for name, value in want.items() if have[name] != value}


def statement(changes: Mapping[str, str]) -> str:
    """The SQL that makes these assignments, for this session alone where it can have its own."""
    return ";".join(f"SET {name} = '{_escaped(value)}'" for name, value in changes.items())


def _escaped(value: str) -> str:
    return value.replace("'", "''")


def changed(now: Meaning, settings: Collection[str]) -> str:
    """The first of `settings` that is not its default, with its value; '' if all are."""
    return next((f"{name} = '{value}'" for name, value in now if name in settings), "")
