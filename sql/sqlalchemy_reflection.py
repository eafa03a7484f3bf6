"""What SQLAlchemy's dialect knows of a database's tables, views and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.engine import default, reflection
from sqlalchemy.engine.reflection import ReflectionDefaults

from .sqlalchemy_compilers import INTEGERS, Interval, RawType

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


class Reflection(default.DefaultDialect):
    """The part of the dialect that SQLAlchemy's inspector asks."""

    def _rows(
        self, connection: Any, what: str, columns: str, schema: str | None, more: str = "true"
    ) -> list[Any]:
        """Rows of one of DuckDB's functions, of one schema; without one also of temporary ones."""
        where = f"schema_name = '{self._quoted(schema)}'"
        if schema is None:
            where = f"({where} OR database_name = 'temp')"
        query = (
            f"SELECT {columns} FROM duckdb_{what}() WHERE {where} AND {more} "
            "AND database_name IN (current_database(), 'temp')"
        )
        return list(connection.exec_driver_sql(query).fetchall())

    def _quoted(self, schema: str | None) -> str:
        """A schema's name, as it stands between quotes."""
        return (schema or self.default_schema_name or "main").replace("'", "''")

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
        rows = connection.exec_driver_sql(
            "SELECT view_name, sql FROM tidewheel_views() WHERE database_name = current_database() "
            f"AND schema_name = lower('{self._quoted(schema)}')"
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
