"""SQLAlchemy's dialect: ``create_engine("tidewheel:///file.db")``, ``"tidewheel://"`` in memory.

What stands behind ``?`` in the URL goes to `tidewheel.connect`: ``tidewheel:///file.db?threads=2``.
A transaction is one of Tidewheel's, so an epoch: maintained views move with its commit.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sqlalchemy import exc, pool
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGExecutionContext
from sqlalchemy.engine import default, reflection
from sqlalchemy.engine.reflection import ReflectionDefaults
from sqlalchemy.engine.url import URL
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from .sqlalchemy_compilers import (
    INTEGERS,
    Compiler,
    DDLCompiler,
    Interval,
    JSONIndex,
    JSONPath,
    Numeric,
    Preparer,
    RawType,
    TypeCompiler,
    next_of,
    numbers_itself,
)

_FLAGS = {"read_only", "safe_mode"}
_TYPES: dict[str, Any] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "SMALLINT": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "VARCHAR": sqltypes.VARCHAR,
    "BLOB": sqltypes.BLOB,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "TIMESTAMP": sqltypes.TIMESTAMP,
    "TIMESTAMP_S": sqltypes.TIMESTAMP,
    "TIMESTAMP_MS": sqltypes.TIMESTAMP,
    "TIMESTAMP_NS": sqltypes.TIMESTAMP,
    "INTERVAL": Interval,
    "UUID": sqltypes.UUID,
    "JSON": sqltypes.JSON,
    '"NULL"': sqltypes.NullType,
}
for _name in INTEGERS:
    _TYPES[_name] = type(_name, (sqltypes.Integer,), {"__visit_name__": _name})


def type_of(name: str) -> Any:
    """SQLAlchemy's type for DuckDB's name of one."""
    if name.endswith("]"):
        inner, _, size = name.rpartition("[")
        if size != "]" or inner.endswith("]"):
            return RawType(name)
        return sqltypes.ARRAY(type_of(inner))
    if name in _TYPES:
        return _TYPES[name]()
    head, _, rest = name.partition("(")
    if head == "DECIMAL":
        precision, scale = rest.rstrip(")").split(",")
        return sqltypes.NUMERIC(int(precision), int(scale))
    if head == "ENUM":
        values = [v.replace("''", "'") for v in re.findall(r"\s*'((?:[^']|'')*)'", rest)]
        return sqltypes.Enum(*values)
    if name.endswith("WITH TIME ZONE"):
        return (sqltypes.TIME if head.startswith("TIME ") else sqltypes.TIMESTAMP)(timezone=True)
    return RawType(name)


class ExecutionContext(PGExecutionContext):
    """Sequences are read as PostgreSQL's are."""

    def get_insert_default(self, column: Any) -> Any:
        """The next number of a column that numbers itself, where RETURNING may not give it."""
        if numbers_itself(column):
            query = f"SELECT {next_of(self.identifier_preparer, column)}"
            return self._execute_scalar(query, column.type)
        return default.DefaultExecutionContext.get_insert_default(self, column)


