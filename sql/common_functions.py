"""What is known of DuckDB's usual functions without its list.

To make the list takes DuckDB 20 ms in a database that has not been asked for it. As long as nobody
can have made a macro, a name that is `COMMON` means what it always means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Final, TypeVar

T = TypeVar("T")

AGGREGATES: Final = frozenset({
    "any_value", "approx_count_distinct", "arg_max", "arg_min", "array_agg", "avg", "bit_and",
    "bool_and", "bool_or", "corr", "count", "count_if", "countif", "covar_pop", "first", "last",
    "list", "max", "median", "min", "mode", "product", "quantile_cont", "stddev", "stddev_samp",
    "string_agg", "sum", "var_samp", "variance",
})  # fmt: skip
_OTHERS: Final = frozenset({
    "abs", "ceil", "coalesce", "concat", "concat_ws", "contains", "cume_dist", "date_diff",
    "date_part", "date_trunc", "datediff", "day", "dense_rank", "exp", "extract", "first_value",
    "floor", "greatest", "hash", "ifnull", "instr", "lag", "last_value", "lead", "least", "left",
    "length", "list_contains", "list_value", "ln", "log", "lower", "mod", "month", "nth_value",
    "ntile", "percent_rank", "position", "power", "range", "rank", "regexp_matches", "replace",
    "right", "round", "row", "row_number", "sign", "sqrt", "starts_with", "strftime", "struct_pack",
    "substr", "substring", "trim", "unnest", "upper", "year",
    # words of SQL itself, before a parenthesis
    "all", "and", "any", "array", "as", "by", "case", "cast", "distinct", "else", "except",
    "exists", "filter", "from", "having", "in", "intersect", "join", "lateral", "materialized",
    "not", "on", "or", "over", "recursive", "select", "then", "try_cast", "union", "using",
    "values", "when", "where", "with",
    # what stands behind a registered table
    "python_arrow_scan",
})  # fmt: skip
COMMON: Final = AGGREGATES | _OTHERS
"""No macros, and of none the value changes while its arguments do not."""


class Names(Set[str]):
    """Names of functions: `common` ones, and others for which `every` is asked."""

    def __init__(self, common: frozenset[str], every: Callable[[], Set[str]]) -> None:
        self._common = common
        self._every = every

    def __contains__(self, name: object) -> bool:
        return name in self._common or (name not in COMMON and name in self._every())

    def __iter__(self) -> Iterator[str]:
        return iter(self._every())

    def __len__(self) -> int:
        return len(self._every())


class Definitions(Mapping[str, T]):
    """What names stand for, none of which are `COMMON`: `every` is asked for others."""

    def __init__(self, every: Callable[[], Mapping[str, T]]) -> None:
        self._every = every

    def __getitem__(self, name: str) -> T:
        if name in COMMON:
            raise KeyError(name)
        return self._every()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._every())

    def __len__(self) -> int:
        return len(self._every())
