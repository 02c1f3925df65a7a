"""The whole way of a run, over both transports and in both eras, on real tool servers and through real litellm."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import main_job
import pytest
import toys
from http_product import open_http_product
from main_job import GOAL, MARKER
from mcp_hosts import Era, Host, answers, open_stdio_host, serve, text_of
from model_server import markers_in

pytestmark = [pytest.mark.e2e, pytest.mark.untraced]

ONE_SLOW = ("modern", pytest.param("legacy", marks=pytest.mark.slow))

LISTING = str(Path(__file__).parent / "support" / "list_tools.py")
ERAS: list[Era] = ["legacy", "modern"]


async def _check_first_part(host: Host, job: main_job.Job) -> Any:
    """Run up to the approval; the result stands alone and fits what the tool promises."""
    listed = {tool.name: tool for tool in (await host.client.list_tools()).tools}
    result = await host.call("plan_and_execute", {"goal": GOAL})
    assert not result.is_error, text_of(result)
    view: Any = result.structured_content
    jsonschema.validate(view, listed["plan_and_execute"].output_schema or {})
    assert (view["status"], view["steps"]["succeeded"]) == ("awaiting_approval", 4), view
    assert len(job.calls("meet")) == 2
    (action,) = view["actions"]
    assert action["tool"] == "outbox.send"
    assert action["arguments"] == {"to": "ada@example.org", "subject": "Budget", "body": "The budget is 40,000."}
    assert (action["level"], action["effect"], job.sent()) == ("host", "write", [])
    return view


async def _check_approval(host: Host, job: main_job.Job, view: Any) -> None:
    """A bare yes and an almost equal one leave it waiting; the exact one sends the mail once."""
    action = view["actions"][0]
    bare = {"action_id": action["action_id"], "decision": "approve"}
    still = await host.structured("approve_action", bare)
    assert (still["status"], len(still["actions"])) == ("awaiting_approval", 1)
    assert "tool" in still["message"]
    assert "arguments" in still["message"]
    changed = {**action["arguments"], "body": "The budget is 40,001."}
    nearly = {**bare, "tool": "outbox.send", "arguments": changed}
    assert (await host.structured("approve_action", nearly))["status"] == "awaiting_approval"
    assert job.sent() == []
    exact = {**bare, "tool": action["tool"], "arguments": action["arguments"]}
    done = await host.structured("approve_action", exact)
    assert (done["status"], done["stop_reason"]) == ("succeeded", "done"), done
    assert done["answer"] == "The budget is 40,000; the mail is out."
    assert [(mail["to"], mail["body"]) for mail in job.sent()] == [("ada@example.org", "The budget is 40,000.")]
    again = await host.call("approve_action", exact)
    assert again.is_error
    assert len(job.sent()) == 1


@pytest.mark.parametrize("era", ONE_SLOW)
async def test_the_main_job_runs_over_stdio(tmp_path: Path, era: Era) -> None:
    with main_job.main_job(tmp_path, main_job.main_rules()) as job:
        async with open_stdio_host(serve(job.config), era=era) as host:
            view = await _check_first_part(host, job)
            await _check_approval(host, job, view)
        assert job.model.unmatched == []


@pytest.mark.parametrize("era", ONE_SLOW)
async def test_the_main_job_runs_over_http(tmp_path: Path, era: Era) -> None:
    with main_job.main_job(tmp_path, main_job.main_rules()) as job:
        async with open_http_product(job.config, era=era) as host:
            view = await _check_first_part(host, job)
            await _check_approval(host, job, view)


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_answered_after_a_persons_time_lets_the_run_go_on(tmp_path: Path, era: Era) -> None:
    person = answers(after=1.8, decision="approve")
    with main_job.scripted_job(tmp_path) as job:
        async with open_stdio_host(serve(job.config), era=era, on_elicit=person) as host:
            view = await host.structured("plan_and_execute", {"goal": GOAL})
        assert (view["status"], len(job.sent()), len(person.asked)) == ("succeeded", 1, 1), view


@pytest.mark.parametrize("era", ONE_SLOW)
@pytest.mark.parametrize("how", ["empty", "declined", "cancelled", "too fast", "unknown choice"])
async def test_an_answer_that_no_person_gave_leaves_the_action_waiting(tmp_path: Path, era: Era, how: str) -> None:
    from mcp_hosts import answers_nothing, cancels, declines

    people = {
        "empty": answers_nothing(after=1.8),
        "declined": declines(after=1.8),
        "cancelled": cancels(),
        "too fast": answers(after=0.01, decision="approve"),
        "unknown choice": answers(after=1.8, decision="yes"),
    }
    with main_job.scripted_job(tmp_path) as job:
        async with open_stdio_host(serve(job.config), era=era, on_elicit=people[how]) as host:
            view = await host.structured("plan_and_execute", {"goal": GOAL})
        assert (view["status"], len(view["actions"]), job.sent()) == ("awaiting_approval", 1, [])


async def test_tool_output_reaches_only_those_who_need_it(tmp_path: Path) -> None:
    plan = main_job.main_plan()
    plan[3]["needs"] = ["left", "right"]  # the draft does not need the step that read the marker
    plan.append({"id": "tell", "kind": "compose", "title": "Tell", "needs": ["read"], "task": "Tell it."})
    read = {"id": "read", "kind": "call", "title": "Read", "tool": "ledger.read_item", "arguments": {"key": "budget"}}
    lost = {"id": "lost", "kind": "call", "title": "Lose", "tool": "ledger.read_item", "arguments": {"key": "none"}}
    plan += [read, lost | {"optional": False}]
    import model_server as m

    rules = main_job.main_rules(plan) + m.compose("tell", "Told.") + m.reviser([{"decision": "continue"}])
    with main_job.main_job(tmp_path, rules) as job:
        async with open_stdio_host(serve(job.config)) as host:
            await host.structured("plan_and_execute", {"goal": GOAL})
            found = markers_in(job.model.requests, MARKER)
    roles = {role for role, _ in found}
    assert ("worker", "study") in found
    assert ("compose", "tell") in found
    assert ("compose", "draft") not in found
    assert not roles & {"planner", "reviser"}
    assert any(request.role == "reviser" for request in job.model.requests)


def test_litellm_is_not_loaded_by_listing_tools(tmp_path: Path) -> None:
    with main_job.main_job(tmp_path, []) as job:
        listed = subprocess.run([sys.executable, LISTING, str(job.config)], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["9", "False"]


async def test_two_hosts_on_one_store_see_every_run_once(tmp_path: Path) -> None:
    with main_job.scripted_job(tmp_path) as job:
        async with open_stdio_host(serve(job.config)) as one, open_stdio_host(serve(job.config)) as two:
            async with anyio.create_task_group() as group:
                group.start_soon(one.structured, "plan_and_execute", {"goal": GOAL})
                group.start_soon(two.structured, "plan_and_execute", {"goal": f"{GOAL} Twice."})
            listed = [await host.structured("list_runs") for host in (one, two)]
            assert listed[0] == listed[1]
            assert len({run["run_id"] for run in listed[0]["runs"]}) == len(listed[0]["runs"]) == 2
    assert len(toys.calls(job.log, "meet")) == 4
