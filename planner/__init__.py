"""Owns the goal: plan, check, dispatch, revise, answer."""

__all__: list[str] = []
