"""A data folder: made by the generator and the PySpark job, complete or not there.

DIR/manifest.json       written last: scale, epochs, rows, checks
DIR/tables/NAME/        Parquet
DIR/refresh/NAME/epoch=K/
DIR/answers/NAME.parquet, answers.json: what Spark answered, and how long it took
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from .queries import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..engine.kernels.spark import Spark

Report = Callable[[str], None]

_FORMAT = 2  # raised when the folder's contents change
_MANIFEST = "manifest.json"
_OWNED = ".tidewheel-tpch"
_PARTS = ("raw", "tables", "refresh", "answers")
MIN_SCALE = 0.008
MAX_SCALE = 100_000


class GenerateError(Exception):
    """The data could not be made; the message says what to do."""


@dataclass(frozen=True)
class DataFolder:
    """A folder with the data of one scale factor."""

    path: Path

    def __post_init__(self) -> None:
        # Spark's working folder is its own business.
        object.__setattr__(self, "path", self.path.absolute())

    def manifest(self) -> dict[str, Any] | None:
        """What the folder holds; None if it is not complete."""
        try:
            found: dict[str, Any] = json.loads((self.path / _MANIFEST).read_text())
        except (OSError, ValueError):
            return None
        return found if found.get("format") == _FORMAT else None

    def complete(self, scale: float, epochs: int) -> bool:
        """Are the data of this scale there, with at least so many refresh epochs?"""
        found = self.manifest()
        return found is not None and found["scale"] == scale and found["epochs"] >= epochs

    def table(self, name: str) -> Path:
        """The folder with a table's Parquet files."""
        return self.path / "tables" / name

    def files(self, name: str) -> str:
        """A table's Parquet files as a pattern for ``read_parquet``."""
        return str(self.table(name) / "*.parquet")

    def record(self, query: Query, answer: pa.Table, seconds: float, engine: str) -> None:
        """Keeps Spark's answer to a query."""
        folder = self.path / "answers"
        folder.mkdir(exist_ok=True)
        pq.write_table(answer, folder / f"{query.name}.parquet")
        index = self._index()
        index[query.name] = {
            "query": query.fingerprint,
            "rows": answer.num_rows,
            "seconds": round(seconds, 3),
            "engine": engine,
        }
        _replace(folder / "answers.json", index)

    def recorded(self, query: Query) -> tuple[pa.Table, float] | None:
        """Spark's recorded answer to exactly this query, and its time in seconds."""
        entry = self._index().get(query.name)
        if entry is None or entry["query"] != query.fingerprint:
            return None
        try:
            return pq.read_table(self.path / "answers" / f"{query.name}.parquet"), entry["seconds"]
        except OSError:
            return None

    def _index(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.path / "answers" / "answers.json").read_text())
        except (OSError, ValueError):
            return {}
        return found


