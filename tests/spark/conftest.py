"""One Spark session for all tests that need one; every test in this folder is marked `spark`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidewheel.engine.kernels.spark import Spark

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """The session; no test may stop it."""
    pytest.importorskip("pyspark")
    with Spark() as session:
        yield session
