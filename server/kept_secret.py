"""Secrets of this user that outlive a process: made at first use, in files that only this user can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from journal.settings import state_folder

SHORTEST = 32
"""A file with less in it was not written by us, or not to its end, and is made anew."""


def request_state_key() -> bytes:
    """The key that seals the state of open questions, kept so that they survive a restart. Raises OSError."""
    return _kept(state_folder() / "request-state.key")


def local_token() -> tuple[str, Path]:
    """The bearer token of this user and the file that holds it. Raises OSError."""
    path = state_folder() / "http-token"
    return _kept(path).decode("ascii"), path


def _kept(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        path.chmod(0o600)
        if len(found := path.read_bytes().strip()) >= SHORTEST:
            return found
        path.unlink()
    # Written whole before it has its name, so that a process that starts at the same time never reads a part.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(draft, "xb", opener=_private) as file:
        file.write(secrets.token_urlsafe(32).encode())
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
    return path.read_bytes().strip()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
