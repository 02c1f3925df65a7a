"""Where a path leads: in a folder, elsewhere, or to different places for different programs (cannot be told)."""

import os
import re
import unicodedata
from pathlib import PurePath
from urllib.parse import unquote

from journal.values import Json

from .told import agreed

_LONGEST = 1024
_MOST_LINKS = 40
# What stands there is another thing for each process, or named by a number.
_OWN_OF_PROCESS = re.compile(
    r"/{1,2}(proc/(self|thread-self|\d+)|dev/(fd|stdin|stdout|stderr)|\.vol)(/|$)", re.ASCII | re.IGNORECASE
)


def is_under(folder: str, path: Json) -> bool | None:
    """Whether every program that opens this path ends in the folder; None where some may and others not.

    So it is where `..` after a link, an escape or a backslash is read in two ways, where the way leads through a place
    that is another for each process, where only the spelling differs or the folder has a second name, and for what is
    no absolute path.
    """
    if not isinstance(path, str) or len(path) > _LONGEST or not PurePath(path).is_absolute():
        return None
    try:
        readings = _readings(path)
        if any(map(_depends_on_process, readings)):
            return None
        root = os.path.realpath(folder)
        return agreed(_lies_under(root, os.path.realpath(reading)) for reading in readings)
    except (ValueError, OSError):
        # A NUL or a lone surrogate, which no file has in its name, or a link that went away or may not be read.
        return None


def _readings(path: str) -> set[str]:
    """As it is written, which the system follows link by link, and as servers may change it before they open it."""
    written = {path, unquote(path)}
    written |= {each.replace("\\", "/") for each in written}
    return written | set(map(os.path.normpath, written))


def _depends_on_process(path: str) -> bool:
    whole = PurePath(path)
    at, left, links = whole.anchor, list(reversed(whole.parts[1:])), 0
    while left:
        name = left.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        at = os.path.join(at, name)
        if _OWN_OF_PROCESS.match(at) or links > _MOST_LINKS:
            return True
        try:
            target = PurePath(os.readlink(at))
        except OSError:
            continue
        links += 1
        at = target.anchor or os.path.dirname(at)
        left += reversed(target.parts[1:] if target.anchor else target.parts)
    return False


def _lies_under(root: str, place: str) -> bool | None:
    if _begins_with(root, place):
        return True
    return None if _begins_with(_folded(root), _folded(place)) or _has_inside(root, place) else False


def _begins_with(root: str, place: str) -> bool:
    return place == root or place.startswith(root.rstrip(os.sep) + os.sep)


def _folded(path: str) -> str:
    """One spelling for those that some file system takes for the same name."""
    text = unicodedata.normalize("NFKC", path).casefold()
    shown = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    return os.sep.join(name.rstrip(" .\t\r\n") for name in shown.split(os.sep))


def _has_inside(root: str, place: str) -> bool:
    """Whether the folder itself is on the way to this place, under whatever name."""
    try:
        wanted = os.stat(root)
    except OSError:
        return False
    return any(_is_there(each, wanted) for each in (place, *map(str, PurePath(place).parents)))


def _is_there(path: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), wanted)
    except OSError:
        return False
