"""A request in litellm's words: what a model does not take is left out and said, or the request is not made at all."""

from collections.abc import Sequence
from typing import Any

import pytest

from downstream.model_port import Function, FunctionUse, Message, ModelRequest, Place
from downstream.models.wire_request import NotTaken, Takes, Wanted, wire_request
from downstream.settings import Effort, EffortByRole, ModelOptions, Role

CLAUDE, GPT, GEMINI = "anthropic/claude-sonnet-4-5", "openai/gpt-5", "gemini/gemini-2.5-flash"
ALL = frozenset({"response_format", "tools", "tool_choice", "reasoning_effort"})
SUBMIT = Function("submit_report", "Hand in.", {"type": "object", "properties": {}})
USER = Message("user", "Do it.")


def wanted(model: str, effort: str | None = None, *, messages: Sequence[Message] = (USER,), **fields: Any) -> Wanted:
    request = ModelRequest("worker", Place(), tuple(messages), 200, **fields)
    return Wanted(model, request, effort, 1024 if effort else 0)


def forced(model: str, effort: str | None, parameters: frozenset[str] | None = ALL) -> tuple[bool, tuple[str, ...]]:
    asked = wanted(model, effort, functions=(SUBMIT,), force="submit_report")
    made = wire_request(asked, Takes(model.partition("/")[0], parameters))
    return "tool_choice" in made.arguments, made.left_out


@pytest.mark.parametrize(
    ("model", "effort", "is_forced"),
    [
        (CLAUDE, None, True),
        (CLAUDE, "none", True),
        (CLAUDE, "low", False),
        ("deepseek/deepseek-reasoner", "low", False),
        (GPT, "low", True),
        (GEMINI, "high", True),
    ],
)
def test_a_function_is_forced_unless_the_model_thinks_and_takes_no_force_then(
    model: str, effort: str | None, is_forced: bool
) -> None:
    assert forced(model, effort) == (is_forced, () if is_forced else ("tool_choice",))


def test_a_model_that_takes_no_force_is_asked_without_and_one_of_which_nothing_is_known_with() -> None:
    assert forced(GPT, None, frozenset({"tools"})) == (False, ("tool_choice",))
    assert forced(GPT, None, None) == (True, ())


@pytest.mark.parametrize(
    ("field", "missing"),
    [({"schema": {"type": "object"}}, "response_format"), ({"functions": (SUBMIT,)}, "tools")],
    ids=["schema", "functions"],
)
def test_a_request_that_would_lose_what_it_rests_on_is_not_made(field: dict[str, Any], missing: str) -> None:
    with pytest.raises(NotTaken, match=missing):
        wire_request(wanted(GPT, **field), Takes("openai", ALL - {missing}))


@pytest.mark.parametrize(
    ("effort", "sent", "left_out"),
    [("low", None, ("reasoning_effort",)), ("none", None, ()), (None, None, ())],
)
def test_an_effort_that_a_model_has_not_is_left_out_and_said(
    effort: str | None, sent: str | None, left_out: tuple[str, ...]
) -> None:
    made = wire_request(wanted("mistral/m", effort), Takes("mistral", ALL - {"reasoning_effort"}))
    assert (made.arguments.get("reasoning_effort"), made.left_out) == (sent, left_out)


def history(said: dict[str, Any], model: str) -> list[Message]:
    uses = (FunctionUse("1", "f", "{}"),)
    called = Message("assistant", "", uses, raw={"model": model, "message": {"role": "assistant", **said}})
    return [USER, called, Message("tool", "ok", answers="1")]


THOUGHT = {"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]}


@pytest.mark.parametrize(
    ("model", "messages", "thinks"),
    [
        (CLAUDE, history(THOUGHT, CLAUDE), True),
        (CLAUDE, history(THOUGHT, GPT), False),
        (CLAUDE, history({}, CLAUDE), False),
        (CLAUDE, [USER], True),
        (CLAUDE, [*history({}, GPT), USER], True),
        (GPT, history({}, CLAUDE), True),
    ],
    ids=["its own thought", "another's", "none", "no calls", "calls long answered", "a model that does not mind"],
)
def test_claude_thinks_in_mid_turn_only_where_its_last_thought_is_there(
    model: str, messages: list[Message], thinks: bool
) -> None:
    made = wire_request(wanted(model, "low", messages=messages), Takes(model.partition("/")[0], ALL))
    assert (made.arguments.get("reasoning_effort"), made.left_out) == (
        ("low", ()) if thinks else (None, ("reasoning_effort in this turn",))
    )


@pytest.mark.parametrize(
    ("role", "effort"),
    [("planner", "high"), ("reviser", "high"), ("worker", None), ("compose", None), ("answer", "none")],
)
def test_roles_may_think_more_or_less_hard(role: Role, effort: Effort | None) -> None:
    by_role = ModelOptions(reasoning_effort=EffortByRole(planner="high", answer="none"))
    assert by_role.effort_of(role) == effort
    assert ModelOptions(reasoning_effort="low").effort_of(role) == "low"
