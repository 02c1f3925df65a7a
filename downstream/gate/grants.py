"""Grants at the gate: whether a call that would be asked about is just what a person granted beforehand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from downstream.json_shape import is_array
from downstream.policy_settings import Matcher, PolicySettings
from downstream.servers.listing import fingerprint_of
from downstream.settings import ServerSettings
from downstream.tools import Tool
from journal.actions import NewAction
from journal.canonical import canonical, digest
from journal.grants import NOT_COVERED, Grant
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject, is_clean

from .matchers import holds
from .prompt_text import is_shown, quoted
from .stages import Case, Gate
from .targets import argument_of, targets

CONDITIONS = ("equals", "prefix", "one_of")
"""What a grant may say of an argument; any other condition would leave too much open."""


@dataclass(frozen=True)
class Terms:
    """What decides, besides its arguments, what a call of a tool would do."""

    tool: Tool
    policy: PolicySettings
    server: ServerSettings | None

    @property
    def bound(self) -> str:
        """SHA-256 over the definition, its server and the policy: with any change a grant is void."""
        server = fingerprint_of(self.server)
        policy = [self.policy.model_dump(mode="json"), self.tool.class_]
        return digest({"tool": self.tool.full_name, "pin": self.tool.pin, "server": server, "policy": policy})


def exactly(arguments: JsonObject) -> JsonObject:
    """The conditions of a grant for these arguments and no others."""
    return {name: {"equals": value} for name, value in arguments.items()}


def covers(conditions: JsonObject, arguments: JsonObject) -> bool:
    """Whether these are just the arguments that the conditions name, and each meets its own."""
    return set(conditions) == set(arguments) and all(_meets(conditions[name], arguments[name]) for name in conditions)


async def granted(gate: Gate, journal: RunJournal, case: Case, new: NewAction) -> Grant | NewAction:
    """The grant by which the call may go out; else what is asked, with the reason why a grant for its step is no help.

    Only for a call as the first plan has it. As a target, what came from a tool is covered where the grant holds that
    very value, and never by a prefix.
    """
    if not case.has_effect or case.call.origin not in ("plan", "retry") or case.edited:
        return new
    if not (grants := await journal.grants.open(case.call.step)):
        return new
    plan = await _plan_of(journal)
    why = ""
    for grant in grants:
        why = _why_not(gate, grant, case, new) or _outdated(grant, plan, at=journal.world.now())
        if not why:
            return grant
    return replace(new, reasons=(*new.reasons, f"{NOT_COVERED}{why}"))


async def _plan_of(journal: RunJournal) -> str | None:
    recorded = (await journal.records("plan")).get("plan")
    return None if recorded is None else digest(recorded["steps"])


def _outdated(grant: Grant, plan: str | None, *, at: float) -> str:
    if grant.plan != plan:
        return "the run follows another plan"
    return "" if at < grant.expires_at else "it has expired"


def _why_not(gate: Gate, grant: Grant, case: Case, new: NewAction) -> str:
    if new.level == "passkey":
        return "a passkey is needed"
    if grant.bound != Terms(case.tool, gate.policy, gate.servers.get(case.tool.server)).bound:
        return "the tool, its server or the policy was changed since"
    filled = gate.options(case.tool).idempotency_key
    arguments = {name: value for name, value in case.call.arguments.data.items() if name != filled}
    if not covers(grant.arguments, arguments) or not is_shown(arguments):
        return "its arguments are others"
    for pointer, _ in targets(case.tool, arguments, gate.policy):
        label = case.call.arguments.label_at(pointer) | case.call.read
        if "prefix" in grant.arguments[argument_of(pointer)] and not is_clean(label):
            return f"its target {quoted(argument_of(pointer))} came from outside"
    return ""


def _meets(condition: Mapping[str, Json], value: Json) -> bool:
    if set(condition) == {"equals"}:
        return canonical(condition["equals"]) == canonical(value)
    if set(condition) == {"one_of"} and is_array(condition["one_of"]):
        return any(canonical(one) == canonical(value) for one in condition["one_of"])
    if set(condition) == {"prefix"} and isinstance(value, str):
        return holds(Matcher(prefix=condition["prefix"]), value, of="all") is True
    return False
