"""`plan --grant` and `run --grants`: what a person granted at a terminal runs without one, once, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import called, open_terminal
from journals import rows
from mcp_hosts import open_stdio_host, serve
from products import call_step, script
from quick_jobs import made, reached, settings

from journal.grants import Grant
from journal.world import World
from server.grant_file import GrantFile, sealed
from server.granting import plan_digest
from server.opened_store import open_settings_store
from server.settings import Found, load_settings

pytestmark = pytest.mark.e2e

PLAN = [call_step("drop", "quick.drop", key="old"), call_step("other", "quick.drop", "drop", key="new")]
SCRIPT = script(*PLAN, revise=[{"decision": "continue", "reason": "It was a person's no."}], answer="Done.")


def granted(folder: Path, config: Path) -> Path:
    """A file in which a person granted the first call of the plan, and not the second."""
    path = folder / "granted.yaml"
    with open_terminal("plan", "Tidy up", "--grant", "-o", str(path), "--config", str(config), cwd=folder) as terminal:
        for answer in ("yes", "no"):
            terminal.expect("yes, no or edit? ")
            terminal.send(f"{answer}\n")
        assert terminal.end() == 0, terminal.seen
    assert "1 call granted." in terminal.seen
    return path


def test_only_what_was_granted_runs_with_nobody_there_and_only_once_and_by_its_own_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings(tmp_path, SCRIPT)
    option, path = ("--config", str(config)), granted(tmp_path, config)
    (tmp_path / "other.json").write_text(json.dumps({"steps": PLAN[:1]}))
    assert called("run", "x", "--grants", str(path), "--plan", str(tmp_path / "other.json"), *option) == 2
    assert f"other.json is another plan than the one that {path} grants calls of" in capsys.readouterr().err
    changed = tmp_path / "changed.yaml"
    changed.write_text(path.read_text().replace("key: new", "key: all"))
    assert called("run", "x", "--grants", str(changed), *option) == 2
    assert "its grants are void" in capsys.readouterr().err
    assert called("run", "Tidy up", "--grants", str(path), "--approve", "deny", "--json", *option) == 7
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["data"]["tool"] for event in events if event["type"] == "action.waiting"] == ["quick.drop"]
    assert made(tmp_path) == [("drop", "old")]
    assert called("run", "Tidy up", "--grants", str(path), *option) == 2
    assert "the grant for step 'drop' (quick.drop) has been used" in capsys.readouterr().err
    assert called("run", "Tidy up", "--grants", str(path), "--detach", *option) == 2
    assert "has been used" in capsys.readouterr().err
    assert made(tmp_path) == [("drop", "old")]


def test_grants_are_given_by_a_person_at_a_terminal_into_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(settings(tmp_path, SCRIPT))
    assert called("plan", "x", "--grant", "--config", config) == 2
    assert "--grant needs -o FILE" in capsys.readouterr().err
    assert called("plan", "x", "--grant", "-o", "g.yaml", "--config", config) == 2
    assert "--grant needs a person at a terminal, and this is no terminal" in capsys.readouterr().err


def outdated(folder: Path) -> str:
    """A file of grants for both calls of the plan, given when the tool was another."""
    made = [("drop", "old"), ("other", "new")]
    grants = tuple(
        Grant(f"g_{step}", step, "quick.drop", {"key": {"equals": key}}, plan_digest(PLAN), "other", 1, 4e9)
        for step, key in made
    )
    path = folder / "outdated.json"
    path.write_text(json.dumps(sealed(GrantFile({"steps": PLAN}, grants))))
    return str(path)


def test_grants_that_nothing_can_use_are_told_at_the_start_and_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = ("--config", str(settings(tmp_path, SCRIPT)), "--approve", "deny")
    changed, late = "the tool, its server or the policy was changed since", "its step was not begun"
    told = [
        f"the grant for step '{step}' (quick.drop) is not used: {why}"
        for step, why in (("drop", changed), ("other", changed), ("other", late))
    ]
    assert called("run", "Tidy up", "--grants", outdated(tmp_path), *option) == 7
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"! {text}" for text in told[:2]]
    assert [line.removeprefix("! ") for line in printed.out.splitlines() if "! the grant" in line] == told
    assert called("run", "Tidy up", "--grants", outdated(tmp_path), "--json", *option) == 7
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    warned = [event for event in events if event["type"] == "warning" and "the grant for" in event["data"]["text"]]
    assert [event["data"]["text"] for event in warned] == [*told[:2], told[0], told[2]]
    assert [event["data"]["grant"] for event in warned[2:]] == [
        {"step": "drop", "tool": "quick.drop", "why": changed},
        {"step": "other", "tool": "quick.drop", "why": late},
    ]
    assert events[-1]["type"] == "run.ended"
    assert made(tmp_path) == []


async def test_who_approves_a_plan_in_a_terminal_may_grant_its_calls(tmp_path: Path) -> None:
    config = settings(tmp_path, script(*PLAN, answer="Done."))
    async with open_stdio_host(serve(config)) as host:
        view: Any = await host.structured("plan_and_execute", {"goal": "Tidy up", "review_plan": True})
        (action,) = view["actions"]
        assert action["choices"] == ["approve", "deny"]
        with open_terminal("approve", action["action_id"], "--config", str(config), cwd=tmp_path) as terminal:
            terminal.expect("(Or grant: approve the plan")
            terminal.expect("approve, deny or later? ")
            terminal.send("grant\n")
            for _ in PLAN:
                terminal.expect("yes, no or edit? ")
                terminal.send("y\n")
            assert terminal.end() == 0, terminal.seen
        view = await reached(host, view["run_id"], "succeeded")
    assert (view["status"], made(tmp_path)) == ("succeeded", [("drop", "old"), ("drop", "new")])


async def test_what_is_granted_of_a_plan_that_was_decided_elsewhere_meanwhile_does_not_stand(tmp_path: Path) -> None:
    config = settings(tmp_path, script(*PLAN, answer="Done."))
    async with open_stdio_host(serve(config)) as host:
        view: Any = await host.structured("plan_and_execute", {"goal": "Tidy up", "review_plan": True})
        (action,) = view["actions"]
        with open_terminal("approve", action["action_id"], "--config", str(config), cwd=tmp_path) as terminal:
            terminal.expect("approve, deny or later? ")
            terminal.send("grant\n")
            terminal.expect("yes, no or edit? ")
            terminal.send("y\n")
            terminal.expect("yes, no or edit? ")
            no = {"action_id": action["action_id"], "decision": "deny"}
            await host.structured("approve_action", no)
            terminal.send("y\n")
            assert terminal.end() == 2
    loaded = load_settings(Found(config, "option"), environ={}, lenient=True)
    async with open_settings_store(loaded, world=World()) as store:
        assert await rows(store, "SELECT * FROM grants") == []
