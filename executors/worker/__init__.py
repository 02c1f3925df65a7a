"""A worker at its step: the loop of model and tools, and what its report is worth."""

__all__: list[str] = []
