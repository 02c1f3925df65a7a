"""A planner floor over a real store: models and executors are plain functions that say what a test wants."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from downstream.door import Waiting
from downstream.models.structured import Question
from downstream.policy_settings import PolicySettings
from downstream.tools import Tool
from executors.contract import Assignment, Outcome
from executors.settings import WorkerSettings, built_in_workers
from journal.actions import Action, NewAction
from journal.ledger import Limits
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import NewRun, Run
from journal.store import Store, open_store
from journal.values import Value
from journal.world import World
from planner.desk import Desk
from planner.drive import make_drive
from planner.settings import BudgetSettings, Revise

Json = Any
StepFake = Callable[[RunJournal, Assignment], Awaitable[Outcome | Waiting]]
LIMITS = Limits(model_calls=80, tool_calls=120, tokens=600_000, usd=2.0, usd_day=10.0, seconds=1800.0)


def tool(name: str, properties: Json = None, *, required: Sequence[str] = (), class_: Any = "read") -> Tool:
    """A tool `server.name` with a plain schema."""
    server, _, short = name.partition(".")
    schema: Json = {
        "type": "object",
        "properties": properties or {},
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(server, short, f"{server}__{short}", "", f"Does {short}. And more.", schema, None, {}, class_)


TOOLS = (
    tool("notes.search", {"query": {"type": "string"}, "limit": {"type": "integer"}}, required=["query"]),
    tool("notes.read", {"path": {"type": "string"}}, required=["path"]),
    tool("outbox.send", {"to": {"type": "string"}, "body": {"type": "string"}}, required=["to"], class_="write"),
)


def call(id_: str, *needs: str, **fields: Json) -> Json:
    """A call step that searches for its own id."""
    step = {"id": id_, "kind": "call", "tool": "notes.search", "arguments": {"query": id_}, "needs": list(needs)}
    return step | fields


def succeeded(step: str, data: Json = None) -> Outcome:
    return Outcome(step, "succeeded", summary=f"{step} done", value=Value(data or step, frozenset({"private:notes"})))


def failed(step: str, **fields: Json) -> Outcome:
    return Outcome(step, "failed", problem=f"{step} broke", **fields)


@dataclass
class Models:
    """Answers the questions of the planner floor, from the memo where they were asked before; `asked` logs the others.

    Entries are data, or an exception that is raised; plans and revisions are chosen by their number.
    """

    plans: Sequence[Json] = ()
    revisions: Sequence[Json] = ()
    answer: Json = "All is well."
    asked: list[Question[Any]] = field(default_factory=list[Question[Any]])
    before: Callable[[RunJournal, str], Awaitable[None]] | None = None

    async def ask(self, journal: RunJournal, key: str, question: Question[Any]) -> Json:
        async def make() -> Json:
            if self.before is not None:
                await self.before(journal, key)
            self.asked.append(question)
            reply = self._reply(question)
            if isinstance(reply, Exception):
                raise reply
            return reply

        return await journal.memo(key, question.meaning, make)

    def _reply(self, question: Question[Any]) -> Json:
        number = question.request.place.number
        match question.form.name:
            case "submit_plan":
                return self.plans[min(number, len(self.plans)) - 1]
            case "revise_plan":
                return self.revisions[min(number, len(self.revisions)) - 1]
            case _:
                return {"answer": self.answer} if isinstance(self.answer, str) else self.answer

    def count(self, name: str) -> int:
        return sum(question.form.name == name for question in self.asked)

    def texts(self, name: str) -> list[str]:
        """All that the model was told in each question of that name."""
        return [
            "\n".join(message.content for message in (*question.request.messages, *question.after))
            for question in self.asked
            if question.form.name == name
        ]


@dataclass
class Steps:
    """Carries out steps by functions of their id; without one a step succeeds. `calls` logs every start."""

    fakes: Mapping[str, StepFake] = field(default_factory=dict[str, StepFake])
    calls: list[str] = field(default_factory=list[str])
    inputs: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])

    async def execute(self, journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        step = assignment.step.id
        self.calls.append(step)
        self.inputs[step] = {need: value.data for need, value in assignment.inputs.items()}
        fake = self.fakes.get(step)
        return succeeded(step) if fake is None else await fake(journal, assignment)


def ending(outcome: Outcome) -> StepFake:
    """A step that always ends like this."""

    async def fake(journal: RunJournal, assignment: Assignment) -> Outcome:
        return outcome

    return fake


async def approval(journal: RunJournal, step: str, *, expires_in: float | None = None) -> Outcome | Waiting:
    """What a call that needs a yes does: wait, then act on the decision once."""
    action = await journal.action(f"{step}/approval")
    if action is None or action.state == "waiting":
        new = NewAction(
            f"{step}/approval", "call", "host", "Send?", {}, {"step": step}, step, step=step, expires_in=expires_in
        )
        asked = await journal.ask(new)
        return Waiting(asked.id, asked.expires_at)
    if not action.handled:
        await journal.settle_action(action)
    return succeeded(step) if action.choice == "approve" else Outcome(step, "refused", problem="a person said no")


def asks_first(step: str, *, expires_in: float | None = None) -> StepFake:
    async def fake(journal: RunJournal, assignment: Assignment) -> Outcome | Waiting:
        return await approval(journal, step, expires_in=expires_in)

    return fake


@dataclass
class Tools:
    """A catalogue of these tools."""

    listed: Sequence[Tool] = TOOLS
    gone: Mapping[str, str] = field(default_factory=dict[str, str])

    async def tools(self) -> Sequence[Tool]:
        return self.listed

    def missing(self) -> Mapping[str, str]:
        return self.gone

    def quarantined(self) -> Mapping[str, str]:
        return {}

    def warnings(self) -> list[str]:
        return [f"tool server {name!r} is left out: {reason}" for name, reason in self.gone.items()]


@dataclass
class Rig:
    """A store with a desk whose models and steps a test sets; `drive` is one drive of a run."""

    store: Store
    models: Models = field(default_factory=Models)
    steps: Steps = field(default_factory=Steps)
    tools: Tools = field(default_factory=Tools)
    workers: tuple[WorkerSettings, ...] = built_in_workers()
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    revise: Revise = "on_trigger"
    limits: Limits = LIMITS
    warnings: tuple[str, ...] = ()
    policy: PolicySettings = field(default_factory=PolicySettings)

    @property
    def desk(self) -> Desk:
        return Desk(
            self.models.ask,
            self.steps.execute,
            self.tools,
            self.workers,
            lambda tool: tool.full_name.endswith(".denied"),
            self.budget,
            self.revise,
            warnings=self.warnings,
            policy=self.policy,
        )

    async def new_run(self, goal: str = "find the budget", **options: Json) -> str:
        new = NewRun("me", "fp", "/settings.yaml", goal, "user", "", options)
        run_id, _ = await self.store.create_or_attach(new, driver="d")
        return run_id

    async def take(self, run_id: str) -> RunJournal:
        journal = await self.store.take(await self.store.run(run_id), driver="d", limits=lambda run: self.limits)
        assert journal is not None
        return journal

    async def drive(self, run_id: str) -> Run:
        """Drive the run until it ends or is parked."""
        await make_drive(self.desk)(await self.take(run_id))
        return await self.store.run(run_id)

    async def run(self, plan: Sequence[Json], **options: Json) -> Run:
        """A new run of this plan, driven once."""
        self.models.plans = [{"steps": list(plan)}]
        return await self.drive(await self.new_run(**options))

    async def waiting(self, run_id: str) -> list[Action]:
        """What waits for a person, as soon as anything does."""
        while True:
            ring = self.store.bell.listen(run_id)
            if found := await self.store.waiting_actions():
                return found
            await ring.wait()

    async def statuses(self, run_id: str) -> dict[str, str]:
        return {row.id: row.status for row in await self.store.steps(run_id) if not row.dropped}

    async def events(self, run_id: str, *types: str) -> list[Json]:
        """The data of the run's events of these types, with the step's id before it where there is one."""
        found = [event for event in await self.store.events(run_id) if event.type in types]
        return [event.data if event.step is None else (event.step, event.data) for event in found]

    async def order(self, run_id: str) -> list[tuple[str, str]]:
        """In which order the ends of steps were taken in."""
        return [(step, data["status"]) for step, data in await self.events(run_id, "step.ended")]


@asynccontextmanager
async def open_rig(folder: Path, world: World | None = None) -> AsyncGenerator[Rig]:
    async with open_store(folder / "s.db", world or World(), Outlet(), owner="me") as store:
        yield Rig(store)
