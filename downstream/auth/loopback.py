"""Where a browser comes back to after a login: one page on 127.0.0.1, for as long as the login takes."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from journal.tasks import open_tasks

PATH = "/callback"

_LARGEST = 16_384
_SECONDS = 10.0
_PAGE = (
    '<!doctype html><meta charset="utf-8"><title>steprelay</title>'
    '<body style="font-family: sans-serif; margin: 3em"><p>{}</p>'
)
_DONE = "The login has come back to steprelay. You may close this page; the terminal says how it went."
_FOREIGN = "This does not belong to a login that steprelay has begun; nothing was done."


@dataclass
class Comeback:
    """The page's address, and what the browser brought; only what carries the expected state counts."""

    address: str
    state: str = ""
    came: anyio.Event = field(default_factory=anyio.Event)
    brought: dict[str, str] = field(default_factory=dict[str, str])

    async def serve(self, stream: SocketStream) -> None:
        """One connection, one request."""
        async with stream:
            with anyio.move_on_after(_SECONDS):
                # A browser that went away may come again.
                with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                    await stream.send(self._answer(await _request_line(stream)))

    def _answer(self, line: str) -> bytes:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != PATH:
            return _page(404, _FOREIGN)
        brought = {name: values[0] for name, values in parse_qs(target.query).items()}
        fits = bool(self.state) and secrets.compare_digest(brought.get("state", "").encode(), self.state.encode())
        # Once only: a second answer can't replace the first.
        if not fits or self.came.is_set():
            return _page(400, _FOREIGN)
        self.brought = brought
        self.came.set()
        return _page(200, _DONE)


@asynccontextmanager
async def open_comeback(port: int | None) -> AsyncGenerator[Comeback]:
    """Listen on this port of 127.0.0.1, or on a free one. Raises OSError where that cannot be had."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port or 0) as listener:
        where = listener.extra(SocketAttribute.local_port)
        comeback = Comeback(f"http://127.0.0.1:{where}{PATH}")
        async with open_tasks() as group:
            group.start_soon(listener.serve, comeback.serve)
            yield comeback


async def _request_line(stream: SocketStream) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _LARGEST:
        head += await stream.receive()
    return head.split(b"\r\n")[0].decode("latin-1")


def _page(status: int, text: str) -> bytes:
    body = _PAGE.format(text).encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
