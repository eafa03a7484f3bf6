"""Values of Python for Arrow, without what `pyarrow.array` loads."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidewheel.engine.arrow import array_from

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127, 0]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float32(), [0.5, -math.inf, 3.4e38]),
    (pa.float64(), [-0.0, 5e-324, math.inf]),
    (pa.bool_(), [True, False, True, True, False, False, True, True, True]),
    (pa.string(), ["", "a", "žluťoučký", "\x00", "😀" * 40]),
    (pa.decimal128(4, 0), [Decimal(-9999), Decimal(12)]),
    (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.0000000001"), Decimal("0.5")]),
    (pa.date32(), [None]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("gaps", ["none", "some", "all"])
def test_arrays_of_python_values(kind: pa.DataType, values: list[Any], gaps: str) -> None:
    if gaps == "some":
        values = [None, *values, None]
    if gaps == "all":
        values = [None] * len(values)
    found = array_from(values, kind)
    found.validate(full=True)
    assert found.equals(pa.array(values, kind))
    assert found.null_count == values.count(None)
    assert array_from([], kind).equals(pa.array([], kind))
    if pa.types.is_floating(kind):  # equals takes -0.0 for 0.0
        assert str(found) == str(pa.array(values, kind))
