"""Questions of tool servers at the gate: what is kept of them, what a crash leaves, and who is asked again."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from gate_case import Runs, call, gate_of, open_runs, server, text_result, tool
from mcp import MCPError
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types import URL_ELICITATION_REQUIRED

from downstream.door import Called, Refused, Waiting
from downstream.gate.asked_back import OpenDesk
from downstream.gate.calls import ToolDoor
from downstream.gate.forms import open_key
from downstream.gate.sending import Outgoing
from downstream.gate.stages import case_of
from downstream.questions import FormAsked, Question, Reply, UrlAsked
from downstream.servers.asking import AsksBack, Desk, OpenCall, asked_in_error, asked_in_result
from downstream.servers.caller import Caller, Patience
from downstream.servers.failures import CallFailed
from journal.actions import Action, Decision
from server.host.forms import Answered, decision_from, form_schema
from server.terminal.exit_codes import UsageProblem
from server.terminal.filling_in import given_content

FORM = FormAsked("which?", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
PAY = tool("shop.pay", "write", ["item"])
LOOK = tool("shop.look", "read", ["item"])
ALLOW = {"rules": [{"allow": "shop.*"}]}
Answers = Callable[[Outgoing], Awaitable[CallToolResult]]


class Crash(BaseException):
    """The process ends here."""


def asks(*questions: Question, state: str | None = "s") -> AsksBack:
    return AsksBack("shop", {f"q{number}": each for number, each in enumerate(questions)}, state)


def answering(*ends: Any, sent: list[Outgoing] | None = None) -> Answers:
    """A server that ends its calls in these ways, one after the other."""
    left = list(ends)

    async def send(out: Outgoing) -> CallToolResult:
        if sent is not None:
            sent.append(out)
        end = left.pop(0)
        if isinstance(end, BaseException):
            raise end
        return text_result(end)

    return send


def door(send: Answers, *tools: Any, policy: Any = ALLOW) -> ToolDoor:
    return ToolDoor(gate_of(*(tools or (PAY, LOOK)), policy=policy, servers=[server("shop")]), send)


async def submit(runs: Runs, action_id: str, content: Any = None) -> None:
    await runs.store.decide(
        await runs.store.action(action_id),
        Decision("submit", "host", "form", content={"n": 1} if content is None else content),
    )


async def waits(runs: Runs) -> Sequence[Action]:
    return [action for action in await runs.store.actions(runs.run_id) if action.state == "waiting"]


async def ask_at(desk: Desk) -> None:
    await desk.ask(FORM)


@pytest.mark.parametrize("name", ["shop.pay", "shop.look"])
async def test_a_call_goes_on_with_the_answers_and_the_state_it_was_given(tmp_path: Path, name: str) -> None:
    sent: list[Outgoing] = []
    to = door(answering(asks(FORM, FORM), "paid", sent=sent))
    async with open_runs(tmp_path) as runs:
        first = await to(await runs.drive(), call(name, {"item": "tea"}))
        one, two = await waits(runs)
        await submit(runs, two.id)
        still = await to(await runs.drive(), call(name, {"item": "tea"}))
        await submit(runs, one.id)
        done = await to(await runs.drive(), call(name, {"item": "tea"}))
        events = await runs.event_types()
        handled = [action.handled for action in await runs.store.actions(runs.run_id)]
    assert (first, still) == (Waiting(one.id, one.expires_at), Waiting(one.id, one.expires_at))
    assert isinstance(done, Called)
    assert (done.ok, done.text, handled) == (True, "paid", [True, True])
    assert sent[1].resumed.state == "s"
    assert sent[1].resumed.replies == {"q0": Reply("accept", {"n": 1}), "q1": Reply("accept", {"n": 1})}
    assert (events.count("call.started"), events.count("call.ended")) == (1, 1)


async def test_a_crash_right_after_the_question_was_written_down_loses_nothing(tmp_path: Path) -> None:
    to = door(answering(asks(FORM), "paid"))
    async with open_runs(tmp_path) as runs:
        assert isinstance(await to(await runs.drive(), call("shop.pay", {"item": "tea"})), Waiting)
        # As a crash before the intent was ended leaves it.
        await runs.store.database.write("test", lambda tx: tx.change("UPDATE intents SET state = 'begun'"))
        again = await to(await runs.drive(), call("shop.pay", {"item": "tea"}))
        (intent,) = await runs.store.intents(runs.run_id)
        (action,) = await waits(runs)
    assert (again, intent.state) == (Waiting(action.id, action.expires_at), "not_done")


async def test_a_crash_after_the_answers_were_sent_is_a_question_for_a_person(tmp_path: Path) -> None:
    to = door(answering(asks(FORM), Crash()))
    async with open_runs(tmp_path) as runs:
        await to(await runs.drive(), call("shop.pay", {"item": "tea"}))
        await submit(runs, (await waits(runs))[0].id)
        with pytest.raises(Crash):
            await to(await runs.drive(), call("shop.pay", {"item": "tea"}))
        end = await to(await runs.drive(), call("shop.pay", {"item": "tea"}))
        kinds = [action.kind for action in await waits(runs)]
    assert (isinstance(end, Waiting), kinds) == (True, ["unknown"])


async def test_a_read_is_made_again_after_a_crash_with_the_same_answers(tmp_path: Path) -> None:
    sent: list[Outgoing] = []
    to = door(answering(asks(FORM), Crash(), "seen", sent=sent))
    async with open_runs(tmp_path) as runs:
        await to(await runs.drive(), call("shop.look"))
        await submit(runs, (await waits(runs))[0].id)
        with pytest.raises(Crash):
            await to(await runs.drive(), call("shop.look"))
        end = await to(await runs.drive(), call("shop.look"))
    assert isinstance(end, Called)
    assert (end.text, sent[2].resumed) == ("seen", sent[1].resumed)


async def test_under_other_settings_an_answered_form_is_asked_again(tmp_path: Path) -> None:
    to = door(answering(asks(FORM)))
    async with open_runs(tmp_path) as runs:
        await to(await runs.drive(), call("shop.pay"))
        await submit(runs, (await waits(runs))[0].id)
        await runs.store.rebind(await runs.store.run(runs.run_id), fingerprint="other", settings_path="/other")
        end = await to(await runs.drive(), call("shop.pay"))
        (action,) = await waits(runs)
    assert end == Waiting(action.id, action.expires_at)


@pytest.mark.parametrize("now", ["denied", "gone"])
async def test_a_call_that_may_no_longer_be_made_is_not_made_for_all_its_answers(tmp_path: Path, now: str) -> None:
    async with open_runs(tmp_path) as runs:
        await door(answering(asks(FORM)))(await runs.drive(), call("shop.pay"))
        await submit(runs, (await waits(runs))[0].id)
        to = door(answering(), LOOK) if now == "gone" else door(answering(), policy={"rules": [{"deny": "shop.pay"}]})
        end = await to(await runs.drive(), call("shop.pay"))
    assert isinstance(end, Refused)


async def test_a_server_that_only_wants_to_be_called_again_is_and_not_for_ever(tmp_path: Path) -> None:
    sent: list[Outgoing] = []
    to = door(answering(*[asks(state=str(n)) for n in range(9)], sent=sent))
    async with open_runs(tmp_path) as runs:
        end = await to(await runs.drive(), call("shop.pay"))
        (intent,) = await runs.store.intents(runs.run_id)
    assert isinstance(end, Called)
    assert (end.ok, "asked for input 8 times" in end.text, intent.state) == (False, True, "failed")
    assert [out.resumed.state for out in sent] == [None, *map(str, range(8))]


@pytest.mark.parametrize("decided", [False, True], ids=["waiting", "decided"])
async def test_a_crash_ends_the_form_of_the_call_that_it_cut_off(tmp_path: Path, decided: bool) -> None:
    async def ask(out: Outgoing) -> CallToolResult:
        async with anyio.create_task_group() as group:
            group.start_soon(ask_at, out.desk)
            while not (found := await waits(runs)):
                await anyio.lowlevel.checkpoint()
            # The process that would end the form is no more.
            await runs.drive()
            if decided:
                await submit(runs, found[0].id)
            group.cancel_scope.cancel()
        raise Crash

    async with open_runs(tmp_path) as runs:
        with pytest.raises(Crash):
            await door(ask)(await runs.drive(), call("shop.pay"))
        assert isinstance(await door(ask)(await runs.drive(), call("shop.pay")), Waiting)
        actions = {action.kind: (action.state, action.handled) for action in await runs.store.actions(runs.run_id)}
    assert actions == {"form": ("superseded", True), "unknown": ("waiting", False)}


async def test_a_server_that_takes_its_question_back_ends_the_form_and_may_ask_again(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        gate = gate_of(PAY, policy=ALLOW, servers=[server("shop")])
        desk = OpenDesk(gate, journal, case_of(gate, journal.run, call("shop.pay"), PAY)).desk
        async with anyio.create_task_group() as group:
            group.start_soon(ask_at, desk)
            while not await waits(runs):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        first = await journal.action(open_key(call("shop.pay").key, 1))
        declined = await desk.ask(UrlAsked("look", "javascript:alert(1)"))
    assert first is not None
    assert (first.state, declined) == ("superseded", Reply("decline"))


async def shown(folder: Path, question: Question) -> Action:
    """The action by which a question is shown."""
    async with open_runs(folder) as runs:
        await door(answering(asks(question)))(await runs.drive(), call("shop.pay"))
        return (await waits(runs))[0]


async def test_a_field_that_is_called_as_our_choice_gets_another_name_in_a_hosts_form(tmp_path: Path) -> None:
    fields = {"decision": {"type": "boolean"}, "decision_": {"type": "integer"}}
    action = await shown(tmp_path, FormAsked("?", {"properties": fields, "required": ["decision"]}))
    schema = form_schema(action)
    content: dict[str, Any] = {"decision": "submit", "decision_": True, "decision__": 5}
    answered = Answered(action, ElicitResult(action="accept", content=content), 2, None)
    decision = decision_from(answered, min_seconds=1)
    assert (list(schema["properties"]), schema["required"]) == (list(content), ["decision", "decision_"])
    assert schema["properties"]["decision_"]["title"] == '"decision"'
    assert decision == Decision("submit", "host", "form", content={"decision": True, "decision_": 5})


async def test_what_a_server_wrote_is_cut(tmp_path: Path) -> None:
    fields = {"a": {"type": "string", "title": "t" * 1000, "description": "d" * 1000}}
    action = await shown(tmp_path, FormAsked("m" * 5000, {"properties": fields}))
    (said,) = action.question.splitlines()[1:]
    assert said == f'shop writes: "{"m" * 999}…"'
    assert action.arguments["message"] == f"{'m' * 999}…"
    assert action.arguments["schema"]["properties"]["a"]["title"] == f"{'t' * 199}…"


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc", "https://", "http://[", f"https://a/{'x' * 2000}", "https://\ud800/"]
)
async def test_an_address_that_no_browser_opens_on_the_web_is_declined(tmp_path: Path, url: str) -> None:
    sent: list[Outgoing] = []
    async with open_runs(tmp_path) as runs:
        to = door(answering(asks(UrlAsked("go", url)), "done", sent=sent))
        await to(await runs.drive(), call("shop.pay"))
        warnings = (await runs.store.run(runs.run_id)).warnings
    assert sent[1].resumed.replies == {"q0": Reply("decline")}
    assert "it was declined" in warnings[0]


def test_only_persons_are_asked() -> None:
    sampling = CreateMessageRequest(params=CreateMessageRequestParams(messages=[], max_tokens=5))
    asked = asked_in_result("shop", InputRequiredResult(input_requests={"m": sampling}))
    assert isinstance(asked, CallFailed)
    assert (asked.may_have_run, "sampling/createMessage" in asked.text) == (False, True)


def form_request() -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message="which?", requested_schema=FORM.schema))


def test_no_more_is_put_before_a_person_at_once_than_there_may_be_rounds() -> None:
    def asked_for(count: int) -> list[AsksBack | CallFailed | None]:
        forms = InputRequiredResult(input_requests={f"q{number}": form_request() for number in range(count)})
        page = {"mode": "url", "message": "log in", "url": "https://a.example", "elicitationId": "e"}
        error = MCPError(URL_ELICITATION_REQUIRED, "log in", {"elicitations": [page] * count})
        return [asked_in_result("shop", forms), asked_in_error("shop", error)]

    assert [len(asked.questions) for asked in asked_for(8) if isinstance(asked, AsksBack)] == [8, 8]
    text = "shop asks for 9 things at once; at most 8 are put before a person"
    assert [(str(asked), getattr(asked, "may_have_run", None)) for asked in asked_for(9)] == [(text, False)] * 2


async def test_a_form_that_is_none_is_declined_also_while_its_call_is_open(tmp_path: Path) -> None:
    odd = FormAsked("which?", {"properties": {"n": {"type": "integer", "minimum": 10**400}, "x": {"type": [[]]}}})
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        gate = gate_of(PAY, policy=ALLOW, servers=[server("shop")])
        desk = OpenDesk(gate, journal, case_of(gate, journal.run, call("shop.pay"), PAY)).desk
        assert await desk.ask(odd) == Reply("decline")


@pytest.mark.parametrize("data", [None, {"elicitations": "none"}])
def test_an_error_that_names_no_address_stays_an_error(data: Any) -> None:
    assert asked_in_error("shop", MCPError(URL_ELICITATION_REQUIRED, "log in", data)) is None


async def test_a_question_that_comes_after_its_call_is_cancelled() -> None:
    async def ask(question: Question) -> Reply:
        raise AssertionError

    call_ = OpenCall(Desk(ask, None), Patience(1, Caller()).aside)  # type: ignore[arg-type]

    async def work() -> str:
        return "done"

    assert (await call_.during(work), await call_.put(FORM)) == ("done", Reply("cancel"))


async def test_the_time_in_which_a_person_is_asked_does_not_count() -> None:
    patience = Patience(0.2, Caller(longest=1))
    with anyio.fail_after(5), patience.wait():
        with patience.aside():
            await patience(1, None, None)
            await anyio.sleep(0.4)
        await anyio.sleep(0.05)
        reached = True
    assert reached


async def test_content_for_what_takes_none_is_refused(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await door(answering(asks(FORM)))(await runs.drive(), call("shop.pay"))
        (action,) = await waits(runs)
    assert (given_content(action, "submit", '{"n": 2.0}'), given_content(action, "submit", None)) == ({"n": 2}, None)
    for wrong in (
        (action, None, "{}"),
        (action, "decline", "{}"),
        (replace(action, kind="call"), "submit", "{}"),
        (action, "submit", "{"),
        (action, "submit", "{}"),
    ):
        with pytest.raises(UsageProblem, match="--content"):
            given_content(*wrong)
