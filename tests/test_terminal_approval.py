"""Actions that only a person may approve: no host moves them, a yes in a terminal sends them once, a no ends them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import toys
from command_line import open_terminal
from main_job import MAIN
from mcp_hosts import Host, open_stdio_host, serve, text_of
from products import call_step, script, write_settings
from quick_jobs import LOG, made, reached, settings

pytestmark = pytest.mark.e2e

PEOPLE = {"whom": "ann@example.org", "other": "eve@example.net"}
GOAL = "Tell the one in the note that it is Friday, and tidy up the ledger."


def mail(id_: str, note: str) -> dict[str, Any]:
    return call_step(id_, "outbox.send", to={"$step": f"{note}.value"}, subject="When", body="It is Friday.")


SCRIPT = script(
    *(call_step(key, "ledger.read_item", key=key) for key in PEOPLE),
    mail("mail_yes", "whom"),
    mail("mail_no", "other"),
    call_step("drop_yes", "ledger.drop_item", key="old"),
    call_step("drop_no", "ledger.drop_item", key="new"),
    revise=[{"decision": "continue", "reason": "It was a person's no."}] * 2,
    answer="What was allowed is done.",
)


async def test_only_a_person_in_a_terminal_moves_what_is_theirs_to_decide(tmp_path: Path) -> None:
    servers = {
        "ledger": toys.entry(toys.ledger(tmp_path / "ledger.log", **PEOPLE)),
        "outbox": toys.entry([*MAIN, "tool-server", "outbox", str(tmp_path / "outbox")]),
    }
    config = write_settings(tmp_path, script=SCRIPT, servers=servers)
    async with open_stdio_host(serve(config)) as host:
        view = await host.structured("plan_and_execute", {"goal": GOAL})
        actions = {action["step"]: action for action in view["actions"]}
        assert (view["status"], set(actions)) == ("awaiting_approval", {"mail_yes", "mail_no", "drop_yes", "drop_no"})
        for action in actions.values():
            await _check_that_no_host_moves_it(host, action)
        for step, action in actions.items():
            await anyio.to_thread.run_sync(_decide, config, action["action_id"], step.endswith("yes"))
        view = await reached(host, view["run_id"], "partial", "succeeded")
        events = await _events(host, view["run_id"])
        again = await host.call("approve_action", _yes(actions["mail_yes"]))
    assert (view["status"], view["stop_reason"], view["actions"]) == ("partial", "refused", [])
    assert view["answer"].startswith("What was allowed is done.")
    assert "did not succeed: mail_no: refused, drop_no: refused" in view["answer"].replace("\\", "")
    assert again.is_error
    assert "already" in text_of(again)
    sent = [json.loads(path.read_text())["to"] for path in (tmp_path / "outbox" / "sent").iterdir()]
    dropped = [call["arguments"]["key"] for call in toys.calls(tmp_path / "ledger.log", "drop_item")]
    assert (sent, dropped) == ([PEOPLE["whom"]], ["old"])
    late = _seconds_from_yes_to_call(events)
    assert len(late) == 2
    assert max(late) < 3, late


async def test_a_yes_from_a_terminal_is_acted_on_while_other_steps_are_still_at_work(tmp_path: Path) -> None:
    steps = [call_step("hold", "quick.wait", gate="go"), call_step("drop", "quick.drop", key="old")]
    config = settings(tmp_path, script(*steps))
    async with open_stdio_host(serve(config)) as host:
        run_id = (await host.structured("plan_and_execute", {"goal": GOAL, "wait_seconds": 0}))["run_id"]
        with anyio.fail_after(30):
            while not (view := await host.structured("get_run", {"run_id": run_id, "wait_seconds": 5}))["actions"]:
                pass
            assert view["status"] == "running"
            await anyio.to_thread.run_sync(_decide, config, view["actions"][0]["action_id"], True)
            await toys.wait_for_calls(tmp_path / LOG, "drop")
        assert Counter(made(tmp_path)) == {("wait", "go"): 1, ("drop", "old"): 1}
        (tmp_path / "go").touch()
        await reached(host, run_id, "succeeded")
    assert Counter(made(tmp_path)) == {("wait", "go"): 1, ("drop", "old"): 1}


def _yes(action: Any) -> dict[str, Any]:
    said = {name: action[name] for name in ("action_id", "tool", "arguments")}
    return said | {"decision": "approve", "wait_seconds": 0}


async def _check_that_no_host_moves_it(host: Host, action: Any) -> None:
    """Not even by repeating all of it; and the host is told what does."""
    assert action["level"] == "person", action
    still = await host.structured("approve_action", _yes(action))
    assert (still["status"], len(still["actions"])) == ("awaiting_approval", 4)
    assert f"approve {action['action_id']}" in still["message"]
    assert f"approve {action['action_id']}" in action["how"]


def _decide(config: Path, action_id: str, yes: bool) -> None:
    words = ("approve" if yes else "deny", action_id, "--config", str(config))
    with open_terminal(*words, cwd=config.parent) as terminal:
        if yes:
            terminal.expect("approve, deny or later? ")
            terminal.send("approve\n")
        code = terminal.end()
    assert code == 0, terminal.seen
    assert "A living process goes on" in terminal.seen, terminal.seen


async def _events(host: Host, run_id: str) -> list[Any]:
    (part,) = (await host.client.read_resource(f"run://{run_id}/events")).contents
    return [json.loads(line) for line in getattr(part, "text", "").splitlines()]


def _seconds_from_yes_to_call(events: list[Any]) -> list[float]:
    at: dict[tuple[str, str], float] = {(e["type"], e["step"]): e["at"] for e in events if e.get("step")}
    assert Counter(event["type"] for event in events)["call.started"] == 4
    yes = [step for type_, step in at if type_ == "action.decided" and ("call.started", step) in at]
    return [at["call.started", step] - at["action.decided", step] for step in yes]
