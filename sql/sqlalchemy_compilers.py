"""How SQLAlchemy's expressions, tables and types are written in Tidewheel's SQL.

DuckDB's expressions are mostly PostgreSQL's, so SQLAlchemy's compiler for that one is the base;
what differs is here.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import schema, sql
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGIdentifierPreparer, PGTypeCompiler
from sqlalchemy.sql import compiler
from sqlalchemy.sql.sqltypes import _AbstractInterval
from sqlalchemy.sql.type_api import NativeForEmulated

from .reserved import RESERVED

INTEGERS = ("TINYINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT")


class RawType(sqltypes.UserDefinedType[Any]):
    """A type that SQLAlchemy has no word for (STRUCT, MAP, UNION …): values pass as they are."""

    cache_ok = True

    def __init__(self, name: str = "JSON") -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """The type as it is written in SQL."""
        return self.name


class Numeric(sqltypes.Numeric[Any]):
    """A DECIMAL. A quotient of DECIMALs is a DOUBLE to DuckDB, which has 15 digits."""

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        """Decimals, or floats if they are asked for."""
        if not self.asdecimal:
            return lambda value: None if value is None else float(value)
        return lambda value: Decimal(f"{value:.15g}") if type(value) is float else value


class Interval(NativeForEmulated, _AbstractInterval):
    """An INTERVAL: Python's timedelta."""

    __visit_name__ = "INTERVAL"
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> Interval:
        """For SQLAlchemy's general one."""
        return cls()

    @property
    def _type_affinity(self) -> type[sqltypes.Interval]:
        return sqltypes.Interval

    @property
    def python_type(self) -> type[timedelta]:
        """What rows hold."""
        return timedelta

    def literal_processor(self, dialect: Any) -> Any:
        """In whole microseconds."""
        return lambda value: f"to_microseconds({value // timedelta(microseconds=1)})"


class _JSONPart:
    """Keys and paths of JSON, as DuckDB writes them: ``$."key"[0]``."""

    def _format(self, value: Any) -> str:
        parts = value if isinstance(value, (list, tuple)) else [value]
        return "$" + "".join(
            f"[{p}]" if isinstance(p, int) else '."' + p.replace('"', '\\"') + '"' for p in parts
        )

    def bind_processor(self, dialect: Any) -> Any:
        return self._format

    def literal_processor(self, dialect: Any) -> Any:
        return lambda value: "'" + self._format(value).replace("'", "''") + "'"


class JSONIndex(_JSONPart, sqltypes.JSON.JSONIndexType):
    """A key or a position in JSON."""


class JSONPath(_JSONPart, sqltypes.JSON.JSONPathType):
    """A path of keys and positions."""


