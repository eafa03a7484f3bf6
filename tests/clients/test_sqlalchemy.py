"""The SQLAlchemy dialect: what its users do, and SQLAlchemy's own dialect suite."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql, registry

import tidewheel

# as the installed package's entry points do
registry.register("tidewheel", "tidewheel.sql.sqlalchemy_dialect", "TidewheelDialect")

REACH = """
CREATE MATERIALIZED VIEW reach AS
WITH RECURSIVE r(a, b) AS (
    SELECT a, b FROM edge UNION SELECT r.a, e.b FROM r JOIN edge e ON e.a = r.b
) SELECT * FROM r
"""


class Base(orm.DeclarativeBase):
    pass


class Parent(Base):
    __tablename__ = "parent"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(30))
    code: orm.Mapped[str] = orm.mapped_column(sa.String(3), unique=True)
    born: orm.Mapped[Any] = orm.mapped_column(sa.Date, nullable=True)
    children: orm.Mapped[list["Child"]] = orm.relationship(back_populates="parent")


class Child(Base):
    __tablename__ = "child"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    parent_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("parent.id"), index=True)
    notes: orm.Mapped[Any] = orm.mapped_column(sa.JSON, nullable=True)
    parent: orm.Mapped[Parent] = orm.relationship(back_populates="children")


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    made = sa.create_engine("tidewheel://")
    yield made
    made.dispose()


@contextmanager
def opened(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        yield connection
        connection.commit()
    engine.dispose()


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("tidewheel:///a.db", f"tidewheel:///{tmp_path}/a.db"):
        with opened(url) as connection:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS t(a INTEGER)")
    assert (tmp_path / "a.db").exists()
    with opened("tidewheel:///a.db?read_only=true") as connection:
        assert sa.inspect(connection).get_table_names() == ["t"]
        with pytest.raises(sa.exc.DBAPIError):
            connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        connection.rollback()
    with opened("tidewheel://?threads=1&safe_mode=true&memory_limit=1GB") as connection:
        assert connection.exec_driver_sql("SHOW threads").scalar() == "1"
        with pytest.raises(sa.exc.NotSupportedError, match="safe mode"):
            connection.exec_driver_sql("COPY (SELECT 1) TO 'x.csv'")
    with pytest.raises(sa.exc.ArgumentError, match="there is no host"):
        sa.create_engine("tidewheel://host/a.db").connect()


def test_objects(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all(
            Parent(name=f"p{i}", code=str(i), children=[Child(notes={"n": [i]}), Child()])
            for i in range(5)
        )
        session.commit()
        found = session.scalars(sa.select(Parent).order_by(Parent.name)).all()
        assert [p.id for p in found] == [1, 2, 3, 4, 5]
        assert [len(p.children) for p in found] == [2] * 5
        query = sa.select(Child.id).where(Child.notes["n"][0].as_integer() == 3)
        assert session.scalars(query).all() == [7]
        found[0].name = "renamed"
        session.delete(found[1].children[1])
        session.commit()
        assert session.scalar(sa.select(sa.func.count(Child.id))) == 9
        session.add(Parent(name="again", code="1"))
        with pytest.raises(sa.exc.IntegrityError):
            session.commit()
        session.rollback()
        assert session.scalar(sa.select(sa.func.count(Parent.id))) == 5
    Base.metadata.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []
    assert sa.inspect(engine).get_sequence_names() == []


def test_a_transaction_is_an_epoch(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE edge(a INTEGER, b INTEGER)")
        connection.exec_driver_sql(REACH)
    count = sa.text("SELECT count(*) FROM reach")
    with engine.connect() as one, engine.connect() as two:
        one.execute(
            sa.text("INSERT INTO edge VALUES (:a, :b)"), [{"a": 1, "b": 2}, {"a": 2, "b": 3}]
        )
        assert one.execute(count).scalar() == 3
        assert two.execute(count).scalar() == 0
        two.rollback()
        one.commit()
        assert two.execute(count).scalar() == 3
        two.rollback()
        one.execute(sa.text("DELETE FROM edge"))
        one.rollback()
        assert one.execute(count).scalar() == 3


def test_autocommit(engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("CREATE TABLE t(a INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("FROM t").fetchall() == [(1,)]
        assert connection.get_isolation_level() == "SNAPSHOT"


def test_reflection_tells_views_apart(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE edge(a INTEGER NOT NULL, b DECIMAL(10, 2) DEFAULT 3, "
            "s STRUCT(x INTEGER), l VARCHAR[], h HUGEINT, e ENUM('x', 'it''s'), "
            "t TIMESTAMPTZ, m MAP(VARCHAR, INTEGER))"
        )
        connection.exec_driver_sql("CREATE VIEW plain AS SELECT a FROM edge")
        connection.exec_driver_sql(
            "CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM edge"
        )
    found = sa.inspect(engine)
    assert found.get_table_names() == ["edge"]
    assert found.get_view_names() == ["plain"]
    assert found.get_materialized_view_names() == ["kept"]
    assert found.get_temp_view_names() == []
    assert found.get_schema_names() == ["main"]
    assert found.get_view_definition("kept") == "SELECT count(*) AS n FROM edge"
    assert found.get_view_definition("plain").startswith("CREATE VIEW plain")
    assert found.has_table("EDGE")
    assert not found.has_table("nope")
    types = {c["name"]: c["type"] for c in found.get_columns("edge")}
    assert {name: str(t.compile(engine.dialect)) for name, t in types.items()} == {
        "a": "INTEGER",
        "b": "DECIMAL(10, 2)",
        "s": "STRUCT(x INTEGER)",
        "l": "VARCHAR[]",
        "h": "HUGEINT",
        "e": "VARCHAR",
        "t": "TIMESTAMP WITH TIME ZONE",
        "m": "MAP(VARCHAR, INTEGER)",
    }
    assert types["e"].enums == ["x", "it's"]
    kept = sa.Table("kept", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(kept.c.n)).scalar() == 0


def test_tables_copied_by_reflection(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    other = sa.create_engine("tidewheel://")
    metadata.create_all(other)
    for name in ("parent", "child"):
        assert [
            (c["name"], str(c["type"]), c["nullable"]) for c in sa.inspect(other).get_columns(name)
        ] == [
            (c["name"], str(c["type"]), c["nullable"]) for c in sa.inspect(engine).get_columns(name)
        ]
    assert sa.inspect(other).get_foreign_keys("child")[0]["referred_table"] == "parent"
    assert sa.inspect(other).get_indexes("child")[0]["column_names"] == ["parent_id"]


def test_on_conflict_and_recursive_cte(engine: sa.Engine) -> None:
    table = sa.Table(
        "kv",
        sa.MetaData(),
        sa.Column("k", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("v", sa.String),
    )
    table.create(engine)
    with engine.begin() as connection:
        insert = postgresql.insert(table)
        insert = insert.on_conflict_do_update(index_elements=["k"], set_={"v": insert.excluded.v})
        connection.execute(insert, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        connection.execute(insert, [{"k": 2, "v": "c"}])
        rows = connection.execute(sa.select(table).order_by(table.c.k)).all()
        assert rows == [(1, "a"), (2, "c")]
        numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
        numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < 5))
        assert connection.execute(sa.select(sa.func.sum(numbers.c.n))).scalar() == 15
        assert connection.execute(sa.select(sa.literal("abc").regexp_match("b"))).scalar() is True


def test_every_keyword_may_be_a_name(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        words = connection.exec_driver_sql("SELECT DISTINCT keyword_name FROM duckdb_keywords()")
        for (word,) in words.all():
            columns = [sa.Column(word, sa.Integer), sa.Column("other", sa.Integer)]
            table = sa.Table(word, sa.MetaData(), *columns)
            table.create(connection)
            connection.execute(table.insert(), {word: 1, "other": 2})
            named = table.alias(word)
            query = sa.select(named.c[word], named.c.other.label(word))
            assert connection.execute(query).all() == [(1, 2)], word
            table.drop(connection)


def test_errors_are_tidewheels(engine: sa.Engine) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.ProgrammingError) as raised:
        connection.execute(sa.text("SELECT nme FROM (SELECT 1 AS name)"))
    assert isinstance(raised.value.orig, tidewheel.ProgrammingError)
    assert "^^^" in str(raised.value)


def test_threads_share_an_engine(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t(a INTEGER)")
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(5):
                with engine.begin() as connection:
                    connection.execute(sa.text("INSERT INTO t VALUES (:a)"), {"a": i})
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 20


def test_pandas(engine: sa.Engine) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "t": pd.to_datetime(["2020-01-01", None])})
    assert frame.to_sql("frame", engine, index=False) in (2, -1)
    back = pd.read_sql("SELECT * FROM frame ORDER BY a", engine)
    assert back.shape == (2, 3)
    assert back["a"].tolist() == [1, 2]
    assert pd.read_sql_table("frame", engine)["b"].tolist()[0] == "x"
    frame.to_sql("frame", engine, index=False, if_exists="append", method="multi")
    query = sa.text("SELECT count(*) AS n FROM frame WHERE a = :a")
    assert pd.read_sql(query, engine, params={"a": 1})["n"].tolist() == [2]


def dialect_suite(tmp_path: Path, *options: str) -> dict[str, int]:
    """Run SQLAlchemy's dialect suite in a process of its own; outcomes and their numbers."""
    folder = Path(__file__).parent / "sqlalchemy_suite"
    url = f"tidewheel:///{tmp_path}/suite.db"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suite_plugin", "-c", "setup.cfg"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    outcome = subprocess.run(
        [
            *command,
            "--rootdir=.",
            "-p",
            "no:cacheprovider",
            "suite.py",
            "--dburi",
            url,
            "--tb=short",
            *options,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    last = outcome.stdout.strip().splitlines()
    counts = next((line for line in reversed(last) if re.search(r"\d+ passed", line)), "")
    found = {
        word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", counts)
    }
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-2000:]
    return found


SHORT = "CTE InsertBehavior RowCount Uuid HasTable TrueDiv WindowFunction"
"""Words in the names of the suite's classes that every run of the tests takes."""


def test_dialect_suite_in_short(tmp_path: Path) -> None:
    found = dialect_suite(
        tmp_path, "-k", f"({' or '.join(SHORT.split())}) and not Reflection and not Bizarro"
    )
    assert "failed" not in found
    assert found["passed"] > 50


@pytest.mark.long
def test_dialect_suite(tmp_path: Path) -> None:
    found = dialect_suite(tmp_path)
    assert "failed" not in found
    assert found["passed"] > 1000
