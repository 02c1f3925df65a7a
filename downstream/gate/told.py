"""Answers of a condition: it holds, it does not, or it cannot be told (None)."""

from collections.abc import Iterable


def all_of(answers: Iterable[bool | None]) -> bool | None:
    answers = list(answers)
    if False in answers:
        return False
    return None if None in answers else True


def any_of(answers: Iterable[bool | None]) -> bool | None:
    answers = list(answers)
    if True in answers:
        return True
    return None if None in answers else False


def agreed(answers: Iterable[bool | None]) -> bool | None:
    """The one answer that all give; None where two differ."""
    different = set(answers)
    return different.pop() if len(different) == 1 else None
