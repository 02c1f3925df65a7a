"""`steprelay serve` as a host starts it, with a stopwatch, and what the process uses meanwhile."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .child import ROOT
from .stored import Standing

_OWN = (sys.executable, "-P", "-c", "from server.app import main; main()")
_INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


@dataclass(frozen=True)
class Served:
    """A server that answered: seconds from its start to the reply to `initialize`, and to the first list of runs."""

    pid: int
    initialized: float
    listed: float

    def processor_seconds(self) -> float | None:
        """What the process has used so far; None where the system has no /proc."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.exists():
            return None
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def open_served(standing: Standing) -> Generator[Served]:
    """Start `serve` and see it answer; its stdin is closed at the end, and it is waited for."""
    began = time.perf_counter()
    command = [*_OWN, "serve", "--config", str(standing.config)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(standing)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _ask(process.stdin, process.stdout, 1, "initialize", _INITIALIZE)
        initialized = time.perf_counter() - began
        _tell(process.stdin, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        answer = _ask(process.stdin, process.stdout, 2, "tools/call", {"name": "list_runs", "arguments": {}})
        if '"isError":true' in answer:
            raise RuntimeError(f"list_runs failed: {answer}")
        yield Served(process.pid, initialized, time.perf_counter() - began)
        process.stdin.close()


def seconds_of(standing: Standing, *words: str) -> float:
    """How long a command takes, from its start to its end."""
    began = time.perf_counter()
    command = [*_OWN, *words, "--config", str(standing.config)]
    subprocess.run(command, stdout=subprocess.DEVNULL, env=_environment(standing), check=True)
    return time.perf_counter() - began


def _ask(stdin: IO[bytes], stdout: IO[bytes], number: int, method: str, params: Mapping[str, object]) -> str:
    _tell(stdin, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    for line in stdout:
        if json.loads(line).get("id") == number:
            return line.decode()
    raise RuntimeError(f"serve ended before it answered {method}")


def _tell(stdin: IO[bytes], message: Mapping[str, object]) -> None:
    stdin.write(json.dumps(message).encode() + b"\n")
    stdin.flush()


def _environment(standing: Standing) -> dict[str, str]:
    """State and configuration beside the store, so that those of the user stay out of it."""
    own = {f"XDG_{name}_HOME": str(standing.folder / name.lower()) for name in ("STATE", "CONFIG", "DATA")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEPRELAY_")}
    return kept | own | {"PYTHONPATH": str(ROOT)}
