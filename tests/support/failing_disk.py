"""A disk that fails under programs as they are: a small library is built with `cc` and preloaded into them."""

import ctypes
import errno
import mmap
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Literal

_SOURCE = Path(__file__).with_name("failing_disk.c")
_LAYOUT = struct.Struct("7q")
_EVER = 2**62
Error = Literal["ENOSPC", "EIO"]


def lacking() -> str | None:
    """Why it can't be built here, if so."""
    if sys.platform != "linux":
        return "preloading a library is done as on Linux"
    return None if shutil.which("cc") else "there is no C compiler"


def build(folder: Path) -> Path:
    """The library, built in this folder."""
    library = folder / "failing_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"], check=True, timeout=60)
    return library


class FailingDisk:
    """What is stored under `under` by programs started with `environ`; their calls are counted and fail as told.

    A call is a write, a sync, a cut, a new file or folder, or a rename.
    """

    VARIABLES: tuple[str, ...] = ("LD_PRELOAD", "FAILING_DISK_UNDER", "FAILING_DISK_CONTROL")
    """What tells a program its disk: the library, the folder and the control file."""

    def __init__(self, library: Path, under: Path, control: Path) -> None:
        values = (str(library), str(under), str(control))
        self.environ: dict[str, str] = dict(zip(self.VARIABLES, values, strict=True))
        if not control.exists():
            control.write_bytes(bytes(_LAYOUT.size))
        with control.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _LAYOUT.size)

    def take_on(self) -> None:
        """Have this process, which was started on another of these disks, use this one from now on."""
        os.environ |= self.environ
        ctypes.CDLL(self.environ["LD_PRELOAD"]).failing_disk_begin()

    @property
    def calls(self) -> int:
        return int(_LAYOUT.unpack(self._shared)[0])

    @property
    def failed(self) -> int:
        return int(_LAYOUT.unpack(self._shared)[1])

    def fail(self, error: Error, *, at: int = 1, once: bool = False, halves: bool = False) -> None:
        """Count from 0 again, and have call number `at` fail, or all from there; `halves`: it stores one half."""
        until = at + 1 if once else _EVER
        self._shared[:] = _LAYOUT.pack(0, 0, at, until, getattr(errno, error), halves, 0)

    def lock(self) -> None:
        """Mounted read-only."""
        self._shared[:] = _LAYOUT.pack(0, 0, 0, 0, 0, 0, errno.EROFS)

    def heal(self) -> None:
        """Count from 0 again; nothing fails."""
        self._shared[:] = bytes(_LAYOUT.size)
