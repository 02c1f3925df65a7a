"""Tool servers that are not there: the run goes on without them, and planner, warnings and people are told why."""

from pathlib import Path
from typing import Any

import anyio
import model_server as m
import pytest
import toys
from bad_input import ANSWER, FOUND, LOOK, check_kept, check_words, kinds, open_asked_product
from products import call_step

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

NOBODY = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
ABSENT: dict[str, tuple[Any, tuple[str, ...]]] = {
    "does not exist": (
        {"command": "no-such-command"},
        ("command 'no-such-command' was not found", "install it or give its full path"),
    ),
    "exits at once": (
        toys.entry(toys.bad("exit")),
        ("ended before it answered", "try it on its own", 'it said: "bad_server: the database is missing"'),
    ),
    "never answers": (
        toys.entry(toys.bad("hang")),
        ("did not answer within 2 s", "raise server_options.bad.start_timeout"),
    ),
    "nobody at its address": (NOBODY, ("All connection attempts failed", "check that it is up")),
}


@pytest.mark.parametrize(("entry", "told"), ABSENT.values(), ids=ABSENT.keys())
async def test_a_run_goes_on_without_a_server_that_is_not_there(
    tmp_path: Path, entry: Any, told: tuple[str, ...]
) -> None:
    # The clock of what never answers is the test's; the others are slower on a busy machine than it says.
    options = {"bad": {"start_timeout": 2}} if "within" in told[0] else {}
    rules = m.planner([LOOK]) + m.answer(ANSWER)
    with anyio.fail_after(60):
        async with open_asked_product(
            tmp_path, rules, servers={"bad": entry}, settings={"server_options": options}
        ) as asked:
            view = await asked.run()
            (planner,) = asked.asked("planner")
            assert "Tool server bad is not there: " in planner.text("user")
            check_words(planner.text("user").partition("Tool server bad")[2].split("\n")[0], *told)
    assert (view["status"], view["stop_reason"], view["answer"]) == ("succeeded", "done", ANSWER)
    (warning,) = view["warnings"]
    assert warning.startswith("tool server 'bad' is left out: ")
    check_words(warning, *told)
    assert FOUND in view["step_list"][0]["summary"]
    await check_kept(tmp_path, view, "look")


BROKEN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "unknown key": (
        {"command": "x", "comand": "y"},
        ("steprelay.json:1: unknown key 'comand'", "did you mean 'command'?"),
    ),
    "unset variable": (
        {"command": "x", "env": {"T": "${NO_SUCH_VARIABLE_1}"}},
        ("mcpServers.bad.env.T: variable NO_SUCH_VARIABLE_1 is not set", "${NO_SUCH_VARIABLE_1:-default}"),
    ),
    "steprelay itself": ({"command": "uvx", "args": ["steprelay", "serve"]}, ("steprelay", "bad")),
}


@pytest.mark.parametrize(("entry", "told"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_server_whose_entry_is_broken_is_off_and_the_others_are_used(
    tmp_path: Path, entry: Any, told: tuple[str, ...]
) -> None:
    rules = m.planner([LOOK]) + m.answer(ANSWER)
    with anyio.fail_after(60):
        async with open_asked_product(tmp_path, rules, servers={"bad": entry}) as asked:
            view = await asked.run()
    assert (view["status"], view["answer"]) == ("succeeded", ANSWER)
    (warning,) = view["warnings"]
    check_words(warning, *told)
    await check_kept(tmp_path, view, "look")


async def test_a_server_that_dies_under_a_call_costs_that_step_and_no_other(tmp_path: Path) -> None:
    odd = str(Path(toys.__file__).parent / "toy_servers" / "odd_server.py")
    plan = [LOOK, call_step("gone", "bad.look"), call_step("after", "ledger.echo", "look", text="still here")]
    rules = m.planner(plan) + m.reviser([{"decision": "continue"}]) + m.answer(ANSWER)
    options = {"server_options": {"bad": {"effects": {"look": "read"}}}}
    with anyio.fail_after(60):
        async with open_asked_product(
            tmp_path,
            rules,
            servers={"bad": {"command": toys.entry(toys.bad("exit"))["command"], "args": [odd, "quits"]}},
            settings=options,
        ) as asked:
            view = await asked.run()
    assert (view["status"], view["stop_reason"]) == ("partial", "error")
    assert kinds(view) == {"look": "succeeded", "gone": "failed", "after": "succeeded"}
    (summary,) = [step["summary"] for step in view["step_list"] if step["id"] == "gone"]
    check_words(summary, "bad")
    assert "gone: failed" in view["answer"]
    await check_kept(tmp_path, view, "look", "after")
