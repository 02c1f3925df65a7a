"""Reading a settings file: where it is found, its two syntaxes, what it may hold, whom it trusts."""

__all__: list[str] = []