class TidewheelDialect(default.DefaultDialect):
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

    # -- reflection --------------------------------------------------------------------------------

    def _rows(
        self, connection: Any, what: str, columns: str, schema: str | None, more: str = "true"
    ) -> list[Any]:
        """Rows of one of DuckDB's functions, of one schema; without one also of temporary ones."""
        where = (
            f"schema_name = '{(schema or self.default_schema_name).replace(chr(39), chr(39) * 2)}'"
        )
        if schema is None:
            where = f"({where} OR database_name = 'temp')"
        query = (
            f"SELECT {columns} FROM duckdb_{what}() WHERE {where} AND {more} "
            "AND database_name IN (current_database(), 'temp')"
        )
        return list(connection.exec_driver_sql(query).fetchall())

    def _columns(self, connection: Any, table: str, schema: str | None) -> list[Any]:
        rows = self._of(
            connection, "columns", "column_name, data_type, is_nullable, column_default, "
            "is_generated, comment, generation_expression", table, schema, "column_index"
        )  # fmt: skip
        if not rows:
            raise exc.NoSuchTableError(f"{schema}.{table}" if schema else table)
        return rows

    def _of(
        self, connection: Any, what: str, columns: str, table: str, schema: str | None, order: str
    ) -> list[Any]:
        """What belongs to one table; an unknown table has nothing."""
        name = table.replace("'", "''")
        more = f"lower(table_name) = lower('{name}')"
        rows = self._rows(connection, what, f"{columns}, {order}", schema, more)
        return sorted(rows, key=lambda row: row[-1])

    def _maintained(self, connection: Any, schema: str | None) -> dict[str, str]:
        """The query of each maintained view, by its name in small letters."""
        wanted = (schema or self.default_schema_name or "main").replace("'", "''")
        rows = connection.exec_driver_sql(
            "SELECT view_name, sql FROM tidewheel_views() WHERE database_name = current_database() "
            f"AND schema_name = lower('{wanted}')"
        )
        return {str(name): str(query) for name, query in rows}

    @reflection.cache
    def has_table(self, connection: Any, table_name: str, schema: Any = None, **kw: Any) -> bool:
        """Is there a table or view of that name?"""
        self._ensure_has_table_connection(connection)
        return bool(self._of(connection, "columns", "1", table_name, schema, "column_index"))

    @reflection.cache
    def has_sequence(
        self, connection: Any, sequence_name: str, schema: Any = None, **kw: Any
    ) -> bool:
        """Is there a sequence of that name?"""
        return sequence_name in self.get_sequence_names(connection, schema)

    @reflection.cache
    def has_schema(self, connection: Any, schema_name: str, **kw: Any) -> bool:
        """Is there a schema of that name?"""
        return schema_name in self.get_schema_names(connection)

    @reflection.cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        """The schemas of this database."""
        rows = connection.exec_driver_sql(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() "
            "AND schema_name NOT IN ('information_schema', 'pg_catalog', '__tidewheel') ORDER BY 1"
        )
        return [row[0] for row in rows]

    @reflection.cache
    def get_table_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        """Tables that are not temporary."""
        return sorted(
            r[0] for r in self._rows(connection, "tables", "table_name", schema, "NOT temporary")
        )

    @reflection.cache
    def get_temp_table_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        """Temporary tables."""
        return sorted(
            r[0] for r in self._rows(connection, "tables", "table_name", None, "temporary")
        )

    def _views(self, connection: Any, schema: Any, more: str) -> list[str]:
        """Views, without the names under which rows of maintained ones are registered."""
        more += " AND NOT internal AND NOT starts_with(view_name, '__tw_')"
        return sorted(r[0] for r in self._rows(connection, "views", "view_name", schema, more))

    @reflection.cache
    def get_view_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        """Plain views."""
        maintained = self._maintained(connection, schema)
        found = self._views(connection, schema, "NOT temporary")
        return [name for name in found if name.lower() not in maintained]

    @reflection.cache
    def get_temp_view_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        """Temporary views."""
        return self._views(connection, None, "temporary")

    @reflection.cache
    def get_materialized_view_names(
        self, connection: Any, schema: Any = None, **kw: Any
    ) -> list[str]:
        """Maintained views."""
        maintained = self._maintained(connection, schema)
        found = self._views(connection, schema, "NOT temporary")
        return [name for name in found if name.lower() in maintained]

    @reflection.cache
    def get_view_definition(
        self, connection: Any, view_name: str, schema: Any = None, **kw: Any
    ) -> str:
        """The text of a view: CREATE VIEW …, or a maintained view's query."""
        query = self._maintained(connection, schema).get(view_name.lower())
        if query is not None:
            return query
        name = view_name.replace("'", "''")
        rows = self._rows(connection, "views", "sql", schema, f"lower(view_name) = lower('{name}')")
        if not rows:
            raise exc.NoSuchTableError(f"{schema}.{view_name}" if schema else view_name)
        return str(rows[0][0])

    @reflection.cache
    def get_sequence_names(self, connection: Any, schema: Any = None, **kw: Any) -> list[str]:
        """Sequences."""
        return sorted(r[0] for r in self._rows(connection, "sequences", "sequence_name", schema))

    @reflection.cache
    def get_columns(self, connection: Any, table_name: str, schema: Any = None, **kw: Any) -> Any:
        """Columns with types, defaults, comments."""
        found = []
        for name, type_, nullable, given, generated, comment, *expression in self._columns(
            connection, table_name, schema
        ):
            # the sequence that `numbers_itself` makes, with or without a schema
            numbered = str(given).replace('"', "").endswith(f"{table_name}_{name}_seq')")
            column = {
                "name": name,
                "type": type_of(type_),
                "nullable": nullable,
                "default": None if generated or numbered else given,
                "autoincrement": numbered,
                "comment": comment,
            }
            if generated:
                text = expression[0].removeprefix("CAST(").removesuffix(f" AS {type_})")
                column["computed"] = {"sqltext": text}
            found.append(column)
        return found

    def _constraints(
        self, connection: Any, kind: str, table: str, schema: Any
    ) -> Iterator[tuple[str | None, list[str], str | None, str | None, list[str]]]:
        """Name, columns, text, the table and the columns that it refers to."""
        self._columns(connection, table, schema)
        for row in self._of(
            connection, "constraints", "constraint_type, constraint_name, constraint_column_names, "
            "expression, referenced_table, referenced_column_names, schema_name", table, schema,
            "constraint_index",
        ):  # fmt: skip
            if row[0] == kind:
                yield row[1], list(row[2]), row[3], row[4], list(row[5] or ())

    @reflection.cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Any:
        """The primary key."""
        for name, columns, *_ in self._constraints(connection, "PRIMARY KEY", table_name, schema):
            return {"constrained_columns": columns, "name": name, "comment": None}
        return ReflectionDefaults.pk_constraint()

    @reflection.cache
    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Any:
        """Foreign keys, which stay within a schema."""
        return [
            {
                "name": name,
                "constrained_columns": columns,
                "referred_schema": schema,
                "referred_table": other,
                "referred_columns": others,
                "options": {},
                "comment": None,
            }
            for name, columns, _, other, others in self._constraints(
                connection, "FOREIGN KEY", table_name, schema
            )
        ]

    @reflection.cache
    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Any:
        """UNIQUE."""
        return [
            {"name": name, "column_names": columns, "comment": None}
            for name, columns, *_ in self._constraints(connection, "UNIQUE", table_name, schema)
        ]

    @reflection.cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Any:
        """CHECK."""
        return [
            {"name": name, "sqltext": text, "comment": None}
            for name, _, text, *_ in self._constraints(connection, "CHECK", table_name, schema)
        ]

    @reflection.cache
    def get_indexes(self, connection: Any, table_name: str, schema: Any = None, **kw: Any) -> Any:
        """Indexes, of columns and of expressions."""
        columns = {row[0] for row in self._columns(connection, table_name, schema)}
        found = []
        rows = self._of(
            connection, "indexes", "expressions, is_unique", table_name, schema, "index_name"
        )
        for listed, unique, name in rows:
            parts = _listed(listed)
            plain = [p if p in columns else None for p in parts]
            index: dict[str, Any] = {
                "name": name,
                "unique": unique,
                "column_names": plain,
                "dialect_options": {},
            }
            if None in plain:
                index["expressions"] = parts
            found.append(index)
        return found

    @reflection.cache
    def get_table_comment(
        self, connection: Any, table_name: str, schema: Any = None, **kw: Any
    ) -> Any:
        """COMMENT ON TABLE."""
        self._columns(connection, table_name, schema)
        for what in ("tables", "views"):
            column = f"{what[:-1]}_name"
            name = table_name.replace("'", "''")
            rows = self._rows(
                connection, what, "comment", schema, f"lower({column}) = lower('{name}')"
            )
            if rows:
                return {"text": rows[0][0]}
        return ReflectionDefaults.table_comment()


def _listed(text: str) -> list[str]:
    """The parts of DuckDB's list of an index's expressions: ``[a, '"B c"', '(a + 1)']``."""
    found = []
    for quoted, plain in re.findall(r"\s*'((?:[^'\\]|\\.)*)'|([^,\[\]]+)", text[1:-1]):
        part = re.sub(r"\\(.)", r"\1", quoted) if quoted else plain.strip()
        if part.startswith('"') and part.endswith('"'):
            part = part[1:-1].replace('""', '"')
        elif part.startswith("(") and part.endswith(")"):
            part = part[1:-1]
        if part:
            found.append(part)
    return found
