"""A session's DuckDB connection, with the settings that every statement counts on."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import duckdb

from ..engine.inherited import kept_in_child
from ..planner import meaning
from ..planner.context import Settings
from . import errors, safe_mode, settings

_RESULTS = ("errors_as_json = true", "arrow_lossless_conversion = true")
_PROGRESS = ("enable_progress_bar = true", "enable_progress_bar_print = false")
_SETTABLE = (*(s.partition(" ")[0] for s in _RESULTS + _PROGRESS), *meaning.DEFAULTS)
"""What is set on the connections of a database at any time."""
_HELD = re.compile(r"Could not set lock on file.*Conflicting lock is held in (.*\))", re.DOTALL)
_PRUNER = "row_group_pruner"
_BEFORE_LOCK = {"disabled_optimizers": _PRUNER, "allowed_configs": list(_SETTABLE)}


def connect(
    database: str, read_only: bool, config: Mapping[str, Any], safe: bool, ours: Settings
) -> duckdb.DuckDBPyConnection:
    """Open `database`; what `config` says of our own settings is set in `ours`.

    ProgrammingError if `config` is wrong or contradicts `safe`; OperationalError if the process has
    the file open with another configuration.
    """
    theirs = _divide(config, ours)
    if safe:
        if ours.python_scan:
            raise errors.ProgrammingError(
                "python_scan contradicts safe_mode", hint="leave one of them out"
            )
        theirs = safe_mode.config(theirs)
    elif str(theirs.get("lock_configuration")).lower() in ("true", "1"):
        theirs = {**_BEFORE_LOCK, **theirs}
    if str(theirs.get("enable_external_access")).lower() in ("false", "0"):
        _check_directory()
    if read_only and (not database or database.startswith(":memory:")):
        raise errors.ProgrammingError(
            "a database in memory cannot be read-only", hint="it is empty at first: give a path"
        )
    if database == ":default:":
        raise errors.ProgrammingError(
            ":default: is one connection of a process, and so would be its transactions",
            hint='connections to ":memory:default" share a database',
        )
    try:
        connection = kept_in_child(_opened(database, read_only, theirs))
    except duckdb.ConnectionException as error:
        if "different configuration" not in str(error):
            raise
        raise errors.OperationalError(
            f"{database} is open in this process with another configuration",
            hint="its connections share safe_mode, read_only and DuckDB's own settings",
        ) from None
    except duckdb.IOException as error:
        held = _HELD.search(str(error))
        if held is None:
            raise
        raise errors.OperationalError(
            f"{database} is open in another process ({held[1]})",
            hint="close it there; several processes may have it open if all say read_only=True",
        ) from None
    if "disabled_optimizers" not in theirs:
        _disable_pruner(connection)
    if safe:
        _lock(connection)
    else:
        _set(connection, *_RESULTS)
        _keep_settable(connection)
    if "threads" not in config:
        ours.threads = default_threads(connection)
    return connection


def _opened(database: str, read_only: bool, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(database, read_only=read_only, config=config)
    except duckdb.Error as error:
        # Imported here: it is rare.
        from . import torn_block

        if (unknown := _UNKNOWN.search(str(error))) is not None:
            raise errors.ProgrammingError(
                f"there is no setting {unknown[1]}", hint=_near_setting(unknown[1])
            ) from None
        if not torn_block.is_torn(error):
            raise
        if read_only:
            raise errors.OperationalError(
                str(error),
                hint="open it once to write: a checkpoint that was cut off is mended then",
            ) from None
        if not torn_block.mended(database):
            raise
    return duckdb.connect(database, read_only=read_only, config=config)


_UNKNOWN = re.compile(r"The following options were not recognized: (\w+)")


def _near_setting(name: str) -> str:
    from .diagnose import near_miss

    with duckdb.connect() as connection:
        theirs = [n for (n,) in connection.execute("SELECT name FROM duckdb_settings()").fetchall()]
    close = near_miss(name, (*settings.NAMES, *theirs))
    return f"did you mean {close}?" if close else "FROM duckdb_settings() lists DuckDB's"


def _check_directory() -> None:
    """DuckDB 2.0 takes the working directory for a path that stays open, and aborts without one."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise errors.OperationalError(
            "the process's working directory is gone",
            hint="change to one that exists: a database without access to files is opened in one",
        ) from None


def default_threads(connection: duckdb.DuckDBPyConnection) -> int:
    """How many threads DuckDB takes by itself."""
    return int(_current(connection, "threads"))


def enable_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """`query_progress` tells from now on. A safe database does it from the start."""
    _set(connection, *_PROGRESS)


def _divide(config: Mapping[str, Any], ours: Settings) -> dict[str, Any]:
    """DuckDB's part of `config`; the rest is set in `ours`, and `threads` is both's."""
    theirs = dict(config)
    for name in [n for n in theirs if n in settings.NAMES]:
        value = theirs[name] if name == "threads" else theirs.pop(name)
        try:
            setattr(ours, name, settings.parse(name, value))
        except ValueError as error:
            raise errors.ProgrammingError(str(error)) from None
    return theirs


def _disable_pruner(connection: duckdb.DuckDBPyConnection) -> None:
    """Without the optimizer by which DuckDB 2.0.0 answers ORDER BY … LIMIT wrongly.

    It counts rows that were deleted. Nothing happens if another connection has chosen, or in a
    database whose settings are locked.
    """
    if not _current(connection, "disabled_optimizers"):
        with suppress(duckdb.Error):
            _set(connection, f"disabled_optimizers = '{_PRUNER}'")


def _keep_settable(connection: duckdb.DuckDBPyConnection) -> None:
    """`SET lock_configuration` leaves sessions and views the settings that they make."""
    allowed = _current(connection, "allowed_configs")
    if not set(allowed) >= set(_SETTABLE):
        with suppress(duckdb.Error):  # locked already
            _set(connection, f"allowed_configs = {[*dict.fromkeys([*allowed, *_SETTABLE])]}")


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """The last setting of a safe database; another connection to it may have locked it."""
    from ..planner.view_kernels import confine

    confine()
    if not _current(connection, "lock_configuration"):
        _set(connection, *_PROGRESS, "lock_configuration = true")


def _current(connection: duckdb.DuckDBPyConnection, name: str) -> Any:
    return connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def _set(connection: duckdb.DuckDBPyConnection, *assignments: str) -> None:
    for assignment in assignments:
        connection.execute(f"SET {assignment}").fetchall()
