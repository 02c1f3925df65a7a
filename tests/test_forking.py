"""What a fork keeps of a record: the order up to where the step's end was handled, and no word of a person's."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from journals import create, open_own_store, rows, take

from executors.contract import Outcome
from executors.step import step_key
from journal.archive.fork import Fork, Kept, NotForked, create_fork, memo_of
from journal.archive.retention import prune
from journal.artifacts import NewArtifact
from journal.errors import StoreError
from journal.events import NewEvent
from journal.intents import Intent, NewIntent
from journal.ledger import Amount, Reservation
from journal.run_journal import Ending, Meaning
from journal.runs import Run
from journal.steps import StepRow
from journal.store import Store
from journal.values import WORST, Json, Value
from journal.world import World
from planner.chronicle import Ended, Entry, Raised, Reopened, Widened
from planner.forking import fork_of
from planner.plan import AnyStep
from planner.planning import read_steps
from planner.progress import Change

RUN = Run(
    **dict.fromkeys(Run.__dataclass_fields__, "x")  # type: ignore[arg-type]
    | {"id": "r_old", "goal": "goal", "options": {"reopened": 7, "review_plan": True}}
)


def steps(*needs: str) -> tuple[AnyStep, ...]:
    """Compose steps: `b<a` is b, which needs a."""
    made = [
        {"id": id_, "kind": "compose", "title": id_, "task": "t", "needs": [need] if need else []}
        for id_, _, need in (each.partition("<") for each in needs)
    ]
    return read_steps(made)


def ended(id_: str, status: Any = "succeeded", limit: str | None = None) -> Ended:
    return Ended(Outcome(id_, status, value=Value(f"of {id_}", frozenset({"plan"}))), limit)


class Record:
    """A memo in the making."""

    def __init__(self, *plan: AnyStep) -> None:
        self.memo: dict[str, Kept] = {}
        self.entries = 0
        self.add("plan", {"steps": [step.model_dump(mode="json") for step in plan], "by": "planner"})
        self.add("plan/reviewed", True)
        for step in plan:
            self.of_step(step)

    def add(self, key: str, value: Json, name: str = "") -> None:
        self.memo[key] = Kept(key, name or key, "hash", value, 1.0)

    def of_step(self, step: AnyStep) -> None:
        self.add(f"{step_key(step)}/input.x", "text", "input")
        self.add(f"{step_key(step)}/outcome/limits.1", None, "outcome")

    def then(self, entry: Entry, *, trigger: str = "go_on", change: Change | None = None, asks: int = 0) -> None:
        self.entries += 1
        self.add(f"order.{self.entries}", entry.to_json(), "order")
        if not isinstance(entry, Widened):
            self.add(f"trigger.{self.entries}", {"reasons": [], "comments": [], "then": trigger}, "trigger")
        if change is not None:
            self.add(f"revise.{asks}/decision", change.to_json(), "decision")
            self.add(f"revise.{asks}", {"reply": 1}, "revise_plan")
            for step in change.add:
                self.of_step(step)

    def forked(self, step: str, *began: str, intents: Sequence[Intent] = ()) -> Fork:
        shown = [StepRow(id_, 0, 1, "compose", id_, None, False, False, "failed", "", {}, 1.0, None) for id_ in began]
        return fork_of(RUN, step, self.memo, steps=shown, intents=intents)


def kept(fork: Fork) -> list[str]:
    """What is kept, with step keys cut to their ids."""
    return sorted(row.key.partition("@")[0] for row in fork.memo)


def test_the_order_is_kept_up_to_the_steps_end_and_of_other_steps_everything() -> None:
    record = Record(*steps("a", "b<a", "c<b", "d"))
    for id_ in ("a", "b", "d", "c"):
        record.then(ended(id_))
    record.add("answer.0", "text")
    fork = record.forked("b")
    assert kept(fork) == ["order.1", "plan", "step.a", "step.d", "trigger.1"]
    assert (fork.steps, fork.options["reopened"]) == (frozenset({"a", "d"}), 0)
    order = next(row for row in fork.memo if row.key == "order.1")
    assert order.value["outcome"]["value"] == {"data": "of a", "label": sorted(WORST)}
    assert [(event.type, event.step) for event in fork.events] == [
        ("run.created", None),
        ("plan.accepted", None),
        ("step.ended", "a"),
    ]


def test_a_revision_before_the_step_is_kept_and_one_after_it_is_made_anew() -> None:
    record = Record(*steps("a", "b"))
    (new,), (late,) = steps("n"), steps("l")
    record.then(ended("a"), trigger="ask", change=Change("revise", add=(new,)), asks=1)
    record.then(ended("n"))
    record.then(ended("b", "failed"), trigger="ask", change=Change("finish", add=(late,)), asks=2)
    assert kept(record.forked("b")) == [
        *("order.1", "order.2", "plan", "revise.1", "revise.1/decision", "step.a", "step.n", "trigger.1", "trigger.2")
    ]
    assert kept(record.forked("n")) == [
        *("order.1", "plan", "revise.1", "revise.1/decision", "step.a", "step.b", "trigger.1")
    ]
    with pytest.raises(NotForked, match=r"those that ran: a, b, n$"):
        record.forked("l")


def test_a_revision_that_a_person_allowed_has_to_be_allowed_again_and_what_it_added_is_kept() -> None:
    record = Record(*steps("a", "b"))
    (wide,) = steps("w")
    record.then(ended("a"), trigger="ask", change=Change("widen", add=(wide,), widens=("x.y",)), asks=1)
    record.then(Widened(True, ()))
    record.then(ended("w"))
    record.then(ended("b"))
    fork = record.forked("b")
    assert kept(fork) == ["order.1", "plan", "revise.1", "revise.1/decision", "step.a", "step.w", "trigger.1"]
    assert kept(record.forked("w")) == [
        *("order.1", "plan", "revise.1", "revise.1/decision", "step.a", "step.b", "trigger.1")
    ]


def test_a_revision_that_a_person_refused_stays_refused() -> None:
    record = Record(*steps("a", "b"))
    record.then(ended("a"), trigger="ask", change=Change("widen", add=steps("w"), widens=("x.y",)), asks=1)
    record.then(Widened(False, ()))
    record.then(ended("b"))
    fork = record.forked("b")
    assert (fork.steps, [row.key for row in fork.memo if row.name == "order"]) == (
        frozenset({"a"}),
        ["order.1", "order.2"],
    )


def test_a_limit_that_a_person_raised_is_as_it_was_again() -> None:
    record = Record(*steps("a", "b"))
    record.then(ended("a", "failed", "usd"))
    record.then(Raised("usd", 5.0))
    record.then(ended("b"))
    fork = record.forked("b")
    raised = next(row for row in fork.memo if row.key == "order.2")
    assert (raised.value, fork.options["reopened"]) == ({"raise": "usd", "amount": 0.0}, 0)


HALTS = {
    "a budget": (ended("a", "failed", "usd"), "go_on", None),
    "no progress": (ended("a"), "no_progress", None),
    "refusals": (ended("a"), "refused", None),
    "a reviser": (ended("a"), "ask", Change("finish")),
}


@pytest.mark.parametrize(("entry", "trigger", "change"), HALTS.values(), ids=HALTS)
def test_a_run_that_was_halted_when_the_step_ended_goes_on(entry: Entry, trigger: str, change: Change | None) -> None:
    record = Record(*steps("a", "b"))
    record.then(entry, trigger=trigger, change=change, asks=1)
    record.then(ended("b"))
    assert record.forked("b").options == {"reopened": 1, "review_plan": True}
    record.then(Reopened(1))
    assert record.forked("b").options["reopened"] == 1


def test_a_run_that_was_reopened_before_the_step_ended_is_as_far() -> None:
    record = Record(*steps("a", "b"))
    record.then(ended("a", "failed", "usd"))
    record.then(Reopened(1))
    record.then(ended("a"))
    record.then(ended("b"))
    fork = record.forked("b")
    assert (fork.options["reopened"], [row.key for row in fork.memo if row.name == "order"][-1]) == (1, "order.3")


def test_a_question_to_the_reviser_that_was_not_answered_is_asked_anew() -> None:
    record = Record(*steps("a", "b"))
    record.then(ended("a", "failed"), trigger="ask")
    assert kept(record.forked("b", "b")) == ["order.1", "plan", "step.a", "trigger.1"]


def test_a_run_without_a_plan_or_whose_steps_never_ran_is_not_forked() -> None:
    with pytest.raises(NotForked, match="run r_old cannot go on from step 'a'; none of its steps ran"):
        Record(*steps("a")).forked("a")
    with pytest.raises(NotForked, match="run r_old never had a plan"):
        fork_of(RUN, "a", {}, steps=[], intents=[])


def test_the_warning_names_what_was_done_and_what_may_have_been() -> None:
    def intent(number: int, state: Any) -> Intent:
        fields: dict[str, Any] = dict.fromkeys(Intent.__dataclass_fields__, "x")
        fields |= {"tool": f"t.{number}", "step": "s", "state": state}
        return Intent(**fields)

    record = Record(*steps("a"))
    record.then(ended("a"))
    begins = "this run continues r_old from step a; "
    assert record.forked("a").warning == f"{begins}nothing was changed there"
    intents = [intent(1, "done"), intent(1, "done"), intent(2, "unknown"), intent(3, "failed")]
    told = "already done there: t.1 (step s); may have been done there: t.2 (step s)"
    assert record.forked("a", intents=intents).warning == begins + told
    many = record.forked("a", intents=[intent(number, "done") for number in range(12)]).warning
    assert many.endswith(", t.9 (step s), 2 more")


async def ended_run(store: Store) -> Run:
    """Step `s` did one thing, lost another call and made two artifacts, one of which was lost; step `t` did one."""
    run_id = await create(store)
    journal = await take(store, run_id)
    for key, step in (("step.s@0/call.0", "s"), ("step.s@0/call.1", "s"), ("step.t@0/call.0", "t")):
        intent = NewIntent("c", step, "mail.send", "write", {"n": key}, f"hash of {key}")
        await journal.begin_call(Reservation(key, Amount(tool_calls=1, usd=0.1)), intent=intent)
        if key != "step.s@0/call.1":
            await journal.end_call(key, Meaning("tool", 1), {"refused": {}}, intent="done")
    for name in (b"one", b"two"):
        artifact = await journal.artifacts.add(run_id, NewArtifact("s", "c", "text/plain", name, frozenset({"user"})))
    (store.artifacts.folder / run_id / artifact.id).unlink()
    await journal.artifacts.add(run_id, NewArtifact("t", "c", "text/plain", b"three", frozenset({"user"})))
    await journal.finish(Ending("partial", "error", "m", "a", {}))
    return await store.run(run_id)


async def fork_from_t(store: Store, run: Run) -> Fork:
    memo = await memo_of(store, run.id)
    rest = tuple(row for row in memo.values() if row.key.startswith("step.s"))
    return Fork(run, "t", rest, frozenset({"s"}), {}, (NewEvent("run.created", {}),), "careful")


async def test_a_fork_has_artifacts_past_calls_and_no_accounts_of_the_old_run(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run = await ended_run(store)
        new = await create_fork(store, await fork_from_t(store, run), fingerprint="print", settings_path="there")
        assert [(intent.key, intent.state, intent.past) for intent in await store.intents(new)] == [
            ("past/step.s@0/call.0", "done", True),
            ("step.s@0/call.1", "unknown", False),
            ("past/step.t@0/call.0", "done", True),
        ]
        one, two = sorted(await store.artifacts.of_run(new), key=lambda kept: kept.sha256, reverse=True)
        assert {one.label, two.label, one.step, two.step} == {WORST, "s"}
        there = [path.name for path in (store.artifacts.folder / new).iterdir()]
        assert there in ([one.id], [two.id])
        assert (await store.usage(await store.run(new))).cost_usd == 0
        assert (await store.events(new))[-1].data == {"text": "careful"}
        row = await store.run(new)
        assert (row.warnings, row.origin, row.status) == (
            ("careful",),
            {"fork": {"run": run.id, "from": "t"}},
            "running",
        )
        assert [ready.id for ready in await store.ready(fingerprint="print")] == [new]
        await store.mark_delivered(run.id)
        assert await create(store) not in (new, run.id)
        seals = "SELECT COUNT(*) FROM memo a JOIN memo b USING (key) WHERE a.run = ? AND b.run = ? AND a.seal != b.seal"
        assert await rows(store, seals, run.id, new) == [(1,)]


async def test_calls_of_the_past_stay_so_in_a_fork_of_a_fork_and_nobody_is_asked_about_them(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        old = await create_fork(store, await fork_from_t(store, await ended_run(store)), **BOUND)
        await (await take(store, old)).finish(Ending("failed", "error", "m", "a", {}))
        fork = Fork(await store.run(old), "s", (), frozenset(), {}, (), "careful")
        new = await create_fork(store, fork, **BOUND)
        assert [(intent.key, intent.state) for intent in await store.intents(new)] == [
            ("past/step.s@0/call.0", "done"),
            ("past/step.s@0/call.1", "unknown"),
            ("past/step.t@0/call.0", "done"),
        ]
        await (await take(store, new)).finish(Ending("failed", "error", "m", "a", {}))
        # Nobody has to say in the new one what became of a call of the old one.
        assert (await prune(store, days=0, dry_run=True)).runs == (new,)


BOUND = {"fingerprint": "print", "settings_path": "there"}


async def test_where_files_cannot_be_written_there_is_no_fork(tmp_path: Path) -> None:
    numbers = count()
    world = World(new_id=lambda prefix: f"{prefix}_{next(numbers)}")
    async with open_own_store(tmp_path, world) as store:
        run = await ended_run(store)
        fork = await fork_from_t(store, run)
        (store.artifacts.folder / f"r_{next(numbers) + 1}").write_text("in the way")
        with pytest.raises(StoreError, match="there is no new run, free some space"):
            await create_fork(store, fork, **BOUND)
        assert [found.id for found in await store.runs()] == [run.id]


async def test_a_run_that_went_on_meanwhile_is_not_forked_and_no_file_is_left(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store:
        run = await ended_run(store)
        fork = await fork_from_t(store, run)
        await store.reopen(run, options={})
        with pytest.raises(NotForked, match=f"run {run.id} has not ended, or goes on again"):
            await create_fork(store, fork, **BOUND)
        assert [path.name for path in store.artifacts.folder.iterdir()] == [run.id]
        assert [found.id for found in await store.runs()] == [run.id]
