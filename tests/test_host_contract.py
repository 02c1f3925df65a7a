"""What every host is told before it calls anything, and how calls that can't be taken are refused."""

from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_hosts import Era, Host, open_host, text_of
from products import STATE_KEY, open_test_product, script

from journal.errors import SteprelayError
from server.host.mcp_server import INSTRUCTIONS, build_host_server
from server.host.tools import HOST_TOOLS
from server.product import Product
from server.settings_file.document import Problem, SettingsError
from server.views.run_view import RunView

ERAS: list[Era] = ["legacy", "modern"]
HINTS = {
    "plan_and_execute": (False, False, False, True),
    "approve_action": (False, True, False, True),
    "get_run": (True, False, True, False),
    "list_runs": (True, False, True, False),
    "cancel_run": (False, False, True, False),
}
ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "plan_and_execute": (["goal"], ["context", "review_plan", "wait_seconds", "budget", "idempotency_key"]),
    "approve_action": (
        ["action_id", "decision"],
        ["tool", "arguments", "edited_arguments", "content", "note", "wait_seconds"],
    ),
    "get_run": (["run_id"], ["wait_seconds", "detail"]),
    "list_runs": ([], ["status", "limit"]),
    "cancel_run": (["run_id"], ["reason"]),
}
APP_ONLY = ("panel_state", "panel_decide", "panel_edit", "panel_class")
FIELDS = [
    *("version", "run_id", "status", "stop_reason", "message", "answer", "steps", "step_list", "actions", "usage"),
    *("budget", "warnings", "sources", "contains_untrusted", "next_actions", "resources"),
]


async def _never() -> Product:
    raise SteprelayError("there is no product")


def _server() -> Any:
    return build_host_server(_never, state_key=STATE_KEY)


@pytest.mark.parametrize("era", ERAS)
async def test_the_handshake_and_the_list_of_tools_need_no_product(era: Era) -> None:
    async with open_host(_server(), era=era) as host:
        tools = (await host.client.list_tools()).tools
        assert host.client.server_info is not None
        assert host.client.server_info.name == "steprelay"
        assert host.client.instructions == INSTRUCTIONS
    assert [tool.name for tool in tools if tool.name not in APP_ONLY] == list(HINTS)


async def test_every_tool_sets_all_four_hints() -> None:
    shown = {tool.name: tool.listed().annotations for tool in HOST_TOOLS}
    hints = {
        name: (each.read_only_hint, each.destructive_hint, each.idempotent_hint, each.open_world_hint)
        for name, each in shown.items()
        if each is not None
    }
    assert hints == HINTS


async def test_only_approve_action_asks_hosts_to_prompt_every_time() -> None:
    asks = {tool.name: (tool.listed().meta or {}).get("anthropic/requiresUserInteraction") for tool in HOST_TOOLS}
    assert asks.pop("approve_action") is True
    assert set(asks.values()) == {None}


async def test_every_client_is_shown_the_same_tools() -> None:
    lists: list[Any] = []
    clients: list[tuple[Era, str]] = [("legacy", "claude-code"), ("modern", "somebody"), ("legacy", "claude-ai")]
    for era, name in clients:
        async with open_host(_server(), era=era, name=name) as host:
            tools = (await host.client.list_tools()).tools
            lists.append([tool.model_dump(mode="json", by_alias=True) for tool in tools])
    assert lists[0] == lists[1] == lists[2]


def test_descriptions_and_instructions_fit_what_hosts_show() -> None:
    texts = [INSTRUCTIONS, *(tool.description for tool in HOST_TOOLS)]
    assert [text for text in texts if len(text) >= 2_048] == []


@pytest.mark.parametrize("tool", HOST_TOOLS, ids=lambda tool: tool.name)
def test_a_tool_takes_what_the_contract_says_and_nothing_else(tool: Any) -> None:
    schema = tool.listed().input_schema
    required, optional = ARGUMENTS[tool.name]
    assert sorted(schema["properties"]) == sorted([*required, *optional])
    assert (schema.get("required", []), schema["additionalProperties"]) == (required, False)
    assert [name for name, said in schema["properties"].items() if not said.get("description")] == []


def test_the_limits_of_arguments_stand_in_their_schemas() -> None:
    schemas = {tool.name: tool.listed().input_schema["properties"] for tool in HOST_TOOLS}
    goal, limit = schemas["plan_and_execute"]["goal"], schemas["list_runs"]["limit"]
    assert (goal["minLength"], goal["maxLength"]) == (1, 20_000)
    assert schemas["plan_and_execute"]["context"]["anyOf"][0]["maxLength"] == 200_000
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 100, 20)
    wait = schemas["get_run"]["wait_seconds"]
    assert (wait["minimum"], wait["maximum"], wait["default"]) == (0, 600, 0)
    assert schemas["get_run"]["detail"]["default"] is False


def test_a_run_view_has_exactly_the_fields_of_the_contract_in_its_order() -> None:
    schema = RunView.model_json_schema()
    assert list(schema["properties"]) == schema["required"] == FIELDS
    assert schema["additionalProperties"] is False
    parts = {name: list(part["properties"]) for name, part in schema["$defs"].items() if "properties" in part}
    assert parts == {
        "StepCounts": ["total", "succeeded", "failed", "running", "waiting", "skipped"],
        "StepView": ["id", "title", "kind", "worker", "status", "summary"],
        "ActionView": [
            *("action_id", "kind", "choices", "question", "step", "tool", "arguments", "effect", "level", "reasons"),
            *("digest", "expires_at", "how"),
        ],
        "UsageView": [
            *("model_calls", "tool_calls", "input_tokens", "output_tokens", "cached_tokens"),
            *("cost_usd", "cost_known", "seconds"),
        ],
        "SourceView": ["step", "tool", "call"],
    }


