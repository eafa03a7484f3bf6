"""The words of the grammar."""

import duckdb

from tidewheel.engine.keywords import KEYWORDS


def test_the_words_of_the_grammar_are_duckdb_s() -> None:
    with duckdb.connect() as con:
        words = con.execute("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()
    assert {word for (word,) in words} == KEYWORDS
