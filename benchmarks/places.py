"""Where stores lie: on a disk, and in memory where this machine has a file system of that kind."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Places:
    """Two folders to put stores into; `memory` is None where no file system lies in memory."""

    disk: Path
    memory: Path | None


@contextmanager
def open_places(disk: Path) -> Generator[Places]:
    """Folders that are removed at the end; the one on the disk is made within `disk`."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=disk.resolve()) as folder:
        if not (os.access(_MEMORY, os.W_OK) and file_system(_MEMORY) == "tmpfs"):
            yield Places(Path(folder), None)
            return
        with tempfile.TemporaryDirectory(prefix="benchmark-", dir=_MEMORY) as memory:
            yield Places(Path(folder), Path(memory))


@contextmanager
def open_folder(within: Path) -> Generator[Path]:
    """An empty folder for one store."""
    with tempfile.TemporaryDirectory(dir=within) as folder:
        yield Path(folder)


def file_system(path: Path) -> str:
    """The kind of file system that `path` lies on, where the system tells."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "of unknown kind"
    lines = [line.split() for line in mounts.read_text().splitlines()]
    fitting = [(len(point), kind) for _, point, kind, *_ in lines if path.resolve().is_relative_to(point)]
    return max(fitting)[1]
