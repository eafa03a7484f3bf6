"""Queries of the sqllogictest files as maintained views, while their tables change.

What a view may refuse, it refuses by name (`slt.views.REFUSALS`); every other query must be kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slt.parser import Query, Script, parse
from slt.views import check, queries

FOLDER = Path(__file__).parent / "slt"
FILES = sorted(FOLDER.rglob("*.slt"))

# Answers that the tables do not determine: ties in an order, rows that a LIMIT picks.
NOT_DETERMINED = (
    "list(g order by n desc nulls last)",
    "max_by(g, n, 2)",
    "from p select * order by n desc nulls last limit 1",
    "from p where n > 0 order by n limit 2 offset 1",
    "from t order by v desc nulls last limit 2",
    "row_number() over (order by n nulls last)",
)
# With one thread DuckDB 2.0 itself never ends this one over an empty left side.
ENDLESS = ("asof right join",)


def chosen(script: Script) -> list[Query]:
    left_out = NOT_DETERMINED + ENDLESS
    return [q for q in queries(script) if not any(text in q.sql for text in left_out)]


def sample(size: int) -> list[tuple[Path, int]]:
    """Queries spread evenly over all files."""
    every = [(path, i) for path in FILES for i in range(len(chosen(parse(path))))]
    return every[3 :: len(every) // size]


def report(script: Script, picked: list[Query], scratch: Path) -> int:
    """Check, fail with all that differs; the number of comparisons after a change."""
    result = check(script, picked, scratch)
    assert not result.failures, "\n\n".join(map(str, result.failures))
    return result.changes


def test_a_sample(tmp_path: Path) -> None:
    picked: dict[Path, list[int]] = {}
    for path, i in sample(24):
        picked.setdefault(path, []).append(i)
    changes = 0
    for path, numbers in picked.items():
        script = parse(path)
        changes += report(script, [chosen(script)[i] for i in numbers], tmp_path)
    assert changes >= 50


@pytest.mark.long
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(FOLDER).as_posix())
def test_every_query(path: Path, tmp_path: Path) -> None:
    script = parse(path)
    report(script, chosen(script), tmp_path)


def test_what_is_counted(tmp_path: Path) -> None:
    """What is refused by name is counted, the rest is compared."""
    text = (
        "# name: x\n# description: x\n\nstatement ok\ncreate table t(a int)\n\n"
        "statement ok\ninsert into t values (1), (2), (3), (4)\n\n"
        "query I\nselect a + getvariable('n') as b from t\n\nquery I\nselect random() from t\n\n"
        "query I\nselect sum(a) from t\n"
    )
    script = parse(tmp_path / "x.slt", text)
    result = check(script, queries(script), tmp_path)
    assert (result.views, result.refused) == (1, 2)
    assert result.changes == 5
    assert not result.failures
