"""Runs whose tool server wants a login: they wait for it, go on by themselves, and let no token out."""

import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from authorization_server import Protected, follow, open_protected
from command_line import OWN
from products import call_step, open_test_product, script
from tool_connections import remote

from downstream.auth.login import Door, log_in
from downstream.gate.login import settle_logins
from downstream.settings import ServerSettings
from journal.actions import Decision
from journal.settings import state_folder
from journal.world import World
from server.product import Product, Request
from server.views.run_view import RunView

pytestmark = pytest.mark.e2e
ALLOW: dict[str, Any] = {"policy": {"rules": [{"allow": "vault.*"}]}}
ENDED = ("succeeded", "partial", "failed")


@asynccontextmanager
async def open_vault(
    folder: Path, protected: Protected, *steps: Any, settings: dict[str, Any] = ALLOW
) -> AsyncGenerator[tuple[Product, ServerSettings]]:
    """A product with the protected server, at which somebody is logged in."""
    server = remote("vault", protected.url)
    await log_in_at(server)
    servers = {"vault": protected.entry()}
    async with open_test_product(folder, script=script(*steps), servers=servers, settings=settings) as (product, _):
        yield product, server


async def log_in_at(server: ServerSettings) -> None:
    async def by_browser(address: str) -> None:
        await anyio.to_thread.run_sync(follow, address)

    with anyio.fail_after(15):
        await log_in(Door(server, World(), by_browser))


