"""SQLAlchemy's own pytest plugin, told what it asks of a dialect that is not its own."""

from typing import Any

import pytest
from sqlalchemy.dialects import registry

for name in ("tidewheel", "tidewheel.tidewheel"):
    registry.register(name, "tidewheel.sql.sqlalchemy_dialect", "TidewheelDialect")
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing import provision  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


@provision.temp_table_keyword_args.for_db("tidewheel")
def temp_table_keyword_args(cfg: Any, eng: Any) -> dict[str, Any]:
    """How a temporary table is asked for."""
    return {"prefixes": ["TEMPORARY"]}


@provision.post_configure_engine.for_db("tidewheel")
def make_schema(url: Any, engine: Any, follower_ident: Any) -> None:
    """The schema that the suite wants to find."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS test_schema")
