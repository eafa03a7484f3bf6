"""In which type keys of two types are compared is asked of DuckDB once."""

from __future__ import annotations

import pytest

from tidewheel.planner.view_kernels import Statements, common_type, statements


def test_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["DECIMAL(7,3)", "BIGINT"]
    assert common_type(kinds) == "DECIMAL(22,3)"
    monkeypatch.setattr(Statements, "_opened", lambda _: pytest.fail("asked again"))
    assert common_type(kinds) == "DECIMAL(22,3)"
    assert len(statements()._values) <= 1000