def log_in_by_command(folder: Path) -> str:
    """Log in in another process, with the browser that a person would have; returns what it printed."""
    command = [*OWN, "servers", "login", "vault", "--no-browser", "--config", str(folder / "steprelay.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder) as login:
        assert login.stdout is not None
        said = login.stdout.readline() + login.stdout.readline()
        assert follow(said.split()[-1]).status_code == 200
        said += login.stdout.read()
    assert login.returncode == 0, said
    return said


async def until(product: Product, run_id: str, *statuses: str) -> RunView:
    with anyio.fail_after(20):
        await product.until(run_id, lambda run: run.status in statuses)
    return await product.view(run_id, detail=True)


async def waits_for(product: Product, run_id: str, kind: str) -> str:
    """Wait until the run waits for a decision of this kind only; returns the action's id."""
    with anyio.fail_after(20):
        while True:
            ring = product.store.bell.listen(run_id)
            waiting = [each for each in await product.store.actions(run_id) if each.state == "waiting"]
            if (await product.store.run(run_id)).status == "awaiting_approval" and waiting:
                assert [each.kind for each in waiting] == [kind]
                return waiting[0].id
            with anyio.move_on_after(0.5):
                await ring.wait()


async def driven_again(product: Product, run_id: str) -> None:
    """Wait until this process has taken the run over."""
    with anyio.fail_after(20):
        await product.until(run_id, lambda run: run.epoch > 1)


async def decide(product: Product, action_id: str, choice: str) -> None:
    await product.decide(await product.store.action(action_id), Decision(choice, "person", "terminal"))


def written(*folders: Path) -> str:
    """All that lies in these folders, but for the logins themselves."""
    files = [
        file for folder in folders for file in folder.rglob("*") if file.is_file() and file.parent.name != "logins"
    ]
    return "".join(file.read_bytes().decode(errors="replace") for file in files)


async def test_a_login_revoked_in_mid_run_is_asked_for_once_and_the_run_goes_on_by_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = [
        call_step("first", "vault.look", word="one"),
        call_step("left", "vault.put", "first", word="two"),
        call_step("right", "vault.leak", "first"),
    ]
    with open_protected() as protected:
        protected.during["look one"] = protected.auth.revoke
        async with open_vault(tmp_path, protected, *steps) as (product, _):
            run_id = await product.start(Request("Fill the vault"))
            await waits_for(product, run_id, "login")
            waiting = await product.view(run_id)
            said = await anyio.to_thread.run_sync(log_in_by_command, tmp_path)
            began = time.monotonic()
            ended = await until(product, run_id, *ENDED)
            took = time.monotonic() - began
            events = [event.data for event in await product.store.events(run_id)]
    [action] = waiting.actions
    assert (action.kind, action.choices, action.level) == ("login", ["cancel"], "person")
    assert "steprelay servers login vault" in action.question
    assert "servers login vault" in action.how
    assert f"Run {run_id}, which waited for it, goes on." in said
    assert (ended.status, sorted(protected.calls)) == ("succeeded", ["leak", "look one", "put two"])
    assert took < 1.5, f"{took:.2f} s after the login"
    shown = "".join(
        [said, ended.model_dump_json(), str(events), *capfd.readouterr(), written(tmp_path, state_folder())]
    )
    assert "[secret:login at vault]" in shown
    assert [token for token in protected.auth.issued if token in shown] == []


async def test_a_write_put_off_for_a_login_is_asked_for_again_and_sent_once(tmp_path: Path) -> None:
    with open_protected("legacy") as protected:
        step = call_step("put", "vault.put", word="two")
        async with open_vault(tmp_path, protected, step, settings={}) as (product, server):
            run_id = await product.start(Request("Fill the vault"))
            approval = await waits_for(product, run_id, "call")
            protected.auth.revoke()
            await decide(product, approval, "approve")
            await waits_for(product, run_id, "login")
            await log_in_at(server)
            assert await settle_logins(product.store, server) == [run_id]
            again = await waits_for(product, run_id, "call")
            await decide(product, again, "approve")
            ended = await until(product, run_id, *ENDED)
            intents = [(intent.state, intent.sends) for intent in await product.store.intents(run_id)]
    assert (ended.status, protected.calls, intents) == ("succeeded", ["put two"], [("done", 2)])


async def test_a_cancelled_login_fails_every_call_of_its_server_without_another_question(tmp_path: Path) -> None:
    steps = [
        call_step("first", "vault.look", word="one"),
        call_step("left", "vault.put", "first", word="two"),
        call_step("right", "vault.look", "first", word="three"),
    ]
    with open_protected() as protected:
        protected.during["look one"] = protected.auth.revoke
        async with open_vault(tmp_path, protected, *steps) as (product, server):
            run_id = await product.start(Request("Fill the vault"))
            await decide(product, await waits_for(product, run_id, "login"), "cancel")
            ended = await until(product, run_id, *ENDED)
            actions = await product.store.actions(run_id)
            assert await settle_logins(product.store, server) == []
    assert (ended.status, protected.calls, len(actions)) == ("partial", ["look one"], 1)
    assert {step.id: step.status for step in ended.step_list or []} == {
        "first": "succeeded",
        "left": "failed",
        "right": "failed",
    }


async def test_another_process_that_takes_the_run_over_goes_on_after_the_login_and_asks_no_second_time(
    tmp_path: Path,
) -> None:
    steps = [call_step("first", "vault.look", word="one"), call_step("then", "vault.look", "first", word="two")]
    with open_protected() as protected:
        protected.during["look one"] = protected.auth.revoke
        async with open_vault(tmp_path, protected, *steps) as (product, server):
            run_id = await product.start(Request("Fill the vault"))
            await waits_for(product, run_id, "login")
        servers = {"vault": protected.entry()}
        async with open_test_product(tmp_path, script=script(*steps), servers=servers, settings=ALLOW) as (other, _):
            # Woken for nothing, the run must see that nobody has logged in yet.
            await other.store.database.write("wake", lambda tx: tx.change("UPDATE runs SET wake_at = 0"))
            await driven_again(other, run_id)
            await waits_for(other, run_id, "login")
            await log_in_at(server)
            await settle_logins(other.store, server)
            ended = await until(other, run_id, *ENDED)
            actions = await other.store.actions(run_id)
    assert (ended.status, protected.calls, len(actions)) == ("succeeded", ["look one", "look two"], 1)


async def test_a_server_never_listed_that_wants_a_login_is_a_warning_and_blocks_nothing(tmp_path: Path) -> None:
    draft: dict[str, Any] = {"id": "draft", "kind": "compose", "title": "Draft", "task": "Write", "needs": []}
    with open_protected() as protected:
        whole = script(draft, steps={"draft": {"text": "Done."}})
        servers = {"vault": protected.entry()}
        async with open_test_product(tmp_path, script=whole, servers=servers) as (product, _):
            ended = await until(product, await product.start(Request("Write")), *ENDED)
    assert ended.status == "succeeded"
    told = "tool server 'vault' is left out: it needs a login; log in with: steprelay servers login vault"
    assert told in ended.warnings
