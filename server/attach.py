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

from journal.actions import Action
from journal.errors import DecisionRefused
from journal.runs import Run

from .depth import depth_of
from .forms import Answered, decision_from, form_request, form_schema
from .product import Product
from .progress import progress_line
from .run_view import RunView
from .view import needed_settings

_ROUNDS = 8
"""Hosts give up after ten rounds of questions; we stop asking before that."""
_HEARTBEAT = 10.0
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
    asked_at: float = 0.0

    async def wait(self, seconds: float) -> RunView | InputRequiredResult:
        """The run when it has ended, when only a person can move it on, or when the time is up; or questions."""
        bell, shown = self.product.store.bell, _Progress(self)
        question: list[InputRequiredResult] = []
        due = True
        with anyio.move_on_after(seconds):
            while True:
                changed = bell.listen(self.run_id)
                run = await self.product.store.run(self.run_id)
                await shown.report(due=due)
                if run.ended or await self._is_stuck(run):
                    break
                if (waiting := await self._waits_for(run)) is not None:
                    new = [action for action in waiting if self._may_ask(action)]
                    if new and self.host.is_modern:
                        question.append(await self._as_question(new))
                        break
                    if not new or not await self._ask_now(new):
                        break
                    continue
                with anyio.move_on_after(_HEARTBEAT) as pause:
                    await changed.wait()
                due = pause.cancelled_caught
        return question[0] if question else await self._final_view()

    async def take_answers(self) -> None:
        """Act on the answers that came with a request of protocol 2026-07-28, once for each state."""
        state = json.loads(self.host.state or "{}")
        self.round, self.asked = int(state["round"]), set(state["asked"])
        self.asked_at = float(state["asked_at"])
        if await self.product.store.remembered.get("request_state", state["nonce"]) is not None:
            return
        await self.product.store.remembered.put("request_state", state["nonce"], True)
        seconds = self.product.store.world.now() - self.asked_at
        for action_id, result in self.host.responses.items():
            if action_id in self.asked:
                action = await self.product.action_of(self.run_id, action_id)
                await self._take(Answered(action, result, seconds, self.host.name))

    async def _is_stuck(self, run: Run) -> bool:
        """Whether no living process may go on with the run."""
        if run.fingerprint == self.product.settings.fingerprint:
            return False
        return await needed_settings(self.product.store, run) is not None

    async def _waits_for(self, run: Run) -> list[Action] | None:
        """The waiting actions of a run that only a person can move on; None if it is not parked."""
        if run.status != "awaiting_approval" or run.driver is not None or run.wake_at == 0:
            return None
        actions = await self.product.store.actions(run.id)
        return [action for action in actions if action.state == "waiting"]

    def _may_ask(self, action: Action) -> bool:
        fits = action.level == "host" and self.host.shows_forms and self.round < _ROUNDS
        return fits and action.id not in self.asked

    async def _as_question(self, actions: Sequence[Action]) -> InputRequiredResult:
        self.asked |= {action.id for action in actions}
        world = self.product.store.world
        state = {
            "run": self.run_id,
            "round": self.round + 1,
            "asked": sorted(self.asked),
            "asked_at": world.now(),
            "nonce": world.new_id("n"),
        }
        requests: dict[str, Any] = {action.id: form_request(action) for action in actions}
        return InputRequiredResult(input_requests=requests, request_state=json.dumps(state))

    async def _ask_now(self, actions: Sequence[Action]) -> bool:
        """Show the forms of an older host one after the other; whether any was decided."""
        decided = False
        for action in actions:
            self.asked.add(action.id)
            self.round += 1
            decided |= await self._ask_one(action)
        return decided

    async def _ask_one(self, action: Action) -> bool:
        session, world = self.host.context.session, self.product.store.world
        if not session.can_send_request:
            return False
        began = world.monotonic()
        result: object = None
        async with anyio.create_task_group() as group:
            group.start_soon(_Progress(self).beat)
            with suppress(MCPError, ValidationError):
                result = await session.elicit_form(
                    action.question, form_schema(action), related_request_id=self.host.context.request_id
                )
            group.cancel_scope.cancel()
        return await self._take(Answered(action, result, world.monotonic() - began, self.host.name))

    async def _take(self, answered: Answered) -> bool:
        decision = decision_from(answered, min_seconds=self.product.settings.approvals.min_answer_seconds)
        if decision is None:
            return False
        try:
            await self.product.decide(answered.action, decision)
        except DecisionRefused:
            return False
        return True

    async def _final_view(self) -> RunView:
        view = await self.product.view(self.run_id)
        if view.stop_reason is not None:
            await self.product.store.mark_delivered(self.run_id)
        return view


class _Progress:
    """One line at each change and every 10 s, with a number that only grows."""

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment
        self._last = ""

    async def report(self, *, due: bool) -> None:
        line = await progress_line(self._attachment.product.store, self._attachment.run_id)
        if due or line != self._last:
            self._last = line
            await self._send(line)

    async def beat(self) -> None:
        while True:
            await anyio.sleep(_HEARTBEAT)
            await self._send(self._last or "waiting for a decision")

    async def _send(self, line: str) -> None:
        world = self._attachment.product.store.world
        await self._attachment.host.context.session.report_progress(world.monotonic(), None, line)
