"""Every query of a script as a maintained view: it must give the query's rows, then and later.

A script's statements up to a query are run in a new database, the view is made, and then the tables
are changed again and again: rows deleted, put back, updated, all of them gone and back. After
each change the view is compared with the query run from scratch, as multisets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import tidewheel
from slt.engines import Session, tidewheel_engine
from slt.parser import Control, Query, Record, Script, Statement
from slt.runner import Failure, Runner
from slt.values import Renderer, Rows, same_value

VIEW = "__checked"
TABLES = f"""
SELECT schema_name, table_name FROM duckdb_tables()
WHERE NOT internal AND NOT temporary AND schema_name NOT LIKE '%tidewheel%'
  AND table_name NOT LIKE '{VIEW}%' AND database_name = current_database()
ORDER BY ALL
"""
RELATIONS = """
SELECT table_name FROM duckdb_tables() WHERE NOT internal
UNION SELECT view_name FROM duckdb_views() WHERE NOT internal
"""
COLUMNS = """
SELECT column_name FROM duckdb_columns()
WHERE schema_name = '{}' AND table_name = '{}' AND database_name = current_database()
ORDER BY column_index
"""
# What a maintained view may refuse, in its own words.
REFUSALS = re.compile(
    r"can't call|can't read|changes while no table does|only this connection has"
    r"|can't PIVOT on values|is read again and again|without a least fixpoint"
    r"|more than one column named"
)


@dataclass
class Checked:
    """`views` that were compared, `refused` by name, `changes` after which they were compared."""

    views: int = 0
    refused: int = 0
    skipped: int = 0
    changes: int = 0
    failures: list[Failure] = field(default_factory=list)


def queries(script: Script) -> list[Query]:
    """The queries of a script that can be views; loops and transactions are left out."""
    found: list[Query] = []
    depth, open_transaction = 0, False
    for record in script.records:
        if isinstance(record, Control):
            depth += record.word in ("loop", "foreach", "concurrentloop")
            depth -= record.word == "endloop"
        elif isinstance(record, Statement):
            verb = record.sql.split(None, 1)[0].upper().rstrip(";")
            open_transaction = (open_transaction or verb == "BEGIN") and verb not in (
                "COMMIT",
                "ROLLBACK",
            )
        elif (
            isinstance(record, Query)
            and not (depth or open_transaction or record.connection)
            and re.match(r"[\s(]*(with|select|from|values|table|pivot|unpivot)\b", record.sql, re.I)
        ):
            found.append(record)
    return found


def check(script: Script, chosen: list[Query], scratch: Path) -> Checked:
    """Check the chosen queries of a script; never raises for what the engine does."""
    result = Checked()
    lines = [r.line for r in chosen]
    at = 0
    while at < len(chosen):
        # queries with no statement between them share a database
        segment = [chosen[at]]
        while at + len(segment) < len(chosen) and not any(
            not isinstance(r, Query) and segment[-1].line < r.line < lines[at + len(segment)]
            for r in script.records
        ):
            segment.append(chosen[at + len(segment)])
        at += len(segment)
        replay = _Replay(script, segment[0].line, scratch)
        try:
            session = replay.session()
            for query in segment:
                _Check(script, query, session, result).run()
        finally:
            replay.close()
    return result


class _Replay:
    """A new database in the state that it has before a line of a script."""

    def __init__(self, script: Script, line: int, scratch: Path) -> None:
        records: tuple[Record, ...] = tuple(
            r for r in script.records if r.line < line and not isinstance(r, Query)
        )
        writes = [r for r in script.records if isinstance(r, Query) and r.line < line]
        kept = [r for r in writes if re.search(r"\b(returning|nextval)\b", r.sql, re.I)]
        records = tuple(sorted((*records, *kept), key=lambda r: r.line))
        before = Script(script.path, records, script.lines, script.headers)
        self.runner = Runner(before, tidewheel_engine(), scratch)
        self.runner.play()

    def session(self) -> Session:
        return self.runner.session()

    def close(self) -> None:
        self.runner.disconnect()


@dataclass
class _Check:
    script: Script
    query: Query
    session: Session
    result: Checked
    renderer: Renderer = field(default_factory=Renderer)

    def run(self) -> None:
        sql = self.query.sql.rstrip().rstrip(";")
        try:
            named = (name for (name,) in self.rows(RELATIONS))
            if not any(_mentions(sql, name) for name in named):
                self.result.skipped += 1
                return
            width = len((self.rows(sql) or [()])[0])
        except tidewheel.Error:
            self.result.skipped += 1  # the script expects an error, or a setting that is not there
            return
        try:
            # names of their own: those of the query may be the same twice
            names = f"({', '.join(f'c{i}' for i in range(width))})" if width else ""
            self.session.run(f"CREATE MATERIALIZED VIEW {VIEW} {names} AS {sql}\n")
        except tidewheel.Error as error:
            if REFUSALS.search(str(error)):
                self.result.refused += 1
            else:
                self.fail(f"refused: {error}")
            return
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
            return
        self.result.views += 1
        try:
            if self.compare(sql, "at first"):
                steps = self.changes()
                for what, change in steps:
                    if not self.change(sql, what, change):
                        break
                for _, change in steps:  # the next query finds the tables as they were
                    with suppress(tidewheel.Error):
                        self.session.run(change)
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self.session.run(f"DROP MATERIALIZED VIEW IF EXISTS {VIEW}")

    def change(self, sql: str, what: str, change: str) -> bool:
        """Run one change and compare; False after a failure."""
        try:
            self.session.run(change)
        except tidewheel.IntegrityError:
            return True
        except tidewheel.Error as error:
            # Right only if the query can't be evaluated on the changed tables.
            self.session.run(f"DROP MATERIALIZED VIEW {VIEW}")
            try:
                self.session.run(change)
                self.rows(sql)
            except tidewheel.Error:
                return False
            self.fail(f"{what}: the view fails, the query does not: {error}")
            return False
        self.result.changes += 1
        return self.compare(sql, what)

    def compare(self, sql: str, when: str) -> bool:
        want, got = self.rows(sql), self.rows(f"FROM {VIEW}")
        same = len(want) == len(got) and all(
            all(map(same_value, a, b)) for a, b in zip(want, got, strict=True)
        )
        if not same:
            missing = [r for r in want if r not in got][:4]
            extra = [r for r in got if r not in want][:4]
            self.fail(
                f"{when}: the query has {len(want)} rows, the view {len(got)}; "
                f"missing {missing}, extra {extra}"
            )
        return same

    def rows(self, sql: str) -> Rows:
        answer = self.session.run(sql)
        assert answer is not None
        return sorted(self.renderer.rows(answer))

    def changes(self) -> Iterator[tuple[str, str]]:
        """Changes of each table that the query names, or of all if it names none but views."""
        tables = self.rows(TABLES)
        named = [t for t in tables if _mentions(self.query.sql, t[1])]
        for schema, table in named or tables:
            name = f'"{schema}"."{table}"'
            columns = [c for (c,) in self.rows_in_order(COLUMNS.format(schema, table))]
            kept = f"{VIEW}_kept"
            self.session.run(f"CREATE OR REPLACE TABLE {kept} AS FROM {name}")
            some = "rowid % 3 = 1"
            self.session.run(f"CREATE OR REPLACE TABLE {kept}_some AS FROM {name} WHERE {some}")
            yield f"rows deleted from {table}", f"DELETE FROM {name} WHERE {some}"
            yield f"rows put back into {table}", f"INSERT INTO {name} BY NAME FROM {kept}_some"
            for column in columns[-1:]:
                c = '"' + column.replace('"', '""') + '"'
                yield (
                    f"{table}.{column} updated",
                    f"UPDATE {name} SET {c} = (SELECT max({c}) FROM {kept}) WHERE rowid % 2 = 0",
                )
            yield f"{table} emptied", f"DELETE FROM {name}"
            yield f"{table} filled again", f"INSERT INTO {name} BY NAME FROM {kept}"

    def rows_in_order(self, sql: str) -> Rows:
        answer = self.session.run(sql)
        assert answer is not None
        return self.renderer.rows(answer)

    def fail(self, message: str) -> None:
        self.result.failures.append(
            Failure(self.script.path, self.query.line, self.query.sql, message)
        )


def _mentions(sql: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE) is not None
