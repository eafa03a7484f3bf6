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
_TURNS = "leave it out: writers take turns by themselves, and readers never wait"
_TREE = "WITH RECURSIVE name AS (anchor UNION step) SELECT … FROM name"
_LATERAL = "CROSS JOIN LATERAL (…), or LEFT JOIN LATERAL (…) ON true"
_ONE_PARTNER = "LEFT JOIN (SELECT DISTINCT ON (key) * FROM other ORDER BY key, …) AS o USING (key)"
_JSON = "json_group_array(…) makes one of many rows, json_object(…) one of a row"

_WINDOW = "time_bucket(INTERVAL 1 HOUR, ts) is the window of a row: group by it"
_TIME = "nothing changes a view but a commit: keep the time in a table, and join with it"

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
    **{f"{kind}{part}": _WINDOW for kind in ("tumble", "hop") for part in ("", "_start", "_end")},
    "mz_now": _TIME,
    "proctime": _TIME,
    "refresh_continuous_aggregate": "leave it out: views are right after every commit",
    "add_continuous_aggregate_policy": "leave it out: views are right after every commit",
    "create_hypertable": "leave it out: a table is one as it is",
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

TABLES = {
    "dual": "leave FROM dual out: a SELECT needs no table",
    **dict.fromkeys(
        (
            "pg_matviews",
            "mz_materialized_views",
            "rw_materialized_views",
            "materialized_views",
            "maintained_views",
        ),
        "FROM tidewheel_views() lists the maintained views",
    ),
}
"""By the name of a table."""

_WORDS = {
    **dict.fromkeys(("AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY"), _KEYS),
    "APPLY": _LATERAL,
    "PROCEDURE": "CREATE MACRO name(parameter, …) AS expression; all else is Python's",
    "UNSIGNED": "UINTEGER, UBIGINT, USMALLINT or UTINYINT",
}
"""By a word that stands for the same wherever the error is."""


_PAIRS = {
    **dict.fromkeys((("FOR", "UPDATE"), ("FOR", "SHARE")), _TURNS),
    **dict.fromkeys((("CONNECT", "BY"), ("START", "WITH")), _TREE),
    ("EMIT", "ON"): "leave EMIT … out: a view is right after every commit",
    ("WATERMARK", "FOR"): "leave WATERMARK … out: rows may come in any order",
    ("ON", "DUPLICATE"): "INSERT … ON CONFLICT DO UPDATE SET …; excluded.name is the new value",
    ("WITH", "ROLLUP"): "GROUP BY ROLLUP (…)",
    ("WITH", "CUBE"): "GROUP BY CUBE (…)",
    ("WITH", "TOTALS"): "GROUP BY GROUPING SETS ((…), ())",
    ("WITH", "TIES"): "QUALIFY rank() OVER (ORDER BY …) <= n, in place of FETCH or LIMIT",
    ("OUTER", "APPLY"): _LATERAL,
    ("ARRAY", "JOIN"): "CROSS JOIN unnest(list) AS name (value)",
    **{("LEFT", kind): f"{kind} JOIN, without LEFT" for kind in ("SEMI", "ANTI")},
    **{("ANY", word): _ONE_PARTNER for word in ("LEFT", "INNER", "JOIN")},
    **{(word, "ANY"): _ONE_PARTNER for word in ("LEFT", "INNER")},
    (")", "APPEND"): "leave it out: every table may be changed in any way",
}
"""By two words, the error at either of them."""
_SOME_ROWS = "WHERE rowid IN (SELECT rowid FROM … ORDER BY … LIMIT n)"
"""In place of ORDER BY and LIMIT of an UPDATE or DELETE."""


def syntax(words: Sequence[str], at: int) -> str | None:
    """What to write where a syntax error is. `words`: in upper case, the error is at `at`."""
    word, verb = words[at], words[0]
    before = words[at - 1] if at else ""
    if word in _WORDS or before in _WORDS:
        return _WORDS.get(word) or _WORDS[before]
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
    behind = words[at + 1] if at + 1 < len(words) else ""
    if found := _PAIRS.get((before, word)) or _PAIRS.get((word, behind)):
        return found
    return _SOME_ROWS if verb in ("UPDATE", "DELETE") and word in ("ORDER", "LIMIT") else None


