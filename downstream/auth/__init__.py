"""Logins at tool servers over HTTP: how they are made, kept, renewed and sent. Nothing is re-exported."""

__all__: list[str] = []
