"""Whether everything that a run needs is there and works."""

__all__: list[str] = []
