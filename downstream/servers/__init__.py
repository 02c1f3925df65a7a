"""The user's tool servers: connections, what they list, and what they answer."""

__all__: list[str] = []
