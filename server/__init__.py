"""Faces the host and the person: MCP tools, command line, settings, assembly."""

__all__: list[str] = []
