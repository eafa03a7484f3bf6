"""The query files: complete, loadable, parsable; names and scale."""

from __future__ import annotations

import pytest
import sqlglot

from tidewheel.tpch.queries import load, names


def test_all_are_there() -> None:
    loaded = load(1.0)
    assert [q.name for q in loaded][:22] == [f"q{i:02d}" for i in range(1, 23)]
    recursive = [q for q in loaded if q.recursive]
    assert len(recursive) >= 8
    for query in loaded:
        tree = sqlglot.parse_one(query.sql, dialect="duckdb")
        with_ = tree.args.get("with_")
        assert bool(with_ and with_.args.get("recursive")) == query.recursive


def test_the_fraction_of_q11_follows_the_scale() -> None:
    (one,), (hundredth,), (hundred,) = (load(scale, ["11"]) for scale in (1.0, 0.01, 100.0))
    assert "* 0.0001000000" in one.sql
    assert "* 0.0100000000" in hundredth.sql
    assert "* 0.0000010000" in hundred.sql
    assert one.fingerprint != hundred.fingerprint


@pytest.mark.parametrize("name", ["6", "q6", "Q06", " q06 "])
def test_a_number_is_a_name(name: str) -> None:
    assert [q.name for q in load(1.0, [name])] == ["q06"]


def test_groups_and_doubles() -> None:
    assert len(load(1.0, ["tpch"])) == 22
    assert [q.name for q in load(1.0, ["3", "q03", "reachability"])] == ["q03", "reachability"]
    assert len(load(1.0, ["recursive", "tpch"])) == len(names())


@pytest.mark.parametrize(
    ("name", "hint"), [("reachabilty", "did you mean reachability"), ("q23", "no query 'q23'")]
)
def test_an_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        load(1.0, [name])
