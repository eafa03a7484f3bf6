"""The data folder: what is complete, what is refused, what is recorded."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from tidewheel.tpch.generate import DataFolder, GenerateError, generate, unfit
from tidewheel.tpch.main import tpch
from tidewheel.tpch.queries import load


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    keep = tmp_path / "tables" / "mine.txt"
    keep.write_text("mine")
    with pytest.raises(GenerateError, match="holds other files"):
        generate(DataFolder(tmp_path), 0.01, 1, print)
    assert keep.read_text() == "mine"


def test_data_of_another_scale_are_kept(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 2, "scale": 1.0, "epochs": 3}')
    with pytest.raises(GenerateError, match=r"scale factor 1, not 0\.01: name another folder"):
        generate(folder, 0.01, 1, print)
    assert folder.complete(1.0, 3)


def test_a_folder_under_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GenerateError, match="cannot write"):
        generate(DataFolder(tmp_path / "file" / "data"), 0.01, 1, print)


@pytest.mark.parametrize(
    ("scale", "epochs"),
    [(0.0, 1), (-1.0, 1), (0.0001, 1), (nan, 1), (inf, 1), (1.0, 0), (1.0, 1001)],
)
def test_sizes_out_of_range(tmp_path: Path, scale: float, epochs: int) -> None:
    with pytest.raises(GenerateError, match=r"a scale factor is between|1 to 1000"):
        generate(DataFolder(tmp_path / "x"), scale, epochs, print)
    assert not (tmp_path / "x").exists()


def test_scales_whose_suppliers_repeat() -> None:
    assert unfit(0.012) == "TPC-H gives a part one supplier twice at scale factor 0.012: take 0.013"
    assert [unfit(scale) for scale in (0.008, 0.01, 0.02, 0.05, 0.1, 1.0, 10.0)] == [None] * 7


@pytest.mark.parametrize("command", ["generate", "run", "refresh"])
@pytest.mark.parametrize("scale", ["0", "0.001", "nan", "inf", "0.015"])
def test_a_scale_is_refused_before_anything_starts(command: str, scale: str) -> None:
    done = CliRunner().invoke(tpch, [command, "--scale", scale])
    assert done.exit_code == 2
    assert "Invalid value for '--scale'" in done.output


def test_a_broken_manifest_is_none(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert folder.manifest() is None
    (tmp_path / "manifest.json").write_text('{"format": ')
    assert folder.manifest() is None
    assert not folder.complete(1.0, 1)


def test_an_answer_counts_for_its_text_only(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    (small,), (large,) = load(0.01, ["q11"]), load(1.0, ["q11"])
    assert folder.recorded(small) is None
    folder.record(small, pa.table({"c0": [1, 2]}), 0.5, "Spark")
    found = folder.recorded(small)
    assert found is not None
    assert found[0].to_pydict() == {"c0": [1, 2]}
    assert found[1] == 0.5
    assert folder.recorded(large) is None
