"""Serving over HTTP: who is let in, from where, and under which names."""

import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
import toys
from anyio.streams.text import TextReceiveStream
from mcp_hosts import Era, answers, open_http_host, serve
from products import call_step, script, write_settings

from server.host.serving import Address, NotServed, check_address, serve_http
from server.settings import Found

ERAS: list[Era] = ["legacy", "modern"]
e2e = pytest.mark.e2e


@asynccontextmanager
async def open_http(config: Path, *options: str, host: str = "127.0.0.1") -> AsyncGenerator[str]:
    """A `serve --http` process on a free port; its address."""
    command = serve(config, "--http", f"{host}:0", *options)
    async with await anyio.open_process(command, stdin=None, stdout=None, env=dict(os.environ)) as process:
        try:
            assert process.stderr is not None
            with anyio.fail_after(30):
                seen = ""
                async for text in TextReceiveStream(process.stderr):
                    seen += text
                    if "/mcp\n" in seen:
                        break
            yield seen.rpartition("serves ")[2].strip()
        finally:
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(10):
                assert await process.wait() == 143


@e2e
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_only_the_token_of_this_user_lets_in(tmp_path: Path, era: Era) -> None:
    config = write_settings(tmp_path, script=script(), servers={})
    async with open_http(config) as url:
        path = Path(os.environ["XDG_STATE_HOME"]) / "steprelay" / "http-token"
        assert path.stat().st_mode & 0o777 == 0o600
        token = path.read_text()
        async with httpx.AsyncClient() as client:
            for shown in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {token}"}):
                refused = await client.post(url, json={}, headers=shown)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert token not in refused.text
        async with open_http_host(url, token=token, era=era) as host:
            assert await host.structured("list_runs") == {"runs": []}


@e2e
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_a_form_is_shown_and_progress_is_told(tmp_path: Path, era: Era) -> None:
    plan = script(call_step("keep", "ledger.add_item", key="a", value="b"))
    config = write_settings(tmp_path, script=plan, settings={"approvals": {"min_answer_seconds": 0}})
    person = answers(0, decision="approve")
    async with open_http(config, "--no-auth") as url, open_http_host(url, era=era, on_elicit=person) as host:
        view = await host.structured("plan_and_execute", {"goal": "Keep it."})
        assert any(line.startswith("0/1 · Do keep") for line in host.progress)
    assert (view["status"], len(person.asked)) == ("succeeded", 1)
    assert len(toys.calls(tmp_path / "ledger.log", "add_item")) == 1


@e2e
async def test_without_auth_anybody_on_this_machine_is_let_in(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(), servers={})
    async with open_http(config, "--no-auth") as url, open_http_host(url) as host:
        assert await host.structured("list_runs") == {"runs": []}
    assert not (Path(os.environ["XDG_STATE_HOME"]) / "steprelay" / "http-token").exists()


@e2e
async def test_a_websites_name_that_leads_to_any_loopback_address_is_refused(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(), servers={})
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "browser", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
    async with open_http(config, "--no-auth", host="127.0.0.2") as url, httpx.AsyncClient() as client:
        here = url.removesuffix("/mcp")
        evil = here.replace("127.0.0.2", "evil.example")
        found = {}
        for host, origin in ((here, here), (evil, evil), (here, evil), (evil, here)):
            headers = {
                "accept": "application/json, text/event-stream",
                "host": host[len("http://") :],
                "origin": origin,
            }
            found[host == evil, origin == evil] = (await client.post(url, json=message, headers=headers)).status_code
    assert found == {(False, False): 200, (True, True): 421, (False, True): 403, (True, False): 421}


@e2e
def test_without_auth_nothing_but_loopback_is_served(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(), servers={})
    command = serve(config, "--http", "0.0.0.0:0", "--no-auth")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--no-auth is for loopback only, not for 0.0.0.0" in ran.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_loopback_may_be_served_without_auth(host: str) -> None:
    check_address(host, authenticated=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_other_addresses_want_auth(host: str) -> None:
    check_address(host, authenticated=True)
    with pytest.raises(NotServed, match="loopback only"):
        check_address(host, authenticated=False)


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    import socket

    from journal.world import World

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotServed, match=f"127.0.0.1:{port} cannot be served: .*choose another"):
            await serve_http(
                lambda: Found(None, "defaults"), Address("127.0.0.1", port, None), environ={}, world=World()
            )
