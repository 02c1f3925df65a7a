"""Starts each step the moment its last need has ended, takes in its end, and lets go when only waits remain."""

import logging
from collections.abc import Sequence
from typing import Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from downstream.door import Waiting
from executors.contract import Outcome
from journal.actions import Action
from journal.errors import Fenced, MemoMismatch, StoreError
from journal.events import NewEvent

from .chronicle import Chronicle, Ended
from .halts import Halts, limit_of
from .plan import AnyStep
from .revise import Standing
from .watch import LOOK_SECONDS, Interrupted, watched

log = logging.getLogger(__name__)
End: TypeAlias = Literal["ended", "parked"]
Fatal: TypeAlias = Fenced | MemoMismatch | StoreError
StepEnd: TypeAlias = Outcome | Waiting | Fatal
Message: TypeAlias = tuple[str, StepEnd] | None
_CHANNEL = 4_096
"""Each step has at most one message under way, and no plan has so many steps."""
_UNSEEN = frozenset({"decided", "withdrawn", "expired"})


async def dispatch(chronicle: Chronicle, halts: Halts, *, parallel: int) -> End | Interrupted:
    """Run the plan until nothing can proceed. Raises Fenced, MemoMismatch and StoreError."""
    send, receive = anyio.create_memory_object_stream[Message](_CHANNEL)
    with send, receive:
        dispatcher = _Dispatcher(chronicle, halts, send, receive, parallel=parallel)
        chronicle.standing = dispatcher.standing
        return await watched(
            chronicle.journal, dispatcher.run, glance=dispatcher.glance, deadline=lambda: not halts.out_of_time
        )


