"""How a run is shown: to hosts as a RunView, to people as text and report."""

__all__: list[str] = []
