"""Secrets of this user that outlive a process: made at first use, in files that only this user can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from journal.errors import SteprelayError
from journal.settings import state_folder

_SHORTEST = 32
"""A file with less in it was not written by us, or not to its end, and is made anew."""


class NotKept(SteprelayError):
    """The state folder cannot hold a secret."""

    def __init__(self, name: str, error: OSError) -> None:
        where = error.filename or "the state folder"
        super().__init__(
            f"{name} cannot be kept: {where}: {error.strerror or error}; set XDG_STATE_HOME to a folder of yours"
        )


def request_state_key() -> bytes:
    """The key that seals the state of open questions, kept so that they survive a restart. Raises NotKept."""
    return _kept("request-state.key")[0]


def local_token() -> tuple[str, Path]:
    """The bearer token of this user and the file that holds it. Raises NotKept."""
    token, path = _kept("http-token")
    return token.decode("ascii"), path


def _kept(name: str) -> tuple[bytes, Path]:
    try:
        path = state_folder() / name
        return _read_or_made(path), path
    except OSError as error:
        raise NotKept(name, error) from error


def _read_or_made(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        path.chmod(0o600)
        if len(found := path.read_bytes().strip()) >= _SHORTEST:
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
