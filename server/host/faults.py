"""Faults of ours on their way to a host: the log has them in full, the host is told in our own words."""

import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
Given = TypeVar("Given")
Made = TypeVar("Made")

FAILED = "steprelay failed inside; its log says why. list_runs shows the runs."


class LoggedFault:
    """A block that ends where something fails, with the error in the log; `besides` goes on as it is."""

    def __init__(self, what: str, *, besides: tuple[type[Exception], ...] = ()) -> None:
        self._what = what
        self._besides = besides

    def __enter__(self) -> None:
        """Nothing is held."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self._besides):
            return False
        log.error("call_failed", extra={"call": self._what}, exc_info=error)
        return True


def masked(handler: Callable[[Context, Given], Awaitable[Made]]) -> Callable[[Context, Given], Awaitable[Made]]:
    """The handler, whose faults are JSON-RPC errors in our words: the SDK may send what an exception says.

    What it refuses on purpose, as MCPError, goes out as it is.
    """

    async def guarded(context: Context, given: Given) -> Made:
        with LoggedFault(context.method, besides=(MCPError,)):
            return await handler(context, given)
        raise MCPError(code=INTERNAL_ERROR, message=FAILED)

    return guarded
