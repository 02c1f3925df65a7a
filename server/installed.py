"""How steprelay is called in this installation, for sentences that tell a person what to type."""

import shutil
import sys
from pathlib import Path


def installed_command() -> str:
    """`steprelay` where it is on the PATH, `uvx steprelay` where uvx runs it, else the script's whole path."""
    script = Path(sys.executable).with_name("steprelay")
    found = shutil.which("steprelay")
    if found is not None and Path(found).resolve() == script.resolve():
        return "steprelay"
    if "archive-v" in str(script) or "/uv/cache/" in str(script):
        return "uvx steprelay"
    return str(script) if script.exists() else "steprelay"
