"""Tables at every width, and typed parameters."""

import datetime
import decimal
from typing import Any

import pytest
from click import UsageError
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import tidewheel
from tidewheel.cli import render
from tidewheel.cli.parameters import collect, typed

CONNECTION = tidewheel.connect()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(st.text(max_size=30), min_size=n, max_size=n), max_size=6)
    ),
    st.integers(12, 120),
)
def test_tables_fit_into_any_width(rows: list[list[str]], width: int) -> None:
    rows = [[v.replace("\0", "") for v in row] for row in rows]
    columns = len(rows[0]) if rows else 3
    names = ", ".join(f'"name {i}"' for i in range(columns))
    marks = ", ".join(f"({', '.join('?' * columns)})" for _ in rows)
    values = f"values {marks}" if rows else f"select {', '.join(['1'] * columns)} where false"
    cursor = CONNECTION.execute(f"from ({values}) t({names})", [v for row in rows for v in row])
    lines = render.table(cursor, width=width).splitlines()
    box = lines[:-1]
    assert len({cell_len(line) for line in box}) == 1
    assert cell_len(box[0]) <= width
    assert len(box) == (5 + len(rows) if rows else 4)


def test_wide_characters_and_control_characters_are_aligned() -> None:
    cursor = CONNECTION.execute("select '日本語' as a, chr(9) || 'x' || chr(27) as b")
    lines = render.table(cursor).splitlines()
    assert len({cell_len(line) for line in lines[:-1]}) == 1
    assert "\\tx\\x1b" in lines[4]


@pytest.mark.parametrize(
    ("count", "limit", "shown"),
    [(5, 0, 5), (5, 5, 5), (6, 5, 5), (5, 4, 4), (5, 1, 1), (3000, 10, 10), (3, 10, 3), (0, 4, 0)],
)
def test_first_and_last_rows(count: int, limit: int, shown: int) -> None:
    rows = iter([(str(i),) for i in range(count)])
    head, tail, total = render._ends(rows, limit)
    assert total == count
    assert len(head) + len(tail) == shown
    everything = [int(r[0] or 0) for r in (*head, *tail)]
    expected = list(range(count))
    if shown < count:
        expected = expected[: len(head)] + (expected[-len(tail) :] if tail else [])
    assert everything == expected


def test_names_that_repeat_are_numbered() -> None:
    cursor = CONNECTION.execute("select 1 as a, 2 as a, 3 as a_1, 4 as a")
    assert len(set(render.names_of(cursor))) == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("1.50", decimal.Decimal("1.50")),
        ("1e3", 1000.0),
        ("true", True),
        ("NULL", None),
        ("2026-01-31", datetime.date(2026, 1, 31)),
        ("2026-01-31 10:00:00", datetime.datetime(2026, 1, 31, 10)),
        ("2026-13-31", "2026-13-31"),
        ("'1'", "1"),
        ("'it''s'", "it's"),
        ("abc", "abc"),
        ("", ""),
        ("1_000", "1_000"),
    ],
)
def test_parameters_are_typed_as_they_look(text: str, value: Any) -> None:
    found = typed(text)
    assert found == value
    assert type(found) is type(value)


def test_parameters_are_named_or_not() -> None:
    assert collect(()) is None
    assert collect(("a=1", "b=x=y")) == {"a": 1, "b": "x=y"}
    assert collect(("1", "x")) == [1, "x"]
    with pytest.raises(UsageError):
        collect(("1", "a=2"))
