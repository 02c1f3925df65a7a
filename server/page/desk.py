"""What a person may do at the page: see all that waits, decide it, and ask for a call with other arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from downstream.gate.forms import checked_content
from downstream.gate.grants import exactly
from downstream.servers.catalogue import remembered_tools
from downstream.tools import Tool
from journal.actions import SAYS_NO, Action, Decision
from journal.errors import DecisionRefused, UnknownId
from journal.grants import Grant
from journal.steps import StepRow
from journal.values import Json, JsonObject
from server.granting import Granter, Life, NotOffered, Offer, grant_of, plan_digest
from server.host.edits import Editor
from server.product import Product
from server.views.view import needed_settings, run_lines
from server.views.words import counted

from .cards import Background, action_card, run_card
from .classing import Word, class_tool, shown_tool, tool_cards, unclassed_tools
from .edits import Edit, edit_shown
from .passkey_file import passkeys_missing
from .passkeys import Passkeys, approving, mark_of
from .seen import Seen

_RECENT = 12


@dataclass(frozen=True)
class Asked:
    """A decision as it came from a browser; `digest` is the hash of the action that was shown there.

    `passkey` is what a passkey signed for it, `grants` the steps of a plan whose calls need no further question.
    """

    action_id: str
    choice: str
    digest: str
    note: str | None = None
    content: Json = None
    passkey: JsonObject | None = None
    grants: tuple[str, ...] = ()


class Desk:
    """One product's runs and actions, for signed-in persons; `by` names a person's session."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self.store = product.store
        self._seen = Seen()
        self._tools_seen = Seen()

    @property
    def min_seconds(self) -> float:
        """How long an action must have been shown before a yes to it counts."""
        return self._product.settings.approvals.min_answer_seconds

    def plain(self, text: str) -> str:
        """The text without secrets."""
        return self.store.outlet.text(text)

    async def state(self, *, by: str) -> JsonObject:
        """All that waits, by run, and the latest runs. What it holds counts as shown from now on."""
        waiting = await self.store.waiting_actions()
        self._seen.note(waiting, by, now=self.store.world.monotonic())
        runs = [await self._run(run_id, waiting) for run_id in dict.fromkeys(action.run for action in waiting)]
        lines = await run_lines(self.store, await self.store.runs(limit=_RECENT))
        recent: list[JsonObject] = [line.model_dump(mode="json") for line in lines]
        return {"runs": [run for run in runs if run is not None], "recent": recent}

    async def decide(self, asked: Asked, passkeys: Passkeys, *, by: str) -> JsonObject:
        """Record a person's decision, with what they grant of a plan.

        Raises UnknownId, DecisionRefused, LevelTooLow, SignInRefused or ContentUnfit.
        """
        action = await self.as_shown(asked.action_id, asked.digest)
        if asked.choice not in SAYS_NO:
            self._check_seen(self._seen, action, by)
        content = checked_content(action, asked.choice, asked.content)
        decision = Decision(asked.choice, "person", "page", asked.note, content, by)
        grants = await self._granted(action, asked.grants) if asked.choice == "approve" else []
        if action.level == "passkey" and asked.choice not in SAYS_NO and asked.passkey is not None:
            used = await passkeys.check(approving(action, asked.choice), asked.passkey, by=by)
            decision = replace(decision, level="passkey", via="passkey", client=mark_of(used))
        await self._product.decide(action, decision, grants=grants)
        return {"message": self.store.outlet.text(await self._recorded(action, asked.choice, len(grants)))}

    async def _recorded(self, action: Action, choice: str, granted: int) -> str:
        run = await self.store.run(action.run)
        if run.ended:
            return "Recorded. Its run has ended, so nothing is sent."
        needed = await needed_settings(self.store, run)
        given = f" {counted(granted, 'call')} granted." if granted else ""
        waits = f" Its run goes on once a process with {needed} is alive." if needed else ""
        return f"Recorded: {choice}.{given}{waits}"

    async def edit(self, edit: Edit, *, by: str) -> JsonObject:
        """Have a call wait with other arguments; nothing runs.

        Raises UnknownId, DecisionRefused, ArgumentsUnread or EditRefused.
        """
        action = await self.as_shown(edit.action_id, edit.digest)
        self._check_seen(self._seen, action, by)
        return await edit_shown(self._product, action, edit, editor=Editor("page", by))

    async def unclassed_tools(self, *, by: str) -> JsonObject:
        """The tools whose servers say nothing of them; what it holds counts as shown from now on."""
        tools = await unclassed_tools(self._product)
        self._tools_seen.note(tools, by, now=self.store.world.monotonic())
        return tool_cards(self._product, tools)

    async def class_tool(self, word: Word, *, by: str) -> JsonObject:
        """Take a person's word on what a tool is. Raises NotToConfirm or DecisionRefused."""
        tool = shown_tool(await unclassed_tools(self._product), word)
        self._check_seen(self._tools_seen, tool, by)
        return await class_tool(self._product, tool, word, client=by)

    async def _run_card(self, run_id: str) -> tuple[JsonObject, list[StepRow]]:
        run, steps = await self.store.run(run_id), await self.store.steps(run_id)
        return run_card(run, steps, await self.store.usage(run), outlet=self.store.outlet), steps

    async def _run(self, run_id: str, waiting: list[Action]) -> JsonObject | None:
        try:
            card, steps = await self._run_card(run_id)
            actions = [await self._card(action, steps) for action in waiting if action.run == run_id]
        except UnknownId:
            # It was removed a moment ago.
            return None
        return card | {"actions": actions}

    async def _card(self, action: Action, steps: list[StepRow]) -> JsonObject:
        before = None if action.edit_of is None else await self.store.action(action.edit_of)
        offers = tuple(await self._offers(action))
        card = action_card(action, Background(self.store.outlet, steps, before, editable=True, offers=offers))
        if action.level != "passkey" or (why := passkeys_missing()) is None:
            return card
        return card | {"told": [*card["told"], f"A yes takes a passkey, and {why}."]}

    async def _offers(self, action: Action) -> list[Offer | NotOffered]:
        """The calls of a plan that waits which would be asked about; none under settings that are not the run's."""
        settings, run = self._product.settings, await self.store.run(action.run)
        if action.kind != "plan" or run.fingerprint != settings.fingerprint:
            return []
        tools = await remembered_tools(self.store.remembered, settings.servers)
        return Granter.of(settings, tools, self.store.outlet).offers(action.arguments["steps"], goal=run.goal)

    async def _granted(self, action: Action, steps: Sequence[str]) -> list[Grant]:
        """One-use grants for exactly these calls of a plan. Raises DecisionRefused for one that is not offered."""
        if not steps:
            return []
        offers = {offer.step: offer for offer in await self._offers(action) if isinstance(offer, Offer)}
        if unknown := [step for step in steps if step not in offers or offers[step].filled]:
            raise DecisionRefused(f"step {unknown[0]} cannot be granted here; nothing was decided")
        plan = plan_digest(action.arguments["steps"])
        return [
            grant_of(offers[step], exactly(offers[step].arguments), plan=plan, life=Life(), world=self.store.world)
            for step in dict.fromkeys(steps)
        ]

    async def as_shown(self, action_id: str, digest: str) -> Action:
        """The action, if it is what was shown. Raises UnknownId, DecisionRefused."""
        action = await self.store.action(action_id)
        if action.hash != digest:
            raise DecisionRefused(f"action {action_id} is not what was shown; look at it again, then decide")
        return action

    def _check_seen(self, seen: Seen, shown: Action | Tool, by: str) -> None:
        seen.check(shown, by, now=self.store.world.monotonic(), least=self.min_seconds)
