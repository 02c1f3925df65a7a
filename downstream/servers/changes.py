"""What a server says of changes to its tools, in both eras, and how often it is asked again for them."""

import contextlib
from collections.abc import Awaitable, Callable

import anyio
from mcp import Client, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0


class Changes:
    """`settled` is set but from the news of a change to the new listing, save in the pause after the last listing."""

    def __init__(self) -> None:
        self.settled = anyio.Event()
        self.settled.set()
        self._told = anyio.Event()
        self._pausing = False

    def tell(self) -> None:
        """The server's tools have changed."""
        self._told.set()
        if not self._pausing:
            self._unsettle()

    async def follow(self, client: Client, list_again: Callable[[], Awaitable[None]]) -> None:
        """List again after each change, for ever; what changes again and again is listed ever more rarely."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, client)
                await self.list_after_changes(list_again)
        finally:
            # Nobody waits for a listing that will not come.
            self._pausing = True
            self.settled.set()

    async def list_after_changes(self, list_again: Callable[[], Awaitable[None]]) -> None:
        pause = _SHORTEST_PAUSE
        while True:
            await self._told.wait()
            self._told = anyio.Event()
            self._unsettle()
            await list_again()
            self.settled.set()
            self._pausing = True
            await anyio.sleep(pause)
            self._pausing = False
            pause = min(pause * 2, _LONGEST_PAUSE) if self._told.is_set() else _SHORTEST_PAUSE

    async def _listen(self, client: Client) -> None:
        """Servers of the newer era tell only those who listen; a stream that ended is opened again."""
        capabilities = client.server_capabilities
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if not (capabilities.tools and capabilities.tools.list_changed):
            return
        pause = _SHORTEST_PAUSE
        while True:
            began = anyio.current_time()
            # RuntimeError: the stream ended without a word.
            with contextlib.suppress(MCPError, RuntimeError):
                async with client.listen(tools_list_changed=True) as events:
                    if pause > _SHORTEST_PAUSE:
                        self.tell()
                    # What comes is told by the transport; here is only waited for the end.
                    async for _ in events:
                        pass
            lasted = anyio.current_time() - began
            pause = min(pause * 2, _LONGEST_PAUSE) if lasted < _LONGEST_PAUSE else 2 * _SHORTEST_PAUSE
            await anyio.sleep(pause)

    def _unsettle(self) -> None:
        if self.settled.is_set():
            self.settled = anyio.Event()
