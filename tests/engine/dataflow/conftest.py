"""Tests here say what is right, not how fast: hypothesis shall not time them."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
