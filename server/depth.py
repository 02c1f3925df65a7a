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
    told = [environ.get(VARIABLE, "0"), str((meta or {}).get(META, 0))]
    depth = max(int(text) if text.isdigit() else 0 for text in told)
    if depth > DEEPEST:
        raise TooDeep(depth)
    return depth
