"""Checkpoints: how far the audit had come, noted outside the store, so that lines taken off its end are missed."""

import json
import logging
import os
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from .database import Transaction
from .errors import SteprelayError
from .values import Json

log = logging.getLogger(__name__)

_LAST = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"


class NoCheckpoints(SteprelayError):
    """A file that was to hold checkpoints and holds none."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}; name the file that `audit.checkpoints` names, or a copy of it")


@dataclass(frozen=True)
class Checkpoint:
    """Line `seq` had the hash `head`; `at` is when that was noted, in RFC 3339."""

    seq: int
    head: str
    at: str


class Checkpoints:
    """Notes the audit's head in `path` after each run's end, and after every so many lines."""

    def __init__(self, path: Path, *, every: int, now: Callable[[], float]) -> None:
        self._path = path
        self._every = every
        self._now = now
        self._noted = 0

    def begin(self, tx: Transaction) -> None:
        """Leave what was written before to those who wrote it."""
        last = tx.row(_LAST)
        self._noted = 0 if last is None else int(last["seq"])

    def look(self, tx: Transaction) -> None:
        """Called after each commit. What fails is logged, and tried again after the next one."""
        try:
            self._look(tx)
        except (OSError, sqlite3.Error) as error:
            log.warning("checkpoint_failed", extra={"path": str(self._path), "error": str(error)})

    def _look(self, tx: Transaction) -> None:
        last = tx.row(_LAST)
        if last is None or last["seq"] == self._noted:
            return
        ended = tx.row("SELECT 1 FROM audit WHERE seq > ? AND type = 'run.ended'", (self._noted,))
        if ended is not None or last["seq"] - self._noted >= self._every:
            at = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="seconds")
            self._note(Checkpoint(last["seq"], last["hash"], at))
            self._noted = last["seq"]

    def _note(self, checkpoint: Checkpoint) -> None:
        line = f"{json.dumps(asdict(checkpoint))}\n".encode()
        # In one piece, so that processes which note at the same time do not mix their lines.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def read_checkpoints(path: Path) -> list[Checkpoint]:
    """What the file holds; lines that were cut short are passed over. Raises NoCheckpoints."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise NoCheckpoints(path, f"cannot be read ({error.strerror})") from error
    found = [checkpoint for line in lines if (checkpoint := _read(line)) is not None]
    if not found:
        raise NoCheckpoints(path, "holds no checkpoint")
    return found


def _read(line: str) -> Checkpoint | None:
    try:
        data: Json = json.loads(line)
        return Checkpoint(int(data["seq"]), str(data["head"]), str(data["at"]))
    except (ValueError, TypeError, KeyError):
        return None