_SAVEPOINT = "there are no savepoints: BEGIN … COMMIT is all or nothing"
_RIGHTS = "there are no users and rights: who opens the file may do everything"
_FOLLOW = "SUBSCRIBE TO view follows what commits change"
_ISOLATION = "leave it out: a transaction sees the state in which it began, and writers take turns"
_VIEW = "CREATE MATERIALIZED VIEW name AS query: its rows are right after every commit"
_RECURSIVE = "CREATE MATERIALIZED VIEW name AS WITH RECURSIVE …"
_SHOW_VIEWS = "FROM tidewheel_views() lists the maintained views, SHOW TABLES all tables and views"
_SHOW_CREATE = "SELECT sql FROM tidewheel_views(), duckdb_tables() or duckdb_views()"
_MADE_BY = ("INCREMENTAL", "LIVE", "DYNAMIC", "STREAMING", "CONTINUOUS")

_REPLACE = "INSERT OR REPLACE INTO …, or INSERT … ON CONFLICT DO UPDATE SET …"

_ELSEWHERE = {
    "UPSERT": _REPLACE,
    "REPLACE INTO": _REPLACE,
    "INSERT IGNORE": "INSERT OR IGNORE INTO …, or INSERT … ON CONFLICT DO NOTHING",
    "SAVEPOINT": _SAVEPOINT,
    "RELEASE": _SAVEPOINT,
    "GRANT": _RIGHTS,
    "REVOKE": _RIGHTS,
    "LOCK": _TURNS,
    "LISTEN": _FOLLOW,
    "TAIL": _FOLLOW,
    "DECLARE RECURSIVE": _RECURSIVE,
    "CREATE MATERIALIZED RECURSIVE": _RECURSIVE,
    "DECLARE": "leave it out: the rows of every SELECT are computed as they are read",
    "BEGIN ISOLATION": _ISOLATION,
    "BEGIN DEFERRED": _ISOLATION,
    "BEGIN IMMEDIATE": _ISOLATION,
    "BEGIN EXCLUSIVE": _ISOLATION,
    "BEGIN TRANSACTION ISOLATION": _ISOLATION,
    "BEGIN WORK ISOLATION": _ISOLATION,
    "START TRANSACTION ISOLATION": _ISOLATION,
    "SET TRANSACTION": _ISOLATION,
    "SET SESSION CHARACTERISTICS": _ISOLATION,
    **{f"CREATE {word}": _VIEW for word in _MADE_BY},
    **{f"CREATE OR REPLACE {word}": _VIEW for word in _MADE_BY},
    "CREATE SOURCE": "CREATE TABLE; INSERT, COPY and Connection.append bring its rows",
    "CREATE SINK": _FOLLOW,
    "CREATE SUBSCRIPTION": _FOLLOW,
    "CREATE DEFAULT INDEX": "leave it out: reads by values of a column get an index when needed",
    "CREATE TEMP MATERIALIZED": "leave TEMP out: a maintained view is one for all connections",
    "CREATE TEMPORARY MATERIALIZED": "leave TEMPORARY out: such a view is one for all connections",
    "CREATE RECURSIVE MATERIALIZED": _RECURSIVE,
    "CREATE LOCAL VIEW": "CREATE VIEW",
    "FLUSH": "leave it out: views are right after every commit",
    "WAIT": "leave it out: views are right after every commit",
    "EXPLAIN PLAN": "EXPLAIN SELECT …",
    "EXPLAIN OPTIMIZED": "EXPLAIN SELECT …",
    "EXPLAIN PHYSICAL": "EXPLAIN SELECT …",
    "EXPLAIN ROW": "EXPLAIN ROW (view, value, value, …)",
    "EXPLAIN FORMAT": "EXPLAIN (FORMAT svg) SELECT …",
    "SHOW VIEWS": _SHOW_VIEWS,
    "SHOW MATERIALIZED VIEWS": _SHOW_VIEWS,
    "SHOW SOURCES": "SHOW TABLES",
    "SHOW INDEXES": "FROM duckdb_indexes()",
    "SHOW COLUMNS": "DESCRIBE name",
    "SHOW CREATE": _SHOW_CREATE,
    "SHOW FUNCTIONS": "FROM duckdb_functions()",
    "DESC MATERIALIZED": "DESCRIBE name",
    "DESCRIBE MATERIALIZED": "DESCRIBE name",
}
"""By how a statement begins in other systems: what is here."""
_LONGEST = 4
_NAMELESS = {"TABLE", "VIEW", "INDEX", "SCHEMA", "SEQUENCE", "TYPE", "MACRO", "FUNCTION"}


def elsewhere(words: list[str]) -> str | None:
    """What is here in place of a statement that other systems have. `words`: in upper case."""
    if len(words) == 2 and words[0] == "DROP" and words[1] in _NAMELESS:
        return f"DROP {words[1]} name"
    for many in range(min(_LONGEST, len(words)), 0, -1):
        if found := _ELSEWHERE.get(" ".join(words[:many])):
            return found
    return None
