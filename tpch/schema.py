"""The tables of TPC-H (specification 1.4), and two more for recursive queries.

Types are SQL's. ``CHAR(n)`` is written ``VARCHAR(n)``: engines disagree on padding, and the
generator does not pad. The data job checks that no value is longer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ForeignKey:
    """`columns` of the table refer to `target`'s primary key."""

    columns: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Table:
    """A table: `columns` are (name, SQL type); `rows` is its size at scale factor 1, None if the
    generator draws it; `order` is how its files are sorted."""

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    rows: int | None = None
    scales: bool = True
    order: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(name for name, _ in self.columns)

    def create(self) -> str:
        """The CREATE TABLE statement, with the primary key's columns NOT NULL.

        Keys are not declared: an index costs more to load than the queries gain from it, and the
        data job has checked them.
        """
        columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in self.columns)
        return f"CREATE TABLE {self.name} ({columns})"


def _table(
    name: str,
    columns: str,
    key: str,
    foreign: dict[str, str] | None = None,
    rows: int | None = None,
    scales: bool = True,
    order: str = "",
) -> Table:
    pairs = tuple(
        (pair.split(maxsplit=1)[0], pair.split(maxsplit=1)[1]) for pair in columns.split("; ")
    )
    foreign_keys = tuple(
        ForeignKey(tuple(source.split()), target) for source, target in (foreign or {}).items()
    )
    return Table(
        name, pairs, tuple(key.split()), foreign_keys, rows, scales, tuple((order or key).split())
    )


BASE: tuple[Table, ...] = (
    _table(
        "region",
        "r_regionkey INTEGER; r_name VARCHAR(25); r_comment VARCHAR(152)",
        "r_regionkey",
        rows=5,
        scales=False,
    ),
    _table(
        "nation",
        "n_nationkey INTEGER; n_name VARCHAR(25); n_regionkey INTEGER; n_comment VARCHAR(152)",
        "n_nationkey",
        {"n_regionkey": "region"},
        rows=25,
        scales=False,
    ),
    _table(
        "supplier",
        "s_suppkey INTEGER; s_name VARCHAR(25); s_address VARCHAR(40); s_nationkey INTEGER; "
        "s_phone VARCHAR(15); s_acctbal DECIMAL(15,2); s_comment VARCHAR(101)",
        "s_suppkey",
        {"s_nationkey": "nation"},
        rows=10_000,
    ),
    _table(
        "customer",
        "c_custkey INTEGER; c_name VARCHAR(25); c_address VARCHAR(40); c_nationkey INTEGER; "
        "c_phone VARCHAR(15); c_acctbal DECIMAL(15,2); c_mktsegment VARCHAR(10); "
        "c_comment VARCHAR(117)",
        "c_custkey",
        {"c_nationkey": "nation"},
        rows=150_000,
    ),
    _table(
        "part",
        "p_partkey INTEGER; p_name VARCHAR(55); p_mfgr VARCHAR(25); p_brand VARCHAR(10); "
        "p_type VARCHAR(25); p_size INTEGER; p_container VARCHAR(10); "
        "p_retailprice DECIMAL(15,2); p_comment VARCHAR(23)",
        "p_partkey",
        rows=200_000,
    ),
    _table(
        "partsupp",
        "ps_partkey INTEGER; ps_suppkey INTEGER; ps_availqty INTEGER; "
        "ps_supplycost DECIMAL(15,2); ps_comment VARCHAR(199)",
        "ps_partkey ps_suppkey",
        {"ps_partkey": "part", "ps_suppkey": "supplier"},
        rows=800_000,
    ),
    _table(
        "orders",
        "o_orderkey BIGINT; o_custkey INTEGER; o_orderstatus VARCHAR(1); "
        "o_totalprice DECIMAL(15,2); o_orderdate DATE; o_orderpriority VARCHAR(15); "
        "o_clerk VARCHAR(15); o_shippriority INTEGER; o_comment VARCHAR(79)",
        "o_orderkey",
        {"o_custkey": "customer"},
        rows=1_500_000,
        order="o_orderdate o_orderkey",
    ),
    _table(
        "lineitem",
        "l_orderkey BIGINT; l_partkey INTEGER; l_suppkey INTEGER; l_linenumber INTEGER; "
        "l_quantity DECIMAL(15,2); l_extendedprice DECIMAL(15,2); l_discount DECIMAL(15,2); "
        "l_tax DECIMAL(15,2); l_returnflag VARCHAR(1); l_linestatus VARCHAR(1); "
        "l_shipdate DATE; l_commitdate DATE; l_receiptdate DATE; l_shipinstruct VARCHAR(25); "
        "l_shipmode VARCHAR(10); l_comment VARCHAR(44)",
        "l_orderkey l_linenumber",
        {"l_orderkey": "orders", "l_partkey l_suppkey": "partsupp"},
        order="l_shipdate l_orderkey l_linenumber",
    ),
)

DERIVED: tuple[Table, ...] = (
    # A part is made of other parts; acyclic, ten levels.
    _table(
        "bill_of_materials",
        "b_parent INTEGER; b_child INTEGER; b_quantity INTEGER",
        "b_parent b_child",
        {"b_parent": "part", "b_child": "part"},
    ),
    # Who delivers to whom. A customer's node is c_custkey, a supplier's −s_suppkey; cyclic.
    _table(
        "trade",
        "t_source INTEGER; t_target INTEGER; t_volume DECIMAL(15,2)",
        "t_source t_target",
    ),
)

TABLES: tuple[Table, ...] = BASE + DERIVED
BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}

# The generator's lineitem counts at the scales that the specification (4.2.5.1) or common use
# has made known.
LINEITEM_ROWS = {0.01: 60_175, 0.1: 600_572, 1.0: 6_001_215, 10.0: 59_986_052}


def expected_rows(table: Table, scale: float) -> int | None:
    """How many rows `table` must have at a scale factor; None where that is not fixed."""
    if table.name == "lineitem":
        return LINEITEM_ROWS.get(scale)
    if table.rows is None or not table.scales:
        return table.rows
    return round(table.rows * scale)


def refresh_size(scale: float) -> int:
    """Orders per refresh set: SF × 1,500 (specification 2.5.2), at least 1."""
    return max(1, round(scale * 1500))
