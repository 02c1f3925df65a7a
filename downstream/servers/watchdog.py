"""What a tool server started ends with it, and both end when this process is gone, also at kill -9.

Linux and macOS: a small shell stands between us and each tool server. It holds the reading end of a named pipe whose
only writer is this process; at end of file it kills the process group, and with it all that did not leave the group.
Windows: the SDK puts each server into a job object that dies with us, so commands are started as they are; only what a
server starts before it is in there, right at its beginning, may escape.
"""

import errno
import os
import stat
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

SHELL = Path("/bin/sh")
EXIT_CODE = "exit code "
"""What begins the line that the shell adds to stderr after a server that failed."""

_PREFIX, _PIPE = "steprelay-", "alive"
_LEFT_SECONDS = 60.0
_TIDIED = 200
"""So many folders of dead processes are removed at once; more wait for the next process."""

# The SDK starts each server as the leader of a group of its own, so $$ names the group. The shell outlives a SIGTERM to
# the group, since the group must be killed after a server that ignores it; the watcher is reaped before, so that no
# zombie is left where the first process of a container reaps nothing. Should someone have tidied the pipe away, exec
# ends the watcher, and the server runs without.
_SCRIPT = """\
alive=$1; shift
(
  trap '' TERM; exec <"$alive"; read -r _; rm -f "$alive"; rmdir "${alive%/*}"
  kill -TERM -$$; sleep 1; kill -KILL -$$
) >/dev/null 2>&1 &
trap : TERM
"$@"
code=$?
[ $code = 0 ] || echo "EXIT_CODE$code" >&2
{ kill -KILL $!; wait $!; kill -KILL -$$; } 2>/dev/null
""".replace("EXIT_CODE", EXIT_CODE)


@dataclass(frozen=True)
class Watchdog:
    """Wraps commands; without a pipe it leaves them as they are."""

    alive: Path | None

    def guarded(self, command: str, args: Sequence[str]) -> list[str]:
        """The command, with its arguments, that runs this one and ends with us."""
        if self.alive is None:
            return [command, *args]
        return [str(SHELL), "-c", _SCRIPT, "steprelay-watch", str(self.alive), command, *args]


@contextmanager
def open_watchdog(shell: Path = SHELL, *, temporary: Path | None = None) -> Generator[Watchdog]:
    """Watch over what is started within; where there is no shell, nothing is wrapped.

    First removes what processes left behind that were killed before they had started anything.
    """
    if not (hasattr(os, "mkfifo") and shell.exists()):
        yield Watchdog(None)
        return
    temporary = temporary or Path(tempfile.gettempdir())
    for left in islice(_left_behind(temporary), _TIDIED):
        with suppress(OSError):
            (left / _PIPE).unlink()
            left.rmdir()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=temporary, ignore_cleanup_errors=True) as folder:
        alive = Path(folder, _PIPE)
        os.mkfifo(alive, 0o600)
        # Opened for both, it does not wait for a reader; children do not inherit it.
        held = os.open(alive, os.O_RDWR)
        try:
            yield Watchdog(alive)
        finally:
            os.close(held)


def _left_behind(folder: Path) -> Iterator[Path]:
    """Our own folders whose pipe nobody holds any more, as long as no process may just be about to."""
    found = [each for each in folder.glob(f"{_PREFIX}*") if not each.is_symlink()]
    for each in found:
        with suppress(OSError):
            about = (each / _PIPE).lstat()
            ours = stat.S_ISFIFO(about.st_mode) and about.st_uid == each.lstat().st_uid == os.getuid()
            if ours and time.time() - about.st_mtime > _LEFT_SECONDS and not _is_held(each / _PIPE):
                yield each


def _is_held(pipe: Path) -> bool:
    """Whether its owner lives, who reads from it too, or a watcher that waits for the end of its owner."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno != errno.ENXIO
    return True