class Compiler(PGCompiler):
    """Expressions and statements."""

    def visit_json_getitem_op_binary(
        self, binary: Any, operator: Any, _cast_applied: bool = False, **kw: Any
    ) -> str:
        """``->`` where JSON is wanted, else ``->>`` and a cast."""
        if not _cast_applied and binary.type._type_affinity is not sqltypes.JSON:
            return str(self.process(sql.cast(binary, binary.type), _cast_applied=True, **kw))
        arrow = "->>" if _cast_applied else "->"
        # DuckDB's arrow binds loosely
        return f"({self.process(binary.left, **kw)} {arrow} {self.process(binary.right, **kw)})"

    visit_json_path_getitem_op_binary = visit_json_getitem_op_binary

    def _matches(self, binary: Any, kw: Any) -> str:
        flags = binary.modifiers["flags"]
        more = f", {self.render_literal_value(flags, sqltypes.STRINGTYPE)}" if flags else ""
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_matches({left}, {right}{more})"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """A match anywhere in the text (DuckDB's ``~`` wants all of it)."""
        return self._matches(binary, kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """No match anywhere in the text."""
        return f"NOT {self._matches(binary, kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Every match is replaced, as in SQLAlchemy's other dialects that have no flag for it."""
        flags = self.render_literal_value(binary.modifiers["flags"] or "g", sqltypes.STRINGTYPE)
        left, right = self.process(binary.left, **kw), self.process(binary.right, **kw)
        return f"regexp_replace({left}, {right}, {flags})"

    def visit_bitwise_xor_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """DuckDB has a function for it."""
        return f"xor({self.process(binary.left, **kw)}, {self.process(binary.right, **kw)})"

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """There are no row locks; a conflict is found at the commit."""
        return ""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET, each alone if need be."""
        text = ""
        if select._limit_clause is not None:
            text += "\n LIMIT " + self.process(select._limit_clause, **kw)
        if select._offset_clause is not None:
            text += "\n OFFSET " + self.process(select._offset_clause, **kw)
        return text

    def visit_slice(self, element: Any, **kw: Any) -> str:
        """A slice of a list."""
        return f"{self.process(element.start, **kw)}:{self.process(element.stop, **kw)}"


def numbers_itself(column: schema.Column[Any]) -> bool:
    """Is it an IDENTITY, or an integer primary key that nothing fills? Then a sequence does."""
    if column.identity is not None:
        return True
    return (
        column.primary_key
        and column.table is not None
        and column is column.table._autoincrement_column
        and column.server_default is None
        and (column.default is None or bool(getattr(column.default, "optional", False)))
    )


def sequence_of(preparer: Any, column: schema.Column[Any]) -> str:
    """The quoted name of the sequence that numbers a column: ``table_column_seq``."""
    name = preparer.quote(f"{column.table.name}_{column.name}_seq")
    where = preparer.schema_for_object(column.table)
    return f"{preparer.quote_schema(where)}.{name}" if where else str(name)


def next_of(preparer: Any, column: schema.Column[Any]) -> str:
    """The expression that takes its next number."""
    return "nextval('" + sequence_of(preparer, column).replace("'", "''") + "')"


class DDLCompiler(compiler.DDLCompiler):
    """Tables; a column that numbers itself gets a sequence, made and dropped with its table."""

    def _numbered(self, table: schema.Table) -> list[schema.Column[Any]]:
        return [c for c in table.columns if numbers_itself(c)]

    def get_column_specification(self, column: schema.Column[Any], **kwargs: Any) -> str:
        """One line of CREATE TABLE."""
        type_ = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        parts: list[str] = [self.preparer.format_column(column), type_]
        default = self.get_column_default_string(column)
        if column.computed is not None:
            parts.append(self.process(column.computed))
        elif numbers_itself(column):
            parts.append(f"DEFAULT {next_of(self.preparer, column)}")
        elif default is not None:
            parts.append(f"DEFAULT ({default})")
        if not column.nullable:
            parts.append("NOT NULL")
        return " ".join(parts)

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        """The sequences first."""
        table = create.element
        temporary = "TEMPORARY " * ("TEMPORARY" in [p.upper() for p in table._prefixes])
        statements = []
        for column in self._numbered(table):
            name = sequence_of(self.preparer, column)
            options = "" if column.identity is None else self.get_identity_options(column.identity)
            head = f"CREATE {temporary}SEQUENCE IF NOT EXISTS {name}"
            statements.append(f"{head} {options}".strip())
        return ";\n".join([*statements, super().visit_create_table(create, **kw)])

    def visit_drop_table(self, drop: Any, **kw: Any) -> str:
        """The sequences last."""
        statements: list[str] = [super().visit_drop_table(drop, **kw)]
        for column in self._numbered(drop.element):
            name = sequence_of(self.preparer, column)
            statements.append(f"DROP SEQUENCE IF EXISTS {name}")
        return ";\n".join(statements)

    def visit_computed_column(self, generated: Any, **kw: Any) -> str:
        """Computed when it is read; DuckDB stores none."""
        text = self.sql_compiler.process(generated.sqltext, include_table=False, literal_binds=True)
        return f"GENERATED ALWAYS AS ({text}) VIRTUAL"

    def define_constraint_deferrability(self, constraint: Any) -> str:
        """There is no deferring."""
        return ""


class TypeCompiler(PGTypeCompiler):
    """Names of types."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """SQLAlchemy's FLOAT is Python's: 64 bits."""
        return "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        """32 bits."""
        return "FLOAT"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        """Where no precision is given DuckDB's own (18, 3) would lose digits."""
        if type_.precision is None:
            return "DECIMAL(38, 10)"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        """Bytes."""
        return "BLOB"

    visit_BYTEA = visit_BLOB = visit_BINARY = visit_VARBINARY = visit_large_binary

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        """A date and time of day."""
        return "TIMESTAMP WITH TIME ZONE" if type_.timezone else "TIMESTAMP"

    visit_datetime = visit_TIMESTAMP = visit_DATETIME

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        """A time of day."""
        return "TIME WITH TIME ZONE" if type_.timezone else "TIME"

    def visit_INTERVAL(self, type_: Any, **kw: Any) -> str:
        """A length of time."""
        return "INTERVAL"

    visit_interval = visit_INTERVAL

    def visit_enum(self, type_: Any, **kw: Any) -> str:
        """As text; SQLAlchemy checks the values."""
        return "VARCHAR"

    visit_ENUM = visit_enum  # type: ignore[assignment]

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        """Text that is JSON."""
        return "JSON"

    visit_JSONB = visit_JSON

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """A list, of lists if it has more dimensions."""
        return str(self.process(type_.item_type, **kw)) + "[]" * (type_.dimensions or 1)


def _named(name: str) -> Any:
    return lambda self, type_, **kw: name


for _name in INTEGERS:
    setattr(TypeCompiler, f"visit_{_name}", _named(_name))


class Preparer(PGIdentifierPreparer):
    """Which names need quotes: DuckDB's reserved words among them."""

    reserved_words = set(RESERVED)  # noqa: RUF012
