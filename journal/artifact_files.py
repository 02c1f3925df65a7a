"""The files of artifacts: written whole or not at all, and removed when no row names them any more.

Only what is named like ours is ever removed, and no link is followed: the folder of a store may hold the files of
somebody else.
"""

import hashlib
import os
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from .syncing import sync

_FOLDER = re.compile("(r|import)_[a-z2-7]{26}")
_FILE = re.compile(r"f_[a-z2-7]{26}(\.part)?")


def write_whole(folder: Path, name: str, content: bytes) -> str:
    """Write a file that is there in full or not at all, also after a power cut; returns its SHA-256. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / f"{name}.part"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        part.rename(folder / name)
    except OSError:
        # What there is of it takes space that the disk may lack.
        remove(part)
        raise
    sync_folders(folder, folder.parent, folder.parent.parent)
    return hashlib.sha256(content).hexdigest()


def sync_folders(*folders: Path) -> None:
    """Make what was renamed in these folders last."""
    # Windows has no way to sync a folder.
    if sys.platform != "win32":  # pragma: no branch
        for folder in folders:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                sync(descriptor)
            finally:
                os.close(descriptor)


def read_whole(path: Path) -> tuple[bytes, str]:
    """The content and its SHA-256. Raises OSError."""
    content = path.read_bytes()
    return content, hashlib.sha256(content).hexdigest()


def remove(path: Path) -> int | None:
    """Remove a file, or a link itself; returns how many bytes that frees, None where it stays."""
    with suppress(OSError):
        size = path.lstat().st_size
        path.unlink()
        return size
    return None


def run_folders(folder: Path) -> list[Path]:
    """The folders of runs in the artifacts' folder of a store."""
    return [Path(each.path) for each in _entries(folder) if _FOLDER.fullmatch(each.name) and _is_folder(each)]


def remove_run(folder: Path, names: Collection[str]) -> None:
    """Remove these files of a run that is gone, other files of ours there, and the folder if that leaves it empty."""
    if not folder.is_symlink():
        for name in {*names, *_names(folder)}:
            remove(folder / name)
        _remove_empty(folder)


def remove_unknown(folder: Path, known: Collection[str], *, before: float) -> list[int]:
    """Remove the files of ours last changed `before` then that are not `known`, and the folder if it is empty.

    Returns the sizes of the files.
    """
    # Looked at first: removing a file renews the time of its folder.
    is_old = _changed(folder) < before
    lost = [folder / name for name in _names(folder) if name not in known]
    sizes = [remove(path) for path in lost if _changed(path) < before]
    if is_old:
        _remove_empty(folder)
    return [size for size in sizes if size is not None]


def _names(folder: Path) -> list[str]:
    return [each.name for each in _entries(folder) if _FILE.fullmatch(each.name) and not _is_folder(each)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _changed(path: Path) -> float:
    """When it was last changed; what is gone counts as just changed."""
    with suppress(OSError):
        return path.lstat().st_mtime
    return float("inf")


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
