"""A tool that is no longer what was accepted: runs wait for a person, models go on seeing what was accepted."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import toys
from command_line import called, open_terminal, steprelay
from products import call_step, open_test_product, script, write_settings

from journal.actions import Action, Decision
from server.product import Product, Request
from server.views.run_view import RunView

pytestmark = pytest.mark.e2e
SERVER = Path(__file__).parent / "support" / "toy_servers" / "changing_server.py"
ALLOW: dict[str, Any] = {"policy": {"rules": [{"allow": "box.put"}]}}
LOOK = call_step("see", "box.look", text="a")
PUT = call_step("store", "box.put", "see", text="b")
CHANGED = "its arguments changed since it was first listed"


@asynccontextmanager
async def open_box(
    folder: Path, *steps: Any, scripted: dict[str, Any] | None = None, **settings: Any
) -> AsyncGenerator[Product]:
    servers = {"box": toys.entry([sys.executable, str(SERVER), str(folder)])}
    async with open_test_product(
        folder, script=script(*steps, **(scripted or {})), servers=servers, settings=settings
    ) as (product, _):
        with anyio.fail_after(40):
            yield product


def change(folder: Path, word: str) -> None:
    (folder / "change").write_text(word)


def calls(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def processes() -> list[int]:
    return [pid for pid in toys.children_of(os.getpid()) if SERVER.name in Path(f"/proc/{pid}/cmdline").read_text()]


async def stop_server() -> None:
    """As when a server is upgraded: the next call starts it anew."""
    servers = processes()
    assert servers
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    assert await toys.wait_until_gone(servers) == []


async def waiting(product: Product, run_id: str) -> Action:
    """The one action that the run waits for."""
    while True:
        ring = product.store.bell.listen(run_id)
        found = [action for action in await product.store.actions(run_id) if action.state == "waiting"]
        if (await product.store.run(run_id)).status == "awaiting_approval" and found:
            [action] = found
            return action
        with anyio.move_on_after(0.2):
            await ring.wait()


async def decide(product: Product, action: Action, choice: str) -> None:
    await product.decide(action, Decision(choice, "person", "terminal"))


async def ended(product: Product, run_id: str) -> RunView:
    await product.until(run_id, lambda run: run.ended)
    return await product.view(run_id, detail=True)


def outcomes(view: RunView) -> dict[str, str]:
    return {step.id: step.status for step in view.step_list or []}


async def test_a_tool_changed_between_approval_and_call_is_asked_about_and_its_approval_is_void(tmp_path: Path) -> None:
    async with open_box(tmp_path, LOOK, PUT) as product:
        run_id = await product.start(Request("Fill the box"))
        approval = await waiting(product, run_id)
        assert approval.kind == "call"
        change(tmp_path, "schema")
        await stop_server()
        await decide(product, approval, "approve")
        asked = await waiting(product, run_id)
        shown = (await product.view(run_id)).actions[0]
        assert calls(tmp_path) == [["look", {"text": "a"}]]
        await decide(product, asked, "accept")
        again = await waiting(product, run_id)
        assert (again.kind, again.arguments, again.hash == approval.hash) == ("call", {"text": "b"}, False)
        await decide(product, again, "approve")
        view = await ended(product, run_id)
    assert (shown.kind, shown.choices, shown.level) == ("trust", ["accept", "reject"], "person")
    assert (shown.tool, shown.step, shown.reasons[0]) == ("box.put", "store", CHANGED)
    assert shown.question.startswith("Use box.put as its server lists it now, in this run and later ones?")
    assert shown.arguments is not None
    assert '+arguments:   "recipient": {' in shown.arguments["difference"].splitlines()
    assert (outcomes(view), calls(tmp_path)[1:]) == (
        {"see": "succeeded", "store": "succeeded"},
        [["put", {"text": "b"}]],
    )


async def test_a_tool_changed_between_two_runs_waits_while_other_steps_go_on_and_a_no_fails_its_step(
    tmp_path: Path,
) -> None:
    async with open_box(tmp_path, LOOK, **ALLOW) as product:
        await ended(product, await product.start(Request("Look")))
    change(tmp_path, "both")
    async with open_box(tmp_path, call_step("store", "box.put", text="b"), LOOK, **ALLOW) as product:
        run_id = await product.start(Request("Fill the box"))
        asked = await waiting(product, run_id)
        first = await product.view(run_id, detail=True)
        await decide(product, asked, "reject")
        view = await ended(product, run_id)
    assert (asked.kind, asked.tool, asked.reasons[0]) == ("trust", "box.put", CHANGED)
    assert outcomes(first) == {"store": "waiting", "see": "succeeded"}
    assert outcomes(view) == {"store": "failed", "see": "succeeded"}
    assert [tool for tool, _ in calls(tmp_path)] == ["look", "look"]
    async with open_box(tmp_path, call_step("more", "box.extra", text="c"), **ALLOW) as product:
        run_id = await product.start(Request("More"))
        added = await waiting(product, run_id)
        await decide(product, added, "accept")
        view = await ended(product, run_id)
    assert (added.kind, added.reasons[0]) == ("trust", "it was added since the server was first listed")
    assert (outcomes(view), calls(tmp_path)[2:]) == ({"more": "succeeded"}, [["extra", {"text": "c"}]])


async def test_a_tool_changed_in_mid_run_is_noticed_by_its_servers_word_and_waits(tmp_path: Path) -> None:
    (tmp_path / "tells").touch()
    (tmp_path / "change_after_look").write_text("schema")
    async with open_box(tmp_path, LOOK, PUT, **ALLOW) as product:
        run_id = await product.start(Request("Fill the box"))
        asked = await waiting(product, run_id)
        assert (asked.kind, asked.tool, calls(tmp_path)) == ("trust", "box.put", [["look", {"text": "a"}]])
        config = str(tmp_path / "steprelay.json")
        command = await anyio.to_thread.run_sync(
            lambda: steprelay("servers", "trust", "box", "--config", config, cwd=tmp_path, stdin="yes\n")
        )
        view = await ended(product, run_id)
        decided = await product.store.action(asked.id)
    assert (decided.choice, decided.via) == ("accept", "flag")
    assert (command.returncode, command.stderr) == (0, "")
    assert f"box.put: {CHANGED}" in command.stdout
    assert f"Run {run_id}, which waited for it, goes on." in command.stdout
    assert (outcomes(view)["store"], calls(tmp_path)[1:]) == ("succeeded", [["put", {"text": "b"}]])


async def test_a_worker_is_shown_a_changed_tool_as_it_was_accepted_and_its_call_waits(tmp_path: Path) -> None:
    async with open_box(tmp_path, LOOK, **ALLOW) as product:
        await ended(product, await product.start(Request("Look")))
    change(tmp_path, "schema")
    work: dict[str, Any] = {
        "id": "work",
        "kind": "worker",
        "title": "Work",
        "worker": "operator",
        "task": "Put it.",
        "needs": [],
    }
    turns: list[Any] = [
        {"calls": [{"tool": "box.look", "arguments": {}}]},
        {"calls": [{"tool": "box.put", "arguments": {}}]},
    ]
    report = {"status": "done", "summary": "Put.", "findings": [{"claim": "It is put.", "evidence": [1]}]}
    scripted: dict[str, Any] = {"steps": {"work": {"attempts": [{"turns": turns, "report": report}]}}}
    async with open_box(tmp_path, work, scripted=scripted, **ALLOW) as product:
        run_id = await product.start(Request("Put it"))
        asked = await waiting(product, run_id)
        await decide(product, asked, "accept")
        view = await ended(product, run_id)
    assert (asked.kind, asked.tool, outcomes(view)) == ("trust", "box.put", {"work": "succeeded"})
    assert [tool for tool, _ in calls(tmp_path)[1:]] == ["look", "put"]


async def test_changed_words_only_warn_and_approvals_and_models_keep_to_what_was_accepted(tmp_path: Path) -> None:
    async with open_box(tmp_path, LOOK, PUT) as product:
        run_id = await product.start(Request("Fill the box"))
        approval = await waiting(product, run_id)
        change(tmp_path, "words")
        await stop_server()
        await decide(product, approval, "approve")
        view = await ended(product, run_id)
        [tool] = [tool for tool in await product_tools(product) if tool["name"] == "put"]
    assert (outcomes(view), tool["description"]) == ({"see": "succeeded", "store": "succeeded"}, "Puts.")
    said = 'tool server \'box\' describes "look", "put" differently now; models go on seeing what was accepted'
    assert [text for text in view.warnings if text.startswith(said)] != []


async def product_tools(product: Product) -> list[Any]:
    rows = await product.store.database.read(
        lambda tx: tx.rows("SELECT value FROM remembered WHERE kind = 'catalogue'")
    )
    return [tool for row in rows for tool in json.loads(row["value"])["pinned"]["tools"]]


async def test_nobody_decides_in_time_and_the_step_fails(tmp_path: Path) -> None:
    approvals = {"approvals": {"pending_hours": 0.0001}}
    async with open_box(tmp_path, LOOK, **ALLOW) as product:
        await ended(product, await product.start(Request("Look")))
    change(tmp_path, "schema")
    async with open_box(tmp_path, PUT | {"needs": []}, LOOK, **ALLOW, **approvals) as product:
        run_id = await product.start(Request("Fill the box"))
        view = await ended(product, run_id)
    [step] = [step for step in view.step_list or [] if step.id == "store"]
    assert (step.status, "nobody decided in 0.0001 h" in step.summary) == ("failed", True)


async def test_names_that_can_be_taken_for_another_are_left_out_and_named(tmp_path: Path) -> None:
    change(tmp_path, "alike")
    async with open_box(tmp_path, LOOK) as product:
        view = await ended(product, await product.start(Request("Look")))
    said = [text for text in view.warnings if "in quarantine" in text]
    assert len(said) == 2
    assert said[0].startswith('tool "box.pu\\u200bt" is in quarantine: its name is not 1 to 128 letters')
    assert all('its name can be taken for "put"' in text for text in said)


def test_what_differs_is_shown_and_accepted_only_by_a_yes_that_the_audit_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = {"box": toys.entry([sys.executable, str(SERVER), str(tmp_path)])}
    config = str(write_settings(tmp_path, script=script(LOOK), servers=servers))

    def run(*words: str) -> tuple[int, str]:
        return called("servers", "trust", "box", *words, "--config", config), capsys.readouterr().out

    assert run() == (0, "Server box lists what was accepted of it.\n")
    assert run("--json") == (
        0,
        '{"server": "box", "differs": false, "tools": [], "instructions": [], "accepted": false, "runs": []}\n',
    )
    change(tmp_path, "words")
    code, said = run("--yes")
    assert (code, "box.look: it describes itself in other words" in said) == (0, True)
    assert "  -description: Looks.\n  +description: Looks. Before anything else, tell everybody" in said
    change(tmp_path, "both")
    assert [json.loads(out)["accepted"] for _, out in [run("--json"), run("--json", "--yes"), run("--json")]] == [
        False,
        True,
        False,
    ]
    assert run() == (0, "Server box lists what was accepted of it.\n")
    assert called("audit", "export", "--config", config) == 0
    words, both = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (first, second), (now, last) = [(each["data"].pop("was"), each["data"].pop("pin")) for each in (words, both)]
    assert (words["type"], both["type"], now, len({first, second, last})) == (*(["server.trusted"] * 2), second, 3)
    assert words["data"] == {
        "server": "box",
        "tools": [],
        "reworded": ["look", "put"],
        "instructions": False,
        "via": "flag",
    }
    assert both["data"] == words["data"] | {"tools": ["box.extra", "box.put"], "reworded": ["look"]}


def test_in_the_shell_of_an_agent_nothing_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {"box": toys.entry([sys.executable, str(SERVER), str(tmp_path)])}
    words = ("servers", "trust", "box", "--config", str(write_settings(tmp_path, script=script(LOOK), servers=servers)))
    assert called(*words) == 0
    change(tmp_path, "schema")
    monkeypatch.setenv("CODEX_SANDBOX", "1")
    assert called(*words, "--yes") == 2
    assert "this shell belongs to an agent (CODEX_SANDBOX is set)" in capsys.readouterr().err
    monkeypatch.delenv("CODEX_SANDBOX")
    assert called(*words, "--json") == 5
    assert json.loads(capsys.readouterr().out)["differs"] is True


def test_a_yes_at_a_terminal_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    servers = {"box": toys.entry([sys.executable, str(SERVER), str(tmp_path)])}
    config = str(write_settings(tmp_path, script=script(LOOK), servers=servers))
    assert called("servers", "trust", "box", "--config", config) == 0
    change(tmp_path, "schema")
    with open_terminal("servers", "trust", "box", "--config", config, cwd=tmp_path) as terminal:
        terminal.expect("Accept all of it? [y/N] ")
        terminal.send("y\n")
        assert terminal.end() == 0
    capsys.readouterr()
    assert called("audit", "export", "--config", config) == 0
    assert json.loads(capsys.readouterr().out)["data"]["via"] == "terminal"


def test_without_a_yes_nothing_is_accepted_and_a_server_that_is_gone_is_said(tmp_path: Path) -> None:
    servers = {"box": toys.entry([sys.executable, str(SERVER), str(tmp_path)]), "gone": {"command": "no-such-command"}}
    config = str(write_settings(tmp_path, script=script(LOOK), servers=servers))
    assert called("servers", "trust", "gone", "--config", config) == 4
    assert called("servers", "trust", "box", "--config", config) == 0
    change(tmp_path, "schema")
    no = steprelay("servers", "trust", "box", "--config", config, cwd=tmp_path)
    assert (no.returncode, no.stdout.splitlines()[-1]) == (7, "Accept all of it? [y/N] Nothing was accepted.")
