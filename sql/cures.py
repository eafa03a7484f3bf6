"""What to do about some of DuckDB's errors, and of which word of the statement they speak."""

from __future__ import annotations

import re
from typing import NamedTuple


class Cure(NamedTuple):
    """`word`: the number of the statement's word that is meant; None: its place is known."""

    hint: str
    word: int | None = None


_INDEXES = "FROM duckdb_indexes() lists indexes"
_CURES = {
    r"Unimplemented type for cast \((.*) -> \1\[\]\)$": Cure(
        "one side is a list, the other a value: x IN ? takes a list without parentheses"
    ),
    r"cannot start a transaction within a transaction": Cure(
        "COMMIT or ROLLBACK first: one transaction has none inside", 0
    ),
    r"cannot (commit|rollback) - no transaction is active": Cure(
        "BEGIN starts one; without it each statement is committed by itself", 0
    ),
    r"Cannot alter entry .* depend on it": Cure(
        f"drop its indexes, and the tables with a foreign key to it, first; {_INDEXES}"
    ),
    r"Cannot (drop|change the type of) this column: an index depends on it": Cure(
        f"DROP INDEX first, and make it again: {_INDEXES}", 2
    ),
    r"Cannot (mix aggregates with non-aggregated columns|group on a window clause)": Cure(
        "GROUP BY ALL cannot tell what the groups are: name their columns, GROUP BY a, b"
    ),
    r"Violates foreign key constraint because key .* is still referenced": Cure(
        "rows of another table refer to this one; those that this transaction has deleted count "
        "until it is committed, and an UPDATE of an indexed column or of a list is a DELETE, too"
    ),
}
_MAIN_KEY = re.compile(r'Could not drop the table because .* of the table "(.*)"')


def cure(message: str) -> Cure | None:
    """What to do about an error; None if that is not known."""
    if main := _MAIN_KEY.match(message):
        return Cure(f"its foreign key points here: DROP TABLE {main[1]} first", 2)
    return next((found for start, found in _CURES.items() if re.match(start, message)), None)
