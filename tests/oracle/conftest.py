"""Half of the oracles' tests have few rows treated as many are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from tidewheel.engine.state import dense, order, radix, spine


@pytest.fixture(autouse=True)
def _few_are_many(request: pytest.FixtureRequest) -> Iterator[None]:
    """Arrays by value, and sorting by counting, from two rows on; which tests, their names tell."""
    if zlib.crc32(request.node.nodeid.encode()) % 2:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spine, "LEAST", 2)
            patch.setattr(dense, "LEAST", 2)
            patch.setattr(dense, "_CLOSE", 20)
            patch.setattr(order, "_LARGE", 2)
            patch.setattr(radix, "FEWEST", 2)
            yield
    else:
        yield
