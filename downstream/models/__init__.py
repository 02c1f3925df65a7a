"""Asking models: the paid door, replies in a form, scripted models, and what litellm needs around it."""

__all__: list[str] = []
