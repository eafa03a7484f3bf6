"""Statements that take a view for a table, or the other way round, and words of other systems."""

from __future__ import annotations

import re

_KINDS = re.compile(
    r'Existing object "(?P<name>.*)" is of type (?P<there>Table|View), '
    r"trying to (?:drop|replace with) type \w+"
)
_INDEX = "can only create an index on a base table"
_TRIGGER = "CREATE TRIGGER requires a base table"
_UPKEEP = "Can only vacuum or analyze base tables"
BEFORE_NAME = {_INDEX: "ON", _TRIGGER: "ON", _UPKEEP: ""}
"""By what DuckDB says of a view without its place: the word before its name, or the first one."""


def hint(message: str, name: str, maintained: bool) -> str | None:
    """What would be right; None if the message is of something else. `name`: as it is written."""
    if (kinds := _KINDS.match(message)) is not None:
        kind = "MATERIALIZED VIEW" if maintained else kinds["there"].upper()
        return f"DROP {kind} {name}"
    if message.startswith(_INDEX):
        if maintained:
            return "leave it out: reads by values of a column get an index of their own when needed"
        return "the tables that the view reads can have indexes"
    if message.startswith(_TRIGGER):
        return f"SUBSCRIBE TO {name} follows its changes" if maintained else "name a table"
    if message.startswith(_UPKEEP):
        return "leave it out: a view keeps nothing that could be cleared up"
    return None


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
    "LOCK": "leave it out: writers take turns by themselves, and readers never wait",
    "LISTEN": _FOLLOW,
    "TAIL": _FOLLOW,
    "DECLARE RECURSIVE": _RECURSIVE,
    "CREATE MATERIALIZED RECURSIVE": _RECURSIVE,
    "DECLARE": "leave it out: the rows of every SELECT are computed as they are read",
    "BEGIN ISOLATION": _ISOLATION,
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


_FORMS = {
    "CREATE": "CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [(column, …)] AS query",
    "DROP": "DROP MATERIALIZED VIEW [IF EXISTS] name [CASCADE]",
    "SUBSCRIBE": "SUBSCRIBE TO view [AS OF EPOCH n]",
    "VERIFY": "VERIFY VIEW view [AGAINST RECOMPUTE | SPARK]",
}


def form(words: list[str]) -> str | None:
    """How a statement about maintained views is written that begins with `words`."""
    found = _FORMS.get(words[0])
    if words[0] == "CREATE" and "MATERIALIZED" not in words:
        found = None
    return elsewhere(words) or found


def behind(word: str, following: str) -> str | None:
    """What to do where two words of other systems' statements are no SQL here."""
    return _PAIRS.get((word, following))


_PAIRS = {
    ("EMIT", "ON"): "leave EMIT … out: a view is right after every commit",
    ("WATERMARK", "FOR"): "leave WATERMARK … out: rows may come in any order",
    ("ON", "DUPLICATE"): "INSERT … ON CONFLICT DO UPDATE SET …; excluded.name is the new value",
    ("WITH", "ROLLUP"): "GROUP BY ROLLUP (…)",
    ("WITH", "CUBE"): "GROUP BY CUBE (…)",
    ("WITH", "TIES"): "QUALIFY rank() OVER (ORDER BY …) <= n, in place of FETCH or LIMIT",
    (")", "APPEND"): "leave it out: every table may be changed in any way",
}

SOME_ROWS = "WHERE rowid IN (SELECT rowid FROM … ORDER BY … LIMIT n)"
"""In place of ORDER BY and LIMIT of an UPDATE or DELETE."""

_WINDOW = "time_bucket(INTERVAL 1 HOUR, ts) is the window of a row: group by it"
_TIME = "nothing changes a view but a commit: keep the time in a table, and join with it"
CALLS = {
    **{f"{kind}{part}": _WINDOW for kind in ("tumble", "hop") for part in ("", "_start", "_end")},
    "mz_now": _TIME,
    "proctime": _TIME,
    "refresh_continuous_aggregate": "leave it out: views are right after every commit",
    "add_continuous_aggregate_policy": "leave it out: views are right after every commit",
    "create_hypertable": "leave it out: a table is one as it is",
}
"""By the name of a function that other systems have: what is here."""
TABLES = dict.fromkeys(
    ("pg_matviews", "mz_materialized_views", "rw_materialized_views"),
    "FROM tidewheel_views() lists the maintained views",
)
"""By the name of a table of other systems' catalogs, likewise."""
