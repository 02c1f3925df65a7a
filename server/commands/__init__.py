"""The commands of the command line, one module for each group; heavy imports stand inside the commands."""

__all__: list[str] = []
