"""EXPLAIN ROW (view, value, …): the proof that a row belongs to a view, or that it does not.

3. reach (1, 3), iteration 1
     the step of reach: SELECT r.a, e.b FROM reach r JOIN e ON e.a = r.b
     <- 1. reach (1, 2)
     <- e (2, 3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from tidewheel.engine.quoting import quoted

from ..planner.context import Context
from . import diagnose, errors, recursion
from .proof import MAX_STEPS, Prover, Step
from .proof_select import Column, Value
from .proof_unit import Row, literal
from .reads import Names, Relation
from .statements import Statement, Token, mentions_recursion, mistake
from .view_text import is_name, unquoted

if TYPE_CHECKING:
    from .views import Views

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_BARE = ("INT", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN")
NEAR = 3


def explain_row(
    statement: Statement, parts: list[Token], at: int, context: Context, views: Views
) -> str:
    """The proof as text; ProgrammingError, with the place, where the statement is wrong."""
    name, name_at, values = _read(statement, parts, at)
    names = Names(context.connection)
    relation = names.find(name)
    if relation is None:
        raise _unknown(statement, name, name_at, names)
    if relation.kind != "view":
        raise mistake(
            statement,
            name_at,
            f"{relation.name} is a table: its rows are there because they were put there",
            "EXPLAIN ROW is about views",
        )
    home = views.home_of(relation.key)
    there = names.at(home.path)
    with closing(Prover(context, there, views.queries(), views.prepare)) as prover:
        views.prepare(f"FROM {relation.quoted}")
        with views.at(home):
            unit = prover.view(relation)
            source = prover.result(relation)
            columns = tuple(prover.describe(f"SELECT * FROM {source}"))
        if len(values) != len(columns):
            raise _width(statement, relation, columns, values, parts)
        given = _values(statement, values, columns, context)
        recursive = unit.recursive or _reads_recursion(relation, there, views)
        heading = "" if recursive else f"{relation.name} is not recursive.\n"
        with views.at(home):
            found = _member(prover, source, columns, given)
            if found is None:
                return heading + _absent(prover, relation, source, columns, given)
            steps, complete = prover.prove(relation, found, columns)
    text = heading + "\n".join(_shown(n, s) for n, s in enumerate(steps, 1))
    if not complete:
        text += f"\nThe derivation has more than {MAX_STEPS:,} steps; only the first are shown."
    return text


def _reads_recursion(relation: Relation, names: Names, views: Views) -> bool:
    """Has a view a recursion in a view that it reads, plain or maintained?"""
    queries = views.queries()
    todo, seen = [(relation.key, names)], {relation.key}
    text = f"FROM {relation.quoted}"
    while todo:
        key, names = todo.pop()
        for each in names.texts(queries.get(key, text), frozenset()):
            if mentions_recursion(each):
                return True
            found = {r.key for r in names.mentioned(each)} & queries.keys() - seen
            seen |= found
            todo += [(k, names.at(views.home_of(k).path)) for k in found]
    return False


@contextmanager
def closing(prover: Prover) -> Iterator[Prover]:
    """`prover`, closed at the end."""
    try:
        yield prover
    finally:
        prover.close()


# -- the statement


def _read(
    statement: Statement, parts: list[Token], at: int
) -> tuple[list[str], Token, list[tuple[Token, str]]]:
    """The view's name, its first token, and the values: first token and text of each."""
    at += 2
    if at >= len(parts) or not is_name(parts[at]):
        raise mistake(
            statement,
            parts[min(at, len(parts) - 1)],
            "EXPLAIN ROW needs a view",
            "write EXPLAIN ROW (view, value, value, …)",
        )
    first = parts[at]
    name = [unquoted(parts[at])]
    at += 1
    while at + 1 < len(parts) and parts[at].text == "." and is_name(parts[at + 1]):
        name.append(unquoted(parts[at + 1]))
        at += 2
    values: list[tuple[Token, str]] = []
    depth, start = 0, -1
    marks = 0
    text: list[tuple[int, str]] = []  # ? as $n
    while at < len(parts):
        token = parts[at]
        word = token.text if token.kind == "punctuation" else ""
        if depth == 0 and word in (",", ")"):
            if start >= 0:
                values.append((parts[start], _between(statement, parts, start, at, text)))
            elif (word == "," and values) or (word == ")" and parts[at - 1].text == ","):
                raise mistake(statement, token, "a value is missing before this")
            if word == ")":
                if at + 1 < len(parts):
                    raise mistake(statement, parts[at + 1], "EXPLAIN ROW (…) ends before this")
                return name, first, values
            start, text = at + 1, []
            at += 1
            if at < len(parts) and parts[at].text in (",", ")"):
                raise mistake(statement, parts[at], "a value is missing before this")
            continue
        if start < 0:
            raise mistake(statement, token, "expected a comma and the row's values")
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if token.kind == "parameter" and token.text == "?":
            marks += 1
            text.append((token.start, f"${marks}"))
        at += 1
    raise mistake(statement, parts[-1], "EXPLAIN ROW (… is not closed", "add )")


def _between(
    statement: Statement, parts: list[Token], start: int, end: int, marks: list[tuple[int, str]]
) -> str:
    begin = parts[start].start
    last = parts[end - 1]
    text = statement.text[begin : last.start + len(last.text)]
    for at, mark in reversed(marks):
        text = text[: at - begin] + mark + text[at - begin + 1 :]
    return text