class _Dispatcher:
    """What runs and what waits now. A message of None says that a person may have answered a question of the run."""

    def __init__(
        self,
        chronicle: Chronicle,
        halts: Halts,
        send: MemoryObjectSendStream[Message],
        receive: MemoryObjectReceiveStream[Message],
        *,
        parallel: int,
    ) -> None:
        self.chronicle = chronicle
        self.halts = halts
        self.journal = chronicle.journal
        self.progress = chronicle.progress
        self.parallel = parallel
        self.running: set[str] = set()
        self.waiting: dict[str, Waiting] = {}
        self._send = send
        self._receive = receive
        self._group: TaskGroup | None = None
        self._tried: set[tuple[str, str]] = set()
        self._letting_go = False

    def standing(self) -> Standing:
        return Standing(frozenset(self.running), frozenset(self.waiting))

    async def run(self, group: TaskGroup) -> End:
        """Start, wait for what ends, and take it in, until all is done or only waits remain."""
        self._group = group
        await self.chronicle.go_on()
        while True:
            await self.halts.settle_revision()
            self._forget_dropped()
            self._start_ready()
            if self.running:
                await self._take(await self._receive.receive())
                continue
            # From here on nothing is resumed, so that no step runs when the run is let go of.
            self._letting_go = True
            if (end := await self._let_go()) is not None:
                return end
            self._letting_go = False

    async def _let_go(self) -> End | None:
        """With nothing running: the end of this drive; None if there is something to do after all."""
        halted = await self.halts.settle()
        if halted == "on":
            return None
        if halted == "end" or (halted == "none" and not self.waiting and self.progress.pending is None):
            return "ended"
        if await self.journal.park(self._wake_at()):
            return "parked"
        await self._look_again()
        return None

    def _start_ready(self) -> None:
        if self.halts.stopped:
            return
        for step in self.progress.ready({*self.running, *self.waiting}):
            if len(self.running) >= self.parallel:
                break
            self._start(step)

    def _start(self, step: AnyStep) -> None:
        assert self._group is not None
        self.running.add(step.id)
        self._group.start_soon(self._carry_out, step)

    async def _carry_out(self, step: AnyStep) -> None:
        end: StepEnd
        try:
            await self._show_start(step)
            end = await self.chronicle.desk.execute(self.journal, self.progress.assignment(step))
        except Exception as error:  # one step may break without its siblings
            end = _fatal(error) or _broken(step.id, error)
            if isinstance(end, Outcome):
                log.exception("step_broke", extra={"run": self.journal.run.id, "step": step.id})
        self._send.send_nowait((step.id, end))

    async def _show_start(self, step: AnyStep) -> None:
        said = {"kind": step.kind, "worker": step.worker if step.kind == "worker" else None}
        events = [] if step.id in self.chronicle.began else [NewEvent("step.started", said, step=step.id)]
        self.chronicle.began.add(step.id)
        await self.journal.put_step_status(step.id, "running", events=events)

    async def _take(self, message: Message) -> None:
        if message is None:
            return
        step_id, end = message
        # Until it is taken in, a step counts as running, so that no revision drops it.
        if isinstance(end, Waiting):
            self.running.discard(step_id)
            self.waiting[step_id] = end
            await self.journal.put_step_status(step_id, "waiting")
        elif isinstance(end, Outcome):
            self.running.discard(step_id)
            await self._end(self.progress.every[step_id], end)
        else:
            raise end

    async def _end(self, step: AnyStep, outcome: Outcome) -> None:
        limit = limit_of(outcome)
        if limit is not None and self.halts.may_raise:
            self.halts.hold(outcome, limit)
            await self.journal.put_step_status(step.id, "waiting")
        else:
            await self.chronicle.add(Ended(outcome, limit))

    def _forget_dropped(self) -> None:
        for step_id in [id_ for id_ in self.waiting if id_ not in self.progress.plan.by_id]:
            del self.waiting[step_id]

    async def glance(self) -> None:
        """Resume the waiting steps about which something was decided, while their siblings run."""
        if self._letting_go or not (self.waiting or self.progress.pending):
            return
        actions = await self.journal.actions()
        if self._letting_go:
            return
        if any(action.step is None and not action.handled and action.state in _UNSEEN for action in actions):
            self._poke()
        plan, leaving = self.progress.plan.by_id, self.progress.leaving
        for step_id in [id_ for id_ in self.waiting if id_ in plan and id_ not in leaving]:
            if self._may_go_on(step_id, actions):
                del self.waiting[step_id]
                self._start(plan[step_id])

    def _poke(self) -> None:
        if self._receive.statistics().current_buffer_used == 0:
            self._send.send_nowait(None)

    def _may_go_on(self, step_id: str, actions: list[Action]) -> bool:
        """Whether there is news for the step, each piece of which counts once."""
        waiting = self.waiting[step_id]
        news: set[tuple[str, str]] = {
            (action.id, action.state)
            for action in actions
            if (action.step == step_id and not action.handled and action.state in _UNSEEN)
            or (action.id == waiting.action and action.state != "waiting")
        }
        if waiting.until is not None and waiting.until <= self.journal.world.now():
            news.add((waiting.action, "lapsed"))
        fresh = news - self._tried
        self._tried |= fresh
        return bool(fresh)

    def _wake_at(self) -> float | None:
        """When the first of the waits lapses."""
        untils = (*(waiting.until for waiting in self.waiting.values()), *self.halts.untils.values())
        return min((until for until in untils if until is not None), default=None)

    async def _look_again(self) -> None:
        """Something was decided right before parking: have it seen, also if it was tried before."""
        ring = self.journal.bell.listen(self.journal.run.id)
        await self.chronicle.clear_strays()
        self._letting_go = False
        await self.glance()
        if not self.running:
            self._tried.clear()
            with anyio.move_on_after(LOOK_SECONDS):
                await ring.wait()


def _fatal(error: BaseException) -> Fatal | None:
    """The error that ends the drive, where one stands inside a group."""
    if isinstance(error, Fenced | MemoMismatch | StoreError):
        return error
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return next((found for one in inner if (found := _fatal(one)) is not None), None)


def _broken(step_id: str, error: Exception) -> Outcome:
    said = f"an unexpected error stopped the step ({type(error).__name__}); see the log"
    return Outcome(step_id, "failed", problem=said)
