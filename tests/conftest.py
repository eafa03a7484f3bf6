"""What is done with few rows, done as with many in half of the tests (by their names).

And what the engine chooses by the clock, it chooses in no test that does not ask for it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator

import pytest

from tidewheel.planner import view_choice, view_fill


@pytest.fixture(autouse=True)
def _none_are_few(request: pytest.FixtureRequest) -> Iterator[None]:
    """Views over small tables get their first rows by DuckDB's statements, not by operators.

    So it is in all tests of these statements, which change what is many.
    """
    of_statements = request.node.path.stem in ("test_view_fill", "test_view_answers")
    # (a patch of its own: one that tests share would outlive those of other fixtures)
    with pytest.MonkeyPatch.context() as patch:
        if of_statements or zlib.crc32(request.node.nodeid.encode()) & 1024:
            patch.setattr(view_fill, "SOON", 1 << 60)
        patch.setattr(view_choice, "SHORT", math.inf)
        patch.setattr(view_choice, "LEAST", math.inf)
        yield