def _values(
    statement: Statement,
    values: list[tuple[Token, str]],
    columns: tuple[Column, ...],
    context: Context,
) -> Row:
    """The values as DuckDB writes those of the columns' types."""
    row: list[Value] = []
    for (token, text), (label, kind) in zip(values, columns, strict=True):
        # A number with a fraction is no integer; a cast would round it.
        sql = (
            f"SELECT CAST(TRY_CAST(v AS {kind}) AS VARCHAR), v IS NULL, CAST(v AS VARCHAR), "
            f"TRY_CAST(v AS DOUBLE) <> TRY_CAST(TRY_CAST(v AS {kind}) AS DOUBLE) "
            f"FROM (SELECT ({text}) AS v)"
        )
        given = recursion.numbered(sql, context.parameters)
        try:
            found, missing, shown, other = context.connection.execute(sql, given).fetchall()[0]
        except duckdb.Error as error:
            report = diagnose.read(error)
            why = report.message if report is not None else str(error)
            raise mistake(statement, token, f"the value for {label}: {why}") from None
        if not missing and (found is None or (other and "INT" in kind)):
            raise mistake(statement, token, f"{shown} is no {kind}, the type of {label}")
        row.append(found)
    return tuple(row)


def _unknown(statement: Statement, name: list[str], at: Token, names: Names) -> errors.Error:
    from difflib import get_close_matches

    known = [r.name for r in names.relations if r.kind == "view" and not r.name.startswith("__tw_")]
    near = get_close_matches(name[-1], known, 1)
    hint = f"did you mean {near[0]}?" if near else None
    return mistake(statement, at, f"there is no view {'.'.join(name)}", hint)


def _width(
    statement: Statement,
    relation: Relation,
    columns: tuple[Column, ...],
    values: list[tuple[Token, str]],
    parts: list[Token],
) -> errors.Error:
    there = ", ".join(f"{n} {t}" for n, t in columns)
    at = values[len(columns)][0] if len(values) > len(columns) else parts[-1]
    given = (
        f"{len(values)} value{'s'[: len(values) != 1]} {'are' if len(values) != 1 else 'is'} given"
    )
    many = f"{len(columns)} column{'s'[: len(columns) != 1]}"
    return mistake(statement, at, f"{relation.name} has {many}, {given}", f"its columns: {there}")


# -- the row


def _member(prover: Prover, source: str, columns: tuple[Column, ...], row: Row) -> Row | None:
    texts = ", ".join(f"CAST({quoted(c)} AS VARCHAR)" for c, _ in columns)
    where = " AND ".join(_same(c, v, k) for (c, k), v in zip(columns, row, strict=True))
    found = prover.ask(f"SELECT {texts} FROM {source} WHERE {where} LIMIT 1")
    return found[0] if found else None


def _same(column: str, value: Value, kind: str) -> str:
    return f"{quoted(column)} IS NOT DISTINCT FROM {literal(value, kind)}"


def _absent(
    prover: Prover, relation: Relation, source: str, columns: tuple[Column, ...], row: Row
) -> str:
    """That the row is not there, and rows that are, like it."""
    types = tuple(t for _, t in columns)
    text = f"{relation.name} {shown_row(row, types)} is not in the view: no rule gives it."
    if len(columns) == 1:
        return text
    score = " + ".join(
        f"CAST({_same(c, v, k)} AS INTEGER)" for (c, k), v in zip(columns, row, strict=True)
    )
    texts = ", ".join(f"CAST({quoted(c)} AS VARCHAR)" for c, _ in columns)
    near = prover.ask(
        f"SELECT {texts} FROM (SELECT *, {score} AS __tw_score FROM {source}) "
        f"WHERE __tw_score > 0 ORDER BY __tw_score DESC LIMIT {NEAR}"
    )
    if near:
        text += "\nRows like it that are there:"
        text += "".join(f"\n  {relation.name} {shown_row(r, types)}" for r in near)
    return text


# -- the text


def _shown(number: int, step: Step) -> str:
    at = "" if step.iteration is None else f", iteration {step.iteration}"
    lines = [f"{number}. {step.label} {shown_row(step.row, step.types)}{at}"]
    lines.append(f"     {step.place}: {step.rule}")
    for p in step.premises:
        where = f"{p.step}. " if p.step is not None else ""
        lines.append(f"     <- {where}{p.label} {shown_row(p.row, p.types)}")
    if step.more > 0:
        lines.append(f"     <- and {step.more:,} more rows of the group")
    lines += [f"     ({note})" for note in step.notes]
    return "\n".join(lines)


def shown_row(row: Row, types: tuple[str, ...]) -> str:
    """A row as SQL values."""
    return f"({', '.join(_shown_value(v, t) for v, t in zip(row, types, strict=True))})"


def _shown_value(value: Value, kind: str) -> str:
    if value is None:
        return "NULL"
    bare = any(b in kind.split("(")[0] for b in _BARE) and "[" not in kind
    if bare and (_NUMBER.fullmatch(value) or value in ("true", "false")):
        return value
    return "'" + value.replace("'", "''") + "'"
