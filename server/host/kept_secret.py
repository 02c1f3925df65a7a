"""Secrets of this user that outlive a process: made at first use, in files that only this user can read."""

from pathlib import Path

from journal.errors import SteprelayError
from journal.secret_files import kept_secret
from journal.settings import state_folder


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


def page_key() -> bytes:
    """What one-time codes for the page are made with, and proves a page to be this user's. Raises NotKept."""
    return _kept("page.key")[0]


def grants_key() -> bytes:
    """The key that seals files of grants. Raises NotKept."""
    return _kept("grants.key")[0]


def _kept(name: str) -> tuple[bytes, Path]:
    try:
        path = state_folder() / name
        return kept_secret(path), path
    except OSError as error:
        raise NotKept(name, error) from error
