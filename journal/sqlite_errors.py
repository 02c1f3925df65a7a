"""What an error of SQLite means for whoever uses the store."""

import json
import sqlite3
from pathlib import Path

from .errors import StoreError


def is_damage(error: BaseException) -> bool:
    """Whether the file holds what neither SQLite nor we can have written."""
    words = ("malformed", "not a database", "Could not decode")
    return isinstance(error, json.JSONDecodeError) or any(word in str(error) for word in words)


def explained(path: Path, error: sqlite3.Error | json.JSONDecodeError | StoreError) -> StoreError:
    """The error as it is told: it names the file and the way out."""
    if isinstance(error, StoreError):
        return error
    text = str(error)
    if is_damage(error):
        text = text if "not a database" in text else "database disk image is malformed"
        way = (
            "the file is damaged, and nothing more is read or written here; close all that use it, then move it away "
            "or restore a copy: without one a new one is made"
        )
    elif "locked" in text:
        way = "another process holds it for too long; close it or set `store` to another file"
    elif "I/O" in text:
        way = "free some space or check the disk; what was committed is kept"
    elif "full" in text or "readonly" in text:
        way = "free some space or make it writable; what was committed is kept"
    elif "unable to open" in text:
        way = "make sure that it is a file in a folder you own, or set `store` to another file"
    else:
        way = "what was committed is kept; the log in the state folder has more"
    return StoreError(f"{path}: {text}; {way}")
