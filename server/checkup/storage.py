"""What is written on this machine: the store, the room for it, and the page that shows it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from journal.errors import SteprelayError, StoreError
from journal.settings import NotBuiltYet, sqlite_path
from journal.world import World
from server.opened_store import open_settings_store
from server.page.passkey_file import passkey_warnings
from server.page.place import Place, listening
from server.settings import Settings

from .finding import Finding

_TIGHT, _FULL = 1 << 30, 100 << 20


async def store(settings: Settings, world: World) -> list[Finding]:
    """Whether the store opens here, and locks keep others out of it: opening it tries that."""
    try:
        async with open_settings_store(settings, world=world) as opened:
            path, runs = opened.database.path, await opened.runs(limit=100)
    except (StoreError, NotBuiltYet) as error:
        return [Finding("store", "problem", str(error), "set `store` to a file in a local folder that is yours")]
    unfinished = sum(not run.ended for run in runs)
    text = f"{path} opens, and locks work there"
    waiting = f"; of the newest {len(runs)} runs {unfinished} are unfinished" if unfinished else ""
    return [Finding("store", "ok", text + waiting), room(path, shutil.disk_usage(path.parent).free)]


def room(path: Path, free: int) -> Finding:
    """Whether so many free bytes suffice for the store and the artifacts beside it."""
    text = f"{free / (1 << 30):.1f} GiB are free beside {path}"
    if free >= _TIGHT:
        return Finding("disk", "ok", text)
    way_out = "make room, or let steprelay runs prune remove old runs"
    return Finding("disk", "problem" if free < _FULL else "warning", text, way_out)


async def page(settings: Settings) -> Finding:
    """Whether the page can be served on its port. Approving in a terminal works without."""
    if settings.approvals.page == "off":
        return Finding("page", "ok", "it is off (approvals.page); steprelay approve decides in a terminal")
    try:
        place = Place(sqlite_path(settings.store))
        port = place.port()
    except (SteprelayError, OSError) as error:
        way_out = "set XDG_STATE_HOME to a folder that can be written to"
        return Finding("page", "warning", f"there is none: {error}", way_out)
    if _is_free(port):
        return Finding("page", "ok", f"port {port} of this machine is free for it")
    if await place.is_ours(port):
        return Finding("page", "ok", f"another steprelay serves it on port {port}")
    text = f"port {port} belongs to another program"
    return Finding("page", "warning", text, "nothing: the page moves to another port when it is next served")


def _is_free(port: int) -> bool:
    try:
        with listening(port):
            return True
    except OSError:
        return False


def waivers(settings: Settings) -> Iterator[Finding]:
    """Rules by which private data may leave without a question."""
    for number, rule in enumerate(settings.policy.rules):
        if rule.tainted is not None:
            text = f"rules[{number}] ({rule.text}, tainted: allow) lets private data leave without a question"
            yield Finding("policy", "warning", text, "take `tainted: allow` out unless that is what you want")


def passkeys(settings: Settings) -> Iterator[Finding]:
    """Rules that want a passkey, while none can be given."""
    for text in passkey_warnings(settings.policy):
        yield Finding("policy", "warning", text)
