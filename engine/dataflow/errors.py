"""The errors of the dataflow layer."""

from __future__ import annotations


class DataflowError(Exception):
    """Base of the errors that this layer raises itself (a vertex's own exception passes as is)."""


class GraphError(DataflowError):
    """The graph is not a timely dataflow graph; raised while it is built."""


class TimeError(DataflowError):
    """A message or notification for a time that has passed, or for a place of another depth."""


class ClosedError(DataflowError):
    """The dataflow, or one of its inputs, is closed."""
