"""Names of DuckDB's Python API that are not there: what to write in their place."""

from __future__ import annotations

from typing import NoReturn

_ROWS = [
    "df",
    "fetchone",
    "fetchmany",
    "fetchall",
    "fetchnumpy",
    "pl",
    "description",
    "rowcount",
    "to_arrow_table",
    "to_arrow_reader",
]
_ON_CURSOR = {
    "fetchdf": "df()",
    "fetch_df": "df()",
    "to_df": "df()",
    "fetch_df_chunk": "to_arrow_reader()",
    "arrow": "to_arrow_table()",
    "fetch_arrow_table": "to_arrow_table()",
    "fetch_arrow_reader": "to_arrow_reader()",
    "fetch_record_batch": "to_arrow_reader()",
    "show": "df(), or text_rows(); a notebook shows a cursor as a table",
    "columns": "description",
    "types": "description",
    "dtypes": "description",
    "fetch": "fetchmany(n)",
}
_FUNCTIONS = {
    "sql": "execute(sql): its rows can be read once, as of any cursor",
    "query": "execute(sql): its rows can be read once, as of any cursor",
    "from_query": "execute(sql)",
    "table": "execute('FROM name')",
    "view": "execute('FROM name')",
    "values": "execute('VALUES (…)')",
    "table_function": "execute('FROM name(…)')",
    "from_df": "register(name, frame), then execute('FROM name')",
    "from_arrow": "register(name, table), then execute('FROM name')",
    "from_csv_auto": "execute(\"FROM 'file.csv'\")",
    "from_parquet": "execute(\"FROM 'file.parquet'\")",
    "read_csv": "execute(\"FROM read_csv('file.csv')\")",
    "read_json": "execute(\"FROM read_json('file.json')\")",
    "read_parquet": "execute(\"FROM read_parquet('file.parquet')\")",
    "install_extension": "execute('INSTALL name')",
    "load_extension": "execute('LOAD name')",
    "checkpoint": "execute('CHECKPOINT')",
    "appender": "append(table, frame), or executemany(sql, sets)",
    "create_function": "a macro: execute('CREATE MACRO name(x) AS …')",
    "extract_statements": "script(sql), which runs the statements one by one",
    "duplicate": "tidewheel.connect of the same file",
    "query_progress": "enable_progress(), then progress()",
    "executescript": "execute(sql): a script may have many statements",
    "isolation_level": "autocommit, which is True or False",
    "row_factory": "dict(zip([c[0] for c in cursor.description], row)) where rows are read",
    "total_changes": "cursor.rowcount after each statement",
    "iterdump": "execute(\"EXPORT DATABASE 'folder'\")",
    "backup": "execute(\"ATTACH 'copy.db'; COPY FROM DATABASE name TO copy\")",
}


_OWN = ("execute", "register", "append", "script", "enable_progress", "autocommit")
"""How what is a connection's begins."""


def missing(there: object, name: str) -> NoReturn:
    """AttributeError for a name that a `Connection` or `Cursor` does not have."""
    owner = type(there).__name__
    message = f"'{owner}' object has no attribute '{name}'"
    if owner == "Connection" and (name in _ROWS or name in _ON_CURSOR):
        instead = _ON_CURSOR.get(name, name if name in ("description", "rowcount") else f"{name}()")
        message += f"; rows are the cursor's: execute(sql).{instead}"
    elif owner == "Connection" and name in _FUNCTIONS:
        message += f"; write {_FUNCTIONS[name]}"
    elif owner == "Cursor" and name in _ON_CURSOR:
        message += f"; write {_ON_CURSOR[name]}"
    elif owner == "Cursor" and name in _FUNCTIONS:
        place = "connection." if _FUNCTIONS[name].startswith(_OWN) else ""
        message += f"; write {place}{_FUNCTIONS[name]}"
    raise AttributeError(message, name=name, obj=there)
