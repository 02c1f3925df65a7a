"""A tool server as a child process: how it is started, and how all of it is ended.

The steps and times are those of the protocol's shutdown: end of input, a grace, then the whole process group.
"""

import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import anyio
from anyio.abc import AsyncResource, Process
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32.utilities import (
    close_process_job,
    create_windows_process,
    get_windows_executable_command,
    terminate_windows_process_tree,
)

from .windows_command import windows_command

_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Start:
    """What is started, in a group of its own; `env` is added to the few variables that are safe to pass on."""

    command: Sequence[str]
    env: dict[str, str]
    cwd: Path | None


@asynccontextmanager
async def open_process(start: Start, stderr: IO[str]) -> AsyncGenerator[Process]:
    """A running server; at the end its whole group is gone, within 6 s, also if the caller is cancelled.

    Raises OSError or ValueError where it cannot be started.
    """
    process = await _started(start, stderr)
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _started(start: Start, stderr: IO[str]) -> Process:
    env = get_default_environment() | start.env
    if sys.platform == "win32":
        found = await anyio.to_thread.run_sync(get_windows_executable_command, start.command[0])
        command, *args = windows_command(found, start.command[1:])
        # Where there is no event loop for processes, it is a stand-in with the same parts.
        return cast("Process", await create_windows_process(command, args, env, stderr, start.cwd))
    return await anyio.open_process(list(start.command), env=env, stderr=stderr, cwd=start.cwd, start_new_session=True)


async def _end(process: Process) -> None:
    await _close(process.stdin)
    if not await _has_ended(process):
        if sys.platform == "win32":
            await terminate_windows_process_tree(process)
        else:
            await terminate_posix_process_tree(process, _GRACE_SECONDS)
        await _has_ended(process)
    elif sys.platform != "win32":
        # The first of a group may have been killed by others, and the rest be there.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    close_process_job(process)
    await _close(process.stdout)
    # A grandchild that left the group may hold its end of a pipe open, and asyncio with it what no interface closes.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    with suppress(PermissionError):
        getattr(transport, "close", lambda: None)()


async def _has_ended(process: Process) -> bool:
    # Not `wait`, which on asyncio also waits for the pipes, and a grandchild may hold those.
    with anyio.move_on_after(_GRACE_SECONDS):
        while process.returncode is None:  # noqa: ASYNC110 - the kernel tells in no other way
            await anyio.sleep(_POLL_SECONDS)
        return True
    return False


async def _close(stream: AsyncResource | None) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        if stream is not None:
            await stream.aclose()