def _replace(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON so that a reader sees the old file or the new one."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(temporary, path)


def default_folder(scale: float) -> Path:
    """Where the data of a scale lie if nothing else is said."""
    return Path("tidewheel-tpch") / f"sf{scale:g}"


def start_spark(scale: float, threads: int = 2) -> Spark:
    """A session sized for the data of a scale. Raises SparkError."""
    from ..engine.kernels.spark import Spark

    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    memory = max(1024, min(int(2048 + 3072 * scale), physical // 2))
    partitions = max(2, min(200, round(4 * scale)))
    return Spark(threads=threads, memory=f"{memory}m", partitions=partitions, long=scale >= 0.1)


def generate(
    folder: DataFolder, scale: float, epochs: int, report: Report, spark: Spark | None = None
) -> bool:
    """Makes the data unless they are there; returns whether it did.

    What an interrupted run left is made again. Raises GenerateError, PipelineError or SparkError;
    a folder that holds anything else is left alone.
    """
    from . import pipeline

    if reason := unfit(scale):
        raise GenerateError(reason)
    if not 1 <= epochs <= 1000:
        raise GenerateError(f"there can be 1 to 1000 refresh epochs, not {epochs}")
    if folder.complete(scale, epochs):
        report(f"data of scale factor {scale:g} are in {folder.path}")
        return False
    found = folder.manifest()
    if found is not None and found["scale"] != scale:
        raise GenerateError(
            f"{folder.path} has the data of scale factor {found['scale']:g}, not {scale:g}: "
            "name another folder, or remove this one"
        )
    _claim(folder.path)
    raw, tables, refresh = (folder.path / part for part in ("raw", "tables", "refresh"))
    report(f"generating raw data of scale factor {scale:g}")
    _run_generator(scale, raw)
    with _session(spark, scale, report) as session:
        pipeline.convert(session, raw, tables, scale, report)
        pipeline.derive(session, tables, scale, report)
        pipeline.derive_refresh(session, refresh, scale, epochs, report)
        rows, checks = pipeline.check(session, tables, refresh, scale, epochs, report)
        manifest = {
            "format": _FORMAT,
            "scale": scale,
            "epochs": epochs,
            "rows": rows,
            "checks": [check.name for check in checks],
            "spark": session.version,
        }
    shutil.rmtree(raw)
    _replace(folder.path / _MANIFEST, manifest)
    total = sum(rows.values())
    report(f"{total:,} rows in {folder.path}; {len(checks)} checks by Spark passed")
    return True


def unfit(scale: float) -> str | None:
    """Why there are no data of a scale factor; None if there are."""
    if not MIN_SCALE <= scale <= MAX_SCALE:
        return f"a scale factor is between {MIN_SCALE:g} and {MAX_SCALE:,}, not {scale:g}"
    if _repeats(scale):
        steps = (round(n / 1000, 3) for n in range(int(scale * 1000) + 1, 1000))
        near = next(step for step in steps if not _repeats(step))
        return f"TPC-H gives a part one supplier twice at scale factor {scale:g}: take {near:g}"
    return None


def _repeats(scale: float) -> bool:
    """Do a part's four suppliers repeat?

    Specification, 4.2.3: the i-th is i * (S / 4 + (part - 1) / S) behind the first, modulo S.
    """
    suppliers = int(scale * 10_000)
    steps = range(suppliers // 4, suppliers // 4 + 20)  # there are 20 parts to a supplier
    return any(i * step % suppliers == 0 for step in steps for i in (1, 2, 3))


@contextmanager
def _session(spark: Spark | None, scale: float, report: Report) -> Iterator[Spark]:
    if spark is not None:
        yield spark
        return
    report("starting Spark")
    with start_spark(scale) as own:
        yield own


def _claim(path: Path) -> None:
    """Makes the folder ours and empty. Raises GenerateError if it holds what we did not make."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not (path / _OWNED).exists():
            raise GenerateError(f"{path} holds other files; name an empty folder, or a new one")
        (path / _OWNED).touch()
        (path / _MANIFEST).unlink(missing_ok=True)
        for part in _PARTS:
            shutil.rmtree(path / part, ignore_errors=True)
    except OSError as error:
        raise GenerateError(f"cannot write to {path}: {error.strerror}") from error


def _run_generator(scale: float, raw: Path) -> None:
    name = "tpchgen-cli.exe" if os.name == "nt" else "tpchgen-cli"
    beside = Path(sysconfig.get_path("scripts")) / name
    program = str(beside) if beside.exists() else shutil.which(name)
    if program is None:
        raise GenerateError("tpchgen-cli is missing: pip install 'tidewheel[spark]'")
    command = [program, "tbl", "--scale-factor", repr(scale), "--output-dir", str(raw), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise GenerateError(f"tpchgen-cli failed: {reason[-1] if reason else done.returncode}")


def spark_queries(spark: Spark, folder: DataFolder) -> Any:
    """A runner of queries over the folder's tables on Spark."""
    from ..planner.spark_recursion import SparkQueries
    from .schema import TABLES

    queries = SparkQueries(spark)
    for table in TABLES:
        queries.add_table(table.name, spark.read_parquet(folder.table(table.name)))
    return queries


def answer(spark: Spark, queries: Any, query: Query, folder: DataFolder) -> tuple[pa.Table, float]:
    """Runs a query on Spark and records the answer; (answer, seconds). Raises SparkError."""
    from ..sql.check import parse_query

    start = time.perf_counter()
    rows = spark.arrow(queries.evaluate(parse_query(query.sql)))
    seconds = time.perf_counter() - start
    folder.record(query, rows, seconds, f"Spark {spark.version}")
    return rows, seconds
