"""Tool calls: memo, gate, intent, sending, result. The one implementation of `door.CallTool`."""

from contextlib import suppress
from dataclasses import replace
from typing import assert_never
from weakref import WeakKeyDictionary

import anyio

from downstream.budget import within_budget
from downstream.door import Arguments, Called, Refused, ToolCall, ToolEnd, Waiting
from downstream.servers.asking import NOT_RESUMED, AsksBack, Resumed
from downstream.servers.failures import CallFailed, NeedsLogin, NotAccepted
from downstream.servers.results import Normalised, keep, normalise
from downstream.tools import Tool
from journal.actions import Action
from journal.canonical import NotCanonical
from journal.errors import BudgetReached
from journal.grants import Leave
from journal.intents import Intent, IntentState, NewIntent
from journal.ledger import Amount, Reservation
from journal.run_journal import ApprovalGone, Meaning, RunJournal
from journal.values import WORST, Value

from .approvals import Approved, Lapsed, approval, drop_question, repetition_allowed
from .asked_back import Asked, Unanswered, collected, drop_open, last_asked, not_begun, note_asked, too_often
from .cache import Slot
from .call_record import (
    bounded,
    call_ended,
    call_started,
    end_from_json,
    end_to_json,
    failed_call,
    label_of_result,
    lapsed_call,
    new_intent,
    no_such_tool,
    plain_name,
)
from .call_state import Begun, Drive, Pending, changed_by_a_person, closed_as, edited_in, kept_as, reserved_again
from .login import ask_login, login_first
from .proof import proof_of
from .recovery import Closed, SendAgain, not_sent_again, what_next
from .sending import Send, deadline, outgoing
from .stages import Case, Gate, case_of, definition_is_unchanged, judge, repeats_safely
from .trust import tell_news, trust_first


