"""The door for tool calls: memo, events, budget, cache, parallel calls, results and failures."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from gate_case import (
    LIMITS,
    PLAN,
    Failing,
    Server,
    call,
    failing,
    gate_of,
    open_runs,
    server,
    text_result,
    tool,
    worker_call,
)
from mcp.types import CallToolResult, ImageContent

from downstream.door import Called, Refused, ToolEnd, Waiting
from downstream.gate.calls import ToolDoor
from downstream.gate.sending import Outgoing
from downstream.servers.failures import CallFailed
from downstream.tools import Tool
from journal.errors import BudgetReached, Fenced, MemoMismatch
from journal.values import JsonObject, Value

SEND = tool("mail.send", "write", ["to"])
READ = tool("notes.read", "read", ["path"])
LOOK = tool("notes.look", "read", ["path"])
FETCH = tool("web.fetch", "egress", ["url"])
FREE: JsonObject = {"rules": [{"allow": "mail.*"}, {"allow": "notes.*"}]}
TO_ANA: JsonObject = {"to": "ana@example.org"}


async def test_a_call_is_made_once_and_its_result_replayed_in_every_later_drive(tmp_path: Path) -> None:
    there = Server(answer=lambda out: CallToolResult(content=[], structured_content={"n": 1}))
    async with open_runs(tmp_path) as runs:
        door = there.door(READ)
        first = await door(await runs.drive(), call("notes.read", {"path": "a"}))
        again = await there.door(READ)(await runs.drive(), call("notes.read", {"path": "a"}))
        with pytest.raises(MemoMismatch):
            await door(await runs.drive(), call("notes.read", {"path": "b"}))
        usage = await runs.store.usage(await runs.store.run(runs.run_id))
    assert first == again
    assert first == Called(
        "c_2", "notes.read", True, Value({"n": 1}, frozenset({"private:notes"})), '{"n": 1}'
    )  # fmt: skip
    assert there.sent == [("notes.read", {"path": "a"})]
    assert usage.tool_calls == 1


async def test_a_call_tells_when_it_starts_and_how_it_ended(tmp_path: Path) -> None:
    there = Server(answer=lambda out: text_result("", is_error=False))
    async with open_runs(tmp_path, secrets=[("KEY", "hunter2hunter2")]) as runs:
        called = await there.door(FETCH)(
            await runs.drive(), call("web.fetch", {"url": "https://a.org/?k=hunter2hunter2"})
        )
        events = [event for event in await runs.store.events(runs.run_id) if event.type.startswith("call.")]
    assert isinstance(called, Called)
    assert [(event.type, event.step, event.call, event.data) for event in events] == [
        (
            "call.started",
            "a",
            called.call,
            {"tool": "web.fetch", "arguments": {"url": "https://a.org/?k=[secret:KEY]"}},
        ),
        ("call.ended", "a", called.call, {"tool": "web.fetch", "ok": True, "empty": True, "ms": 0}),
    ]


async def test_what_a_tool_calls_an_error_is_no_success_and_no_secret_comes_back(tmp_path: Path) -> None:
    there = Server(answer=lambda out: text_result("no: hunter2hunter2", is_error=True))
    async with open_runs(tmp_path, secrets=[("KEY", "hunter2hunter2")]) as runs:
        called = await there.door(SEND, policy=FREE)(await runs.drive(), call("mail.send", {"to": "ana"}))
        intents = await runs.store.intents(runs.run_id)
    assert isinstance(called, Called)
    assert (called.ok, called.text, called.value.data) == (False, "no: [secret:KEY]", "no: [secret:KEY]")
    assert (called.effect, [intent.state for intent in intents]) == (True, ["failed"])


async def test_a_large_result_is_kept_whole_and_shown_in_part(tmp_path: Path) -> None:
    there = Server(answer=lambda out: text_result("x" * 20_000))
    async with open_runs(tmp_path) as runs:
        called = await there.door(READ)(await runs.drive(), call("notes.read"))
        assert isinstance(called, Called)
        kept = await runs.store.artifacts.of_run(runs.run_id)
    assert [(each.id, each.call, each.size) for each in kept] == [(called.artifacts[0], called.call, 20_000)]
    assert len(called.text) < 8000


@pytest.mark.parametrize(
    ("used", "how", "sent", "effect"),
    [
        (READ, "ran?", 2, False),
        (FETCH, "ran?", 2, False),
        (READ, "late", 1, False),
        (READ, "unsent", 1, False),
        (SEND, "unsent", 1, False),
    ],
    ids=["read that may have run", "egress that may have run", "read out of time", "read not sent", "write not sent"],
)
async def test_a_call_that_fails_is_repeated_once_at_most_where_that_does_no_harm(
    tmp_path: Path, used: Tool, how: Failing, sent: int, effect: bool
) -> None:
    there = Server(answer=failing(how))
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        called = await there.door(used, policy=FREE)(journal, call(used.full_name))
        assert (await journal.usage()).tool_calls == sent
        intents = [intent.state for intent in await runs.store.intents(runs.run_id)]
    assert isinstance(called, Called)
    assert (called.ok, called.text, called.effect, len(there.sent)) == (False, "no answer came", effect, sent)
    assert called.repeated == (sent == 2)
    assert intents == (["failed"] if used is SEND else [])


async def test_a_read_that_works_at_the_second_try_is_a_success(tmp_path: Path) -> None:
    def second_time(out: Outgoing) -> CallToolResult:
        if len(there.sent) == 1:
            raise CallFailed("gone", may_have_run=True)
        return text_result("fine")

    there = Server(answer=second_time)
    async with open_runs(tmp_path) as runs:
        called = await there.door(READ)(await runs.drive(), call("notes.read"))
    assert isinstance(called, Called)
    assert (called.ok, len(there.sent)) == (True, 2)


async def test_a_read_is_not_repeated_beyond_the_budget(tmp_path: Path) -> None:
    there = Server(answer=failing("ran?"))
    async with open_runs(tmp_path) as runs:
        runs.limits = replace(LIMITS, tool_calls=1)
        journal = await runs.drive()
        called = await there.door(READ)(journal, call("notes.read"))
        assert (await journal.usage()).tool_calls == 1
    assert isinstance(called, Called)
    assert (called.ok, called.repeated, len(there.sent)) == (False, False, 1)


async def test_a_read_is_not_repeated_once_another_drive_has_taken_over(tmp_path: Path) -> None:
    there = Server(answer=failing("ran?"))
    async with open_runs(tmp_path) as runs:
        old = await runs.drive()

        async def send(out: Outgoing) -> CallToolResult:
            await runs.drive()
            return await there.send(out)

        with pytest.raises(Fenced):
            await ToolDoor(gate_of(READ), send)(old, call("notes.read"))
    assert len(there.sent) == 1


async def test_the_value_of_a_picture_alone_is_the_words_with_its_handle(tmp_path: Path) -> None:
    picture = ImageContent(type="image", data="MTIzNA==", mime_type="image/png")
    there = Server(answer=lambda out: CallToolResult(content=[picture]))
    async with open_runs(tmp_path) as runs:
        called = await there.door(READ)(await runs.drive(), call("notes.read"))
    assert isinstance(called, Called)
    assert called.value.data == called.text == f"[image, image/png, 4 bytes, kept as {called.artifacts[0]}]"


@pytest.mark.parametrize(
    ("made", "arguments", "ok", "states"),
    [(SEND, TO_ANA, True, ["done"]), (READ, {}, False, [])],
    ids=["an effect", "a read"],
)
async def test_a_picture_that_cannot_be_kept_fails_a_read_and_leaves_an_effect_done(
    made: Tool, arguments: JsonObject, ok: bool, states: list[str], tmp_path: Path
) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    picture = CallToolResult(content=[ImageContent(type="image", data="iVBORw==", mime_type="image/png")])
    door = Server(answer=lambda out: picture).door(made, policy=FREE)
    async with open_runs(tmp_path) as runs:
        end = await door(await runs.drive(), call(made.full_name, arguments))
        assert isinstance(end, Called)
        assert (end.ok, end.artifacts, end.text[:29]) == (ok, (), "[image, image/png, 4 bytes: t")
        assert [intent.state for intent in await runs.store.intents(runs.run_id)] == states
        assert await door(await runs.drive(), call(made.full_name, arguments)) == end


async def test_nothing_is_sent_once_another_drive_has_taken_over(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        old = await runs.drive()
        await runs.drive()
        with pytest.raises(Fenced):
            await there.door(READ)(old, call("notes.read"))
    assert there.sent == []


async def test_a_budget_that_is_used_up_stops_the_call_before_anybody_is_asked_and_says_so_once(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        runs.limits = replace(LIMITS, tool_calls=1)
        door, journal = there.door(READ, SEND), await runs.drive()
        await door(journal, call("notes.read"))
        for _ in range(2):
            with pytest.raises(BudgetReached) as caught:
                await door(journal, call("mail.send", key="later"))
            journal = await runs.drive()
            assert (caught.value.limit, caught.value.allowed, caught.value.used) == ("tool_calls", 1, 1)
        assert (await runs.event_types()).count("budget.refused") == 1
        assert await runs.store.waiting_actions() == []
        runs.limits = replace(LIMITS, tool_calls=2)
        assert isinstance(await door(await runs.drive(), call("mail.send", key="later")), Waiting)


async def test_a_call_that_would_start_after_the_runs_time_is_over_is_not_sent(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        runs.limits = replace(LIMITS, seconds=50)
        journal = await runs.drive()
        runs.clock.at += 60
        with pytest.raises(BudgetReached, match="seconds"):
            await there.door(READ)(journal, call("notes.read"))
    assert there.sent == []


async def test_an_approval_in_hand_when_the_budget_ends_does_not_keep_the_run_awake(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        runs.limits = replace(LIMITS, seconds=50)
        door, journal = there.door(SEND), await runs.drive()
        waiting = await door(journal, call("mail.send", {"to": "ana"}))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "approve")
        runs.clock.at += 60
        with pytest.raises(BudgetReached, match="seconds"):
            await door(journal, call("mail.send", {"to": "ana"}))
        assert await journal.park(None)
        runs.limits = LIMITS
        assert isinstance(await door(await runs.drive(), call("mail.send", {"to": "ana"})), Called)
    assert len(there.sent) == 1


async def test_equal_effects_made_at_once_by_workers_do_not_both_go_out(tmp_path: Path) -> None:
    there, ends = Server(), dict[int, ToolEnd]()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door, journal = there.door(SEND, policy=FREE), await runs.drive()

        async def make(number: int) -> None:
            ends[number] = await door(journal, worker_call("mail.send", TO_ANA, label=PLAN, number=number))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(make, number)
        waiting = [end.action for end in ends.values() if isinstance(end, Waiting)]
        actions = await runs.store.actions(runs.run_id)
    assert (len(there.sent), len(waiting)) == (1, 4)
    assert [action.level for action in actions] == ["person"] * 4
    assert all("already in this run, by step a" in action.reasons[0] for action in actions)


@pytest.mark.parametrize("origin", ["worker", "retry", "revision", "plan"])
async def test_only_the_first_plan_may_repeat_an_effect_unasked(tmp_path: Path, origin: str) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        door, journal = there.door(SEND, policy=FREE), await runs.drive()
        await door(journal, call("mail.send", {"to": "ana"}))
        end = await door(journal, call("mail.send", {"to": "ana"}, key="again", origin=origin))
        if isinstance(end, Waiting):
            assert (await runs.store.action(end.action)).level == "person"
            await runs.decide(end.action, "approve")
            await door(journal, call("mail.send", {"to": "ana"}, key="again", origin=origin))
    assert isinstance(end, Called) is (origin == "plan")
    assert len(there.sent) == 2


async def test_a_tool_declared_idempotent_may_be_called_again_unasked(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path, goal="tell ana@example.org") as runs:
        door, journal = there.door(replace(SEND, idempotent=True), policy=FREE), await runs.drive()
        for number in range(2):
            end = await door(journal, worker_call("mail.send", TO_ANA, label=PLAN, number=number))
            assert isinstance(end, Called)
            assert end.effect is False
    assert len(there.sent) == 2


async def test_many_calls_run_at_once(tmp_path: Path) -> None:
    arrived, everybody = list[str](), anyio.Event()

    async def meet(out: Outgoing) -> CallToolResult:
        arrived.append(out.tool.full_name)
        if len(arrived) == 8:
            everybody.set()
        await everybody.wait()
        return text_result("met")

    async with open_runs(tmp_path) as runs:
        door, journal = ToolDoor(gate_of(READ, SEND, policy=FREE), meet), await runs.drive()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(door, journal, call("notes.read", {"path": str(number)}, key=f"r{number}"))
                    group.start_soon(door, journal, call("mail.send", {"to": str(number)}, key=f"s{number}"))
    assert len(arrived) == 8


async def test_a_server_with_its_own_time_limit_gets_it(tmp_path: Path) -> None:
    limits: list[float] = []

    def note(out: Outgoing) -> CallToolResult:
        limits.append(out.timeout)
        return text_result("fine")

    there = Server(answer=note)
    quick = server("notes").model_copy(update={"timeout": 1500})
    async with open_runs(tmp_path) as runs:
        door = there.door(READ, FETCH, servers=[quick])
        await door(await runs.drive(), call("notes.read"))
        refused = await door(await runs.drive(), call("web.fetch", {"url": 5}, key="2"))
    assert limits == [1.5]
    assert isinstance(refused, Refused)
