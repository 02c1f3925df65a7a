"""Attaching to a run: a call waits with the host, reports progress and shows forms, but never does the work itself."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from downstream.gate.form_fields import ContentUnfit
from downstream.gate.forms import holds_its_call
from journal.actions import SAYS_NO, Action
from journal.errors import DecisionRefused, StoreError
from journal.runs import Run
from journal.tasks import open_tasks
from server.product import Product
from server.views.action_view import a_host_decides, without_secrets
from server.views.run_view import RunView
from server.views.view import needed_settings

from .depth import depth_of
from .forms import Answered, decision_from, form_message, form_request, form_schema
from .progress import Progress

STATE_SECONDS = 86_400.0
"""How long a person may think over one round of questions."""
_ROUNDS = 8
"""Hosts give up after ten rounds of questions; we stop asking before that."""
_WAIT = 45.0
_PATIENT_HOSTS = {"claude-code": 300.0}
"""Hosts (by clientInfo.name) known to reset their clock on progress, with how long they may be kept waiting."""


@dataclass(frozen=True)
class Host:
    """The client behind one request: what it can show, and for how long it waits."""

    context: ServerRequestContext[Any, Any]
    state: str | None = None
    responses: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str | None:
        params = self.context.session.client_params
        return None if params is None else params.client_info.name

    @property
    def depth(self) -> int:
        """How many steprelays stand above this call. Raises TooDeep."""
        return depth_of(os.environ, dict(self.context.meta or {}))

    @property
    def shows_forms(self) -> bool:
        declared = self.context.session.client_capabilities
        elicitation = None if declared is None else declared.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)

    @property
    def is_modern(self) -> bool:
        return is_version_at_least(self.context.protocol_version, "2026-07-28")

    def patience(self, wanted: float | None) -> float:
        """Seconds to wait for: what was asked for, never more than the host is known to bear."""
        limit = _PATIENT_HOSTS.get(self.name or "", _WAIT)
        return limit if wanted is None else min(wanted, limit)


@dataclass
class Attachment:
    """One call that waits for one run. `asked` holds the actions whose form was shown for this call, in all rounds."""

    product: Product
    host: Host
    run_id: str
    round: int = 0
    asked: set[str] = field(default_factory=set[str])
    problem: str | None = None
    """Why what somebody filled in did not count."""

    def __post_init__(self) -> None:
        self._progress = Progress(self.product.store, self.host.context.session, self.run_id)

    async def wait(self, seconds: float) -> RunView | InputRequiredResult:
        """The run when it has ended, when only a person can move it on, or when the time is up; or questions."""
        with anyio.move_on_after(seconds):
            question = await self._follow()
            if question is not None:
                return question
        return await self.view()

    async def view(self) -> RunView:
        """The run as it is now, which counts as delivered."""
        view = await delivered(self.product, await self.product.view(self.run_id))
        return view if self.problem is None else view.model_copy(update={"message": self.problem})

    async def take_answers(self) -> bool:
        """Act on the answers that came with a request of protocol 2026-07-28; false for a state used before."""
        state = json.loads(self.host.state or "{}")
        self.round, self.asked = int(state["round"]), set(state["asked"])
        store = self.product.store
        now = store.world.now()
        if not await store.remembered.add("request_state", state["nonce"], True):
            return False
        # A state that is older is refused before it gets here.
        await store.remembered.forget("request_state", before=now - STATE_SECONDS)
        seconds = now - float(state["asked_at"])
        for action_id, result in self.host.responses.items():
            if action_id in self.asked:
                action = await store.action(action_id)
                await self._take(Answered(action, result, seconds, self.host.name))
        return True

    async def _follow(self) -> InputRequiredResult | None:
        store = self.product.store
        while True:
            changed = store.bell.listen(self.run_id)
            run = await store.run(self.run_id)
            await self._progress.report()
            if run.ended or await self._is_stuck(run):
                return None
            if waiting := await self._waits_for(run):
                new = [action for action in waiting if self._may_ask(run, action)]
                if not new:
                    return None
                if self.host.is_modern:
                    return self._as_question(new)
                await self._ask_now(new)
                continue
            await self._progress.until(changed)

    async def _is_stuck(self, run: Run) -> bool:
        """Whether the store fails under the run, or no living process may go on with it."""
        if self.product.trouble_of(run.id) is not None:
            return True
        if self.product.speaks_for(run):
            return False
        return await needed_settings(self.product.store, run) is not None

    async def _waits_for(self, run: Run) -> list[Action]:
        """The waiting actions of a run that has nothing else to do; of one at work, those that keep a call open."""
        actions = [action for action in await self.product.store.actions(run.id) if action.state == "waiting"]
        if run.status == "awaiting_approval" and run.driver is None and run.wake_at != 0:
            return actions
        return [action for action in actions if holds_its_call(action)]

    def _may_ask(self, run: Run, action: Action) -> bool:
        fits = self.host.shows_forms and self.round < _ROUNDS and action.id not in self.asked
        return fits and a_host_decides(action) and self.product.speaks_for(run)

    def _as_question(self, actions: Sequence[Action]) -> InputRequiredResult:
        self.asked |= {action.id for action in actions}
        world = self.product.store.world
        state = {
            "run": self.run_id,
            "round": self.round + 1,
            "asked": sorted(self.asked),
            "asked_at": world.now(),
            "nonce": world.new_id("n"),
        }
        outlet = self.product.store.outlet
        requests: dict[str, Any] = {action.id: form_request(without_secrets(action, outlet)) for action in actions}
        return InputRequiredResult(input_requests=requests, request_state=json.dumps(state))

    async def _ask_now(self, actions: Sequence[Action]) -> None:
        """Show the forms of an older host, one after the other."""
        self.asked |= {action.id for action in actions}
        self.round += 1
        for action in actions:
            await self._ask_one(action)

    async def _ask_one(self, action: Action) -> None:
        world, shown = self.product.store.world, without_secrets(action, self.product.store.outlet)
        answers: list[object] = []
        began = world.monotonic()
        async with open_tasks() as group:
            group.start_soon(self._close_when_decided, action, group.cancel_scope)
            # A host that cannot be asked after all, or answers nonsense, has not decided.
            with suppress(MCPError, ValidationError):
                answers.append(
                    await self.host.context.session.elicit_form(
                        form_message(shown), form_schema(shown), related_request_id=self.host.context.request_id
                    )
                )
        for answer in answers:
            await self._take(Answered(action, answer, world.monotonic() - began, self.host.name))

    async def _speaks(self) -> bool:
        # A form that a process with other settings showed may be answered at this one.
        return self.product.speaks_for(await self.product.store.run(self.run_id))

    async def _close_when_decided(self, action: Action, form: anyio.CancelScope) -> None:
        """Tell the host every 10 s that we live, and take the form away once somebody decided elsewhere."""
        store = self.product.store
        while True:
            changed = store.bell.listen(self.run_id)
            if (await store.action(action.id)).state != "waiting":
                form.cancel()
            await self._progress.report()
            await self._progress.until(changed)

    async def _take(self, answered: Answered) -> None:
        try:
            decision = decision_from(answered, min_seconds=self.product.settings.approvals.min_answer_seconds)
        except ContentUnfit as error:
            self.problem, decision = f"Action {answered.action.id} still waits: {error}.", None
        if decision is not None and (decision.choice in SAYS_NO or await self._speaks()):
            # Somebody else may have decided meanwhile, and what they said holds.
            with suppress(DecisionRefused):
                await self.product.decide(answered.action, decision)


async def delivered(product: Product, view: RunView) -> RunView:
    """The view; where the run has ended, a repeated request is a new run from now on, if that can be noted."""
    if view.stop_reason is not None:
        with suppress(StoreError):
            await product.store.mark_delivered(view.run_id)
    return view
