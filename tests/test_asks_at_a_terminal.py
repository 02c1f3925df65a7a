"""Forms of tool servers filled in at a terminal."""

from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from asking_shops import ORDER, log, open_shop, waiting
from command_line import open_terminal
from mcp_hosts import open_host
from products import call_step

pytestmark = pytest.mark.e2e


async def test_a_form_is_filled_in_at_a_terminal_field_by_field(tmp_path: Path) -> None:
    async with open_shop(tmp_path, call_step("join", "shop.sign_up")) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        await anyio.to_thread.run_sync(_fill_in, tmp_path, action["action_id"])
        with anyio.fail_after(10):
            ended = await product.until(view["run_id"], lambda run: run.ended)
        kept = await product.store.action(action["action_id"])
    assert (ended.status, kept.via, kept.decided_level) == ("succeeded", "terminal", "person")
    topics = ["tea", "milk"]
    assert kept.content == {"mail": "ann@example.org", "age": 40, "plan": "b", "news": True, "topics": topics}


def _fill_in(folder: Path, action_id: str) -> None:
    typed = {
        "mail: ": ["nobody", "ann@example.org"],
        "age: ": ["", "17", "40"],
        "plan: ": ["c", "b"],
        "news: ": ["maybe", "y"],
        "topics: ": ["tea, soap", "tea, milk"],
        "api_key: ": [""],
    }
    with open_terminal("approve", action_id, "--config", str(folder / "steprelay.json"), cwd=folder) as terminal:
        shown = terminal.expect("submit, decline or later? ")
        assert 'mail (required): an e-mail address. It writes: "Your e-mail"; "[Click](http://x)"' in shown
        terminal.send("submit\n")
        for prompt, lines in typed.items():
            for line in lines:
                terminal.expect(prompt)
                terminal.send(f"{line}\n")
        assert terminal.end() == 0, terminal.seen
    assert "It takes a whole number from 18 to 120." in terminal.seen


async def test_content_comes_with_the_command_and_is_checked_first(tmp_path: Path) -> None:
    async with open_shop(tmp_path, ORDER, older=True) as (product, server), open_host(server) as host:
        view, action = await waiting(host)
        await anyio.to_thread.run_sync(_submit, tmp_path, action["action_id"])
        with anyio.fail_after(10):
            ended = await product.until(view["run_id"], lambda run: run.ended)
    assert (ended.status, log(tmp_path)[-1]) == ("succeeded", 'tea: accept {"size": "s"}')


def _submit(folder: Path, action_id: str) -> None:
    words = ("approve", action_id, "--config", str(folder / "steprelay.json"))
    with open_terminal(*words, "--choice", "submit", "--content", '{"size": "x"}', cwd=folder) as terminal:
        assert (terminal.end(), 'takes one of "s", "m"' in terminal.seen) == (2, True), terminal.seen
    with open_terminal(*words, "--choice", "submit", "--content", '{"size": "s"}', cwd=folder) as terminal:
        terminal.expect("submit it? ")
        terminal.send("y\n")
        assert terminal.end() == 0, terminal.seen
