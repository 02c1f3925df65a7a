"""How deep data may be nested: far below where code that writes, hashes or checks it gives up."""

from downstream.json_shape import is_array, is_object
from journal.values import Json

_DEEPEST = 64
TOO_DEEP = f"nested deeper than {_DEEPEST}; make it flatter, or pass it as text"
"""What is said of such data."""


def too_deep(data: Json) -> bool:
    """Whether lists and objects lie inside one another deeper than any step, call or report has use for."""
    level = [data]
    for _ in range(_DEEPEST + 1):
        level = [item for each in level for item in _inside(each)]
        if not level:
            return False
    return True


def _inside(data: Json) -> list[Json]:
    if is_object(data):
        return list(data.values())
    return data if is_array(data) else []
