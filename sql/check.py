"""Running a query here and on Spark, and comparing the answers.

The tables and views that the query reads are copied to Spark as Parquet; the query is written in
Spark's SQL (`planner.spark`), its recursions run as loops on the driver where Spark has no such
recursion (`planner.spark_recursion`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from ..engine.kernels.spark import Spark, SparkError
from ..planner.spark import DIALECT, refuse
from ..planner.spark_recursion import SparkQueries
from . import errors
from .compare import Comparison, compare
from .convert import Exporter
from .dbapi import Connection
from .statements import split
from .table_names import is_cte

Report = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """A query's answers compared: `comparison`'s left side is here, its right side Spark."""

    comparison: Comparison
    columns: tuple[str, ...]
    seconds_here: float
    seconds_spark: float
    ordered_limit: bool

    @property
    def same(self) -> bool:
        """Are both answers the same multiset?"""
        return self.comparison.same


def check(
    connection: Connection, sql: str, spark: Spark | None = None, report: Report | None = None
) -> Checked:
    """Runs the query `sql` on `connection` and on Spark, and compares the answers.

    Without `spark` a session is started and stopped. `report` is told each step. Raises a subclass
    of `tidewheel.Error`: `ProgrammingError` if `sql` is not one query, `NotSupportedError` if Spark
    cannot run it (with the reason), `OperationalError` if Spark does not start.
    """
    say = report or (lambda _step: None)
    try:
        query = _for_spark(sql)
    except errors.NotSupportedError:
        if len(split(sql)) == 1:
            connection.execute(f"EXPLAIN {sql}")  # for its error, if it is none of Spark's
        raise
    say("running here")
    start = time.perf_counter()
    cursor = connection.execute(sql)
    here = cursor.to_arrow_table()
    seconds_here = time.perf_counter() - start
    columns = tuple(here.schema.names)
    with _queries(spark, say) as queries:
        _ship(connection, query, queries, say)
        say("running on Spark")
        start = time.perf_counter()
        there = queries.spark.arrow(queries.evaluate(query))
        seconds_spark = time.perf_counter() - start
    say("comparing")
    limit = query.args.get("limit") is not None or query.args.get("fetch") is not None
    return Checked(compare(here, there), columns, seconds_here, seconds_spark, limit)


def against(
    connection: Connection,
    sql: str,
    kept: Callable[[], pa.Table],
    still: AbstractContextManager[object],
    zone: str = "UTC",
) -> tuple[pa.Table, Comparison]:
    """What `kept` gives, compared with the query `sql` on Spark (the right side).

    Both are of one state of the tables: within `still`, which must not be long, nothing changes
    them. `zone`: the query's TimeZone. Uses the process's Spark session, or one of its own.
    Errors as in `check`.
    """
    query = _for_spark(sql)
    with _queries(Spark.running, lambda _step: None) as queries:
        with still:
            here = kept()
            _ship(connection, query, queries, lambda _step: None)
        with _in_zone(queries.spark, zone):
            there = queries.spark.arrow(queries.evaluate(query))
    return here, compare(Exporter(here.schema).table(here), there)


@contextmanager
def _queries(spark: Spark | None, say: Report) -> Iterator[SparkQueries]:
    """A runner of queries on `spark`, or on a session of its own, and its errors as ours."""
    own = None
    if spark is None:
        say("starting Spark")
        try:
            own = spark = Spark()
        except SparkError as error:
            raise errors.OperationalError(str(error)) from error
    try:
        queries = SparkQueries(spark)
        try:
            yield queries
        except SparkError as error:
            raise errors.NotSupportedError(f"Spark cannot run this query: {error}") from error
        finally:
            queries.close()
    finally:
        if own is not None:
            own.stop()


@contextmanager
def _in_zone(spark: Spark, zone: str) -> Iterator[None]:
    spark.sql(f"SET TIME ZONE '{zone}'")
    try:
        yield
    finally:
        spark.sql("SET TIME ZONE 'UTC'")


def _for_spark(sql: str) -> exp.Expr:
    query = parse_query(sql)
    try:
        refuse(query)
    except SparkError as error:
        raise errors.NotSupportedError(str(error)) from error
    return query


def parse_query(sql: str) -> exp.Expr:
    """The tree of the one query in `sql`. Raises ProgrammingError if it is something else."""
    try:
        statements = [s for s in sqlglot.parse(sql, dialect=DIALECT) if s is not None]
    except sqlglot.errors.SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise errors.NotSupportedError(
            f"this text cannot be written for Spark: {reason}"
        ) from error
    if len(statements) != 1:
        raise errors.ProgrammingError(
            f"a check is of one query, not of {len(statements)} statements"
        )
    query = statements[0]
    if isinstance(query, exp.Semicolon):
        raise errors.ProgrammingError("a check is of one query, and there is none")
    if not isinstance(query, (exp.Query, exp.Values)):
        raise errors.ProgrammingError(
            f"only a query can be checked, not {query.key.upper()}",
            hint="run it first, then check a query over its result",
        )
    return query


def _ship(connection: Connection, query: exp.Expr, queries: SparkQueries, say: Report) -> None:
    """Copies every relation that `query` reads to Spark and renames it in the tree."""
    shipped: dict[str, str] = {}
    mentioned = _mentioned(query)
    for table in list(query.find_all(exp.Table)):
        if is_cte(table) or _correlated(table):
            continue
        bare = table.copy()
        for part in ("alias", "joins", "laterals", "pivots", "sample"):
            bare.set(part, None)
        relation = bare.sql(DIALECT)
        if relation not in shipped:
            say(f"copying {relation} to Spark")
            name = f"__tw_check_{len(shipped)}"
            _copy(connection, relation, name, queries, mentioned)
            shipped[relation] = name
        alias = table.args.get("alias")
        if alias is None:
            shown = table.name if isinstance(table.this, exp.Identifier) else table.this.sql_name()
            alias = exp.TableAlias(this=exp.to_identifier(shown, quoted=True))
        kept = {k: table.args.get(k) for k in ("joins", "laterals", "pivots", "sample")}
        table.replace(exp.Table(this=exp.to_identifier(shipped[relation]), alias=alias, **kept))
    for column in query.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _correlated(table: exp.Table) -> bool:
    """Is it a table function over columns of other tables? That is Spark's to run."""
    return not isinstance(table.this, exp.Identifier) and table.this.find(exp.Column) is not None


