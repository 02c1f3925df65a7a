"""The tool servers of a soak: started by the product, or over HTTP by us; each may be killed and comes back."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import toys
from quick_jobs import quick

SUPPORT = Path(__file__).parent
WITH_ITS_SHELL = 1 / 4
"""In this part of the kills the shell that watches over the server dies with it."""


@dataclass(frozen=True)
class Kill:
    """A server that was killed, and when."""

    server: str
    at: float


@dataclass
class Servers:
    """`s0`, `s1` … of which the first `over_http` stand behind HTTP; each writes its calls to a file of its name."""

    folder: Path
    count: int
    over_http: int
    kills: list[Kill] = field(default_factory=list[Kill])
    ending: set[int] = field(default_factory=set[int])
    _ours: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])
    _ports: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def names(self) -> list[str]:
        return [f"s{number}" for number in range(self.count)]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def entries(self) -> Mapping[str, Any]:
        """What stands in `mcpServers`; servers over HTTP are started for it."""
        for name in self.names[: self.over_http]:
            self._start(name)
        urls = {name: {"type": "http", "url": f"http://127.0.0.1:{port}/mcp"} for name, port in self._ports.items()}
        commands = {name: toys.entry(quick(self.log(name))) for name in self.names[self.over_http :]}
        return urls | commands

    def calls(self, *tools: str) -> list[tuple[str, Any]]:
        """What the servers were sent, each call with its server; of these tools or of all."""
        logs = [(name, self.log(name)) for name in self.names]
        return [(name, call) for name, log in logs if log.exists() for call in toys.calls(log, *tools)]

    def kill(self, choose: random.Random) -> None:
        """End one server that runs; of those over HTTP the process starts again at once, at its port."""
        running = {process.pid: name for name, process in self._ours.items()}
        for pid in toys.children_of(os.getpid()):
            words = _words(pid)
            if words[:1] == [sys.executable] and words[-1].startswith(str(self.folder)):
                running[pid] = Path(words[-1]).stem
        if not running:
            return
        pid, name = choose.choice(sorted(running.items()))
        victims = [pid] if name in self._ours or choose.random() > WITH_ITS_SHELL else [_parent(pid), pid]
        self.kills.append(Kill(name, time.time()))
        self.ending.add(pid)
        for victim in victims:
            # It may just have ended by itself.
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        if name in self._ours:
            self._ours[name].wait()
            self._start(name)

    def close(self) -> None:
        """End those that we started."""
        for process in self._ours.values():
            process.kill()
            process.wait()

    def _start(self, name: str) -> None:
        self.log(name).touch()
        words = [sys.executable, "-m", "toy_servers.quick_http", str(self.log(name)), self._ports.get(name, "0")]
        process = subprocess.Popen(words, cwd=SUPPORT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert process.stderr is not None
        with process.stderr as stderr:
            self._ports[name] = stderr.readline().decode().rsplit(":", 1)[1].removesuffix("/mcp\n")
        self._ours[name] = process


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])
