"""A thread with an asyncio loop of its own, for a library that blocks the loop it runs on."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")
_JOIN_SECONDS = 5.0


@dataclass(frozen=True)
class VendorLoop:
    """The loop, while it runs."""

    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns on that loop; it is cancelled when the caller is."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


@asynccontextmanager
async def open_vendor_loop(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[VendorLoop]:
    """Run the loop; at the end, what still runs on it is cancelled and then `close` is awaited there."""
    ready: Future[VendorLoop] = Future()
    # An import that takes its time must not keep the process from ending.
    thread = threading.Thread(target=asyncio.run, args=(_serve(ready, close),), name="vendor-loop", daemon=True)
    thread.start()
    running = await asyncio.wrap_future(ready)
    try:
        yield running
    finally:
        running.loop.call_soon_threadsafe(running.stop.set)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, _JOIN_SECONDS)


async def _serve(ready: "Future[VendorLoop]", close: Callable[[], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    ready.set_result(VendorLoop(asyncio.get_running_loop(), stop))
    await stop.wait()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await close()
    # A closed connection is let go of in a later turn of the loop.
    await asyncio.sleep(0)