def _mentioned(query: exp.Expr) -> set[str] | None:
    """All names in a query, in lower case; None where columns may be meant that are not named."""
    stars = any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star))
    natural = any(join.args.get("method") for join in query.find_all(exp.Join))
    rows = {table.alias_or_name.lower() for table in query.find_all(exp.Table)}
    columns = {column.name.lower() for column in query.find_all(exp.Column)}
    if stars or natural or rows & columns:
        return None
    return {name.name.lower() for name in query.find_all(exp.Identifier)}


def _copy(
    connection: Connection,
    relation: str,
    name: str,
    queries: SparkQueries,
    mentioned: set[str] | None,
) -> None:
    """Writes the rows of `relation` to Parquet and makes them known to Spark as `name`.

    A column that Spark cannot read is left out if it is none of those `mentioned`.
    """
    cursor = connection.execute(f"SELECT * FROM {relation}")
    reader = cursor.to_arrow_reader()
    fields: dict[int, pa.Field] = {}
    for i, field in enumerate(reader.schema):
        try:
            fields[i] = _field(field)
        except SparkError as error:
            # (a table of no columns would have no rows)
            named = mentioned is None or field.name.lower() in mentioned
            if named or (not fields and i + 1 == len(reader.schema)):
                reader.close()
                raise errors.NotSupportedError(
                    f"{relation} cannot be copied to Spark: {error}"
                ) from error
    schema = pa.schema(fields.values())
    path = queries.spark.folder / f"data{name}.parquet"
    with pq.ParquetWriter(path, schema, store_schema=False) as writer:
        for batch in reader:
            kept = pa.Table.from_batches([batch]).select(list(fields))
            writer.write_table(_plain(kept).cast(schema))
    queries.add_table(name, queries.spark.read_parquet(path))


def _plain(table: pa.Table) -> pa.Table:
    """Extension arrays replaced by their storage."""
    for i, column in enumerate(table.columns):
        if isinstance(column.type, pa.ExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            stored = pa.chunked_array(chunks, type=column.type.storage_type)
            table = table.set_column(i, table.schema.names[i], stored)
    return table


def _field(field: pa.Field) -> pa.Field:
    """The column as Spark can read it. Raises SparkError for a type that it lacks."""
    kind = field.type
    if isinstance(kind, pa.ExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_uint64(kind):
        kind = pa.decimal128(20, 0)
    elif pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    elif pa.types.is_null(kind):
        kind = pa.int32()
    elif pa.types.is_string_view(kind):
        kind = pa.string()
    elif pa.types.is_binary_view(kind):
        kind = pa.binary()
    elif pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_interval(kind):
        raise SparkError(f"column {field.name} is of type {field.type}, which Spark does not read")
    return pa.field(field.name, kind)
