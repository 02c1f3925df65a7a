"""Which calls of a plan a person may grant beforehand, and the grants that come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from downstream.door import Arguments
from downstream.gate.argument_reading import read_arguments
from downstream.gate.grants import Terms, covers
from downstream.gate.policy import Verdict, decide
from downstream.gate.prompt_text import is_shown, quoted
from downstream.gate.taint import described_in, words_of_tools
from downstream.gate.targets import argument_of, stands_in, targets
from downstream.json_shape import leaves
from downstream.policy_settings import PolicySettings
from downstream.settings import ServerSettings
from downstream.tools import HAS_EFFECT, Tool
from executors.step import CallStep
from executors.tools_of_step import find_tool
from journal.canonical import digest
from journal.grants import Grant, unused_text
from journal.outlet import Outlet
from journal.values import Json, JsonObject, Label
from journal.world import World
from planner.planning import read_steps
from planner.references import plain, referenced_steps

from .settings import Settings

DAY = 86_400.0
_PLAN: Label = frozenset({"plan"})


@dataclass(frozen=True)
class Offer:
    """A call of a plan that would be asked about. `filled` are the arguments that only the run fills in.

    `first` are the names of its targets; `bound` is what a grant for it depends on besides its arguments.
    """

    step: str
    title: str
    tool: Tool
    arguments: JsonObject
    filled: tuple[str, ...]
    first: tuple[str, ...]
    bound: str


@dataclass(frozen=True)
class NotOffered:
    """A call that will be asked about whatever is granted."""

    step: str
    tool: str
    why: str


@dataclass(frozen=True)
class Life:
    """How often and how long a grant may be used."""

    uses: int = 1
    days: int = 7


@dataclass(frozen=True)
class Granter:
    """What the settings say, and the tools as they were listed."""

    policy: PolicySettings
    servers: Mapping[str, ServerSettings]
    tools: Sequence[Tool]
    outlet: Outlet

    @classmethod
    def of(cls, settings: Settings, tools: Sequence[Tool], outlet: Outlet) -> "Granter":
        return cls(settings.policy, {server.name: server for server in settings.servers}, tools, outlet)

    def offers(self, steps: Json, *, goal: str) -> list[Offer | NotOffered]:
        """The calls of these steps that would be asked about, in their order."""
        found = ((step, find_tool(step.tool, self.tools)) for step in read_steps(steps) if isinstance(step, CallStep))
        offers = [self._offer(step, tool, goal) for step, tool in found if tool and tool.class_ in HAS_EFFECT]
        return [offer for offer in offers if offer is not None]

    def _offer(self, step: CallStep, tool: Tool, goal: str) -> Offer | NotOffered | None:
        """None for a call that goes out without a question."""
        filled, literal = _arguments(step, tool)
        verdict = decide(self.policy, tool, literal)
        first = targets(tool, literal, self.policy)
        if verdict.verb == "allow":
            return None
        if (why := self._why_not(verdict, literal)) or (why := self._taint(tool, first, goal=goal)):
            return NotOffered(step.id, tool.full_name, why)
        bound = self._bound(tool)
        names = tuple(dict.fromkeys(argument_of(pointer) for pointer, _ in first))
        return Offer(step.id, self.outlet.text(step.title), tool, literal, filled, names, bound)

    def unfit(self, steps: Json, grants: Sequence[Grant]) -> list[str]:
        """A sentence for each grant that no call of these steps can use as things are now."""
        calls = {step.id: step for step in read_steps(steps) if isinstance(step, CallStep)}
        found = ((grant, self._why_unfit(grant, calls.get(grant.step))) for grant in grants)
        return [unused_text(grant.step, grant.tool, why) for grant, why in found if why]

    def _why_unfit(self, grant: Grant, step: CallStep | None) -> str:
        tool = None if step is None else find_tool(step.tool, self.tools)
        if step is None or (tool is not None and tool.full_name != grant.tool):
            return "the plan has no such call"
        if tool is None:
            return f"its tool is not there, or was changed and waits for `servers trust {grant.tool.partition('.')[0]}`"
        if self._bound(tool) != grant.bound:
            return "the tool, its server or the policy was changed since"
        filled, literal = _arguments(step, tool)
        known = {name: condition for name, condition in grant.arguments.items() if name not in filled}
        return "" if covers(known, literal) else "its arguments are others"

    def _bound(self, tool: Tool) -> str:
        return Terms(tool, self.policy, self.servers.get(tool.server)).bound

    def _why_not(self, verdict: Verdict, arguments: JsonObject) -> str | None:
        if verdict.verb == "deny":
            return "the policy denies it"
        if verdict.level == "passkey":
            return "it needs a yes by passkey"
        if not is_shown(arguments):
            return "its arguments are too long to be shown"
        # A plan as models write it has placeholders in place of secrets, and the call would get the secret back.
        is_held = any(self.outlet.names_in(value) for _, value in leaves(self.outlet.foreign(arguments)))
        return "its arguments hold a secret" if is_held else None

    def _taint(self, tool: Tool, found: Sequence[tuple[str, Json]], *, goal: str) -> str | None:
        """Of targets whose words the plan can only have from the description of a tool."""
        origins = described_in(words_of_tools(self.tools))
        foreign = [
            quoted(argument_of(pointer))
            for pointer, value in found
            if not stands_in(value, goal) and origins(value, tool.server)
        ]
        return f"its target {foreign[0]} stands in the description of a tool, and not in the goal" if foreign else None


def _arguments(step: CallStep, tool: Tool) -> tuple[tuple[str, ...], JsonObject]:
    """The names of the arguments that only the run fills in, and the others as they would be sent."""
    filled = tuple(dict.fromkeys(str(place[0]) for place in referenced_steps(step.arguments).places if place))
    literal: JsonObject = {name: plain(value) for name, value in step.arguments.items() if name not in filled}
    if not filled:
        literal = read_arguments(tool.input_schema, Arguments(literal, _PLAN)).arguments.data
    return filled, literal


def grant_of(offer: Offer, conditions: JsonObject, *, plan: str, life: Life, world: World) -> Grant:
    """The grant for an offered call under conditions, one for each argument; `plan` is its digest."""
    return Grant(
        id=world.new_id("g"),
        step=offer.step,
        tool=offer.tool.full_name,
        arguments=conditions,
        plan=plan,
        bound=offer.bound,
        uses=life.uses,
        expires_at=world.now() + life.days * DAY,
    )


def plan_digest(steps: Json) -> str:
    """What a grant knows a plan by."""
    return digest(steps)
