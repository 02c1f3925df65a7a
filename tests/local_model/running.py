"""A goal as a run of the command line, watched from its beginning to its end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from journal.values import JsonObject

from .assets import How, Installed, threads
from .goals import Goal
from .verdict import Ran, mails_in

_OWN = (sys.executable, "-P", "-c", "from server.app import main; main()")
_AFTERWARDS = 180.0
"""A run whose time is used up has so many more seconds to answer."""


class ServerEnded(Exception):
    """A model's server did not come up."""


@dataclass(frozen=True)
class Bench:
    """Where runs happen: their folder, their settings, and the seconds that a run is given."""

    folder: Path
    settings: Path
    seconds: float

    def run(self, goal: Goal) -> Ran:
        """Run a goal with nobody there: each question is answered with no."""
        outbox = self.folder / "outbox"
        before, began = mails_in(outbox), time.monotonic()
        code, out = self._steprelay(self.seconds + _AFTERWARDS, "run", goal.text, "--json", "--approve", "deny")
        seconds = time.monotonic() - began
        events: list[JsonObject] = [json.loads(line) for line in out.splitlines()]
        view: JsonObject = {}
        if events:
            _, shown = self._steprelay(60, "runs", "show", events[0]["run"], "--json")
            view = json.loads(shown or "{}")
        return Ran(goal, code, events, view, mails_in(outbox) - before, seconds)

    def _steprelay(self, seconds: float, *words: str) -> tuple[int | None, str]:
        """The exit code, None where it had to be killed, and what was said on stdout."""
        command = [*_OWN, *words, "--config", str(self.settings)]
        env = os.environ | {"XDG_STATE_HOME": str(self.folder / "state")}
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env, cwd=self.folder
        ) as process:
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                out, _ = process.communicate()
                return None, out
        return process.returncode, out


@contextmanager
def open_llama(installed: Installed, context: int, how: How) -> Generator[str]:
    """The address of a model's server, until the block ends. Raises ServerEnded where it does not come up."""
    script = Path(__file__).with_name("llama_server.py")
    command = [installed.python, str(script), str(installed.weights), str(context), str(threads()), how]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            # It says its address, or its end closes the pipe.
            address = process.stdout.readline().strip()
            if not address:
                raise ServerEnded("the model's server ended before it listened")
            yield address
        finally:
            process.stdin.close()
            process.kill()
