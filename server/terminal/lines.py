"""Lines that a person types at the terminal."""

import sys

import anyio
import anyio.to_thread


async def read_line() -> str | None:
    """The next line typed; None at the end of input. Can be cancelled where the platform can wait for a terminal."""
    if sys.platform == "win32":
        return await anyio.to_thread.run_sync(sys.stdin.readline) or None
    # A terminal hands over one line at a time, so that nothing stays behind in a buffer unseen.
    await anyio.wait_readable(sys.stdin)
    return sys.stdin.readline() or None
