"""The PySpark job: the generator's text becomes typed, checked Parquet.

Layout of the files. A base table is a few files, each sorted by the table's date where it has one,
so that the minimum and maximum of a date in each row group let a reader skip the others; row groups
are small enough that two or more threads share a file. There is no folder per date: at these sizes
it would only multiply small files. The refresh sets are partitioned by epoch, since
each epoch is read by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .schema import BASE, BY_NAME, DERIVED, TABLES, Table, expected_rows, refresh_size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..engine.kernels.spark import Spark

_FILE_ROWS = 1_000_000
_ROW_GROUP_BYTES = 32 << 20
_COMPRESSION = "zstd"

# Orders come in groups of 8 keys out of each 32 (specification 4.2.3); the rest is free for new
# ones. `_INDEX` numbers the orders 1, 2, 3 … by their keys, `_new_key` is a free key per number.
_INDEX = "(shiftright({key}, 5) * 8 + ({key} & 7))"
_DELETE_SETS = 1000


class PipelineError(Exception):
    """The data are not what the specification asks for."""


@dataclass(frozen=True)
class Check:
    """One rule that the data must keep: `broken` counts what breaks it."""

    name: str
    broken: int


Report = Callable[[str], None]


def _text_type(kind: str) -> str:
    return "STRING" if kind.startswith("VARCHAR") else kind


def read_raw(spark: Spark, raw: Path, table: Table) -> DataFrame:
    """The generator's ``<table>.tbl``: fields end with ``|``, nothing is quoted."""
    fields = [f"{name} {_text_type(kind)}" for name, kind in table.columns]
    reader = spark.session.read.schema(", ".join([*fields, "line_end STRING"]))
    reader = reader.option("sep", "|").option("quote", "").option("escape", "")
    reader = reader.option("mode", "FAILFAST")
    return reader.csv(str(raw / f"{table.name}.tbl")).drop("line_end")


def write(frame: DataFrame, path: Path, order: tuple[str, ...], rows: float) -> None:
    """Writes Parquet, each file sorted by `order`; `rows` is about how many there are.

    A large table keeps the splits in which it was read, a file of some 100 MB of text each: no
    shuffle, and a range of dates is one run of row groups in every file. A small one is one file.
    """
    if rows < _FILE_ROWS:
        frame = frame.coalesce(1)
    _save(_writer(frame.sortWithinPartitions(*order)), path)


def _save(writer: Any, path: Path) -> None:
    from ..engine.kernels.spark import translated_errors

    with translated_errors():
        writer.parquet(str(path))


def _writer(frame: DataFrame) -> Any:
    writer = frame.write.mode("overwrite").option("compression", _COMPRESSION)
    return writer.option("parquet.block.size", str(_ROW_GROUP_BYTES))


def convert(spark: Spark, raw: Path, tables: Path, scale: float, report: Report) -> None:
    """Types the base tables and writes them; leaves a view per table in the session."""
    for table in BASE:
        report(f"{table.name}: typing and writing Parquet")
        rows = expected_rows(table, scale) or 6_000_000 * scale
        write(read_raw(spark, raw, table), tables / table.name, table.order, rows)
        register(spark, tables, table.name)


def register(spark: Spark, tables: Path, name: str) -> None:
    """Makes a table of the data folder known to the session under its name."""
    spark.read_parquet(tables / name).createOrReplaceTempView(name)


def _hash(salt: str, *columns: str) -> str:
    """A number from 0 to 2³¹ − 1 that depends on `columns` only: every run draws the same."""
    return f"(xxhash64({', '.join(columns)}, '{salt}') & 2147483647)"


def derive(spark: Spark, tables: Path, scale: float, report: Report) -> None:
    """Writes the bill of materials and the trade graph."""
    statements = {"bill_of_materials": _bill_of_materials(scale), "trade": _trade()}
    for table in DERIVED:
        report(f"{table.name}: deriving")
        write(spark.sql(statements[table.name]), tables / table.name, table.order, 450_000 * scale)
        register(spark, tables, table.name)


