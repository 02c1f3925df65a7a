"""How deep this steprelay stands inside others: a chain of orchestrators ends at depth two."""

from collections.abc import Mapping

from journal.errors import SteprelayError
from journal.values import Json

VARIABLE = "STEPRELAY_DEPTH"
META = "steprelay/depth"
DEEPEST = 1


class TooDeep(SteprelayError):
    """A run asked for by a run that was itself asked for by a run."""

    def __init__(self, depth: int) -> None:
        super().__init__(
            f"this call comes from depth {depth}: steprelay inside steprelay inside steprelay is refused; "
            "call the tool servers you need directly"
        )


def depth_of(environ: Mapping[str, str], meta: Mapping[str, Json] | None = None) -> int:
    """0 for a host of people, 1 for a call from another steprelay. Raises TooDeep for more."""
    depth = max(_number(environ.get(VARIABLE)), _number((meta or {}).get(META)))
    if depth > DEEPEST:
        raise TooDeep(depth)
    return depth


def _number(told: Json) -> int:
    """What does not say a depth says nothing."""
    try:
        return int(told)
    except (TypeError, ValueError, OverflowError):
        return 0
