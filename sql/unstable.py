"""What a maintained view may not call or read: what changes while no table does."""

from __future__ import annotations

import duckdb

from tidewheel.sql import functions
from tidewheel.sql.statements import Token, tokens

_COLUMNS_ROWID = "SELECT count(*) FROM duckdb_columns() WHERE lower(column_name) = 'rowid'"


def pivots_by_data(text: str, connection: duckdb.DuckDBPyConnection) -> Token | None:
    """The PIVOT whose columns are the values that it finds; DuckDB allows it in no view either."""
    for token in tokens(text):
        if token.kind == "word" and token.text.upper() in ("PIVOT", "PIVOT_WIDER"):
            try:
                connection.execute(f"EXPLAIN CREATE VIEW __tw_pivot AS {text}\n").fetchall()
            except duckdb.ParserException as error:
                return token if "PIVOT" in str(error) else None
            except duckdb.Error:
                return None  # said better where the query is bound
            return None
    return None


def unstable_call(text: str, connection: duckdb.DuckDBPyConnection) -> tuple[Token, str] | None:
    """The first call whose value is not a function of the tables, and where it stands in `text`.

    A call inside a macro is reported at the macro's own call.
    """
    known = functions.of(connection)
    found = next((c for c in functions.calls(text) if functions.is_unstable(c[1], known)), None)
    parts = list(tokens(text))
    for i, token in enumerate(parts):
        if found is not None and token.start >= found[0].start:
            break
        word = token.text.lower() if token.kind == "word" else ""
        before = parts[i - 1].text.lower() if i else ""
        called = before in ("from", "join") and [t.text for t in parts[i + 1 : i + 2]] == ["("]
        if called and word in known.aggregates and word in known.internal:
            return token, word
        if word == "tablesample" or (word == "sample" and before == "using"):
            return token, word
        if word in ("show", "describe", "desc") and before in ("", "("):
            return token, word
    return found


def rowid(text: str, connection: duckdb.DuckDBPyConnection) -> Token | None:
    """Where a text reads the places of rows in DuckDB's tables, which a commit may change."""
    parts = list(tokens(text))
    at = [i for i, t in enumerate(parts) if t.word == "rowid"]
    if not at or any(parts[i - 1].text.upper() == "AS" for i in at if i):
        return None
    if connection.execute(_COLUMNS_ROWID).fetchall()[0][0]:
        return None
    return parts[at[0]]
