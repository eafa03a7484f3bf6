"""Words of other systems' SQL, and what is written here in their place: cures of errors."""

from __future__ import annotations

from collections.abc import Sequence

_KEYS = "CREATE SEQUENCE ids; then id INTEGER DEFAULT nextval('ids')"
_NEW_KEY = "INSERT … RETURNING id gives what the row has got"
_FORMAT = "strftime(ts, '%Y-%m-%d')"
_PARSE = "strptime(text, '%Y-%m-%d'), and ::DATE behind it for a day"
_LATER = "ts + INTERVAL 1 DAY"
_UUID = "uuid()"
_NOW = "now(), or current_date"
_LATERAL = "CROSS JOIN LATERAL (…), or LEFT JOIN LATERAL (…) ON true"
_JSON = "json_group_array(…) makes one of many rows, json_object(…) one of a row"

CALLS = {
    "nvl": "coalesce(a, b)",
    "nvl2": "CASE WHEN a IS NOT NULL THEN b ELSE c END",
    "isnull": "coalesce(a, b), or a IS NULL",
    "iif": "if(condition, a, b)",
    "convert": "CAST(value AS type), or value::type",
    "isnumeric": "TRY_CAST(value AS DOUBLE) IS NOT NULL",
    "getdate": _NOW,
    "sysdate": _NOW,
    "curdate": "current_date",
    "dateadd": _LATER,
    "add_months": "ts + INTERVAL 1 MONTH",
    "months_between": "date_diff('month', begin, end)",
    "timestampdiff": "date_diff('day', begin, end)",
    "date_format": _FORMAT,
    "to_char": _FORMAT,
    "to_date": _PARSE,
    "str_to_date": _PARSE,
    "unix_timestamp": "epoch(ts)",
    "from_unixtime": "to_timestamp(seconds)",
    "charindex": "instr(text, part)",
    "locate": "instr(text, part)",
    "regexp_like": "regexp_matches(text, pattern)",
    "rlike": "regexp_matches(text, pattern)",
    "regexp_substr": "regexp_extract(text, pattern)",
    "substring_index": "split_part(text, separator, n)",
    "space": "repeat(' ', n)",
    "rand": "random()",
    "newid": _UUID,
    "sys_guid": _UUID,
    "collect_list": "list(value)",
    "collect_set": "list(DISTINCT value)",
    "json_agg": _JSON,
    "jsonb_agg": _JSON,
    "jsonb_build_object": "json_object(key, value, …)",
    "json_array_elements": "unnest(json_extract(value, '$[*]'))",
    "percentile_cont": "quantile_cont(value, 0.5), or … WITHIN GROUP (ORDER BY value)",
    **dict.fromkeys(("last_insert_id", "last_insert_rowid", "scope_identity", "lastval"), _NEW_KEY),
}
"""By the name of a function."""

TYPES = {
    **dict.fromkeys(("serial", "bigserial", "smallserial"), _KEYS),
    **dict.fromkeys(("number", "money"), "DECIMAL(18, 2), BIGINT or DOUBLE"),
    **dict.fromkeys(("varchar2", "citext", "clob", "mediumtext", "longtext", "xml"), "VARCHAR"),
    **dict.fromkeys(("datetime2", "smalldatetime", "timestamp_ntz"), "TIMESTAMP"),
    **dict.fromkeys(("image", "raw", "longblob", "mediumblob"), "BLOB"),
    "uniqueidentifier": "UUID",
    "jsonb": "JSON",
    "year": "SMALLINT",
    "vector": "FLOAT[3], for vectors of three numbers",
}
"""By the name of a type."""

COLUMNS = {
    "sysdate": _NOW,
    "systimestamp": "now()",
    "rownum": "LIMIT n behind the query, or row_number() OVER (ORDER BY …)",
}
"""By what is taken for a column."""

TABLES = {"dual": "leave FROM dual out: a SELECT needs no table"}
"""By the name of a table."""

_WORDS = {
    **dict.fromkeys(("AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY"), _KEYS),
    "APPLY": _LATERAL,
    "PROCEDURE": "CREATE MACRO name(parameter, …) AS expression; all else is Python's",
    "UNSIGNED": "UINTEGER, UBIGINT, USMALLINT or UTINYINT",
}
"""By a word that stands for the same wherever the error is."""


def syntax(words: Sequence[str], at: int) -> str | None:
    """What to write where a syntax error is. `words`: in upper case, the error is at `at`."""
    word, verb = words[at], words[0]
    before = words[at - 1] if at else ""
    if word in _WORDS or before in _WORDS:
        return _WORDS.get(word) or _WORDS[before]
    if (before, word) in (("CONNECT", "BY"), ("START", "WITH")):
        return "WITH RECURSIVE name AS (anchor UNION step) SELECT … FROM name"
    if before == "MINUS" or word == "MINUS":
        return "EXCEPT, in place of MINUS"
    if at > 1 and words[at - 2] == "LIMIT":
        if word == ",":
            return "LIMIT count OFFSET start"
        if word == "BY":
            return "QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n"
    if at > 1 and words[at - 2] == "SELECT" and before in ("TOP", "FIRST") and word.isdecimal():
        return f"LIMIT {word}, behind the query"
    if verb in ("SELECT", "WITH", "FROM") and word == "INTO":
        return "CREATE TABLE name AS SELECT …"
    if verb == "UPDATE" and "JOIN" in words[at : at + 3] and "SET" not in words[:at]:
        return "UPDATE name SET … FROM other WHERE …"
    if verb == "DELETE" and at == 1 and "FROM" in words[2:4]:
        return "DELETE FROM name USING other WHERE …"
    if verb == "INSERT" and word == "SET":
        return "INSERT INTO name (column, …) VALUES (value, …)"
    if word == "(" and at > 1 and before in ("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT"):
        return f"{before} without a width"
    return None
