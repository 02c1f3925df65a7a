"""The command line as people and scripts use it: a process of its own, with pipes or at a pseudo-terminal."""

import io
import logging
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from server.app import main

ROOT = Path(__file__).parent.parent.parent
OWN = (sys.executable, "-P", "-c", "from server.app import main; main()")


class Command(Protocol):
    """Runs a command to its end."""

    def __call__(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]: ...


def steprelay(*words: str, cwd: Path, seconds: float = 60, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with pipes for all three streams."""
    return subprocess.run(
        [*OWN, *words], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
    )


def called(*words: str) -> int:
    """Run a command in this process, for those that end at once; returns its exit code."""
    root, argv, handler = logging.getLogger(), sys.argv, signal.getsignal(signal.SIGTERM)
    handlers, level = root.handlers[:], root.level
    sys.argv = ["steprelay", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, handler)
        for added in set(root.handlers) - set(handlers):
            root.removeHandler(added)
            added.close()
        root.setLevel(level)
    return 0


def answered(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, as in that folder; for what shows nothing about processes."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(said, "utf-8", write_through=True) for said in (out, err)]
    with chdir(cwd), redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = called(*words)
    return subprocess.CompletedProcess(words, code, out.getvalue().decode(), err.getvalue().decode())


@dataclass
class Terminal:
    """A command at a pseudo-terminal of 120 columns."""

    process: "subprocess.Popen[bytes]"
    descriptor: int
    seen: str = ""
    _read: int = field(default=0)

    def expect(self, text: str, seconds: float = 30) -> str:
        """Read until this text comes; returns what stood before it. Fails with all that was seen."""
        deadline = time.monotonic() + seconds
        while (at := self.seen.find(text, self._read)) < 0:
            if not self._more(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} did not come; seen:\n{self.seen}")
        before, self._read = self.seen[self._read : at], at + len(text)
        return before

    def send(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def end(self, seconds: float = 30) -> int:
        """Read to the end; returns the exit code."""
        deadline = time.monotonic() + seconds
        while self._more(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _more(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.descriptor], [], [], max(0.0, seconds))
        try:
            data = os.read(self.descriptor, 65_536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def open_terminal(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> Generator[Terminal]:
    """Start a command at a terminal; it is killed when the block ends."""
    outer, inner = pty.openpty()
    whole = {name: value for name, value in os.environ.items() if name not in ("CLAUDECODE",)}
    whole |= {"TERM": "xterm", "COLUMNS": "120", "LINES": "50", **(env or {})}
    process = subprocess.Popen(
        [*OWN, *words], cwd=cwd, stdin=inner, stdout=inner, stderr=inner, env=whole, start_new_session=True
    )
    os.close(inner)
    try:
        yield Terminal(process, outer)
    finally:
        process.kill()
        process.wait()
        os.close(outer)
