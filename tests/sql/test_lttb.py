"""lttb takes the rows of a group in the order in which it gets them: as maintained views."""

from __future__ import annotations

import random

import pytest

from two_tables import follow

SETUP = (
    "CREATE TABLE l (a INTEGER, b INTEGER)",
    "INSERT INTO l SELECT i % 2, (i * 7) % 11 FROM range(40) AS t(i)",
    "CREATE TABLE r (c INTEGER, d INTEGER)",
    "INSERT INTO r VALUES (2, 1), (2, 4), (2, 3), (3, 2)",
)


@pytest.mark.parametrize("order", ["", " ORDER BY b"])
def test_of_one_table(order: str) -> None:
    query = f"SELECT a, lttb(b, (b * 3.5) % 7, 4{order}) FROM l GROUP BY a"
    follow(query, SETUP, random.Random(1))


def test_of_a_join() -> None:
    query = "SELECT d, lttb(b, a, 4) FROM l JOIN r ON a = c GROUP BY d"
    follow(query, SETUP, random.Random(1), incremental=False)
