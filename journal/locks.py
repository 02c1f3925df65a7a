"""File locks: held by a process until it lets go or dies, and seen by all others."""

import os
import secrets
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .errors import StoreError


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold a lock on a new file until the block ends. Raises StoreError where locks do not keep others out.

    Locked under a temporary name, then renamed: nobody ever sees the file without its lock.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"{part} cannot be written ({error.strerror}); set `store` to a file in a folder you own"
        ) from error
    try:
        if not _holds(descriptor, part):
            raise StoreError(f"{path.parent}: file locks do not work here; set `store` to a file in a local folder")
        part.rename(path)
        yield
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def is_free(path: Path) -> bool:
    """Whether nobody holds the file's lock, or there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


def check_locks(folder: Path) -> None:
    """Raises StoreError where a lock that is held can be taken once more, or the folder cannot be written."""
    with held(folder / f"probe_{secrets.token_hex(8)}"):
        pass


def _holds(descriptor: int, path: Path) -> bool:
    try:
        return _try_lock(descriptor) and not is_free(path)
    except OSError:
        return False


# Reached on Windows only.
if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
