"""What steprelay can be asked to do, whoever asks: hosts through MCP tools, people through the command line."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio

from downstream.gate.form_fields import ContentUnfit
from downstream.gate.forms import checked_content
from journal.actions import SAYS_NO, Action, Decision, NewAction
from journal.canonical import NotCanonical, digest
from journal.engine import Engine
from journal.errors import SteprelayError
from journal.grants import Grant
from journal.runs import NewRun, Run
from journal.store import Store
from journal.values import Json, JsonObject
from planner.settings import BudgetRequest

from .installed import Spoken
from .page.link import PageLink
from .page.passkey_file import passkey_warnings
from .settings import Settings
from .settings_file.found import user_settings_path
from .views.action_view import fits_a_host, with_page, yes_by_passkey
from .views.run_view import RunView
from .views.view import run_view

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
    grants: tuple[Grant, ...] = ()
    depth: int = 0
    warnings: tuple[str, ...] = ()
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


def settings_path(settings: Settings) -> str:
    """Where a run says that its settings come from."""
    return str(settings.path or "the built-in defaults")


def new_run(settings: Settings, request: Request, *, owner: str) -> NewRun:
    """The row of a run for this request under these settings."""
    budget, lowered = settings.budget.lowered_by(request.budget)
    options: JsonObject = request.options | {
        "budget": budget.model_dump(mode="json"),
        "review_plan": request.review_plan,
        "interactive": request.interactive,
        "depth": request.depth,
        "warnings": [*settings.warnings, *lowered, *passkey_warnings(settings.policy), *request.warnings],
    }
    if request.plan is not None:
        options["plan"] = request.plan
    return NewRun(
        owner=owner,
        fingerprint=settings.fingerprint,
        settings_path=settings_path(settings),
        goal=request.goal,
        goal_label=request.goal_label,
        context=request.context,
        options=options,
        idempotency_key=request.idempotency_key,
        grants=request.grants,
    )


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
    check: Callable[[JsonObject], Awaitable[None]]
    """Whether a plan could run under these settings; raises PlanError with all that is wrong."""
    trouble_of: Callable[[str], str | None]
    """Why a run is held up in this process, while its store fails."""
    problem: SteprelayError | None = None
    """Why no run can begin (no model was found); runs that are there can still be looked at and decided upon."""
    page: PageLink = field(default_factory=PageLink)

    async def start(self, request: Request) -> str:
        """Create the run of this request, or find the one that it repeats; returns its id.

        Raises KeyInUse, GrantSpent, or NoModelFound where no model could be asked.
        """
        if self.problem is not None:
            # Kept, and raised for every call: its traceback would keep each of them alive.
            raise self.problem.with_traceback(None)
        new = new_run(self.settings, request, owner=self.store.owner)
        run_id, created = await self.store.create_or_attach(new, driver=self.driver)
        if created:
            await self.engine.wake(run_id)
        return run_id

    async def view(self, run_id: str, *, detail: bool = False) -> RunView:
        """Raises UnknownId."""
        view = await run_view(
            self.store,
            run_id,
            spoken=self._spoken,
            vouched=self.hosts_vouch_for(await self.store.run(run_id)),
            detail=detail,
            trouble=self.trouble_of(run_id),
        )
        shown = [with_page(action, self.page.of(action.action_id)) for action in view.actions]
        return view.model_copy(update={"actions": shown})

    def speaks_for(self, run: Run) -> bool:
        """Whether these settings are the run's: what others say of hosts counts for nothing in it."""
        return run.fingerprint == self.settings.fingerprint

    def hosts_vouch_for(self, run: Run) -> bool:
        """Whether a yes by `approve_action` counts in the run, for actions that a host may decide."""
        return self.speaks_for(run) and self.settings.approvals.approve_action == "host"

    @property
    def _spoken(self) -> Spoken:
        """Commands as they are typed elsewhere, told where to find the same settings."""
        is_usual = self.settings.path == user_settings_path()
        return Spoken(self.command, None if is_usual else self.settings.path)

    async def decide(self, action: Action, decision: Decision, *, grants: Sequence[Grant] = ()) -> None:
        """Record a decision, with what is granted by it, and have its run go on.

        Raises DecisionRefused or LevelTooLow.
        """
        await self.store.decide(action, decision, grants=grants)
        await self.engine.wake(action.run)

    async def take_word(self, word: Word) -> str | None:
        """Act on `approve_action`. None if the decision counts, else a sentence that says why the action still waits.

        Raises UnknownId or DecisionRefused.
        """
        action = await self.store.action(word.action_id)
        await self.store.check_writable(action.run)
        is_open = action.state == "waiting" and word.decision in action.choices
        if is_open and word.decision not in SAYS_NO:
            run = await self.store.run(action.run)
            if (short := self._too_little(action, word, run)) is not None:
                return short
        try:
            content = checked_content(action, word.decision, word.content) if is_open else None
        except ContentUnfit as error:
            return f"Action {action.id} still waits: {error}. Ask the user; never fill it in yourself."
        await self.decide(action, Decision(word.decision, "host", "approve_action", word.note, content, word.client))
        return None

    def _too_little(self, action: Action, word: Word, run: Run) -> str | None:
        still, spoken = f"Action {action.id} still waits:", self._spoken
        address = self.page.of(action.id)
        where = f"on the page, {address} or in a terminal" if address else "in a terminal"
        elsewhere = f"A person decides it {where}: {spoken(f'approve {action.id}')}"
        if action.level == "passkey":
            elsewhere = f"{f'On the page: {address} ' if address else ''}{yes_by_passkey(spoken)}"
        if action.level == "host" and not self.speaks_for(run):
            other = f"its run belongs to other settings ({run.settings_path}), for which this host cannot speak"
            return f"{still} {other}. {elsewhere}"
        if action.level != "host" or not self.hosts_vouch_for(run):
            level = "person" if action.level == "host" else action.level
            return f"{still} it needs a yes of level {level}, which approve_action cannot give. {elsewhere}"
        if not fits_a_host(action):
            return f"{still} what it does is too long to be shown here. {elsewhere}"
        if not self._repeats(action, word):
            repeat = "`tool` and `arguments`" if action.tool else "`arguments`"
            return (
                f"{still} show the user exactly what it does, and if they agree call approve_action again with "
                f"{repeat} repeated exactly as the action shows them."
            )
        return None

    def _repeats(self, action: Action, word: Word) -> bool:
        if word.arguments is None or (action.tool is not None and word.tool != action.tool):
            return False
        shown = self.store.outlet.foreign(action.arguments)
        try:
            return digest(word.arguments) in (digest(action.arguments), digest(shown))
        except NotCanonical:
            return False

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
