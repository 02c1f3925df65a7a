"""What steprelay can be asked to do, whoever asks: hosts through MCP tools, people through the command line."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

import anyio

from journal.actions import SAYS_NO, Action, Decision, LevelTooLow, NewAction
from journal.canonical import NotCanonical, digest
from journal.engine import Engine
from journal.errors import DecisionRefused, SteprelayError
from journal.runs import NewRun, Run
from journal.store import Store
from journal.values import Json, JsonObject
from planner.settings import BudgetRequest

from .run_view import RunView
from .settings import Settings
from .view import run_view

_CANCEL_SECONDS = 5.0
"""A cancelled run has so long to end before it is shown as it is."""


AS_SET = BudgetRequest()
"""No limit is lowered."""


@dataclass(frozen=True)
class Request:
    """A goal with what its caller wants; `goal_label` says whether a person typed it or a host's model wrote it."""

    goal: str
    context: str = ""
    review_plan: bool = False
    budget: BudgetRequest = AS_SET
    idempotency_key: str | None = None
    goal_label: Literal["user", "host"] = "host"
    plan: JsonObject | None = None
    interactive: bool = False
    depth: int = 0
    options: JsonObject = field(default_factory=dict[str, Json])


@dataclass(frozen=True)
class Word:
    """A decision as it came through `approve_action`: `tool` and `arguments` repeat what is approved."""

    action_id: str
    decision: str
    tool: str | None = None
    arguments: Json = None
    note: str | None = None
    content: Json = None
    client: str | None = None


@dataclass(frozen=True)
class Product:
    """One settings file at work on one store: made by `server/assembly.py`. `driver` is this process's lease."""

    settings: Settings
    store: Store
    engine: Engine
    driver: str
    command: str
    warm_up: Callable[[], None]
    edited: Callable[[Action, JsonObject], Awaitable[NewAction]]
    problem: SteprelayError | None = None
    """Why no run can begin (no model was found); runs that are there can still be looked at and decided upon."""

    async def start(self, request: Request) -> str:
        """Create the run of this request, or find the one that it repeats; returns its id.

        Raises KeyInUse, or NoModelFound where no model could be asked.
        """
        if self.problem is not None:
            raise self.problem
        budget, lowered = self.settings.budget.lowered_by(request.budget)
        options: JsonObject = request.options | {
            "budget": budget.model_dump(mode="json"),
            "review_plan": request.review_plan,
            "interactive": request.interactive,
            "depth": request.depth,
            "warnings": [*self.settings.warnings, *lowered],
        }
        if request.plan is not None:
            options["plan"] = request.plan
        new = NewRun(
            owner=self.store.owner,
            fingerprint=self.settings.fingerprint,
            settings_path=str(self.settings.path or "the built-in defaults"),
            goal=request.goal,
            goal_label=request.goal_label,
            context=request.context,
            options=options,
            idempotency_key=request.idempotency_key,
        )
        run_id, created = await self.store.create_or_attach(new, driver=self.driver)
        if created:
            await self.engine.wake(run_id)
        return run_id

    async def view(self, run_id: str, *, detail: bool = False) -> RunView:
        """Raises UnknownId."""
        return await run_view(self.store, run_id, command=self.command, detail=detail)

    async def decide(self, action: Action, decision: Decision) -> None:
        """Record a decision and have its run go on. Raises DecisionRefused or LevelTooLow."""
        await self.store.decide(action, decision)
        await self.engine.wake(action.run)

    async def take_word(self, word: Word) -> str | None:
        """Act on `approve_action`. None if the decision counts, else a sentence that says why the action still waits.

        Raises UnknownId or DecisionRefused.
        """
        action = await self.store.action(word.action_id)
        decision = Decision(word.decision, "host", "approve_action", word.note, word.content, word.client)
        if word.decision not in action.choices or action.state != "waiting" or word.decision in SAYS_NO:
            await self.decide(action, decision)
            return None
        if (short := self._too_little(action, word)) is not None:
            return short
        try:
            await self.decide(action, decision)
        except LevelTooLow as error:
            return self._only_by(action, error.needed)
        return None

    def _too_little(self, action: Action, word: Word) -> str | None:
        if self.settings.approvals.approve_action == "person":
            return self._only_by(action, "person")
        if action.level != "host":
            return self._only_by(action, action.level)
        if not _repeats(action, word):
            return (
                f"Action {action.id} still waits: show the user exactly what it does, and if they agree call "
                "approve_action again with `tool` and `arguments` repeated exactly as the action shows them."
            )
        return None

    def _only_by(self, action: Action, level: str) -> str:
        return (
            f"Action {action.id} still waits: it needs a yes of level {level}, which approve_action cannot give. "
            f"A person decides it in a terminal: {self.command} approve {action.id}"
        )

    async def cancel(self, run_id: str, reason: str) -> None:
        """Have the run end as cancelled, and wait a little for it. Raises UnknownId."""
        run = await self.store.run(run_id)
        if not await self.store.request_cancel(run, reason):
            return
        await self.engine.wake(run_id)
        with anyio.move_on_after(_CANCEL_SECONDS):
            await self.until(run_id, lambda now: now.ended)

    async def until(self, run_id: str, holds: Callable[[Run], bool]) -> Run:
        """Wait, for ever if need be, until something holds of the run. Raises UnknownId."""
        while True:
            changed = self.store.bell.listen(run_id)
            run = await self.store.run(run_id)
            if holds(run):
                return run
            await changed.wait()

    async def action_of(self, run_id: str, action_id: str) -> Action:
        """The action, if it belongs to that run. Raises UnknownId or DecisionRefused."""
        action = await self.store.action(action_id)
        if action.run != run_id:
            raise DecisionRefused(f"action {action_id} belongs to run {action.run}, not to {run_id}")
        return action


def _repeats(action: Action, word: Word) -> bool:
    if word.arguments is None or word.tool != action.tool:
        return False
    try:
        return digest(word.arguments) == digest(action.arguments)
    except NotCanonical:
        return False
