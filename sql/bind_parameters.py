"""Parameters by number, so that each kernel can be given those that it mentions.

sqlglot takes ``$1::int + $2`` for a dollar-quoted string, so what it parses has calls in the places
of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from .statements import respelled

_CALL = "__tw_parameter_"


def marked(text: str) -> str:
    """`text` with a call in place of each parameter; ``?`` are numbered."""
    return respelled(text, lambda name: f"{_CALL}{name}()")


def unmarked(tree: exp.Expr) -> exp.Expr:
    """The parameters of a marked text's tree again."""

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and node.name.lower().startswith(_CALL):
            return exp.Placeholder(this=node.name[len(_CALL) :])
        return node

    return tree.transform(change, copy=False)


def by_name(parameters: Any) -> Any:
    """Values by name; those of a sequence are called 1, 2 …"""
    if parameters is None or isinstance(parameters, Mapping):
        return parameters
    return {str(i): value for i, value in enumerate(parameters, 1)}
