"""Where each argument of a call came from, for the person who is asked; nothing is decided by it."""

from journal.values import CLEAN, JsonObject, is_clean

from .stages import Case
from .targets import stands_in, words_of


def sources_of(case: Case, targets: tuple[str, ...]) -> tuple[JsonObject, ...]:
    """One entry for each argument, in the order to be shown: targets first, and of each what is not the user's own.

    `from` are the origins of its label, `goal` says whether all of it stands in the goal literally, the names
    that the tool says nothing of included.
    """
    entries = [_entry(case, name, is_target=name in targets) for name in case.call.arguments.data]
    return tuple(
        sorted(entries, key=lambda entry: (not entry["target"], entry["goal"], is_clean(frozenset(entry["from"]))))
    )


def _entry(case: Case, name: str, *, is_target: bool) -> JsonObject:
    call = case.call
    pointer = f"/{name.replace('~', '~0').replace('/', '~1')}"
    words = words_of(case.tool, {name: call.arguments.data[name]})
    return {
        "name": name,
        "target": is_target,
        "from": sorted(call.arguments.label_at(pointer) | (call.read - CLEAN)),
        "goal": bool(words) and all(stands_in(value, case.run.goal) for value in words),
    }
