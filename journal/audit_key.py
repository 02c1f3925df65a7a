"""The key of the audit: with it the audit tells of arguments and results so that nobody can try out guesses on it."""

import hmac
import sqlite3
from pathlib import Path

from .errors import StoreError
from .secret_files import kept_secret

KEYED = "steprelay_keyed"
"""The function of SQL that keys a text, on each connection that a key was lent to."""
_NAME = "audit.key"


def lend_key(connection: sqlite3.Connection, folder: Path) -> None:
    """Let statements key texts with the key beside the store. Raises StoreError where it cannot be kept."""
    path = folder / _NAME
    try:
        key = kept_secret(path)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be kept ({error.strerror or error}), and nothing is done without an audit; "
            "make it a file, and the folder one, that you may write"
        ) from error
    name = hmac.digest(key, b"its name", "sha256").hex()[:8]

    def keyed(text: str) -> str:
        return f"{name}:{hmac.digest(key, text.encode(), 'sha256').hex()}"

    connection.create_function(KEYED, 1, keyed, deterministic=True)
