"""Fills in expected answers. They come from plain DuckDB, never from the engine under test."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from slt.engines import plain_duckdb
from slt.parser import Query, Record, Script, Statement, parse
from slt.runner import Runner
from slt.values import Rows, arranged, digest, type_letters

# Answers with more values than this are recorded as a hash, as in SQLite's suite.
HASH_THRESHOLD = 240


class RecordError(Exception):
    """Something that cannot be recorded; the message holds the path and the line."""


def record(path: Path) -> int:
    """Run a file on DuckDB and write the types and answers into it; the number of queries."""
    script = parse(path)
    answers: dict[int, tuple[Query, list[str]]] = {}

    def observe(
        found: Record, variables: dict[str, str], answer: pa.Table | None, rows: Rows | None
    ) -> None:
        if not isinstance(found, Query) or answer is None or rows is None:
            return
        block = _block(found, answer, rows)
        if answers.setdefault(found.line, (found, block))[1] != block:
            raise RecordError(f"{path}:{found.line}: the answer depends on {sorted(variables)}")

    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(script, plain_duckdb(), Path(scratch), observer=observe)
        result = runner.run()
    if result.skip_reason is not None:
        raise RecordError(f"{path}: {result.skip_reason}")
    refused = [f for f in result.failures if f.line not in answers]
    if refused:
        raise RecordError("\n".join(map(str, refused)))
    _write(script, answers)
    return len(answers)


def _block(query: Query, answer: pa.Table, rows: Rows) -> list[str]:
    mode = query.sort if query.sort != "nosort" or query.label else None
    words = ("query", type_letters(answer.schema), query.connection, mode, query.label)
    header = " ".join(word for word in words if word)
    ordered = arranged(rows, query.sort)
    if sum(map(len, ordered)) > HASH_THRESHOLD:
        lines = [digest(ordered)]
    else:
        lines = ["\t".join(row) for row in ordered]
    return [header, *query.sql.split("\n"), "----", *lines]


def _write(script: Script, answers: dict[int, tuple[Query, list[str]]]) -> None:
    lines: list[str] = []
    at = 1
    for line, (query, block) in sorted(answers.items()):
        lines += script.lines[at - 1 : line - 1]
        lines += block
        at = query.end
    lines += script.lines[at - 1 :]
    script.path.write_text("\n".join(lines))


def new(path: Path, sql: str) -> int:
    """Make a file out of statements that end in ``;``, and record it.

    ``-- name`` comment lines above a statement stay comments. ``-- error: PATTERN`` says that the
    next statement fails, ``-- rowsort`` or ``-- nosort`` says how its answer is compared, and
    ``-- onlyif ENGINE`` or ``-- skipif ENGINE`` becomes the record's condition.
    """
    blocks: list[str] = []
    for comments, statement in _statements(sql):
        error = _directive(comments, r"error:\s*(.*)")
        sort = _directive(comments, r"(rowsort|nosort|valuesort)$")
        condition = _directive(comments, r"((?:onlyif|skipif) \w+)$")
        directives = r"error:|(rowsort|nosort|valuesort|(onlyif|skipif) \w+)$"
        plain = [c for c in comments if not re.match(directives, c)]
        head = "".join(f"# {c}\n" for c in plain)
        if head and re.match(r"(name|description|group):", plain[0]):
            head += "\n"
        head += f"{condition}\n" if condition else ""
        if error is not None:
            header = f"statement error {error}".rstrip()
        elif _answers(statement):
            header = f"query ? {sort or ('nosort' if _ordered(statement) else 'rowsort')}"
        else:
            header = "statement ok"
        blocks.append(f"{head}{header}\n{statement}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(blocks))
    return record(path)


def _directive(comments: list[str], pattern: str) -> str | None:
    for comment in comments:
        if match := re.match(pattern, comment):
            return match[1]
    return None


def _statements(sql: str) -> Iterator[tuple[list[str], str]]:
    comments: list[str] = []
    current: list[str] = []
    for line in sql.split("\n"):
        if not current and not line.strip():
            continue
        if not current and line.startswith("-- "):
            comments.append(line[3:].strip())
            continue
        current.append(line.rstrip())
        if line.rstrip().endswith(";"):
            yield comments, "\n".join(current).removesuffix(";")
            comments, current = [], []
    if current:
        raise RecordError(f"the last statement lacks its semicolon: {current[0]}")


def _answers(statement: str) -> bool:
    first = re.match(r"[\s(]*(\w+)", statement)
    word = first[1].lower() if first else ""
    if word in ("insert", "update", "delete", "merge"):
        return re.search(r"\breturning\b", statement, re.IGNORECASE) is not None
    if word == "with":
        verbs = r"\)\s*(insert|update|delete|merge)\b"
        return re.search(verbs, statement, re.IGNORECASE) is None
    answering = ("select", "from", "values", "table", "describe", "show", "summarize", "execute")
    return word in (*answering, "pivot", "unpivot", "call")


def _ordered(statement: str) -> bool:
    """Whether the outermost query has an ORDER BY."""
    depth = 0
    outside: list[str] = []
    quoted = False
    for ch in statement:
        if ch == "'":
            quoted = not quoted
        elif not quoted:
            depth += (ch in "([{") - (ch in ")]}")
        if depth == 0 and not quoted:
            outside.append(ch)
    return re.search(r"\border\s+by\b", "".join(outside), re.IGNORECASE) is not None


def count(paths: list[Path]) -> int:
    """How many statements and queries the files hold."""
    return sum(isinstance(r, Statement | Query) for path in paths for r in parse(path).records)
