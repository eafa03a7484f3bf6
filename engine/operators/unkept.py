"""What operators raise when they meet rows that they cannot keep up to date."""


class Unkept(Exception):
    """The view is recomputed from then on, and EXPLAIN says why: the message."""
