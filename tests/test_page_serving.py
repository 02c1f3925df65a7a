"""The page as a process serves it: one port for all processes, taken over when one goes, opened where a person is."""

import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream
from command_line import called, open_terminal
from mcp_hosts import open_stdio_host, serve
from page_visits import add_action, start_waiting
from products import Opened, call_step, open_test_product, script, write_settings

from journal.settings import state_folder
from server.page.link import PageLink
from server.page.opening import has_desktop, open_browser, signed_in_address
from server.page.place import Place, listening
from server.page.serving import open_page
from server.product import Product, Request

SAY = {"id": "say", "kind": "compose", "title": "Say", "task": "Say it."}
PLAN = script(SAY, steps={"say": {"text": "Hello."}})
KEEP = call_step("keep", "ledger.add_item", key="a", value="b")
e2e = pytest.mark.e2e


@asynccontextmanager
async def open_quiet(folder: Path, **settings: Any) -> AsyncGenerator[Opened]:
    """A product without tool servers."""
    async with open_test_product(folder, script=PLAN, servers={}, settings=settings) as opened:
        yield opened


@asynccontextmanager
async def open_signed_in(address: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client with the session that the address begins."""
    base, _, code = address.partition("/#code=")
    async with httpx.AsyncClient(base_url=base, headers={"origin": base}) as client:
        answer = await client.post("/api/session", json={"code": code})
        assert answer.status_code == 200, answer.text
        client.headers["x-steprelay-key"] = answer.json()["key"]
        yield client


async def until_serving(place: Place, port: int) -> None:
    with anyio.fail_after(5):
        while True:
            if await place.is_ours(port):
                return
            # No event tells when another begins to serve.
            await anyio.sleep(0.05)


@e2e
async def test_a_process_that_stands_by_takes_the_port_over_within_two_seconds(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (first, _), open_quiet(tmp_path) as (second, _):
        async with open_page(first) as place:
            assert place is not None
            port = place.port()
            assert first.page.port == port
            async with open_page(second):
                assert second.page.port == port
                async with open_signed_in(signed_in_address(place, port, first.store.world)) as client:
                    assert (await client.get("/api/state")).status_code == 200
            assert second.page.port is None
        async with open_page(second):
            async with open_page(first):
                pass
            assert await place.is_ours(port)


@e2e
async def test_a_session_goes_on_when_another_process_has_taken_over(tmp_path: Path) -> None:
    async with (
        open_quiet(tmp_path) as (first, _),
        open_quiet(tmp_path) as (second, _),
        anyio.create_task_group() as group,
    ):
        ready, leave, gone = anyio.Event(), anyio.Event(), anyio.Event()

        async def serve_first() -> None:
            async with open_page(first):
                ready.set()
                await leave.wait()
            gone.set()

        group.start_soon(serve_first)
        await ready.wait()
        async with open_page(second) as place:
            assert place is not None
            port = place.port()
            async with open_signed_in(signed_in_address(place, port, first.store.world)) as client:
                await start_waiting(first)
                leave.set()
                await gone.wait()
                await until_serving(place, port)
                state = (await client.get("/api/state")).json()
            assert len(state["runs"][0]["actions"]) == 1


@e2e
async def test_a_port_that_something_else_has_is_given_up_for_another(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (product, _):
        place = Place(product.store.database.path)
        taken = place.port()
        with listening(taken):
            async with open_page(product):
                assert product.page.port not in (None, taken)
                assert product.page.port == place.port()
        assert place.move(taken) == place.port()


@e2e
async def test_a_port_that_something_else_has_at_the_other_loopback_address_is_given_up(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (product, _):
        place = Place(product.store.database.path)
        taken = place.port()
        with at_the_other(taken):
            async with open_page(product):
                assert product.page.port not in (None, taken)
                with socket.create_connection(("::1", place.port())):
                    pass


@e2e
async def test_the_page_of_another_store_that_somebody_passes_on_is_not_taken_for_ours(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (product, _), open_page(product) as theirs:
        assert theirs is not None
        ours = Place(tmp_path / "another.db")
        port = ours.port()
        relay = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)

        async def pass_on(stream: SocketStream) -> None:
            async with stream, await anyio.connect_tcp("127.0.0.1", theirs.port()) as page:
                asked = await stream.receive()
                await page.send(asked.replace(str(port).encode(), str(theirs.port()).encode()))
                with suppress(anyio.EndOfStream):
                    while True:
                        await stream.send(await page.receive())

        async with relay, anyio.create_task_group() as group:
            group.start_soon(relay.serve, pass_on)
            assert (await theirs.is_ours(theirs.port()), await ours.is_ours(port)) == (True, False)
            group.cancel_scope.cancel()


def at_the_other(port: int) -> socket.socket:
    """Something that listens at ::1."""
    try:
        return socket.create_server(("::1", port), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")


def test_where_a_machine_has_one_loopback_address_that_is_enough() -> None:
    # One that no machine has.
    with listening(0, also="2001:db8::1") as found:
        assert [each.getsockname()[0] for each in found] == ["127.0.0.1"]


async def test_without_a_port_or_a_folder_there_is_no_page_and_all_else_works(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (product, _):
        folder = state_folder()
        (folder / "page.key").mkdir()
        async with open_page(product) as place:
            assert (place, product.page.port) == (None, None)
    async with open_quiet(tmp_path, approvals={"page": "off"}) as (product, _), open_page(product) as place:
        assert (place, product.page.of("a_1")) == (None, None)


@e2e
async def test_a_state_folder_that_fails_later_ends_the_page_alone(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (first, _), open_quiet(tmp_path) as (second, _), open_page(first):
        async with open_page(second):
            (port_file,) = state_folder().glob("page-*.port")
            port_file.unlink()
            port_file.mkdir()
            with anyio.fail_after(10):
                while second.page.port is not None:  # noqa: ASYNC110 - nobody tells that the page is given up
                    await anyio.sleep(0.05)
            assert first.page.port is not None
        await start_waiting(second)


def test_a_link_names_the_action_and_no_secret() -> None:
    assert PageLink(20_001).of("a_1") == "http://127.0.0.1:20001/a/a_1"
    assert PageLink().of("a_1") is None


async def test_what_is_told_about_deciding_names_the_page_first(tmp_path: Path) -> None:
    async with open_quiet(tmp_path) as (product, _):
        run_id = await start_waiting(product)
        product.page.port = 20_001
        login = await add_action(product, run_id, kind="login", level="person", tool="shop.x")
        first, second = (await product.view(run_id)).actions
    assert first.how.startswith(f"On the page: http://127.0.0.1:20001/a/{first.action_id} or in a terminal: ")
    assert (second.action_id, second.how.startswith("In a terminal: ")) == (login.id, True)


@pytest.mark.parametrize(
    ("environ", "platform", "there"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_browser_is_opened_only_where_a_person_sees_it(environ: dict[str, str], platform: str, there: bool) -> None:
    assert has_desktop(environ, platform) is there


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A browser that only writes down which addresses it was given; the file."""
    log, browser = tmp_path / "seen.txt", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {log}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("CI", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    return log


@e2e
async def test_the_page_opens_once_for_a_run_that_comes_to_wait(tmp_path: Path, seen: Path) -> None:
    async with open_quiet(tmp_path) as (product, _), before_and_page(product) as (before, place):
        run_id = await waiting(product, "Another.")
        await add_action(product, run_id)
        first = (await product.store.actions(run_id))[0]
        assert [address.partition("#code=")[0] for address in await addresses_in(seen)] == [
            f"http://127.0.0.1:{place.port()}/a/{first.id}"
        ]
        assert await product.store.remembered.get("page_opened", before) is None


@asynccontextmanager
async def before_and_page(product: Product) -> AsyncGenerator[tuple[str, Place]]:
    """A run that waits already, and the page as `serve` has it."""
    before = await start_waiting(product)
    async with open_page(product, opens=True) as place:
        assert place is not None
        yield before, place


async def waiting(product: Product, goal: str) -> str:
    """A run for this goal that waits for its plan to be approved."""
    run_id = await product.start(Request(goal, review_plan=True))
    await product.until(run_id, lambda run: run.status == "awaiting_approval")
    return run_id


async def addresses_in(log: Path) -> list[str]:
    """What the browser was given, once it was given something."""
    addresses: list[str] = []
    with anyio.fail_after(20):
        while not addresses:
            # Another process writes them.
            await anyio.sleep(0.05)
            addresses = lines_of(log)
    return addresses


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@e2e
async def test_a_browser_that_cannot_be_started_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not await open_browser("http://127.0.0.1:1/")


@e2e
async def test_without_the_interpreter_it_runs_on_no_browser_opens_and_that_is_no_error(tmp_path: Path) -> None:
    program = (
        "import anyio, pathlib, sys; pathlib.Path(sys.executable).unlink(); "
        "from server.page.opening import open_browser; print(anyio.run(open_browser, 'http://127.0.0.1:1/'))"
    )
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    places = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "XDG_STATE_HOME": str(tmp_path)}
    with anyio.fail_after(30):
        ran = await anyio.run_process([str(python), "-c", program], env=places, check=False)
    assert (ran.stdout, ran.stderr) == (b"False\n", b"")


@e2e
async def test_a_page_that_cannot_be_opened_for_one_run_is_opened_for_the_next(tmp_path: Path, seen: Path) -> None:
    async with open_quiet(tmp_path) as (product, _), before_and_page(product):
        (port_file,) = state_folder().glob("page-*.port")
        port = port_file.read_text()
        port_file.unlink()
        port_file.mkdir()
        first, remembered = await waiting(product, "Another."), product.store.remembered
        with anyio.fail_after(20):
            while await remembered.get("page_opened", first) is None:  # noqa: ASYNC110 - nobody tells that it was tried
                await anyio.sleep(0.05)
        port_file.rmdir()
        port_file.write_text(port)
        (action,) = await product.store.actions(await waiting(product, "Yet another."))
        assert [f"/a/{action.id}#" in address for address in await addresses_in(seen)] == [True]


@pytest.mark.parametrize("kept", ["", "x", "70000", "-1", "0"])
def test_a_port_that_is_none_is_chosen_anew(tmp_path: Path, kept: str) -> None:
    place = Place(tmp_path / "store.db")
    taken = place.port()
    (port_file,) = state_folder().glob("page-*.port")
    port_file.write_text(kept)
    assert 20_000 <= place.port() < 32_000
    assert port_file.read_text() == str(place.port())
    port_file.write_text(kept)
    assert 20_000 <= place.move(taken) < 32_000


@e2e
async def test_a_decision_on_the_page_of_serve_lets_its_run_go_on(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(KEEP), settings={"approvals": {"min_answer_seconds": 0}})
    async with open_stdio_host(serve(config)) as host:
        view = await host.structured("plan_and_execute", {"goal": "Keep it."})
        (action,) = view["actions"]
        found = re.match(r"On the page: (http://127\.0\.0\.1:\d+)/a/(a_\w+) or in a terminal: ", action["how"])
        assert found is not None
        assert found[2] == action["action_id"]
        with open_terminal("ui", "--no-open", "--config", str(config), cwd=tmp_path) as terminal:
            assert await anyio.to_thread.run_sync(terminal.end) == 0
        address = re.search(rf"{found[1]}/#code=\S+", terminal.seen)
        assert address is not None, terminal.seen
        async with open_signed_in(address[0]) as client:
            (card,) = (await client.get("/api/state")).json()["runs"][0]["actions"]
            said = {"action_id": card["action_id"], "choice": "approve", "digest": card["digest"]}
            assert (await client.post("/api/decide", json=said)).json()["message"] == "Recorded: approve."
        done: Any = {"stop_reason": None}
        with anyio.fail_after(40):
            while done["stop_reason"] is None:
                done = await host.structured("get_run", {"run_id": view["run_id"], "wait_seconds": 20})
    assert (done["status"], done["stop_reason"]) == ("succeeded", "done")


@e2e
def test_ui_serves_the_page_itself_where_no_other_process_does(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=PLAN, servers={})
    with open_terminal("ui", "--config", str(config), cwd=tmp_path, env={"CI": "true"}) as terminal:
        terminal.expect("it works once")
        terminal.expect("This process serves the page until Ctrl-C.")
        address = re.search(r"(http://\S+)/#code=", terminal.seen)
        assert address is not None
        assert httpx.get(f"{address[1]}/").status_code == 200
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130


@pytest.mark.parametrize(
    ("words", "page", "told"),
    [
        (("ui",), "auto", "signs a person in, and this is no terminal"),
        (("ui",), "off", "approvals.page is off in the settings"),
        (("approver", "init"), None, "needs a person at a terminal"),
    ],
    ids=["ui", "ui without a page", "approver init"],
)
def test_a_person_is_taken_for_one_only_at_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], page: str | None, told: str
) -> None:
    config = write_settings(tmp_path, script=PLAN, servers={}, settings={"approvals": {"page": page or "auto"}})
    assert called(*words, *(["--config", str(config)] if page else [])) == 2
    assert told in capsys.readouterr().err


@e2e
def test_a_question_at_the_terminal_ends_when_it_is_decided_elsewhere(tmp_path: Path) -> None:
    config = write_settings(tmp_path, script=script(KEEP))
    with open_terminal("run", "Keep it.", "--config", str(config), cwd=tmp_path) as terminal:
        terminal.expect("To decide on the page instead: http://127.0.0.1:")
        action = re.search(r"/a/(a_\w+)", terminal.expect("approve, deny or later?"))
        assert action is not None
        assert called("deny", action[1], "--config", str(config)) == 0
        terminal.expect("It was decided elsewhere.")
        assert terminal.end() == 7
