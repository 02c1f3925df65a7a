"""The machine that numbers were taken on, without its name or any path."""

import os
import platform
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .places import Places, file_system


def described(places: Places, *, now: float) -> str:
    """A few lines of Markdown."""
    memory = "none" if places.memory is None else file_system(places.memory)
    lines = [
        f"- {datetime.fromtimestamp(now, UTC):%Y-%m-%d}, steprelay {version('steprelay')}",
        f"- {machine()}{_load()}",
        f"- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        f"- disk: {file_system(places.disk)}; memory: {memory}",
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """In a few words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {cores} cores"


def _load() -> str:
    """How busy the machine was before."""
    if not Path("/proc/loadavg").exists():
        return ""
    return f", load {os.getloadavg()[0]:.1f} in the minute before"
