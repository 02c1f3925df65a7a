"""Where secrets of a login may go: the server they are for, and addresses that nobody on the way can listen at."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address
from typing import Final, cast

import httpx2

from downstream.gate.addresses import local_addresses
from downstream.servers.exchange import encoding_of
from journal.errors import SteprelayError

_TIMEOUTS: Final = httpx2.Timeout(15.0)
_LARGEST = 1024 * 1024
"""Bytes of one answer: what a login is told takes a few thousand."""


class UnsafeAddress(SteprelayError):
    """An address to which nothing of a login is sent."""


def check_address(url: httpx2.URL, *, server: str) -> None:
    """Raises UnsafeAddress for plain HTTP that leaves this machine, and for our network where the server is not in it.

    `server` is the tool server's address in the settings.
    """
    if url.scheme != "https" and not (url.scheme == "http" and _is_loopback(url.host)):
        raise UnsafeAddress(f"{_shown(url)} is not https, so others could read what is sent there")
    if local_addresses(str(url)) and not local_addresses(server):
        raise UnsafeAddress(f"{_shown(url)} is an address of this machine or its network, and the server is not in it")


def is_same_place(url: httpx2.URL, server: httpx2.URL) -> bool:
    """Whether a request goes to the server itself, or to the same host by https."""
    if (url.host, url.port, url.scheme) == (server.host, server.port, server.scheme):
        return True
    return url.host == server.host and url.scheme == "https" and url.port is None and server.port is None


@asynccontextmanager
async def open_auth_http(server: str, auth: httpx2.Auth | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client for the requests of a login at this server; each address is checked, and no redirect is followed.

    An answer of more than 1 MiB, or in an encoding, which nobody asks for, is a httpx2.ReadError.
    """
    transport = _Checked(httpx2.AsyncHTTPTransport(verify=_tls()), server)
    plain = {"Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(transport=transport, auth=auth, headers=plain, timeout=_TIMEOUTS) as http:
        yield http


class _Checked(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, server: str) -> None:
        self._inner = inner
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        check_address(request.url, server=self._server)
        response = await self._inner.handle_async_request(request)
        inner = cast("httpx2.AsyncByteStream", response.stream)
        response.stream = _Bounded(inner, encoding=encoding_of(response))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, *, encoding: str) -> None:
        self._inner = inner
        self._encoding = encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding:
            raise httpx2.ReadError("its answer is in an encoding")
        left = _LARGEST
        async for part in self._inner:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError("its answer is too long")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()


@cache
def _tls() -> ssl.SSLContext:
    """Made once: reading all certificates takes longer than a request."""
    return httpx2.create_ssl_context()


def _shown(url: httpx2.URL) -> str:
    """Without a query, which may hold a secret."""
    return f"{url.scheme}://{url.host}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
