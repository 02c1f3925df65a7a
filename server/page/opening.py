"""Opening the page in the person's browser, where there is a desktop to open it on."""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

import anyio

from journal.errors import StoreError
from journal.store import Store
from journal.world import World

from .link import HOST
from .place import Place
from .sessions import new_code

_LOOK_SECONDS = 1.0
_OPEN_SECONDS = 20.0
_OPENED = "page_opened"
_OPENER = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.stdin.read()))"


def has_desktop(environ: Mapping[str, str], platform: str) -> bool:
    """Whether a browser that opens here is in front of the person; never in CI and over SSH."""
    if environ.get("CI") or environ.get("SSH_CONNECTION"):
        return False
    return platform in ("darwin", "win32") or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def signed_in_address(place: Place, port: int, world: World, *, path: str = "/") -> str:
    """The address that begins a session, once and within five minutes; the code behind `#` goes to no server."""
    return f"http://{HOST}:{port}{path}#code={new_code(place.key(port), world)}"


async def open_browser(address: str) -> bool:
    """Whether a browser took the address. Our streams are not the browser's, and our command line does not show it."""
    opened = 1
    # What started this process may be gone by now: it was upgraded, or its folder was removed.
    with anyio.move_on_after(_OPEN_SECONDS), suppress(OSError):
        command = [sys.executable, "-P", "-c", _OPENER]
        nowhere = subprocess.DEVNULL
        ended = await anyio.run_process(
            command, input=address.encode(), stdout=nowhere, stderr=nowhere, check=False, start_new_session=True
        )
        opened = ended.returncode
    return opened == 0


async def open_for_first(store: Store, place: Place) -> None:
    """Open the page at the first action that waits in each run which comes to wait from now on."""
    began = store.world.now()
    while True:
        # A store or folder that fails for a while has its runs held up, and nothing new waits in it.
        with suppress(StoreError, OSError):
            for action in await store.waiting_actions():
                is_new = action.created_at >= began and action.kind != "login"
                if is_new and await store.remembered.add(_OPENED, action.run, True):
                    await open_browser(signed_in_address(place, place.port(), store.world, path=f"/a/{action.id}"))
        await anyio.sleep(_LOOK_SECONDS)
