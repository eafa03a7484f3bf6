"""What SQLAlchemy's dialect suite may expect of Tidewheel."""

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

# Closed by the suite unless a dialect says that it has them.
SUPPORTED = """
create_table_as create_temp_table_as table_ddl_if_exists index_ddl_if_exists uuid_data_type
table_value_constructor boolean_col_expressions nullsordering intersect except_ window_functions
ctes ctes_with_values
tuple_in views implicit_default_schema comment_reflection comment_reflection_full_unicode
schema_create_delete temp_table_names has_temp_table temporary_views create_or_replace_view
indexes_with_expressions reflect_indexes_with_expressions nvarchar_types unicode_ddl
datetime_interval datetime_literals
datetime_timezone timestamp_microseconds datetime_historic date_historic autocommit isolation_level
array_type json_type precision_numerics_enotation_small precision_numerics_many_significant_digits
server_defaults expression_server_defaults aggregate_order_by infinity_floats
float_or_double_precision_behaves_generically update_from delete_from
computed_columns computed_columns_virtual
supports_distinct_on regexp_match regexp_replace fetch_first fetch_no_order_by fetch_expression
supports_bitwise_or supports_bitwise_and supports_bitwise_not
supports_bitwise_xor supports_bitwise_shift
"""

# Open unless a dialect says that it lacks them; why Tidewheel does.
LACKING = {
    "on_update_cascade": "DuckDB's foreign keys neither cascade …",
    "recursive_fk_cascade": "… nor set NULL",
    "named_constraints": "DuckDB keeps no name of a constraint, it makes one",
    "indexes_with_ascdesc": "DuckDB's indexes have no direction",
    "reflect_indexes_with_ascdesc": "DuckDB's indexes have no direction",
    "implements_get_lastrowid": "rows have no number; keys come back by RETURNING",
    "window_range": "the suite wants the order of rows without ORDER BY",
    "check_constraint_reflection": "DuckDB makes the names of constraints itself",
    "identity_columns": "an Identity becomes a sequence, so it reads back as one",
    "materialized_views": "the suite wants an index on one; reflection has tests of its own",
    "independent_readonly_connections": "read_only is of the whole file",
}


class Requirements(SuiteRequirements):
    """The suite's own defaults, with what Tidewheel has and lacks."""


def _fixed(rule: Any) -> property:
    return property(lambda self: rule)


# Older versions of SQLAlchemy lack some of them.
for _name in SUPPORTED.split():
    if hasattr(SuiteRequirements, _name):
        setattr(Requirements, _name, _fixed(exclusions.open()))
for _name, _why in LACKING.items():
    if hasattr(SuiteRequirements, _name):
        setattr(Requirements, _name, _fixed(exclusions.closed(_why)))
