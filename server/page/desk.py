"""What a person may do at the page: see all that waits, decide it, and ask for a call with other arguments."""

from dataclasses import dataclass

from downstream.gate.forms import checked_content
from downstream.servers.catalogue import remembered_tools
from downstream.servers.confirmed import NotToConfirm, confirm, confirmed_classes
from downstream.tools import Tool, ToolClass
from journal.actions import SAYS_NO, Action, Decision
from journal.errors import DecisionRefused, UnknownId
from journal.steps import StepRow
from journal.values import Json, JsonObject
from server.host.edits import edit_action
from server.product import Product
from server.views.view import needed_settings, run_lines

from .cards import Background, action_card, run_card, tool_card
from .seen import Seen

_RECENT = 12


@dataclass(frozen=True)
class Asked:
    """A decision as it came from a browser; `digest` is the hash of the action that was shown there."""

    action_id: str
    choice: str
    digest: str
    note: str | None = None
    content: Json = None


class Desk:
    """One product's runs and actions, for signed-in persons; `by` names a person's session."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._store = product.store
        self._seen = Seen()

    @property
    def min_seconds(self) -> float:
        """How long an action must have been shown before a yes to it counts."""
        return self._product.settings.approvals.min_answer_seconds

    def plain(self, text: str) -> str:
        """The text without secrets."""
        return self._store.outlet.text(text)

    async def state(self, *, by: str) -> JsonObject:
        """All that waits, by run, and the latest runs. What it holds counts as shown from now on."""
        waiting = await self._store.waiting_actions()
        self._seen.note(waiting, by, now=self._store.world.monotonic())
        runs = [await self._run(run_id, waiting) for run_id in dict.fromkeys(action.run for action in waiting)]
        lines = await run_lines(self._store, await self._store.runs(limit=_RECENT))
        recent: list[JsonObject] = [line.model_dump(mode="json") for line in lines]
        return {"runs": [run for run in runs if run is not None], "recent": recent}

    async def run(self, run_id: str) -> JsonObject:
        """Raises UnknownId."""
        card, _ = await self._run_card(run_id)
        return card

    async def decide(self, asked: Asked, *, by: str) -> JsonObject:
        """Record a person's decision. Raises UnknownId, DecisionRefused, LevelTooLow or ContentUnfit."""
        action = await self._as_shown(asked.action_id, asked.digest)
        if asked.choice not in SAYS_NO:
            self._check_seen(action, by)
        content = checked_content(action, asked.choice, asked.content)
        await self._product.decide(action, Decision(asked.choice, "person", "page", asked.note, content, by))
        run = await self._store.run(action.run)
        if run.ended:
            return {"message": "Recorded. Its run has ended, so nothing is sent."}
        needed = await needed_settings(self._store, run)
        waits = f" Its run goes on once a process with {needed} is alive." if needed else ""
        return {"message": self._store.outlet.text(f"Recorded: {asked.choice}.{waits}")}

    async def edit(self, action_id: str, digest: str, arguments: JsonObject, *, by: str) -> JsonObject:
        """Have a call wait with other arguments; nothing runs. Raises UnknownId, DecisionRefused or EditRefused."""
        action = await self._as_shown(action_id, digest)
        self._check_seen(action, by)
        await edit_action(self._product, action, arguments, decision="approve")
        return {"message": "Nothing has run. The call with your arguments waits now."}

    async def unknown_tools(self) -> list[JsonObject]:
        """The tools whose servers say nothing of them, until a person has said what they are."""
        return [tool_card(tool, outlet=self._store.outlet) for tool in await self._unknown()]

    async def confirm(self, pin: str, class_: ToolClass, *, by: str) -> JsonObject:
        """Take a person's word on what a tool of this definition is. Raises NotToConfirm."""
        tool = next((tool for tool in await self._unknown() if tool.pin == pin), None)
        if tool is None:
            raise NotToConfirm("no tool of this definition waits to be classed; look at the list again")
        for run_id in await confirm(self._store, tool, class_, client=by):
            await self._product.engine.wake(run_id)
        return {"message": f"{tool.full_name} is {class_} from now on, as long as its definition stays."}

    async def _unknown(self) -> list[Tool]:
        remembered = self._store.remembered
        tools = await remembered_tools(remembered, self._product.settings.servers)
        confirmed = await confirmed_classes(remembered)
        return [tool for tool in tools if tool.class_ == "unknown" and tool.pin not in confirmed]

    async def _run_card(self, run_id: str) -> tuple[JsonObject, list[StepRow]]:
        run, steps = await self._store.run(run_id), await self._store.steps(run_id)
        return run_card(run, steps, await self._store.usage(run), outlet=self._store.outlet), steps

    async def _run(self, run_id: str, waiting: list[Action]) -> JsonObject | None:
        try:
            card, steps = await self._run_card(run_id)
            actions = [await self._card(action, steps) for action in waiting if action.run == run_id]
        except UnknownId:
            # It was removed a moment ago.
            return None
        return card | {"actions": actions}

    async def _card(self, action: Action, steps: list[StepRow]) -> JsonObject:
        before = None if action.edit_of is None else await self._store.action(action.edit_of)
        return action_card(action, Background(self._store.outlet, steps, before, editable=True))

    async def _as_shown(self, action_id: str, digest: str) -> Action:
        action = await self._store.action(action_id)
        if action.hash != digest:
            raise DecisionRefused(f"action {action_id} is not what was shown; look at it again, then decide")
        return action

    def _check_seen(self, action: Action, by: str) -> None:
        """Raises DecisionRefused for a yes that came before anybody could have read what it is about."""
        self._seen.check(action, by, now=self._store.world.monotonic(), least=self.min_seconds)
