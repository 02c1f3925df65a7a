"""Stands between a host and a tool server on stdio and notes what they say: `python tap.py LOG COMMAND…`."""

import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import IO

_SAID_BY_HOST, _SAID_BY_SERVER = "-> ", "<- "


def tapped(command: Iterable[str], log: Path) -> list[str]:
    """The command with this process in front of it."""
    return [sys.executable, __file__, str(log), *command]


def said_by_host(log: Path) -> list[str]:
    """The messages that the host sent, as they went over the wire."""
    return _lines(log, _SAID_BY_HOST)


def said_by_server(log: Path) -> list[str]:
    """The messages that the server sent, as they went over the wire."""
    return _lines(log, _SAID_BY_SERVER)


def _lines(log: Path, mark: str) -> list[str]:
    lines = log.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(mark) for line in lines if line.startswith(mark)]


def _pass_on(source: IO[bytes], to: IO[bytes], log: IO[bytes], *, mark: str) -> None:
    for line in source:
        log.write(mark.encode() + line)
        to.write(line)
        to.flush()
    to.close()


def main() -> int:
    """Pass both ways until the server has ended."""
    with (
        Path(sys.argv[1]).open("ab", buffering=0) as log,
        subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        to_server = (sys.stdin.buffer, server.stdin, log)
        threading.Thread(target=_pass_on, args=to_server, kwargs={"mark": _SAID_BY_HOST}, daemon=True).start()
        _pass_on(server.stdout, sys.stdout.buffer, log, mark=_SAID_BY_SERVER)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
