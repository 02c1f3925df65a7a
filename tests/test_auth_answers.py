"""Answers of authorization servers that are none, and places where nothing can be kept, cost a call and never more."""

import gzip
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from pydantic import SecretStr
from tool_connections import remote

from downstream.auth.access import Access, unlearned
from downstream.auth.kept import KeptLogin, Login, LoginNotKept
from downstream.auth.login import Door, LoginFailed, log_in
from downstream.auth.tokens import NotRenewed, granted, renewed
from downstream.settings import AuthSettings
from journal.settings import state_folder
from journal.world import World

pytestmark = pytest.mark.e2e
TOKEN = {"access_token": "at-new", "token_type": "Bearer"}
ROBOT = AuthSettings(kind="client_credentials", client_id="robot", client_secret=SecretStr("hidden-0123456789"))


def answer(body: bytes, **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = ["HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


def token(**fields: Any) -> bytes:
    return answer(json.dumps(TOKEN | fields).encode())


@asynccontextmanager
async def open_answering(said: bytes, on_request: Callable[[], None] = lambda: None) -> AsyncGenerator[str]:
    """A server that answers everything with this."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            on_request()
            await stream.send(said)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


def login(url: str, **changes: Any) -> Login:
    return Login(access_token="at-old", refresh_token="rt-old", token_endpoint=url, client_id="c", **changes)


NONE = {
    "packed": (answer(gzip.compress(json.dumps(TOKEN).encode()), content_encoding="gzip"), r"\(ReadError\)"),
    "packed badly": (answer(b"no gzip", content_encoding="gzip"), r"\(ReadError\)"),
    "without end": (answer(b" " * 1024 * 1024 + json.dumps(TOKEN).encode()), r"\(ReadError\)"),
    "no header can hold it": (token(access_token="a\u00e9"), "something that is no token"),
    "two lines": (token(access_token="a\nb"), "something that is no token"),
    "empty": (token(access_token=""), "something that is no token"),
}


@pytest.mark.parametrize(("said", "why"), NONE.values(), ids=NONE.keys())
async def test_what_is_no_token_renews_no_login(said: bytes, why: str) -> None:
    with anyio.fail_after(20):
        async with open_answering(said) as url:
            with pytest.raises(NotRenewed, match=why) as failed:
                await renewed(login(f"{url}/token"), server=url, now=0)
    assert not failed.value.refused


@pytest.mark.parametrize(
    ("seconds", "ends"), [(60, 160.0), (10**400, 100 + 1e9), (-(10**400), 100.0)], ids=["a minute", "for ever", "never"]
)
async def test_a_token_that_is_good_for_ever_is_good_for_long(seconds: int, ends: float) -> None:
    with anyio.fail_after(20):
        async with open_answering(token(expires_in=seconds)) as url:
            new = await renewed(login(f"{url}/token"), server=url, now=100)
    assert (new.access_token, new.refresh_token, new.expires_at) == ("at-new", "rt-old", ends)


async def test_an_address_for_tokens_that_is_none_renews_no_login() -> None:
    with pytest.raises(NotRenewed, match=r"cannot be reached \(InvalidURL\)"):
        await renewed(login("http://127.0.0.1:no/token"), server="http://127.0.0.1:9/mcp", now=0)


CHALLENGE = b'HTTP/1.1 401 No\r\ncontent-length: 0\r\nwww-authenticate: Bearer resource_metadata="http://127.0.0.1:no/x"\r\n\r\n'


async def test_a_server_that_leads_to_no_address_gets_no_client_credentials_and_no_login() -> None:
    async def show(address: str) -> None:
        raise AssertionError(address)

    with anyio.fail_after(20):
        async with open_answering(CHALLENGE) as url:
            with pytest.raises(NotRenewed, match="its client credentials got no token"):
                await granted(remote("vault", f"{url}/mcp"), ROBOT, now=0)
            with pytest.raises(LoginFailed, match="no login at 'vault'"):
                await log_in(Door(remote("vault", f"{url}/mcp"), World(), show))


def expired(url: str) -> tuple[Access, KeptLogin]:
    server = remote("vault", f"{url}/mcp")
    kept = KeptLogin(server)
    kept.write(login(f"{url}/token", expires_at=1.0))
    return Access(server, World(), unlearned), kept


async def sent_with(access: Access, url: str) -> str | None:
    """With what a request goes out."""
    flow = access.header().async_auth_flow(httpx2.Request("POST", f"{url}/mcp"))
    request = await anext(flow)
    await flow.aclose()
    return request.headers.get("authorization")


def folder_of_logins() -> Path:
    return state_folder() / "logins"


async def test_without_a_lock_the_token_is_not_renewed_and_the_old_one_is_sent() -> None:
    async with open_answering(token()) as url:
        access, kept = expired(url)
        (file,) = folder_of_logins().glob("*.json")
        file.with_suffix(".lock").mkdir()
        assert await sent_with(access, url) == "Bearer at-old"
        with pytest.raises(LoginNotKept, match="the login at 'vault' cannot be kept"):
            async with kept.open_lock():
                raise AssertionError("a folder is no lock")
    assert "cannot be kept" in (access.trouble or "")


REFUSED = b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n"


async def test_a_login_that_is_refused_and_cannot_be_forgotten_is_not_sent_any_more() -> None:
    def block() -> None:
        (file,) = folder_of_logins().glob("*.json")
        file.unlink()
        file.mkdir()

    async with open_answering(REFUSED, on_request=block) as url:
        access, kept = expired(url)
        assert await sent_with(access, url) is None
        with pytest.raises(LoginNotKept, match="the login at 'vault' cannot be forgotten"):
            kept.forget()
    assert access.trouble == "its authorization server no longer accepts the login"