def _bill_of_materials(scale: float) -> str:
    """The level of a part is its key's last digit: 0 is on top, 9 is bought, not made.

    A part is made of up to four parts of the next level, now and then of the one after. Levels
    only grow along an edge, so there is no cycle; every part of levels 1 to 9 is equally likely.
    """
    per_level = max(1, round(200_000 * scale) // 10)
    level = f"least(9, b_parent % 10 + 1 + int({_hash('skip', 'b_parent', 'slot')} % 5 = 0))"
    return f"""
        SELECT b_parent, b_child, CAST(sum(quantity) AS INT) AS b_quantity
        FROM (
            SELECT
                b_parent,
                CAST(10 * ({_hash("child", "b_parent", "slot")} % {per_level}) + {level} AS INT)
                    AS b_child,
                1 + {_hash("quantity", "b_parent", "slot")} % 4 AS quantity
            FROM (
                SELECT p_partkey AS b_parent,
                       explode(sequence(0L, {_hash("slots", "p_partkey")} % 4)) AS slot
                FROM part
                WHERE p_partkey % 10 < 9
            )
        )
        GROUP BY b_parent, b_child
    """


def _trade() -> str:
    """Suppliers deliver to the customers of one order in five, as their lineitems say; each
    customer delivers to one supplier, half of them to one of their own nation."""
    nearby = _hash("near", "c_custkey")
    return f"""
        SELECT -l_suppkey AS t_source, o_custkey AS t_target,
               CAST(sum(l_extendedprice) AS DECIMAL(15, 2)) AS t_volume
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey
        WHERE l_linenumber = 1 AND {_INDEX.format(key="o_orderkey")} % 5 = 0
        GROUP BY l_suppkey, o_custkey
        UNION ALL
        SELECT c_custkey, -s_suppkey,
               CAST(1 + {_hash("volume", "c_custkey")} % 10000000 / 100 AS DECIMAL(15, 2))
        FROM (
            SELECT c_custkey, c_nationkey, {nearby} % 2 = 0 AS near,
                   {_hash("to", "c_custkey")} AS pick
            FROM customer
        )
        JOIN (
            SELECT s_suppkey, s_nationkey,
                   row_number() OVER (PARTITION BY s_nationkey ORDER BY s_suppkey) - 1 AS place,
                   count(*) OVER (PARTITION BY s_nationkey) AS places,
                   s_suppkey - 1 AS place_of_all,
                   count(*) OVER () AS places_of_all
            FROM supplier
        ) ON CASE WHEN near THEN s_nationkey = c_nationkey AND place = pick % places
                  ELSE place_of_all = pick % places_of_all END
    """


def derive_refresh(spark: Spark, folder: Path, scale: float, epochs: int, report: Report) -> None:
    """Writes `epochs` pairs of refresh sets (specification 2.5): RF1's new orders and lineitems,
    RF2's keys of orders to delete.

    A new order takes dates, priority and text from one existing order and its customer from
    another; its lines keep their part and supplier, and draw quantity, discount and tax anew.
    RF2 deletes existing orders, spread over the key space; no order is deleted twice.
    """
    report(f"refresh sets for {epochs} epochs: deriving")
    size = refresh_size(scale)
    orders = round(1_500_000 * scale)
    index = _INDEX.format(key="o_orderkey")
    new_key = "(shiftleft(shiftright(i, 3), 5) + 8 + (i & 7))"
    spark.sql(f"""
        SELECT epoch, {new_key} AS new_key,
               1 + (i * 7919 + epoch * 104729) % {orders} AS like_order,
               1 + (i * 15485863 + epoch * 32452843) % {orders} AS like_customer
        FROM (
            SELECT e.id AS epoch, k.id * {_DELETE_SETS} + e.id AS i
            FROM range(1, {epochs + 1}) e CROSS JOIN range({size}) k
        )
    """).createOrReplaceTempView("__tw_new_orders")
    spark.sql(f"SELECT *, {index} AS i FROM orders").createOrReplaceTempView("__tw_orders")
    lines = spark.sql(f"""
        SELECT epoch, new_key AS l_orderkey, l_partkey, l_suppkey, l_linenumber,
               CAST(quantity AS DECIMAL(15, 2)) AS l_quantity,
               CAST(l_extendedprice / l_quantity * quantity AS DECIMAL(15, 2)) AS l_extendedprice,
               CAST({_hash("discount", "new_key", "l_linenumber")} % 11 / 100 AS DECIMAL(15, 2))
                   AS l_discount,
               CAST({_hash("tax", "new_key", "l_linenumber")} % 9 / 100 AS DECIMAL(15, 2)) AS l_tax,
               l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate,
               l_shipinstruct, l_shipmode, l_comment
        FROM (
            SELECT n.*, l.*,
                   1 + {_hash("quantity", "new_key", "l_linenumber")} % 50 AS quantity
            FROM __tw_new_orders n
            JOIN __tw_orders o ON o.i = n.like_order
            JOIN lineitem l ON l.l_orderkey = o.o_orderkey
        )
    """)
    by_epoch = lines.repartition("epoch").sortWithinPartitions(
        "epoch", *BY_NAME["lineitem"].primary_key
    )
    _save(_writer(by_epoch).partitionBy("epoch"), folder / "lineitem")
    spark.read_parquet(folder / "lineitem").createOrReplaceTempView("__tw_new_lines")
    new_orders = spark.sql("""
        SELECT n.epoch, n.new_key AS o_orderkey, c.o_custkey, o.o_orderstatus,
               t.total AS o_totalprice, o.o_orderdate, o.o_orderpriority, o.o_clerk,
               o.o_shippriority, o.o_comment
        FROM __tw_new_orders n
        JOIN __tw_orders o ON o.i = n.like_order
        JOIN __tw_orders c ON c.i = n.like_customer
        JOIN (
            SELECT l_orderkey,
                   CAST(sum(CAST(l_extendedprice * (1 - l_discount) * (1 + l_tax)
                                 AS DECIMAL(15, 2))) AS DECIMAL(15, 2)) AS total
            FROM __tw_new_lines
            GROUP BY l_orderkey
        ) t ON t.l_orderkey = n.new_key
    """)
    by_epoch = new_orders.repartition("epoch").sortWithinPartitions("epoch", "o_orderkey")
    _save(_writer(by_epoch).partitionBy("epoch"), folder / "orders")
    deleted = spark.sql(f"""
        SELECT CAST((i - 1) % {_DELETE_SETS} + 1 AS BIGINT) AS epoch, o_orderkey
        FROM __tw_orders
        WHERE (i - 1) % {_DELETE_SETS} < {epochs} AND (i - 1) DIV {_DELETE_SETS} < {size}
    """)
    by_epoch = deleted.repartition("epoch").sortWithinPartitions("epoch", "o_orderkey")
    _save(_writer(by_epoch).partitionBy("epoch"), folder / "delete")
    for view in ("__tw_new_orders", "__tw_orders", "__tw_new_lines"):
        spark.drop_view(view)


def check(
    spark: Spark, tables: Path, refresh: Path, scale: float, epochs: int, report: Report
) -> tuple[dict[str, int], list[Check]]:
    """Checks the written data; returns the rows per table and every check that was made.

    Row counts, keys (present, unique), foreign keys, text no longer than the specification's, an
    acyclic bill of materials; for refresh sets: new keys are new, deleted ones exist, sizes.
    Raises PipelineError naming each rule that is broken.
    """
    counts: dict[str, int] = {}
    checks: list[Check] = []
    for table in TABLES:
        report(f"{table.name}: checking keys")
        counts[table.name] = _check_table(spark, table, scale, checks)
    report("bill of materials and refresh sets: checking")
    _check_derived(spark, refresh, scale, epochs, checks)
    broken = [check for check in checks if check.broken]
    if broken:
        listed = "; ".join(f"{check.name}: {check.broken} rows" for check in broken)
        raise PipelineError(f"the generated data in {tables} break the specification: {listed}")
    return counts, checks


def _check_table(spark: Spark, table: Table, scale: float, checks: list[Check]) -> int:
    """All rules of one table in one Spark job: each is a scalar subquery."""
    key = ", ".join(table.primary_key)
    bad = [f"{name} IS NULL" for name, _ in table.columns]
    bad += [
        f"char_length({name}) > {kind.removeprefix('VARCHAR(').removesuffix(')')}"
        for name, kind in table.columns
        if kind.startswith("VARCHAR")
    ]
    rules = {
        f"{table.name}: primary key ({key}) is unique": f"SELECT sum(n - 1) FROM (SELECT count(*) "
        f"AS n FROM {table.name} GROUP BY {key})",
        f"{table.name}: every column is set, no text is too long": "SELECT count_if("
        f"{' OR '.join(bad)}) FROM {table.name}",
    }
    for foreign in table.foreign_keys:
        target = BY_NAME[foreign.target]
        match = " AND ".join(
            f"s.{a} = t.{b}" for a, b in zip(foreign.columns, target.primary_key, strict=True)
        )
        rules[f"{table.name}: ({', '.join(foreign.columns)}) refers to {target.name}"] = (
            f"SELECT count(*) FROM {table.name} s LEFT ANTI JOIN {target.name} t ON {match}"
        )
    subqueries = ", ".join(f"({rule})" for rule in rules.values())
    found = spark.run(f"SELECT (SELECT count(*) FROM {table.name}), {subqueries}").to_pylist()[0]
    rows, *broken = found.values()
    checks.extend(Check(name, count) for name, count in zip(rules, broken, strict=True))
    expected = expected_rows(table, scale)
    if expected is not None:
        checks.append(Check(f"{table.name}: {expected} rows, found {rows}", abs(rows - expected)))
    return int(rows)


def _check_derived(
    spark: Spark, refresh: Path, scale: float, epochs: int, checks: list[Check]
) -> None:
    for name in ("orders", "lineitem", "delete"):
        spark.read_parquet(refresh / name).createOrReplaceTempView(f"__tw_rf_{name}")
    size = refresh_size(scale)
    rules = {
        "bill_of_materials: levels grow along every edge": "SELECT count(*) FROM bill_of_materials "
        "WHERE b_child % 10 <= b_parent % 10",
        "trade: nodes are customers or suppliers": "SELECT count(*) FROM (SELECT t_source AS node "
        "FROM trade UNION SELECT t_target FROM trade) LEFT ANTI JOIN (SELECT c_custkey AS node "
        "FROM customer UNION ALL SELECT -s_suppkey FROM supplier) USING (node)",
        "RF1: new order keys are new and differ": "SELECT (SELECT count(*) - "
        "count(DISTINCT o_orderkey) FROM __tw_rf_orders) + (SELECT count(*) FROM __tw_rf_orders n "
        "JOIN orders o ON n.o_orderkey = o.o_orderkey)",
        "RF1: every order has lineitems and every lineitem its order": "SELECT count(*) FROM "
        "(SELECT DISTINCT epoch, l_orderkey FROM __tw_rf_lineitem) l FULL JOIN __tw_rf_orders o "
        "ON l_orderkey = o_orderkey AND l.epoch = o.epoch "
        "WHERE l_orderkey IS NULL OR o_orderkey IS NULL",
        "RF1: lineitems refer to partsupp": "SELECT count(*) FROM __tw_rf_lineitem LEFT ANTI JOIN "
        "partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey",
        "RF2: deleted orders exist and differ": "SELECT (SELECT count(*) - "
        "count(DISTINCT o_orderkey) FROM __tw_rf_delete) + (SELECT count(*) FROM __tw_rf_delete d "
        "LEFT ANTI JOIN orders o ON d.o_orderkey = o.o_orderkey)",
        f"RF1, RF2: {epochs} epochs of {size} orders": "SELECT count(*) FROM (SELECT count(*) AS n "
        "FROM __tw_rf_orders GROUP BY epoch UNION ALL SELECT count(*) FROM __tw_rf_delete "
        f"GROUP BY epoch) WHERE n <> {size}",
    }
    found = spark.run("SELECT " + ", ".join(f"({rule})" for rule in rules.values()))
    broken = found.to_pylist()[0].values()
    checks.extend(Check(name, count) for name, count in zip(rules, broken, strict=True))
    for name in ("orders", "lineitem", "delete"):
        spark.drop_view(f"__tw_rf_{name}")
