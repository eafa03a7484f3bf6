"""SQLAlchemy's dialect: ``create_engine("tidewheel:///file.db")``, ``"tidewheel://"`` in memory.

What stands behind ``?`` in the URL goes to `tidewheel.connect`: ``tidewheel:///file.db?threads=2``.
A transaction is one of Tidewheel's, so an epoch: maintained views move with its commit.
"""

from __future__ import annotations

import uuid
from types import ModuleType
from typing import Any

from sqlalchemy import exc, pool
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGExecutionContext
from sqlalchemy.engine import default
from sqlalchemy.engine.url import URL
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from .sqlalchemy_compilers import (
    Compiler,
    DDLCompiler,
    Interval,
    JSONIndex,
    JSONPath,
    Numeric,
    Preparer,
    TypeCompiler,
    next_of,
    numbers_itself,
)
from .sqlalchemy_reflection import Reflection

_FLAGS = {"read_only", "safe_mode"}


class ExecutionContext(PGExecutionContext):
    """Sequences are read as PostgreSQL's are."""

    def get_insert_default(self, column: Any) -> Any:
        """The next number of a column that numbers itself, where RETURNING may not give it."""
        if numbers_itself(column):
            query = f"SELECT {next_of(self.identifier_preparer, column)}"
            return self._execute_scalar(query, column.type)
        return default.DefaultExecutionContext.get_insert_default(self, column)


class TidewheelDialect(Reflection):
    """See the module."""

    name = "tidewheel"
    driver = "tidewheel"
    default_paramstyle = "qmark"
    statement_compiler = Compiler
    ddl_compiler = DDLCompiler
    type_compiler_cls = TypeCompiler
    preparer = Preparer
    execution_ctx_cls = ExecutionContext
    colspecs = {  # noqa: RUF012  SQLAlchemy's way
        sqltypes.JSON.JSONIndexType: JSONIndex,
        sqltypes.JSON.JSONPathType: JSONPath,
        sqltypes.Interval: Interval,
        sqltypes.Numeric: Numeric,
        sqltypes.Float: sqltypes.Float,
    }

    supports_statement_cache = True
    supports_alter = False
    supports_comments = True
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_sequences = True
    sequences_optional = True
    supports_sane_rowcount = True
    postfetch_lastrowid = False
    preexecute_autoincrement_sequences = True
    div_is_floordiv = False
    insert_returning = update_returning = delete_returning = True
    update_returning_multifrom = delete_returning_multifrom = True
    use_insertmanyvalues = True
    insertmanyvalues_implicit_sentinel = InsertmanyvaluesSentinelOpts.ANY_AUTOINCREMENT
    returns_native_bytes = True
    tuple_in_values = True
    default_schema_name = "main"

    # what PostgreSQL's compiler asks
    _backslash_escapes = False
    _supports_create_index_concurrently = False
    _supports_drop_index_concurrently = False
    _supports_jsonb_subscripting = False

    def __init__(
        self, json_serializer: Any = None, json_deserializer: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer

    # -- connecting --------------------------------------------------------------------------------

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The PEP 249 module."""
        import tidewheel

        return tidewheel

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """Threads wait for a connection of their own."""
        return pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """What `tidewheel.connect` gets. All connections of an engine share a memory database."""
        if url.host or url.username or url.port:
            raise exc.ArgumentError(
                "there is no host: write tidewheel:///relative.db, tidewheel:////absolute.db or "
                "tidewheel:// for a database in memory"
            )
        options: dict[str, Any] = dict(url.query)
        for name in _FLAGS & options.keys():
            options[name] = str(options[name]).lower() in ("1", "true", "on", "yes")
        database = url.database or ":memory:"
        if database == ":memory:":
            database = f":memory:{uuid.uuid4().hex}"
        return [database], {"autocommit": False, **options}

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Was it closed behind SQLAlchemy's back?"""
        return "the connection is closed" in str(e)

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        """Snapshots, or a transaction per statement."""
        return ["SNAPSHOT", "AUTOCOMMIT"]

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        """Transactions see one snapshot."""
        return "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """AUTOCOMMIT is PEP 249's attribute."""
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """The one that is set."""
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SNAPSHOT"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """PEP 249's attribute."""
        return bool(dbapi_conn.autocommit)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        from tidewheel import __version__

        return tuple(int(part) for part in __version__.split(".")[:3])

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())