class ToolDoor:
    """The way out for tool calls of all runs of this process; use it as a `CallTool`."""

    def __init__(self, gate: Gate, send: Send) -> None:
        self._gate = gate
        self._send_out = send
        self._drives: WeakKeyDictionary[RunJournal, Drive] = WeakKeyDictionary()

    async def __call__(self, journal: RunJournal, call: ToolCall) -> ToolEnd:
        """See `door.CallTool`."""
        meaning = Meaning("tool", {"tool": plain_name(call.tool), "arguments": call.arguments.data})
        try:
            _ = meaning.hash
        except NotCanonical as error:
            return Refused(call.tool, f"the arguments of {call.tool} are {error}", by="gate", correctable=True)
        if (found := await journal.recall(call.key, meaning)) is not None:
            return end_from_json(found.value)
        pending = Pending(journal, call, meaning, self._drives.setdefault(journal, Drive()))
        key = bounded(call.key, journal.limits)
        end = await within_budget(journal, key, meaning, lambda: self._carry_out(pending), step=call.step)
        if isinstance(end, Waiting):
            pending.drive.cache.clear()
        return end

    async def _carry_out(self, pending: Pending) -> ToolEnd:
        journal, call = pending.journal, pending.call
        await drop_open(journal, call.key)
        if (asked := await last_asked(journal, call.key)) is not None:
            return await self._go_on(pending, asked)
        # One that was put off for a login, or for its tool, did not run, and passes the gate anew.
        if (intent := await journal.intent(call.key)) is not None and intent.state != "not_done":
            return await self._resume(pending, intent)
        if not isinstance(tool := await self._tool(pending, call.tool), Tool):
            return tool
        if (edited := await edited_in(pending)) is not None:
            call = replace(call, arguments=Arguments(edited.arguments, WORST))
        case = case_of(self._gate, journal.run, call, tool, edited)
        async with pending.drive.turn_of(case):
            begun = await self._pass(pending, case)
        return await self._send(pending, begun) if isinstance(begun, Begun) else begun

    async def _tool(self, pending: Pending, name: str) -> Tool | ToolEnd:
        """The tool of a name, unless a person has to accept it first, or would not."""
        await self._gate.tools(name)
        full = plain_name(name)
        held = await trust_first(self._gate, pending.journal, pending.call, tool=full)
        if held is not None:
            return held if isinstance(held, Waiting) else await kept_as(pending, held)
        if (tool := self._gate.find(name)) is None:
            refused = definition_is_unchanged(self._gate, full) or no_such_tool(pending.call, self._gate)
            return await kept_as(pending, refused)
        return tool

    async def _pass(self, pending: Pending, case: Case) -> Begun | ToolEnd:
        while True:
            # A decision that came while it was looked at is read anew.
            with suppress(ApprovalGone):
                return await self._pass_once(pending, case)

    async def _pass_once(self, pending: Pending, case: Case) -> Begun | ToolEnd:
        verdict = await judge(self._gate, pending.journal, case)
        if isinstance(verdict, Refused):
            await drop_question(pending.journal, case.call.key)
            return await kept_as(pending, verdict)
        login = await login_first(self._gate, pending.journal, case)
        answer = login or await approval(self._gate, pending.journal, case, verdict)
        match answer:
            case Waiting():
                return answer
            case Refused():
                return await kept_as(pending, answer)
            case Lapsed(text):
                return await kept_as(pending, lapsed_call(pending.journal.world.new_id("c"), case.tool, text))
            case Approved(leave):
                slot = pending.drive.cache.slot(case.tool, case.hash)
                if leave is None and (hit := await self._hit(pending, case, slot)) is not None:
                    return hit
                begun = Begun(case, pending.journal.world.new_id("c"), slot, verdict)
                return await self._begin(pending, begun, leave)
            case _:
                assert_never(answer)

    async def _begin(self, pending: Pending, begun: Begun, leave: Leave | None) -> Begun:
        journal, case = pending.journal, begun.case
        if case.has_effect:
            await self._gate.open(case.run.id, case.tool.server)
        event = call_started(case, begun.id, leave) if begun.resumed is NOT_RESUMED else None
        reservation = Reservation(pending.call.key, Amount(tool_calls=1), step=case.call.step)
        until = deadline(self._gate, case.tool, now=journal.world.now())
        intent: NewIntent | None = None
        if case.has_effect:
            proof = proof_of(self._gate, case, begun.verdict, leave)
            intent = new_intent(case, begun.id, leave, proof=proof, deadline=until)
        journal.world.reach("send.begin")
        try:
            await journal.begin_call(reservation, event=event, intent=intent)
        except BudgetReached:
            # The run may wait for a person to raise the budget, and must not stay awake for this decision.
            if isinstance(leave, Action):
                await journal.settle_action(leave)
            raise
        if isinstance(leave, Action) and intent is None:
            await journal.settle_action(leave)
        if case.tool.class_ != "read":
            pending.drive.cache.end(case.tool.server)
        return begun

    async def _send(self, pending: Pending, begun: Begun) -> ToolEnd:
        journal = pending.journal
        try:
            return await self._sent(pending, begun)
        except AsksBack as asks:
            if (asked := await note_asked(journal, begun.case, asks, call=begun.id)) is not None:
                return await self._go_on(pending, asked)
        failed = CallFailed(too_often(begun.case.tool.server), may_have_run=False)
        return await self._lost(pending, begun, failed, began=journal.world.monotonic())

    async def _go_on(self, pending: Pending, asked: Asked) -> ToolEnd:
        """A call that its server has not begun, since it asked a person first."""
        journal = pending.journal
        await not_begun(journal, pending.call.key)
        if not isinstance(tool := await self._tool(pending, asked.tool), Tool):
            return tool
        call = replace(pending.call, tool=asked.tool, arguments=Arguments(asked.arguments, WORST))
        case = Case(journal.run, call, tool, asked.hash, await edited_in(pending))
        match await collected(self._gate, journal, case, asked):
            case Waiting() as waiting:
                return waiting
            case Unanswered(text):
                called = lapsed_call(asked.call, tool, text)
                return await kept_as(pending, called, call_ended(called, call.step, ms=0))
            case resumed:
                answer = await self._pass_again(pending, case, call=asked.call, resumed=resumed)
        match answer:
            case Begun():
                return await self._send(pending, answer)
            case Waiting():
                return answer
            case Refused():
                return await kept_as(pending, answer)
            case Lapsed(text):
                called = lapsed_call(asked.call, tool, text)
                return await kept_as(pending, called, call_ended(called, call.step, ms=0))
            case _:
                assert_never(answer)

    async def _pass_again(
        self,
        pending: Pending,
        case: Case,
        *,
        call: str,
        action: Action | None = None,
        resumed: Resumed = NOT_RESUMED,
    ) -> Begun | Waiting | Refused | Lapsed:
        """The gate for a call that was let out once. No yes is needed anew, unless an equal effect was had meanwhile;
        `action`, a person's `retry`, is one for that too."""
        async with pending.drive.turn_of(case):
            verdict = await judge(self._gate, pending.journal, case)
            leave: Leave | None = action
            if isinstance(verdict, Refused):
                return verdict
            if leave is None:
                answer = await repetition_allowed(self._gate, pending.journal, case)
                if not isinstance(answer, Approved):
                    return answer
                leave = answer.leave
            slot = pending.drive.cache.slot(case.tool, case.hash)
            return await self._begin(pending, Begun(case, call, slot, verdict, resumed=resumed), leave)

    async def _sent(self, pending: Pending, begun: Begun) -> ToolEnd:
        case, safe = begun.case, repeats_safely(self._gate, begun.case.tool)
        began = pending.journal.world.monotonic()
        out = outgoing(self._gate, pending.journal, case, begun.resumed)
        try:
            raw = await self._send_out(out)
        except CallFailed as failed:
            # One that took all its time is not waited for again at once.
            if not failed.may_have_run or failed.late or not safe or not await reserved_again(pending):
                return await self._lost(pending, begun, failed, began=began)
            begun = replace(begun, repeated=True)
            try:
                raw = await self._send_out(out)
            except CallFailed as again:
                return await self._lost(pending, begun, again, began=began)
        result = normalise(raw)
        # What an effect answered is written down, whoever cancels the run meanwhile.
        ended: list[Called] = []
        with anyio.CancelScope(shield=case.has_effect):
            called = await self._called(pending, begun, result)
            ended.append(await self._end(pending, begun, called, began=began, did_run=result.did_run))
        await tell_news(self._gate, pending.journal, case.tool.server, told=pending.drive.told)
        return ended[0]

    async def _called(self, pending: Pending, begun: Begun, result: Normalised) -> Called:
        journal, case, outlet = pending.journal, begun.case, pending.journal.outlet
        label = label_of_result(case)
        result = replace(result, text=outlet.text(result.text), value_data=outlet.foreign(result.value_data))
        kept = await keep(journal, result, step=case.call.step, call=begun.id, label=label)
        # Then what a read was made for is gone; an effect stays one, whatever became of its receipt.
        lost = result.value_data == "" and bool(result.blobs) and not kept.artifacts
        changed = f"{outlet.text(changed_by_a_person(case))}\n" if case.edited else ""
        return Called(
            call=begun.id,
            tool=case.tool.full_name,
            ok=result.ok and (case.has_effect or not lost),
            value=Value(kept.value_data, label),
            text=changed + kept.text,
            empty=result.empty,
            effect=case.has_effect and not case.tool.idempotent,
            artifacts=kept.artifacts,
            repeated=begun.repeated,
            session=result.session,
            links=tuple(map(outlet.text, result.links)),
            changed=case.has_effect and case.tool.idempotent,
        )

    async def _lost(self, pending: Pending, begun: Begun, failed: CallFailed, *, began: float) -> ToolEnd:
        journal, tool = pending.journal, begun.case.tool
        is_held = isinstance(failed, NotAccepted) and self._gate.held(tool.full_name) is not None
        if isinstance(failed, NeedsLogin) or is_held:
            return await self._put_off(pending, begun, failed)
        if not failed.may_have_run or not begun.case.has_effect or tool.idempotent:
            called = failed_call(begun.id, tool, journal.outlet.text(failed.text))
            changed = failed.may_have_run and begun.case.has_effect
            called = replace(called, repeated=begun.repeated, changed=changed)
            return await self._end(pending, begun, called, began=began)
        await journal.lose_call(pending.call.key)
        return await self._carry_out(pending)

    async def _put_off(self, pending: Pending, begun: Begun, why: CallFailed) -> ToolEnd:
        """A call that did not run, and may once somebody has logged in at its server or accepted its tool."""
        journal, case = pending.journal, begun.case
        failed = failed_call(begun.id, case.tool, why.text)
        events = [call_ended(failed, pending.call.step, ms=0)]
        if case.has_effect:
            await journal.lose_call(pending.call.key, state="not_done", events=events)
        else:
            await journal.abandon_call(pending.call.key, events=events)
        if isinstance(why, NotAccepted):
            return await self._carry_out(pending)
        answer = await ask_login(self._gate, journal, case)
        if isinstance(answer, Waiting):
            return answer
        return await kept_as(pending, lapsed_call(begun.id, case.tool, answer.text))

    async def _end(
        self, pending: Pending, begun: Begun, called: Called, *, began: float, did_run: bool = False
    ) -> Called:
        journal, case = pending.journal, begun.case
        ms = round(1000 * (journal.world.monotonic() - began))
        state: IntentState = "done" if called.ok or did_run else "failed"
        await journal.end_call(
            pending.call.key,
            pending.meaning,
            end_to_json(called),
            intent=state if case.has_effect else None,
            events=[call_ended(called, pending.call.step, ms=ms)],
        )
        if case.tool.class_ != "read":
            pending.drive.cache.end(case.tool.server)
        elif called.ok:
            pending.drive.cache.put(begun.slot, called, now=journal.world.monotonic())
        return called

    async def _hit(self, pending: Pending, case: Case, slot: Slot) -> Called | None:
        if case.tool.class_ != "read" or not case.tool.cache or pending.call.fresh:
            return None
        world = pending.journal.world
        if (kept := pending.drive.cache.get(slot, now=world.monotonic())) is None:
            return None
        # What this call was made from may be more private than what the first one was.
        value = replace(kept.value, label=kept.value.label | label_of_result(case))
        called = replace(kept, call=world.new_id("c"), value=value, session=None)
        ended = call_ended(called, pending.call.step, ms=0, cached=True)
        return await kept_as(pending, called, call_started(case, called.call), ended)

    async def _resume(self, pending: Pending, intent: Intent) -> ToolEnd:
        """A call that was begun: nobody knows whether it ran."""
        after = await what_next(self._gate, pending.journal, call=pending.call, intent=intent, read=self)
        match after:
            case Waiting():
                return after
            case Closed():
                return await closed_as(pending, after)
            case SendAgain(tool, action):
                return await self._send_again(pending, intent, tool, action)
            case _:
                assert_never(after)

    async def _send_again(self, pending: Pending, intent: Intent, tool: Tool, action: Action | None) -> ToolEnd:
        call = replace(pending.call, tool=intent.tool, arguments=Arguments(intent.arguments, WORST))
        case = Case(pending.journal.run, call, tool, intent.arguments_hash, await edited_in(pending))
        try:
            answer = await self._pass_again(pending, case, call=intent.call, action=action)
        except ApprovalGone:
            return await self._carry_out(pending)
        match answer:
            case Begun():
                return await self._send(pending, answer)
            case Waiting():
                return answer
            case Refused(reason=why) | Lapsed(why):
                return await closed_as(pending, await not_sent_again(pending.journal, intent, action, why=why))
            case _:
                assert_never(answer)
