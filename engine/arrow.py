"""pyarrow, loaded when it is first used: with NumPy it takes longer to load than DuckDB.

The modules that every process loads take it from here, so that a batch query whose few rows become
text (`planner.direct.Rows`) never loads it. All others import it as usual.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["empty", "pa"]

if TYPE_CHECKING:
    import pyarrow as pa
else:

    class _Deferred(ModuleType):
        def __getattr__(self, name: str) -> Any:
            import pyarrow

            # Kept, so that from now on a name costs what a module's costs.
            found = self.__dict__[name] = getattr(pyarrow, name)
            return found

    pa = _Deferred("pyarrow")


def empty(schema: pa.Schema) -> pa.Table:
    """A table without rows. (`Schema.empty_table` does not know unions.)"""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema)
