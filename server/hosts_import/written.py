"""A server as a host's file has it, with the keys of all hosts brought into one form."""

from collections.abc import Iterable
from dataclasses import dataclass

from journal.values import Json, JsonObject

from .places import HostFile


@dataclass(frozen=True)
class Written:
    """`entry` has our keys, `timeout` in milliseconds, and what else the host wrote; types are not checked yet."""

    name: str
    entry: Json
    source: HostFile
    is_off: bool = False
    """Turned off by its host outside of the entry."""


def renamed(entry: JsonObject, names: dict[str, str]) -> JsonObject:
    """The entry with keys under our names; a key that is there under both stays as ours."""
    return {**{names.get(key, key): item for key, item in entry.items()}, **_ours(entry, names.values())}


def in_milliseconds(entry: JsonObject, key: str) -> JsonObject:
    """The entry with a time in seconds as `timeout` in milliseconds."""
    seconds = entry.get(key)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return entry
    return {**{name: item for name, item in entry.items() if name != key}, "timeout": int(seconds * 1000)}


def _ours(entry: JsonObject, names: Iterable[str]) -> JsonObject:
    return {key: entry[key] for key in names if key in entry}
