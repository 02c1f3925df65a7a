"""Asking whether a plan in doubt goes on, changes or ends; the decision is checked and recorded before it counts."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from downstream.budget import within_budget
from downstream.model_port import ModelFailed, Place
from downstream.models.door import NoModel
from downstream.models.structured import NoReply
from downstream.tools import Tool
from executors.contract import Outcome
from executors.wording import cut, shown, wrapped
from journal.errors import BudgetReached
from journal.events import NewEvent
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .asking import REVISION, as_said, question
from .cards import tool_line, worker_card
from .changes import Ground, check_change
from .checker import Bounds
from .desk import Desk
from .plan import PlanError, listed
from .progress import Change, Progress
from .search import tools_known
from .triggers import Trigger, recorded_look

TRIES = 3
"""A reviser is asked once and gets errors back at most twice; after that the plan goes on as it is."""


@dataclass(frozen=True)
class Standing:
    """Which steps run and which wait right now, as the dispatcher knows it."""

    running: Collection[str] = ()
    waiting: Collection[str] = ()

    def status(self, step: str, outcome: Outcome | None) -> str:
        if outcome is not None:
            return outcome.status
        if step in self.waiting:
            return "waiting"
        return "running" if step in self.running else "pending"


StandingNow: TypeAlias = Callable[[], Standing]


@dataclass(frozen=True)
class Scene:
    """What is to be decided upon: the run so far, and the trigger that puts its plan into doubt."""

    progress: Progress
    trigger: Trigger
    standing: StandingNow

    @property
    def number(self) -> int:
        """The number of the next question to the reviser."""
        return self.progress.asks + 1


async def is_decided(journal: RunJournal, number: int, progress: Progress) -> bool:
    """Whether all that follows from entry `number` of the run's order is recorded."""
    looked = await recorded_look(journal, number)
    if looked is None or looked.then != "ask":
        return looked is not None
    asked = progress.asks + 1
    return await journal.recall(f"revise.{asked}/decision", Meaning("decision", asked)) is not None


async def decide(journal: RunJournal, desk: Desk, scene: Scene) -> Change:
    """What becomes of the plan: as recorded, else as the reviser says. One that can't be asked changes nothing."""
    key, meaning = f"revise.{scene.number}", Meaning("decision", scene.number)
    if (found := await journal.recall(f"{key}/decision", meaning)) is not None:
        return Change.from_json(found.value)

    async def look() -> Json:
        done = [(each.step, each.tool) for each in await journal.intents() if each.state == "done" and not each.past]
        return snapshot(scene, done)

    seen = await journal.memo(f"{key}/snapshot", Meaning("snapshot", scene.number), look)
    change = await _asked(journal, desk, scene, seen=seen)
    if change.decision != "widen":
        # Nothing of this is resumed between here and the moment from which the revision counts.
        scene.progress.leaving = frozenset(change.drop)
    said = {"decision": change.decision, "drop": list(change.drop), "add": listed(change.add), "reason": change.reason}
    await journal.record(f"{key}/decision", meaning, change.to_json(), events=[NewEvent("revision.made", said)])
    return change


def snapshot(scene: Scene, done: Sequence[tuple[str, str]] = ()) -> JsonObject:
    """What the reviser sees of the run: the plan, and typed facts about its steps; no result and no tool's words.

    `done` are the calls with an effect that were made so far, each a step and a tool.
    """
    progress, standing = scene.progress, scene.standing()
    steps: list[JsonObject] = []
    for step in progress.plan.steps:
        outcome = progress.outcomes.get(step.id)
        said: JsonObject = {"step": step.model_dump(mode="json", exclude_defaults=True)}
        said["status"] = standing.status(step.id, outcome)
        tools = [tool for id_, tool in done if id_ == step.id]
        steps.append(said | (_facts(step.kind, outcome) if outcome is not None else _so_far(tools)))
    comments = [comment.text for comment in scene.trigger.comments]
    return {"steps": steps, "reasons": list(scene.trigger.reasons), "comments": comments}


