"""Stuart Bishop's public suite for PEP 249 modules, as it is published on PyPI."""

import tempfile
from pathlib import Path
from typing import Any

import dbapi20
import pytest

import tidewheel


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    """All of it; the suite itself asks that two tests be written for each module.

    There are no stored procedures: `callproc` says so, and the suite's name of one is None.
    """

    driver = tidewheel
    lower_func = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.connect_args = (Path(folder.name) / "suite.db",)

    def test_nextset(self) -> None:
        """PEP 249 prefers that a module without several result sets lacks the method."""
        connection: Any = self._connect()
        assert not hasattr(connection.cursor(), "nextset")
        connection.close()

    def test_setoutputsize(self) -> None:
        """It has no effect, whatever is asked for."""
        connection: Any = self._connect()
        cursor = connection.cursor()
        cursor.setoutputsize(1, 0)
        assert cursor.execute("select repeat('x', 100)").fetchone() == ("x" * 100,)
        connection.close()

    def test_callproc_is_not_supported(self) -> None:
        connection: Any = self._connect()
        with pytest.raises(tidewheel.NotSupportedError, match="no stored procedures"):
            connection.cursor().callproc("lower", ("FOO",))
        connection.close()
