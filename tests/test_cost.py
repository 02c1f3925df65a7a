"""`runs show --cost`: what each step, worker and model took, and how much of it was planning."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from command_line import called
from products import open_test_product, script
from run_at_hand import RunAtHand, open_run
from stored_runs import stored_run

from downstream.model_port import Message, ModelFailed, ModelReply, ModelRequest, Models, Place, Rate, Role
from downstream.models.door import Account, ModelDoor
from downstream.settings import ModelsByRole, ModelSettings
from journal.accounts import Entry
from journal.errors import UnknownId
from journal.ledger import Amount as Most
from journal.ledger import Reservation, Spent
from journal.run_journal import Meaning, RunJournal
from server.product import Request
from server.views.cost import Amount, Cost, CostLine, cost_lines, cost_of
from server.views.split import Split, split_lines, split_of

RATE = Rate(1.0, 4.0)


async def spend(journal: RunJournal, run: RunAtHand, key: str, role: Role, *said: ModelReply | ModelFailed) -> None:
    """Ask `big`, then `spare`, on the account of what that role usually is."""
    replies = list(said)

    async def complete(model: str, request: ModelRequest) -> ModelReply:
        reply = replies.pop(0)
        if isinstance(reply, ModelFailed):
            raise reply
        return replace(reply, model=model)

    async def rate_of(model: str) -> Rate | None:
        return RATE if model != "free to guess" else None

    async def warm_up() -> None:
        """There is nothing to warm."""

    settings = ModelSettings(model="big", models=ModelsByRole(fallbacks=("spare",)))
    door = ModelDoor(Models(complete, rate_of, warm_up), settings, run.store.remembered)
    place = Place(step=None if role in ("planner", "answer") else "study")
    model = "free to guess" if role == "compose" else None
    account = Account(worker="researcher" if role == "worker" else None, model=model)
    asked = ModelRequest(role, place, (Message("user", "x" * 40),), 50)
    await door.ask(journal, key, Meaning(role, key), asked, account=account)


def reply(prompt: int, out: int, cached: int = 0, thought: int = 0, *, usd: float | None = None) -> ModelReply:
    cost = RATE.cost(input_tokens=prompt, output_tokens=out) if usd is None else usd
    return ModelReply("", "fine", spent=Spent(prompt, out, cached, cost, usd is None, thought))


async def a_run(run: RunAtHand) -> None:
    journal = await run.take()
    await spend(journal, run, "plan.1", "planner", reply(1_000, 100, 0, 60))
    refused = ModelFailed(
        "big", "bad_request", "no", spent=Spent(100, 10, usd=RATE.cost(input_tokens=100, output_tokens=10))
    )
    await spend(journal, run, "study/turn.1", "worker", refused, reply(2_000, 50, 500))
    await spend(journal, run, "study/turn.2", "worker", reply(3_000, 40))
    await journal.begin_call(Reservation("study/call", Most(0, 1), "work", "study", None, "researcher"))
    await journal.end_call("study/call", Meaning("call", 1), {}, spent=Spent())
    await spend(journal, run, "answer.0", "answer", reply(500, 100))


BIG = Amount(2, 0, 3_100, 50, cost_usd=0.0033)
SPARE = Amount(1, 0, 2_000, 50, 500, cost_usd=0.0022)


async def test_every_call_is_told_by_step_worker_and_model_also_where_one_fell_back(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        await a_run(run)
        cost = await cost_of(run.store, run.id)
        usage = await run.usage()
    assert sorted(cost.lines, key=str) == sorted(
        [
            CostLine("plan", "planner", None, "big", Amount(1, 0, 1_000, 100, 0, 60, 0.0014)),
            CostLine("study", "worker", "researcher", "big", BIG),
            CostLine("study", "worker", "researcher", "spare", SPARE),
            CostLine("study", "tools", "researcher", None, Amount(0, 1)),
            CostLine("answer", "answer", None, "big", Amount(1, 0, 500, 100, cost_usd=0.0009)),
        ],
        key=str,
    )
    assert cost.planning == Amount(2, 0, 1_500, 200, 0, 60, 0.0023)
    assert cost.executing == Amount(3, 1, 5_100, 100, 500, 0, 0.0055)
    total = cost.total
    assert (total.model_calls, total.tool_calls, total.input_tokens, total.output_tokens, total.cost_usd) == (
        *(usage.model_calls, usage.tool_calls, usage.input_tokens, usage.output_tokens, usage.cost_usd),
    )


async def test_a_person_reads_a_table_and_the_share_of_planning(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        await a_run(run)
        lines = cost_lines(await cost_of(run.store, run.id))
    assert lines[0].split() == ["step", "by", "model", "asked", "in", "cached", "out", "thought", "tools", "usd"]
    assert ["study", "researcher", "spare", "1", "2,000", "500", "50", "0", "0", "0.002200"] in [
        line.split() for line in lines
    ]
    assert [line.split() for line in lines if line.startswith("total")] == [
        ["total", "5", "6,600", "500", "300", "60", "1", "0.007800"]
    ]
    assert lines[-2:] == [
        "planning    25% of the tokens,  29% of the cost   (plan, revisions, answer)",
        "executing   75% of the tokens,  71% of the cost   (workers, reviews, texts)",
    ]


@pytest.mark.parametrize(
    ("planning", "shares"),
    [(1, ("<1%", ">99%")), (5, ("<1%", ">99%")), (500, ("50%", "50%")), (999, (">99%", "<1%")), (1000, ("100%", "0%"))],
)
def test_a_part_that_there_is_reads_neither_as_none_nor_as_all(planning: int, shares: tuple[str, str]) -> None:
    whole, part, rest = (Amount(input_tokens=tokens) for tokens in (1_000, planning, 1_000 - planning))
    said = cost_lines(Cost("r", whole, part, rest, Split(), ()))
    assert tuple(line.split()[1] for line in said[-2:]) == shares


async def test_shares_of_a_cost_that_is_not_known_are_not_told(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        journal = await run.take()
        await spend(journal, run, "plan.1", "planner", reply(1_000, 100))
        await spend(journal, run, "study/text", "compose", reply(1_000, 100, usd=0.0))
        said = cost_lines(await cost_of(run.store, run.id))
    assert said[-3] == "planning    50% of the tokens   (plan, revisions, answer)"


async def test_what_was_lost_or_has_no_price_is_said(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        journal = await run.take()
        await spend(journal, run, "study/text", "compose", reply(10, 5, usd=0.0))
        await journal.begin_call(Reservation("plan.1", Most(1, 0, 70), role="planner", model="big"))
        await run.take()
        cost = await cost_of(run.store, run.id)
    assert (cost.planning, cost.total.cost_known) == (Amount(1, 0, 70, lost_calls=1), False)
    said = cost_lines(cost)
    assert "the end of 1 call was not seen" in said[-2]
    assert "the price of a model is not known" in said[-1]
    assert "of the cost" not in " ".join(said)


async def test_a_run_that_took_nothing_has_a_table_of_nothing(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        cost = await cost_of(run.store, run.id)
        assert (cost.lines, cost.total) == ((), Amount())
        assert "– of the tokens" in cost_lines(cost)[-1]
        with pytest.raises(UnknownId):
            await cost_of(run.store, "r_none")


def request(key: str, tokens: int = 100, *, role: str = "worker", calls: int = 1, lost: bool = False) -> Entry:
    """The account of one request."""
    return Entry(key, "a", "w", role, "m", calls, 0, tokens, 5, 0, 0, 0.0, True, lost)


BEGUN: dict[str, tuple[list[Entry], Split]] = {
    "none": ([], Split(2)),
    "its turns after the first": ([request("a/turn.1"), request("a/turn.2", 300)], Split(2, 1, 100, 0)),
    "two, with a review": (
        [
            request("a/turn.1"),
            request("a/turn.2", 150),
            request("b/turn.1", 70),
            request("a/review/turn.1", 20, role="reviewer"),
        ],
        Split(2, 3, 190, 90),
    ),
    "no other role": (
        [request("plan.1/turn.2", role="planner"), request("t/turn.1", role="compose"), request("a/call.0", role="")],
        Split(2),
    ),
    "a report is no beginning": ([request("a/last"), request("a/repair.1")], Split(2)),
    "a first way that the server did not take": ([request("a/turn.1", 0), request("a/turn.2", 120)], Split(2, 1, 120)),
    "lost, and made again": ([request("a/turn.1", 900, lost=True), request("a/turn.1")], Split(2, 1, 100)),
    "lost": ([request("a/turn.1", 900, lost=True)], Split(2, 1, 900, 0, estimated=True)),
    "sent twice": ([request("a/turn.1"), request("b/turn.1", 200, calls=2)], Split(2, 2, 300, 200, estimated=True)),
}


@pytest.mark.parametrize("name", BEGUN)
def test_what_workers_began_with_is_their_first_requests(name: str) -> None:
    entries, split = BEGUN[name]
    assert split_of(entries, steps=2) == split


BEGINNING = "input tokens (instructions, tools, task, what was handed over)"


@pytest.mark.parametrize(
    ("split", "said"),
    [
        (Split(), []),
        (Split(1), ["one step: planning took 1,000 tokens beside 4,000 of executing", "no worker began"]),
        (
            Split(1, 1, 1_200),
            [
                "one step: planning took 1,000 tokens beside 4,000 of executing",
                f"one worker began, with 1,200 {BEGINNING}; a second would have had as many of its own, ≈ 1,200",
            ],
        ),
        (
            Split(3, 2, 2_000, 500),
            [
                "3 steps: planning took 1,000 tokens beside 4,000 of executing",
                f"2 workers began, with 2,000 {BEGINNING}, those after the first with 500:"
                " together with planning 30% of the tokens",
            ],
        ),
        (
            Split(3, 2, 2_000, 500, estimated=True),
            [
                "3 steps: planning took 1,000 tokens beside 4,000 of executing",
                f"2 workers began, with ≈ 2,000 {BEGINNING}, those after the first with ≈ 500:"
                " together with planning ≈ 30% of the tokens",
            ],
        ),
    ],
    ids=["no plan", "a call", "one worker", "two workers", "not all measured"],
)
def test_splitting_a_goal_is_told_from_the_ledger_and_a_guess_is_marked(split: Split, said: list[str]) -> None:
    assert split_lines(split, planning=1_000, executing=4_000) == said


def study(id_: str, *needs: str) -> Any:
    return {"id": id_, "kind": "worker", "worker": "researcher", "task": f"Read {id_}.", "needs": list(needs)}


READ = {"turns": [{"calls": [{"tool": "ledger.read_item", "arguments": {"key": "plan"}}]}]}
DONE = {
    "status": "done",
    "summary": "Friday.",
    "findings": [{"claim": "It ships on Friday.", "evidence": [0]}],
    "confidence": 0.9,
}


@pytest.mark.e2e
@pytest.mark.parametrize("names", [("one",), ("one", "two", "three")], ids=len)
async def test_a_real_run_tells_what_its_workers_began_with(tmp_path: Path, names: tuple[str, ...]) -> None:
    steps = {name: {"attempts": [READ | {"report": DONE}]} for name in names}
    async with open_test_product(tmp_path, script=script(*map(study, names), steps=steps)) as (product, _):
        run_id = await product.start(Request("When does it ship?", "", goal_label="user"))
        assert (await product.until(run_id, lambda run: run.ended)).status == "succeeded"
        cost = await cost_of(product.store, run_id)
        called = [event.data for event in await product.store.events(run_id) if event.type == "model.called"]
    first = [data["input_tokens"] for data in called if data["key"].endswith("/attempt.1/turn.1")]
    assert (len(first), cost.split.workers, cost.split.steps) == (len(names),) * 3
    assert (cost.split.began_with, cost.split.estimated) == (sum(first), False)
    assert cost.split.further in {sum(first) - each for each in first}
    sys.stdout.write("\n".join(cost_lines(cost)) + "\n")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert called(*words) == 0
    return capsys.readouterr().out


def test_the_command_prints_it_for_people_and_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    run_id = anyio.run(stored_run)
    words: Sequence[str] = ("runs", "show", run_id, "--cost")
    assert printed(capsys, *words).startswith("step")
    whole = json.loads(printed(capsys, *words, "--json"))
    assert (whole["run_id"], whole["total"]["model_calls"], whole["lines"]) == (run_id, 0, [])