def _so_far(tools: Sequence[str]) -> JsonObject:
    """What a step that has not ended did by now: dropped, it leaves that behind."""
    return {"changed_something": True, "done_by_now": list(tools)} if tools else {}


def _facts(kind: str, outcome: Outcome) -> JsonObject:
    facts: JsonObject = {"confidence": outcome.confidence, "attempts": outcome.attempts}
    if outcome.effects:
        facts["changed_something"] = True
    if outcome.limit is not None:
        facts["stopped_by"] = outcome.limit
    if kind == "worker":
        facts |= {
            "summary": outcome.summary,
            "suggestions": list(outcome.suggestions),
            "plan_holds": outcome.plan_holds,
        }
        facts["findings"] = len(outcome.findings)
    elif outcome.status == "failed" and outcome.failed_calls:
        facts["why"] = "the tool answered with an error"
    elif outcome.status == "failed" and kind == "call":
        facts["why"] = "the call could not be made with these arguments"
    return facts


async def _asked(journal: RunJournal, desk: Desk, scene: Scene, *, seen: JsonObject) -> Change:
    progress, offer = scene.progress, await desk.offer()
    bounds = desk.bounds(offer, max_steps=desk.budget_of(journal.run).steps)
    tools = await tools_known(journal, bounds.offered)
    texts: tuple[str, ...] = (_first_message(journal, bounds, scene, seen=seen, tools=tools),)
    for asks in range(1, TRIES + 1):
        try:
            reply = await _ask(journal, desk, texts, number=progress.asks + asks)
        except BudgetReached as error:
            return Change("continue", "the budget allows no question to the reviser", asks=asks, limit=error.limit)
        except (NoReply, ModelFailed, NoModel) as error:
            await journal.warn(f"the plan was not revised: {cut(str(error), 300)}")
            return Change("continue", "the reviser could not be asked", asks=asks)
        try:
            return check_change(reply, Ground(progress, bounds, seen, scene.standing().running), asks=asks)
        except PlanError as error:
            errors = "\n".join(f"- {problem}" for problem in error.told)
        again = f"This can't be done:\n{errors}\nDecide again, with all of this put right."
        texts = (*texts, as_said(reply), again)
    await journal.warn("the plan was not revised: the reviser gave no valid revision")
    return Change("continue", "the reviser gave no valid revision", asks=TRIES)


async def _ask(journal: RunJournal, desk: Desk, texts: tuple[str, ...], *, number: int) -> JsonObject:
    key, asked = f"revise.{number}", question("reviser", REVISION, texts, meaning=number, place=Place(number=number))
    return await within_budget(journal, key, asked.meaning, partial(desk.ask, journal, key, asked))


def _first_message(
    journal: RunJournal, bounds: Bounds, scene: Scene, *, seen: JsonObject, tools: Sequence[Tool]
) -> str:
    run = journal.run
    workers = [worker for name, worker in bounds.workers.items() if name != "reviewer"]
    lines = "\n".join(map(tool_line, tools)) or "(there are none)"
    parts = [
        f"Goal:\n{wrapped(run.goal, origin='goal')}",
        f"The plan and what became of its steps:\n{wrapped(shown(seen['steps']), origin='run')}",
        f"Why it is looked at again:\n{wrapped(shown(seen['reasons']), origin='run')}" if seen["reasons"] else "",
        f"What a person said:\n{wrapped(shown(seen['comments']), origin='person')}" if seen["comments"] else "",
        "Workers:\n" + "\n".join(f"- {worker_card(worker, bounds.offered, tools)}" for worker in workers),
        f"Tools:\n{wrapped(lines, origin='tool servers')}",
        f"At most {bounds.max_steps} steps in the plan; revision {scene.progress.revisions + 1}.",
    ]
    return "\n\n".join(filter(None, parts))
