"""Tool servers out of the files of MCP hosts, as entries for a settings file: no secret comes along."""

__all__: list[str] = []
