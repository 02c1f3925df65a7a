"""Logins at tool servers over HTTP: made by a person or by credentials, kept, renewed, and sent nowhere else."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
from authorization_server import Era, Protected, follow, open_protected
from pydantic import SecretStr
from tool_connections import remote, text_of

from downstream.auth.kept import KeptLogin
from downstream.auth.login import Door, LoginFailed, log_in
from downstream.servers.connection import Connection
from downstream.servers.failures import CallFailed, NeedsLogin, ServerUnavailable
from downstream.servers.pool import open_pool
from downstream.settings import AuthSettings, ServerSettings
from journal.world import World

pytestmark = pytest.mark.e2e
ERAS: list[Era] = ["modern", "legacy", "sse"]
WORLD = World()
OAUTH = AuthSettings(kind="oauth")


async def by_browser(address: str) -> None:
    await anyio.to_thread.run_sync(follow, address)


async def logged_in(server: ServerSettings) -> str:
    with anyio.fail_after(15):
        return await log_in(Door(server, WORLD, by_browser))


@asynccontextmanager
async def open_connection(server: ServerSettings, learned: list[str] | None = None) -> AsyncGenerator[Connection]:
    def learn(name: str, value: str) -> None:
        if learned is not None:
            learned.append(value)

    async with open_pool([server], WORLD, learn=learn) as pool:
        yield pool.connection(server.name)


async def look(connection: Connection, word: str = "tea") -> str:
    with anyio.fail_after(20):
        return text_of(await connection.call("look", {"word": word}, timeout=15))


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_is_used_once_somebody_has_logged_in(era: Era) -> None:
    with open_protected(era) as protected:
        server = remote("vault", protected.url)
        async with open_connection(server) as vault:
            with pytest.raises(ServerUnavailable, match="needs a login; log in with: steprelay servers login vault"):
                await vault.listing()
            asked = len(protected.seen)
            with pytest.raises(NeedsLogin):
                await look(vault)
            assert len(protected.seen) == asked, "it was asked again in vain"
            await logged_in(server)
            assert await look(vault) == "found tea"
    [asked_for] = protected.auth.asked
    assert asked_for["resource"] == protected.url
    assert asked_for["redirect_uri"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_that_ends_in_the_middle_is_renewed_and_the_call_runs_once(era: Era) -> None:
    learned: list[str] = []
    with open_protected(era) as protected:
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server, learned) as vault:
            await look(vault, "one")
            protected.auth.expire()
            await look(vault, "two")
    assert protected.calls == ["look one", "look two"]
    assert [grant["grant_type"] for grant in protected.auth.grants] == ["authorization_code", "refresh_token"]
    assert set(protected.auth.issued) == set(learned)


async def test_two_processes_that_renew_at_once_use_the_refresh_token_once() -> None:
    with open_protected() as protected:
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server) as one, open_connection(server) as other:
            await look(one)
            await look(other)
            protected.auth.expire()
            async with anyio.create_task_group() as group:
                for connection in (one, other, one):
                    group.start_soon(look, connection, "again")
    renewals = [grant for grant in protected.auth.grants if grant["grant_type"] == "refresh_token"]
    assert (len(renewals), protected.calls.count("look again")) == (1, 3)


async def test_a_token_is_renewed_before_it_ends_where_it_said_when() -> None:
    with open_protected() as protected:
        # Within the seconds in which it counts as ended.
        protected.auth.seconds = 4
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server) as vault:
            protected.auth.seconds = 3600
            await look(vault)
    assert protected.seen == [""], "a request was refused after the login"


@pytest.mark.parametrize("era", ERAS)
async def test_a_login_that_is_not_renewed_is_forgotten_and_a_new_one_is_taken_at_once(era: Era) -> None:
    with open_protected(era) as protected:
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server) as vault:
            await look(vault, "one")
            protected.auth.revoke()
            with pytest.raises(NeedsLogin) as refused:
                await look(vault, "two")
            assert KeptLogin(server).version is None
            await logged_in(server)
            await look(vault, "three")
    assert not refused.value.may_have_run
    assert protected.calls == ["look one", "look three"]


async def test_a_login_without_a_refresh_token_is_due_again_once_its_token_ends() -> None:
    with open_protected() as protected:
        protected.auth.refreshes = False
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server) as vault:
            await look(vault)
            protected.auth.expire()
            with pytest.raises(NeedsLogin):
                await look(vault)


@pytest.mark.parametrize("status", [500, 200], ids=["error", "no token"])
async def test_an_authorization_server_in_trouble_fails_the_call_and_costs_no_login(status: int) -> None:
    with open_protected() as protected:
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server) as vault:
            await look(vault, "one")
            protected.auth.expire()
            protected.auth.broken = status
            with pytest.raises(CallFailed, match="vault refused the call: its authorization server") as failed:
                await look(vault, "two")
            protected.auth.broken = None
            await look(vault, "three")
    assert (failed.value.may_have_run, isinstance(failed.value, NeedsLogin)) == (False, False)
    assert protected.calls == ["look one", "look three"]


def credentials(protected: Protected, secret: str, **more: Any) -> ServerSettings:
    auth = AuthSettings(kind="client_credentials", client_id="robot", client_secret=SecretStr(secret), **more)
    return remote("vault", protected.url, auth=auth)


async def test_client_credentials_need_no_person_and_are_used_again_when_the_token_ends() -> None:
    learned: list[str] = []
    with open_protected() as protected:
        server = credentials(protected, "robot-secret-0123456789", issuer=protected.auth.url, scopes=("vault:read",))
        async with open_connection(server, learned) as vault:
            await look(vault, "one")
            protected.auth.expire()
            await look(vault, "two")
        assert KeptLogin(server).version is None
    assert protected.calls == ["look one", "look two"]
    assert learned == protected.auth.issued
    assert {grant["scope"] for grant in protected.auth.grants} == {"vault:read"}


async def test_client_credentials_that_are_refused_say_so_and_ask_nobody_to_log_in() -> None:
    with open_protected() as protected:
        async with open_connection(credentials(protected, "wrong-secret", issuer=protected.auth.url)) as vault:
            with pytest.raises(ServerUnavailable, match="client credentials got no token: Token exchange failed"):
                await vault.listing()


async def test_a_client_secret_goes_to_no_authorization_server_that_the_settings_do_not_name() -> None:
    with open_protected() as protected:
        async with open_connection(credentials(protected, "robot-secret-0123456789")) as vault:
            with pytest.raises(ServerUnavailable, match="client credentials got no token"):
                await vault.listing()
        named = AuthSettings(kind="oauth", client_id="robot", client_secret=SecretStr("robot-secret-0123456789"))
        with pytest.raises(LoginFailed, match=r"set auth\.issuer to its address"):
            await logged_in(remote("vault", protected.url, auth=named))
    assert protected.auth.grants == []


async def test_a_client_of_the_settings_logs_in_at_a_fixed_port_with_its_scopes(free_tcp_port: int) -> None:
    with open_protected() as protected:
        auth = AuthSettings(kind="oauth", client_id="desk", scopes=("a", "b"), redirect_port=free_tcp_port)
        protected.auth.clients["desk"] = {"redirect_uris": [f"http://127.0.0.1:{free_tcp_port}/callback"]}
        await logged_in(remote("vault", protected.url, auth=auth))
    [asked] = protected.auth.asked
    assert (asked["client_id"], asked["scope"]) == ("desk", "a b")


async def test_a_client_secret_of_the_settings_is_used_at_each_renewal() -> None:
    with open_protected() as protected:
        secret = SecretStr("robot-secret-0123456789")
        auth = AuthSettings(kind="oauth", client_id="desk", client_secret=secret, issuer=protected.auth.url)
        server = remote("vault", protected.url, auth=auth)
        protected.auth.any_redirect = True
        protected.auth.clients["desk"] = {"redirect_uris": []}
        await logged_in(server)
        async with open_connection(server) as vault:
            protected.auth.expire()
            await look(vault)
    used = {grant["authorization"] for grant in protected.auth.grants}
    assert len(used) == 1
    assert used != {""}


async def test_a_client_that_is_registered_with_a_secret_says_it_in_its_requests_for_tokens_only() -> None:
    learned: list[str] = []
    with open_protected() as protected:
        protected.auth.registers_with = "registered-0123456789"
        server = remote("vault", protected.url)
        await logged_in(server)
        async with open_connection(server, learned) as vault:
            protected.auth.expire()
            await look(vault)
    assert [grant.get("client_secret") for grant in protected.auth.grants] == ["registered-0123456789"] * 2
    assert "registered-0123456789" in learned


async def test_a_server_that_wants_no_login_after_all_is_used_without_the_client_credentials() -> None:
    with open_protected() as protected:
        protected.open = True
        async with open_connection(credentials(protected, "robot-secret-0123456789")) as vault:
            assert await look(vault) == "found tea"
    assert protected.auth.grants == []


def without(address: str, **changed: str | None) -> str:
    """The same address with other values in its query."""
    parts = urlsplit(address)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changed
    return parts._replace(query=urlencode({name: text for name, text in query.items() if text is not None})).geturl()


async def changed_challenge(address: str) -> None:
    await by_browser(without(address, code_challenge="x" * 43))


async def nobody(address: str) -> None:
    """The person does nothing."""


@pytest.mark.parametrize(
    ("show", "why"),
    [(changed_challenge, "invalid_grant"), (nobody, "nobody came back from the browser within 0.2 s")],
    ids=["another proof", "nobody"],
)
async def test_a_login_that_is_not_this_one_or_does_not_come_keeps_nothing(
    show: Callable[[str], Awaitable[None]], why: str
) -> None:
    with open_protected() as protected:
        server = remote("vault", protected.url)
        with anyio.fail_after(15), pytest.raises(LoginFailed, match=why):
            await log_in(Door(server, WORLD, show, seconds=0.2 if show is nobody else 10))
        assert KeptLogin(server).version is None


async def test_a_login_that_the_person_declines_says_so() -> None:
    with open_protected() as protected:
        protected.auth.denies = True
        with pytest.raises(LoginFailed, match="the authorization server said 'access_denied'"):
            await logged_in(remote("vault", protected.url))


async def test_only_what_carries_the_state_of_this_login_ends_it_and_only_once() -> None:
    answers: list[int] = []

    async def meddle(address: str) -> None:
        back = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        state = parse_qs(urlsplit(address).query)["state"][0]
        async with httpx2.AsyncClient() as browser:
            for foreign in (f"{back}?code=stolen&state=guess", f"{back}?code=stolen", back.replace("callback", "x")):
                answers.append((await browser.get(foreign)).status_code)
            answers.append((await browser.post(f"{back}?code=stolen&state={state}")).status_code)
        await by_browser(address)
        async with httpx2.AsyncClient() as browser:
            answers.append((await browser.get(f"{back}?code=stolen&state={state}")).status_code)

    with open_protected() as protected:
        server = remote("vault", protected.url)
        with anyio.fail_after(15):
            await log_in(Door(server, WORLD, meddle))
    assert answers == [400, 400, 404, 404, 400]
    assert [grant["grant_type"] for grant in protected.auth.grants] == ["authorization_code"]


async def test_a_server_that_leads_to_an_authorization_server_over_plain_http_elsewhere_is_not_logged_in_at() -> None:
    with open_protected() as protected:
        protected.auth.metadata = {"token_endpoint": "http://auth.example.com/token"}
        with pytest.raises(LoginFailed, match=r"http://auth\.example\.com is not https"):
            await logged_in(remote("vault", protected.url))
    assert protected.auth.grants == []


async def test_a_redirect_to_another_origin_takes_no_token_along() -> None:
    with open_protected() as protected, open_protected() as other:
        server = remote("vault", protected.url)
        await logged_in(server)
        protected.leads_to = other.url
        async with open_connection(server) as vault:
            with pytest.raises(ServerUnavailable):
                await vault.listing()
    assert other.seen == []


async def test_a_server_that_asks_for_no_login_is_told_apart() -> None:
    with open_protected() as protected:
        protected.open = True
        with pytest.raises(LoginFailed, match=r"it does not ask for one \(HTTP \d+\)"):
            await logged_in(remote("vault", protected.url))


async def test_a_port_that_is_taken_is_named(free_tcp_port: int) -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=free_tcp_port):
        auth = AuthSettings(kind="oauth", redirect_port=free_tcp_port)
        with pytest.raises(LoginFailed, match=f"{free_tcp_port} of 127.0.0.1 cannot be listened at"):
            await logged_in(remote("vault", "http://127.0.0.1:9/mcp", auth=auth))