BAD_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("plan_and_execute", {"goal": ""}, "say what is to be achieved"),
    ("plan_and_execute", {"goal": " \n"}, "say what is to be achieved"),
    ("plan_and_execute", {"goal": "g" * 1_000_000}, "1000000 characters; at most 20000"),
    ("plan_and_execute", {"goal": "g", "wait_seconds": -1}, "a number from 0 to 600, not -1"),
    ("plan_and_execute", {"goal": "g", "wait": 1}, 'unknown argument "wait"'),
    ("plan_and_execute", {}, "'goal' is missing"),
    ("get_run", {"run_id": "r_none"}, "no run 'r_none' is known here; list_runs"),
    ("cancel_run", {"run_id": "r_none"}, "no run 'r_none'"),
    ("approve_action", {"action_id": "a_none", "decision": "approve"}, "no action 'a_none' is known here"),
    ("list_runs", {"limit": 101}, "from 1 to 100, not 101"),
    ("list_runs", {"status": "done"}, "'succeeded'"),
    ("run", {}, "it has: plan_and_execute, approve_action, get_run, list_runs, cancel_run"),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "told"), BAD_CALLS, ids=[f"{tool}-{said[:30]}" for tool, _, said in BAD_CALLS]
)
async def test_a_call_that_cannot_be_taken_is_an_error_with_the_way_out(
    tmp_path: Path, tool: str, arguments: dict[str, Any], told: str
) -> None:
    async with (
        open_test_product(tmp_path, script=script(), servers={}) as (_, server),
        open_host(server, era="modern") as host,
    ):
        result = await host.call(tool, arguments)
        assert (result.is_error, result.structured_content) == (True, None)
        assert told in text_of(result)
        assert (await host.structured("list_runs")) == {"runs": []}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", HINTS)
async def test_settings_that_do_not_hold_answer_every_call(tmp_path: Path, era: Era, tool: str) -> None:
    given = {"goal": "g", "action_id": "a", "decision": "approve", "run_id": "r"}

    async def broken() -> Product:
        problem = Problem("unknown key 'modle'; did you mean 'model'?", path=tmp_path / "steprelay.yaml", line=3)
        raise SettingsError([problem])

    async with open_host(build_host_server(broken, state_key=STATE_KEY), era=era) as host:
        assert len((await host.client.list_tools()).tools) == 5 + len(APP_ONLY)
        assert (await host.client.list_resources()).resources == []
        result = await host.call(tool, {name: given[name] for name in ARGUMENTS[tool][0]})
    assert result.is_error
    assert text_of(result).startswith(f"{tmp_path}/steprelay.yaml:3")
    assert "did you mean 'model'?" in text_of(result)


async def test_a_fault_of_ours_reaches_the_host_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    async def faulty() -> Product:
        raise ZeroDivisionError("inner words")

    async with open_host(build_host_server(faulty, state_key=STATE_KEY)) as host:
        result = await host.call("list_runs")
    assert result.is_error
    assert "inner words" not in text_of(result)
    assert "inner words" in caplog.text


async def test_the_delegate_prompt_hands_a_goal_over() -> None:
    async with open_host(_server()) as host:
        (prompt,) = (await host.client.list_prompts()).prompts
        assert (prompt.name, [each.name for each in prompt.arguments or ()]) == ("delegate", ["goal"])
        got = await host.client.get_prompt("delegate", {"goal": "Ship it."})
        assert "plan_and_execute" in str(got.messages[0].content)
        assert "Ship it." in str(got.messages[0].content)
        await _check_refused(host, "delegate", {"goal": " "})
        await _check_refused(host, "other", {"goal": "g"})


@pytest.mark.parametrize("era", ERAS)
async def test_no_secret_comes_back_in_a_refusal_or_a_prompt(
    tmp_path: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cret-value-1"
    monkeypatch.setenv("MY_TOKEN", secret)
    settings = {"secrets": ["MY_TOKEN"]}
    async with (
        open_test_product(tmp_path, script=script(), servers={}, settings=settings) as (_, server),
        open_host(server, era=era) as host,
    ):
        calls: list[tuple[str, dict[str, Any]]] = [
            ("get_run", {"run_id": secret}),
            ("cancel_run", {"run_id": secret}),
            ("approve_action", {"action_id": secret, "decision": "approve"}),
            ("list_runs", {"status": secret}),
            ("list_runs", {secret: 1}),
            (secret, {}),
        ]
        said = [text_of(await host.call(tool, arguments)) for tool, arguments in calls]
        with pytest.raises(MCPError) as raised:
            await host.client.read_resource(f"run://{secret}")
        said.append(str(raised.value.error))
        said.append(str(await host.client.get_prompt("delegate", {"goal": f"Use {secret}."})))
    assert [text for text in said if secret in text or "[secret:MY_TOKEN]" not in text] == []


async def _check_refused(host: Host, name: str, arguments: dict[str, str]) -> None:
    with pytest.raises(MCPError, match="the one prompt is `delegate`"):
        await host.client.get_prompt(name, arguments)
