"""How steprelay is called in this installation, for sentences that tell a person what to type."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spoken:
    """Says commands as they have to be typed: `command`, the words, and `--config` where that is needed."""

    command: str
    config: Path | None = None

    def __call__(self, words: str) -> str:
        return f"{self.command} {words}" + (f" --config {shlex.quote(str(self.config))}" if self.config else "")


def installed_command(python: Path = Path(sys.executable)) -> str:
    """`steprelay` where it is on the PATH, `uvx steprelay` where uvx runs it, else the script's whole path."""
    script = python.with_name("steprelay")
    found = shutil.which("steprelay")
    if found is not None and Path(found).resolve() == script.resolve():
        return "steprelay"
    if "archive-v" in str(script) or "/uv/cache/" in str(script):
        return "uvx steprelay"
    return shlex.quote(str(script)) if script.exists() else "steprelay"
