"""What tells that a view can't be trusted; apart from operators, which take long to load."""


class Unsound(ValueError):
    """Changes did not add up: some expression gave another value when its row went than before."""
