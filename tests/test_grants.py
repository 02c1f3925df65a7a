"""Grants: what a person allowed beforehand goes out once, without a question, and nothing else does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gate_case import Runs, Server, call, gate_of, open_runs, server, tool
from hypothesis import given
from hypothesis import strategies as st

from downstream.door import Called, Origin, Refused, ToolCall, ToolEnd, Waiting
from downstream.gate.grants import Terms, covers, exactly
from downstream.settings import ToolOptions
from downstream.tools import Tool
from journal.actions import Action
from journal.archive.retention import prune
from journal.canonical import canonical, digest
from journal.grants import Grant, GrantSpent, unused_text
from journal.run_journal import Ending, Meaning
from journal.runs import NewRun
from journal.steps import StepRow
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to", "body"])
TO_ANA: JsonObject = {"to": "ana@x.example", "body": "It is Friday."}
STEPS = [{"id": "a", "kind": "call", "tool": "mail.send", "arguments": TO_ANA}]
FOREIGN = frozenset({"private:notes"})


def grant(
    conditions: JsonObject | None = None, *, of: Tool = SEND, policy: JsonObject | None = None, **changes: Any
) -> Grant:
    gate = gate_of(of, policy=policy)
    bound = Terms(of, gate.policy, None).bound
    made = Grant("g_1", "a", of.full_name, conditions or exactly(TO_ANA), digest(STEPS), bound, 1, 2_000_000.0)
    return replace(made, **changes)


async def planned(runs: Runs, *grants: Grant, steps: Sequence[JsonObject] = STEPS) -> None:
    """The run has this plan, and these grants."""
    journal = await runs.drive()
    await journal.record("plan", Meaning("plan", {}), {"steps": list(steps), "by": "given"})
    await runs.store.grant(await runs.store.run(runs.run_id), grants)


async def called(runs: Runs, sender: Server, wanted: ToolCall, of: Tool = SEND, **settings: Any) -> ToolEnd:
    return await sender.door(of, **settings)(await runs.drive(), wanted)


async def question(runs: Runs) -> Action:
    (action,) = [each for each in await runs.store.actions(runs.run_id) if each.state == "waiting"]
    return action


async def audit(runs: Runs, type_: str) -> list[str]:
    sql = "SELECT data FROM audit WHERE type = ? ORDER BY seq"
    return [row["data"] for row in await runs.store.database.read(lambda tx: tx.rows(sql, (type_,)))]


async def test_a_granted_call_goes_out_without_a_question_and_its_record_says_by_what(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        sender = Server()
        await planned(runs, grant())
        end = await called(runs, sender, call("mail.send", TO_ANA))
        assert isinstance(end, Called)
        assert sender.sent == [("mail.send", TO_ANA)]
        assert "action.waiting" not in await runs.event_types()
        (started,) = [event for event in await runs.store.events(runs.run_id) if event.type == "call.started"]
        assert started.data["grant"] == "g_1"
        (given_line,) = await audit(runs, "grant.given")
        (begun,) = await audit(runs, "intent.begun")
        assert '"grant":"g_1"' in given_line
        assert all(part in begun for part in ('"grant":"g_1"', '"level":"person"', '"via":"grant"', '"action":null'))


async def test_a_grant_is_used_once_by_its_own_step(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        sender = Server()
        await planned(runs, grant())
        other = call("mail.send", TO_ANA, step="b", key="step.b@1/attempt.1/call.0")
        assert isinstance(await called(runs, sender, other), Waiting)
        assert isinstance(await called(runs, sender, call("mail.send", TO_ANA)), Called)
        again = call("mail.send", TO_ANA, key="step.a@1/attempt.2/call.0", origin="retry")
        assert isinstance(await called(runs, sender, again), Waiting)
        assert len(sender.sent) == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"plan": digest([])}, "the run follows another plan"),
        ({"bound": "0"}, "the tool, its server or the policy was changed since"),
        ({"arguments": exactly(TO_ANA | {"to": "eve@x.example"})}, "its arguments are others"),
        ({"arguments": exactly({"to": TO_ANA["to"]})}, "its arguments are others"),
        ({"arguments": exactly(TO_ANA | {"cc": "eve@x.example"})}, "its arguments are others"),
        ({"expires_at": 1_000_000.5}, "it has expired"),
    ],
    ids=["plan", "bound", "argument", "one more", "one less", "late"],
)
async def test_whatever_differs_from_a_grant_is_asked_and_the_question_says_what(
    tmp_path: Path, changes: JsonObject, why: str
) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant(**changes))
        runs.clock.at += 1
        assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Waiting)
        assert (await question(runs)).reasons[-1] == f"a grant for this step does not cover it: {why}"


@pytest.mark.parametrize(
    ("of", "policy"),
    [
        (tool("mail.send", "write", ["to", "body"], description="Sends more than before."), None),
        (tool("mail.send", "destructive", ["to", "body"]), None),
        (SEND, {"rules": [{"ask": "mail.*", "via": "person"}]}),
    ],
    ids=["definition", "class", "policy"],
)
async def test_a_grant_dies_with_a_changed_definition_class_or_policy(
    tmp_path: Path, of: Tool, policy: JsonObject | None
) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        end = await called(runs, Server(), call("mail.send", TO_ANA), of, policy=policy)
        assert isinstance(end, Waiting)
        assert "was changed since" in (await question(runs)).reasons[-1]


async def test_a_deny_and_a_passkey_are_above_any_grant(tmp_path: Path) -> None:
    denied: JsonObject = {"rules": [{"deny": "mail.send"}]}
    passkey: JsonObject = {"rules": [{"ask": "mail.send", "via": "passkey"}]}
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant(policy=denied), grant(policy=passkey, id="g_2"))
        asked = await called(runs, Server(), call("mail.send", TO_ANA), policy=passkey)
        assert isinstance(asked, Waiting)
        assert (await question(runs)).reasons[-1].endswith("a passkey is needed")
        refused = await called(runs, Server(), call("mail.send", TO_ANA), policy=denied)
        assert isinstance(refused, Refused)


async def test_a_value_from_outside_is_covered_as_it_stands_and_never_as_a_target_by_its_beginning(
    tmp_path: Path,
) -> None:
    async with open_runs(tmp_path) as runs:
        begins = {"to": {"prefix": "ana"}, "body": {"equals": TO_ANA["body"]}}
        await planned(runs, grant(begins))
        foreign = call("mail.send", TO_ANA, label=FOREIGN)
        assert isinstance(await called(runs, Server(), foreign), Waiting)
        assert (await question(runs)).level == "person"
        assert (await question(runs)).reasons[-1].endswith('its target "to" came from outside')
    (tmp_path / "other").mkdir()
    async with open_runs(tmp_path / "other") as runs:
        sender = Server()
        listed = {"to": {"one_of": ["bob@x.example", TO_ANA["to"]]}, "body": {"prefix": "It is"}}
        await planned(runs, grant(listed))
        assert isinstance(await called(runs, sender, foreign), Called)
        assert sender.sent == [("mail.send", TO_ANA)]


async def test_calls_of_workers_and_revisions_and_reads_use_no_grant(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        made_up = call("mail.send", TO_ANA, origin="revision")
        assert isinstance(await called(runs, Server(), made_up), Waiting)
        assert (await question(runs)).reasons == ("class write: it changes something",)


async def test_our_own_idempotency_key_is_no_argument_of_a_grant(tmp_path: Path) -> None:
    keyed = server("mail", tools={"send": ToolOptions(idempotency_key="once")})
    of = tool("mail.send", "write", ["to", "body", "once"])
    bound = Terms(of, gate_of(of).policy, keyed).bound
    async with open_runs(tmp_path) as runs:
        sender = Server()
        await planned(runs, grant(bound=bound))
        assert isinstance(await called(runs, sender, call("mail.send", TO_ANA), of, servers=[keyed]), Called)
        assert set(sender.sent[0][1]) == {"to", "body", "once"}


async def test_a_grant_counts_over_all_runs_and_in_each_run_once(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        twice = grant(uses=2)
        for _ in range(2):
            await planned(runs, twice)
            assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Called)
            again = call("mail.send", TO_ANA, key="step.a@1/attempt.2/call.0", origin="retry")
            assert isinstance(await called(runs, Server(), again), Waiting)
            runs.run_id = await another(runs)
        with pytest.raises(GrantSpent, match=r"step 'a' \(mail\.send\) has been used; a person makes new ones"):
            await another(runs, twice)
        with pytest.raises(GrantSpent, match="has expired"):
            await another(runs, grant(id="g_2", expires_at=5.0))


async def test_a_run_that_was_given_a_grant_which_another_used_up_asks(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        first, runs.run_id = runs.run_id, await another(runs, grant())
        await planned(runs)
        assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Called)
        runs.run_id = first
        assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Waiting)


async def test_other_settings_void_what_a_run_was_granted(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        await runs.store.rebind(await runs.store.run(runs.run_id), fingerprint="other", settings_path="/other.yaml")
        assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Waiting)


DONE = Ending("succeeded", "done", "Done.", "", {})


async def ended_with(runs: Runs, *, begun: bool) -> tuple[list[str], list[JsonObject]]:
    """How the run ends: its warnings, and what their events say of grants."""
    journal = await runs.drive()
    started = 1.0 if begun else None
    row = StepRow("a", 0, 1, "call", "Send", None, False, False, "running", "", {}, started, None)
    await journal.put_plan([row], events=())
    if begun:
        await journal.put_step_status("a", "running")
    await journal.finish(DONE)
    events = await runs.store.events(runs.run_id)
    assert events[-1].type == "run.ended"
    said = [event.data["grant"] for event in events if event.type == "warning"]
    return list((await runs.store.run(runs.run_id)).warnings), said


async def test_a_run_tells_at_its_end_of_grants_that_it_had_no_use_for(tmp_path: Path) -> None:
    told: list[str] = []
    for case in ("used", "not begun", "no call", "others", "free", "made up"):
        (tmp_path / case).mkdir()
        async with open_runs(tmp_path / case) as runs:
            await planned(runs, grant())
            if case not in ("not begun", "no call"):
                origin: Origin = "revision" if case == "made up" else "plan"
                wanted = call("mail.send", TO_ANA | ({"body": "No."} if case == "others" else {}), origin=origin)
                policy: JsonObject | None = {"rules": [{"allow": "mail.send"}]} if case == "free" else None
                await called(runs, Server(), wanted, policy=policy)
            warnings, said = await ended_with(runs, begun=case != "not begun")
            assert warnings == [f"the grant for step 'a' (mail.send) is not used: {each['why']}" for each in said]
            assert [(each["step"], each["tool"]) for each in said] == [("a", "mail.send")] * (case != "used")
            told += [each["why"] for each in said]
    assert told == [
        "its step was not begun",
        "its step made no such call",
        "its arguments are others",
        "its call needed no leave",
        "its step made no such call",
    ]


async def test_what_was_said_of_a_grant_at_the_start_is_said_once_in_the_runs_warnings(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        same = unused_text("a", "mail.send", "its step was not begun")
        await (await runs.drive()).warn(same)
        journal = await runs.drive()
        await journal.finish(DONE)
        assert (await runs.store.run(runs.run_id)).warnings == (same,)
        assert (await runs.event_types()).count("warning") == 2


async def test_that_a_grant_was_used_outlives_its_run(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await planned(runs, grant())
        assert isinstance(await called(runs, Server(), call("mail.send", TO_ANA)), Called)
        end = "UPDATE runs SET status = 'succeeded', stop_reason = 'done', ended_at = 1"
        await runs.store.database.write("test", lambda tx: tx.change(end))
        assert (await prune(runs.store, days=1)).runs == (runs.run_id,)
        with pytest.raises(GrantSpent):
            await another(runs, grant())


async def another(runs: Runs, *grants: Grant) -> str:
    new = NewRun("me", "settings", "/settings.yaml", f"again {runs.run_id}", "host", "", {}, grants=grants)
    return (await runs.store.create_or_attach(new, driver="me"))[0]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.sampled_from(["", "a", "ab", "\u00e9", "e\u0301"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["to", "cc", "body"]), VALUES, max_size=3)


@given(ARGUMENTS, ARGUMENTS)
def test_a_grant_for_exact_arguments_covers_them_and_no_others(granted: JsonObject, wanted: JsonObject) -> None:
    assert covers(exactly(granted), granted)
    assert covers(exactly(granted), wanted) == (canonical(granted) == canonical(wanted))


@given(st.sampled_from(["a", "ab"]), st.lists(VALUES, min_size=1, max_size=3), ARGUMENTS)
def test_a_pattern_covers_texts_that_begin_so_and_a_list_its_entries(
    begins: str, listed: list[Any], wanted: JsonObject
) -> None:
    conditions = {"to": {"prefix": begins}, "body": {"one_of": listed}}
    fits = set(wanted) == {"to", "body"} and isinstance(wanted["to"], str) and wanted["to"].startswith(begins)
    assert covers(conditions, wanted) == (fits and canonical(wanted["body"]) in map(canonical, listed))


def test_a_condition_of_any_other_kind_covers_nothing() -> None:
    odd: list[JsonObject] = [{}, {"glob": "*"}, {"equals": 1, "prefix": "a"}, {"one_of": 1}, {"prefix": "a"}]
    assert [covers({"to": each}, {"to": 1}) for each in odd] == [False] * len(odd)
