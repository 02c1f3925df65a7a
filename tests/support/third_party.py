"""Third-party tool servers and a host, each installed once per machine into an environment of its own."""

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Program = Literal[
    "mcp-server-time",
    "mcp-server-git",
    "mcp-server-sqlite",
    "mcp-server-fetch",
    "mcp-server-filesystem",
    "mcp-server-memory",
    "mcp-server-everything",
    "mcp-server-sequential-thinking",
    "playwright-mcp",
    "claude",
]
_NPM: dict[str, str] = {
    "mcp-server-filesystem": "@modelcontextprotocol/server-filesystem",
    "mcp-server-memory": "@modelcontextprotocol/server-memory",
    "mcp-server-everything": "@modelcontextprotocol/server-everything",
    "mcp-server-sequential-thinking": "@modelcontextprotocol/server-sequential-thinking",
    "playwright-mcp": "@playwright/mcp",
    # Without the tag, npm takes an old one where Node is old; the program does not need Node.
    "claude": "@anthropic-ai/claude-code@latest",
}
_SECONDS = 240


@dataclass(frozen=True)
class Ready:
    """The command that starts the program; its own arguments follow."""

    command: list[str]


@dataclass(frozen=True)
class Missing:
    """Why the program can't be had here, to skip with."""

    reason: str


@functools.cache
def install(program: Program) -> Ready | Missing:
    """The program from the cache, else from its registry; a failure is remembered for this process only."""
    folder = _cache() / program
    package = _NPM.get(program)
    if package is not None and shutil.which("npm") is None:
        return Missing("npm is not installed")
    path = folder / ("bin" if package is None else "node_modules/.bin") / program
    with _locked(folder):
        if not (folder / "ready").exists():
            problem = _pip(program, folder) if package is None else _npm(folder, package)
            if problem is not None:
                return Missing(f"{program} can't be installed: {problem}")
            (folder / "ready").touch()
    return Ready([str(path)]) if path.exists() else Missing(f"the package of {program} has no such program")


def installed_version(program: Program) -> str:
    """The version of a program that is installed."""
    folder, package = _cache() / program, _NPM.get(program)
    if package is not None:
        name = package.removesuffix("@latest")
        about = json.loads((folder / "node_modules" / name / "package.json").read_text(encoding="utf-8"))
        return str(about["version"])
    (found,) = folder.glob(f"lib/python*/site-packages/{program.replace('-', '_')}-*.dist-info")
    return found.name.removesuffix(".dist-info").rpartition("-")[2]


@functools.cache
def python_with(name: str, *installs: tuple[str, ...]) -> Ready | Missing:
    """A Python in an environment of that name, made by these runs of `pip install`."""
    folder = _cache() / name
    with _locked(folder):
        if not (folder / "ready").exists():
            problem = _venv(folder) or next(filter(None, (_install(folder, *words) for words in installs)), None)
            if problem is not None:
                return Missing(f"{name} can't be installed: {problem}")
            (folder / "ready").touch()
    return Ready([str(folder / "bin" / "python")])


@functools.cache
def modules_with(name: str, *packages: str) -> Path | Missing:
    """A folder of that name whose `node_modules` has these npm packages."""
    if shutil.which("npm") is None:
        return Missing("npm is not installed")
    folder = _cache() / name
    with _locked(folder):
        if not (folder / "ready").exists():
            problem = _npm(folder, *packages)
            if problem is not None:
                return Missing(f"{name} can't be installed: {problem}")
            (folder / "ready").touch()
    return folder


def _npm(folder: Path, *packages: str) -> str | None:
    return _problem(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])


def _pip(package: str, folder: Path) -> str | None:
    # This one was written for the first SDK and does not say so.
    packages = [package, "mcp<2"] if package == "mcp-server-sqlite" else [package]
    return _venv(folder) or _install(folder, *packages)


def _venv(folder: Path) -> str | None:
    return _problem([sys.executable, "-m", "venv", "--clear", str(folder)])


def _install(folder: Path, *words: str) -> str | None:
    return _problem([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *words])


def _problem(command: list[str]) -> str | None:
    """Run an installer; what went wrong, in its last words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_SECONDS} s"
    return None if done.returncode == 0 else (done.stderr or done.stdout)[-500:]


def _cache() -> Path:
    """A folder that outlives the test's own home."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steprelay-tests"


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """One process at a time installs; the lock goes with the process that held it."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
