"""File locks: held by a process until it lets go or dies, and seen by all others."""

import os
import secrets
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio

from .errors import StoreError

_LOOK_SECONDS = 0.02
_WINDOWS = sys.platform == "win32"
"""There a file that is open anywhere can be neither renamed nor removed."""


@contextmanager
def held(path: Path, *, in_place: bool = _WINDOWS) -> Generator[None]:
    """Hold a lock on a new file until the block ends. Raises StoreError where locks do not keep others out.

    Locked under a temporary name, then renamed: nobody ever sees the file without its lock. Or `in_place`, which does
    where nobody can remove the file meanwhile, and nobody looks at its lock before they are told of it.
    """
    begun = path if in_place else path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(begun, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(begun, error) from error
    try:
        if not _holds(descriptor, begun):
            raise StoreError(f"{path.parent}: file locks do not work here; set `store` to a file in a local folder")
        if not in_place:
            _rename(begun, path)
        yield
    finally:
        os.close(descriptor)
        _remove(path)
        _remove(begun)


def is_free(path: Path) -> bool:
    """Whether nobody holds the file's lock, or there is no such file; one that cannot be opened counts as held."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    try:
        return _try_lock(descriptor)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def open_lock(path: Path) -> AsyncGenerator[None]:
    """Hold the lock of a file that stays, having waited for whoever holds it, in this process or another."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # No event tells that another process lets go.
        while not _try_lock(descriptor):  # noqa: ASYNC110
            await anyio.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove the files whose lock nobody holds any more."""
    for path in folder.iterdir():
        # One that is just being made is not locked yet. Where what is open stays anyhow, no lock is touched at all.
        if _WINDOWS or (path.suffix != ".part" and is_free(path)):
            _remove(path)


def check_locks(folder: Path) -> None:
    """Raises StoreError where a lock that is held can be taken once more, or the folder cannot be written."""
    with held(folder / f"probe_{secrets.token_hex(8)}"):
        pass


def _holds(descriptor: int, path: Path) -> bool:
    try:
        return _try_lock(descriptor) and not is_free(path)
    except OSError:
        return False


def _rename(begun: Path, path: Path) -> None:
    try:
        begun.rename(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written ({error.strerror}); set `store` to a file in a folder you own")


def _remove(path: Path) -> None:
    # Somebody has it open, or the disk fails: the next sweep removes it.
    with suppress(OSError):
        path.unlink(missing_ok=True)


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
