"""A sqllogictest runner: reads SQLite's, DuckDB's and our own files, runs and records them.

``python -m slt run|record|new`` (with ``tests/support`` on the path) is its command line.
"""
