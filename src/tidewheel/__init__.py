"""Tidewheel: an embedded SQL engine whose answers stay current."""
