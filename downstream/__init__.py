"""The only door out: tool servers, models, and the gate in front of every call."""

__all__: list[str] = []
