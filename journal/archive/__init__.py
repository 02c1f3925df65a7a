"""Whole runs: written to a file and read from one, forked, replayed, checked, and removed."""

__all__: list[str] = []
