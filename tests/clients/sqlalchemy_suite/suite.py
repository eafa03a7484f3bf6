"""SQLAlchemy's dialect suite; not collected by name, `test_sqlalchemy.py` runs it by itself.

What is left out here has no requirement of the suite's that could be closed; the reason stands at
each place.
"""

from typing import Any

import pytest
from sqlalchemy import Column, Integer, String, Table
from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403

# The suite empties its tables between two tests within one transaction. DuckDB sees the rows that
# refer to others until the commit, so here the tables have no foreign keys, or keep their rows.


class JoinTest(suite.JoinTest):
    run_inserts = "once"
    run_deletes = None


class CTETest(suite.CTETest):
    @classmethod
    def define_tables(cls, metadata: Any) -> None:
        columns = Column("data", String(50)), Column("parent_id", Integer)
        Table("some_table", metadata, Column("id", Integer, primary_key=True), *columns)
        columns = Column("data", String(50)), Column("parent_id", Integer)
        Table("some_other_table", metadata, Column("id", Integer, primary_key=True), *columns)


def left_out(owner: type, name: str, reason: str) -> None:
    """Skip one test, its parameters kept."""
    setattr(owner, name, pytest.mark.skip(reason=reason)(getattr(owner, name)))


for name in (
    "test_get_foreign_keys",
    "test_get_foreign_keys_quoted_name",
    "test_get_multi_foreign_keys",
    "test_get_multi_pk_constraint",
    "test_get_multi_unique_constraints",
    "test_get_temp_table_unique_constraints",
    "test_get_unique_constraints",
    "test_get_unique_constraints_quoted_name",
    "test_reflect_table_temp_table",
):
    left_out(suite.ComponentReflectionTest, name, "DuckDB makes the names of constraints itself")
left_out(
    suite.LongNameBlowoutTest,
    "test_long_convention_name",
    "DuckDB makes the names of constraints itself",
)
left_out(
    suite.ComponentReflectionTestExtra,
    "test_string_length_reflection",
    "DuckDB's VARCHAR has no length",
)
left_out(
    suite.DistinctOnTest,
    "test_distinct_on",
    "it wants a warning that DISTINCT ON is missing; DuckDB has it",
)
