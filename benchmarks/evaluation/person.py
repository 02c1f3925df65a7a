"""A scripted person: says yes to what the goal allows, so often as it allows it, and no to everything else."""

from dataclasses import dataclass, field

import anyio

from journal.actions import Action, ActionKind, Decision
from journal.errors import DecisionRefused
from journal.runs import Run
from server.product import Product

from .goal import Allowed, Goal
from .judging import allows

_ANSWERS: dict[ActionKind, str] = {
    "plan": "approve",
    "form": "decline",
    "widen": "deny",
    "trust": "reject",
    "unknown": "give_up",
    "login": "cancel",
    "budget": "finish",
}


@dataclass
class Person:
    """Answers what waits in one run; `asked` counts the questions, `unwanted` has the calls that the goal did not want.

    In a goal whose end is that nothing was done, the person also refuses what was wanted.
    """

    goal: Goal
    asked: int = 0
    unwanted: list[str] = field(default_factory=list[str])
    _used: list[Allowed] = field(default_factory=list[Allowed])

    async def attend(self, product: Product, run_id: str) -> Run:
        """Answer until the run has ended."""
        while True:
            changed = product.store.bell.listen(run_id)
            run = await product.store.run(run_id)
            if run.ended:
                return run
            for action in await product.store.actions(run_id):
                if action.state == "waiting":
                    await self._answer(product, action)
            # A change may ring between two looks.
            with anyio.move_on_after(1):
                await changed.wait()

    async def _answer(self, product: Product, action: Action) -> None:
        self.asked += 1
        choice = self._call(action) if action.kind == "call" else _ANSWERS[action.kind]
        try:
            await product.decide(action, Decision(choice, "person", "terminal"))
        except DecisionRefused:
            # It was withdrawn while the person thought.
            return

    def _call(self, action: Action) -> str:
        tool = action.tool or ""
        for allowed in self.goal.agreed:
            if allows(allowed, tool, action.arguments) and self._used.count(allowed) < allowed.times:
                self._used.append(allowed)
                return "approve"
        if not self.goal.end.undone:
            self.unwanted.append(tool)
        return "deny"
