"""Places by a whole ORDER BY: never out of order, whatever rows they were made for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tidewheel
from tidewheel.engine.operators.finer import Finer
from tidewheel.engine.operators.rank import Order
from tidewheel.engine.state.columns import from_arrow
from tidewheel.engine.state.delta import Schema

VALUES: dict[str, list[str]] = {
    "INTEGER": ["0", "1", "2", "-1", "2147483647", "-2147483648", "77", "78", "79"],
    "BIGINT": ["0", "9223372036854775807", "-9223372036854775808", "5", "6", "1000000"],
    "UBIGINT": ["0", "18446744073709551615", "18446744073709551614", "5", "6"],
    "BOOLEAN": ["true", "false"],
    "DOUBLE": ["0.0", "-0.0", "'nan'", "'inf'", "'-inf'", "1e-310", "1.5", "-1.5", "1e300"],
    "FLOAT": ["0.0", "'nan'", "'-inf'", "1.5", "2.5"],
    "VARCHAR": ["''", "'a'", "'A'", "'http://a/1'", "'http://a/12345678'", "'http://a/123456789'",
                "'http://b'", "'é'", "'https'", "'http://a/'", "chr(0)", "'a' || chr(0)"],
    "BLOB": ["'\\x00'", "''", "'\\xFF'", "'abcdefgh'", "'abcdefgi'"],
    "DATE": ["'2024-01-01'", "'1960-02-29'", "'infinity'", "'2024-01-02'"],
    "TIMESTAMP": ["'2024-01-01 00:00:00.000001'", "'-infinity'", "'2024-01-01'", "'1900-01-01'"],
    "TIMESTAMPTZ": ["'2024-01-01 00:00:00+00'", "'2024-01-01 00:00:00+02'"],
    "TIME": ["'00:00'", "'23:59:59.999999'", "'12:00'"],
    "DECIMAL(9, 2)": ["0.01", "-0.01", "1234567.89"],
    "DECIMAL(38, 2)": ["0.01", "99999999999999999999.00", "-99999999999999999999.00", "5"],
    "HUGEINT": ["0", "170141183460469231731687303715884105727", "-9223372036854775809", "3", "4"],
    "UHUGEINT": ["0", "340282366920938463463374607431768211455", "9223372036854775808", "3"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
             "'80000000-0000-0000-0000-000000000000'", "'12345678-0000-0000-0000-000000000000'"],
    "INTERVAL": ["'1 month'", "'30 days'", "'31 days'", "'-1 day'", "'720 hours 1 second'",
                 "'100000 years'", "'0 days'"],
    "INTEGER[]": ["[1]", "[]", "[1, 2]"],
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Any:
    with tidewheel.connect() as con:
        yield con


MORE = [pytest.param(s, marks=pytest.mark.long) for s in range(60, 1000)]


@pytest.mark.parametrize("seed", [*range(60), *MORE])
def test_places_are_in_the_order_of_rows(con: Any, seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(VALUES), k=rng.randint(1, 4))
    chosen = [rng.sample(VALUES[k], rng.randint(1, len(VALUES[k]))) for k in kinds]
    rows = [
        [v if rng.random() < 0.9 else "NULL" for v in map(rng.choice, chosen)] for _ in range(200)
    ]
    orders = [Order(i, rng.random() < 0.5, rng.random() < 0.5) for i in range(len(kinds))]
    rng.shuffle(orders)
    items = ", ".join(
        f"c{o.column} {('ASC', 'DESC')[o.descending]} NULLS {('LAST', 'FIRST')[o.nulls_first]}"
        for o in orders
    )
    values = ", ".join(
        f"({', '.join(f'({v})::{k}' for v, k in zip(row, kinds, strict=True))})" for row in rows
    )
    names = [f"c{i}" for i in range(len(kinds))]
    con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES {values}) AS v({', '.join(names)})"
    )
    table = con._session.at_once(
        f"SELECT *, dense_rank() OVER (ORDER BY {items}) AS place FROM t ORDER BY place"
    )
    schema = Schema(names, [table.schema.field(n).type for n in names])
    cols = [from_arrow(table[n]) for n in names]
    known = sorted(rng.sample(range(200), rng.choice([1, 3, 50, 200])))
    given = [from_arrow(table[n].take(known)) for n in names]
    places = Finer(schema, orders, given)(cols, 200)
    wrong = (places[1:] < places[:-1]).nonzero()[0].tolist()
    assert not wrong, [items, *(table.slice(i, 2).to_pylist() for i in wrong[:1])]
    same = np.diff(table["place"].to_numpy()) == 0
    assert (places[1:] == places[:-1])[same].all(), (kinds, items)


def test_rows_that_were_known_have_places_of_their_own(con: Any) -> None:
    """Texts that begin alike, few texts before numbers, numbers before times."""
    con.execute(
        "CREATE OR REPLACE TABLE t AS SELECT 'https://example.org/' || i AS url, ['open', 'done', "
        "'delivered'][i % 3 + 1] AS status, i::HUGEINT AS n, TIMESTAMP '2024-01-01' + INTERVAL "
        "(i) SECOND AS made FROM range(5000) AS r(i)"
    )
    for names in (["url"], ["status", "made"], ["status", "n"], ["n", "made"]):
        table = con._session.at_once(f"SELECT {', '.join(names)} FROM t ORDER BY ALL")
        schema = Schema(names, table.schema.types)
        cols = [from_arrow(c) for c in table.columns]
        finer = Finer(schema, [Order(i) for i in range(len(names))], cols)
        assert (np.diff(finer(cols, 5000)) > 0).all(), names
