"""What a run may not take from the machine by itself: time, ids, chance, and where tests let a process die."""

import base64
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass


def _nowhere(point: str) -> None:
    """The crash point of a product: nothing happens."""


def new_id(prefix: str) -> str:
    """`prefix`, an underscore and 26 lower-case base32 characters (130 random bits)."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(17)).decode().lower()[:26]}"


@dataclass(frozen=True)
class World:
    """Clock, ids and chance as handed to everything; tests hand in their own.

    `now` is Unix time in seconds, `monotonic` never goes back, `chance` is uniform in [0, 1), and `reach` is called
    with a name at every boundary of the journal, so that a test can end the process exactly there.
    """

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    new_id: Callable[[str], str] = new_id
    chance: Callable[[], float] = random.random
    reach: Callable[[str], None] = _nowhere
