"""Secrets that outlive a process: made at first use, in files that only this user can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

_SHORTEST = 32
"""A file with less in it was not written by us, or not to its end, and is made anew."""


def kept_secret(path: Path) -> bytes:
    """The secret in this file, ASCII made of 32 random bytes, made now if it is not there. Raises OSError."""
    with suppress(FileNotFoundError):
        path.chmod(0o600)
        if len(found := path.read_bytes().strip()) >= _SHORTEST:
            return found
        path.unlink()
    # Written whole before it has its name, so that a process that starts at the same time never reads a part.
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", opener=_private) as file:
            file.write(secrets.token_urlsafe(32).encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return path.read_bytes().strip()


def write_private(path: Path, content: bytes) -> None:
    """Put this in place of the file, whole and for this user only. Raises OSError."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
