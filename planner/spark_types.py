"""Types of expressions, and what Spark calls them; see `planner.spark`."""

from __future__ import annotations

from sqlglot import exp

INTEGERS = {
    exp.DType.TINYINT,
    exp.DType.SMALLINT,
    exp.DType.INT,
    exp.DType.BIGINT,
    exp.DType.INT128,
    exp.DType.UTINYINT,
    exp.DType.USMALLINT,
    exp.DType.UINT,
    exp.DType.UBIGINT,
    exp.DType.UINT128,
}
FLOATS = {exp.DType.FLOAT, exp.DType.DOUBLE}
DECIMALS = {exp.DType.DECIMAL}
DATES = {exp.DType.DATE}
INTERVALS = {exp.DType.INTERVAL}

# DuckDB's types that Spark lacks, and the narrowest one that holds their values.
TYPES = {
    exp.DType.UTINYINT: "SMALLINT",
    exp.DType.USMALLINT: "INT",
    exp.DType.UINT: "BIGINT",
    exp.DType.UBIGINT: "DECIMAL(20, 0)",
    exp.DType.INT128: "DECIMAL(38, 0)",
    exp.DType.UINT128: "DECIMAL(38, 0)",
    exp.DType.UUID: "STRING",
    exp.DType.JSON: "STRING",
    exp.DType.ENUM: "STRING",
    exp.DType.TIMESTAMP: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMP_S: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMP_MS: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMP_NS: "TIMESTAMP_NTZ",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP_LTZ",
}


def kind_of(node: exp.Expr | None) -> exp.DType | None:
    """The inferred type of an expression, None where it is not known."""
    found = node.type if node is not None else None
    if found is None or found.this == exp.DType.UNKNOWN:
        return None
    kind: exp.DType = found.this
    return kind


def double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("DOUBLE"))


def unwrapped(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    return node
