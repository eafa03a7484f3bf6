"""What an install brings: every module and data file, under one top-level name."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("sql", "planner", "engine", "cli", "tpch")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_links_resolve(folder: str) -> None:
    link = ROOT / "src" / "tidewheel" / folder
    assert link.is_symlink()
    assert not os.path.isabs(os.readlink(link))
    assert link.resolve() == ROOT / folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("dist")
    # through the sdist: what is missing there is missing in the wheel too
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return zipfile.ZipFile(next(out.glob("*.whl")))


def _sources() -> set[str]:
    tracked = [p for f in FOLDERS for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".sql")]
    return {f"tidewheel/{p.relative_to(ROOT).as_posix()}" for p in tracked}


def test_a_wheel_holds_every_module_and_query(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert not _sources() - names
    assert {"tidewheel/__init__.py", "tidewheel/py.typed"} <= names


def test_only_tidewheel_is_installed(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"tidewheel"}
