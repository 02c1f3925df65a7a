"""The gate that every tool call passes, stage by stage in the order of DESIGN section 7.

The approval is in `approvals`; what follows, the intent and the sending, in `calls`. No stage may be left out, and none
lets through what it cannot tell.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from downstream.door import Refused, ToolCall
from downstream.json_shape import is_object
from downstream.policy_settings import PolicySettings
from downstream.servers.pins import Accepting
from downstream.settings import ApprovalSettings, ServerSettings, ToolOptions
from downstream.tools import HAS_EFFECT, Tool
from journal.actions import Action
from journal.canonical import digest
from journal.errors import BudgetReached
from journal.outlet import Outlet
from journal.run_journal import RunJournal
from journal.runs import Run
from journal.values import Json

from .argument_check import argument_errors
from .argument_reading import read_arguments
from .policy import Verdict, decide
from .prompt_text import LARGEST_ARGUMENTS, size_of
from .restored import filled_in, masked, secrets_raise
from .taint import Flow, described_in, raise_for_taint, words_of_tools
from .targets import targets

FindTool: TypeAlias = Callable[[str], Tool | None]
"""The usable tool of a full name, or of a name as models or hosts write it."""

WhyHeld: TypeAlias = Callable[[str], str | None]
"""Why the tool of a full name may not be used until a person accepts its definition, if so."""

NeedsLogin: TypeAlias = Callable[[str, bool], bool]
"""Whether calls of a server are of no use before somebody logs in; with the second, somebody has been asked to."""


OpenServer: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Opens the connection of a run to a server, unless it is open; whether that worked, the call itself will tell."""


async def _opened_by_the_call(run: str, server: str) -> None:
    """Nothing is opened before it is called."""


@dataclass(frozen=True)
class Gate:
    """What the gate knows besides the call: tools and their pins, and what the user's settings say.

    `tools` gives all that are usable, for a call of the tool of a name, whose server it learns first where need be;
    after that, `find` knows that one's.
    """

    tools: Callable[[str], Awaitable[Sequence[Tool]]]
    find: FindTool
    held: WhyHeld
    policy: PolicySettings
    approvals: ApprovalSettings
    servers: Mapping[str, ServerSettings]
    needs_login: NeedsLogin = lambda server, asked: False
    missing: Callable[[str], str | None] = lambda server: None
    """Why a server could not be listed, so that nobody knows its tools."""
    open: OpenServer = _opened_by_the_call
    """Before an effect is written down: a process that dies while a server starts leaves nothing that may have run."""
    pins: Accepting | None = None
    """The pins of the tools, where they are kept; without them what is held stays so."""
    outlet: Outlet = field(default_factory=Outlet)
    """Knows the secrets, and which servers they are for."""

    def options(self, tool: Tool) -> ToolOptions:
        settings = self.servers.get(tool.server)
        return settings.options.for_tool(tool.name) if settings else ToolOptions()


@dataclass(frozen=True)
class Case:
    """A call on its way out, with its tool; `call.arguments` is exactly what would be sent, secrets as placeholders.

    `hash` is that of the arguments without our own idempotency key; `edited` is the action in which a person or host
    changed them; `read_as` says what was read in another way than it was written.
    """

    run: Run
    call: ToolCall
    tool: Tool
    hash: str
    edited: Action | None = None
    read_as: tuple[str, ...] = ()

    @property
    def has_effect(self) -> bool:
        return self.tool.class_ in HAS_EFFECT


def case_of(gate: Gate, run: Run, call: ToolCall, tool: Tool, edited: Action | None = None) -> Case:
    """The case for a call: its arguments read by the tool's schema, and the idempotency key filled in where the
    settings name an argument for it."""
    call, filled = masked(call, gate.outlet), gate.options(tool).idempotency_key
    arguments = call.arguments
    if filled is not None:
        # The same for every repeat of this call, in whichever process, and for no other call.
        keyed = arguments.data | {filled: f"{run.id}:{call.step}:{call.key.partition('/')[2]}"}
        parts = dict(arguments.parts) | {f"/{filled}": frozenset({"config"})}
        arguments = replace(arguments, data=keyed, parts=parts)
    reading = read_arguments(tool.input_schema, arguments)
    plain = {name: value for name, value in reading.arguments.data.items() if name != filled}
    sent = replace(call, tool=tool.full_name, arguments=reading.arguments)
    return Case(run, sent, tool, digest(plain), edited, reading.read_as)


async def judge(gate: Gate, journal: RunJournal, case: Case) -> Verdict | Refused:
    """All stages before the approval. Raises BudgetReached."""
    refused = arguments_fit(gate, case) or definition_is_unchanged(gate, case.tool.full_name) or tool_is_listed(case)
    if refused is not None:
        return refused
    verdict = taint_raises(gate, case, policy_says(gate, case), await gate.tools(case.tool.full_name))
    raised = secrets_in(gate, case, await repetition_raises(journal, case, verdict))
    if isinstance(raised, Refused):
        return raised
    return await _allowed(journal, case, raised)


async def _allowed(journal: RunJournal, case: Case, verdict: Verdict) -> Verdict | Refused:
    if verdict.verb == "deny":
        return Refused(case.tool.full_name, "; ".join(verdict.reasons), by="gate")
    if verdict.verb == "ask":
        await budget_allows(journal)
    return verdict


def arguments_fit(gate: Gate, case: Case) -> Refused | None:
    """Stage 1: the arguments are valid against the tool's own schema; otherwise all that is wrong with them."""
    name, arguments = case.tool.full_name, filled_in(case.tool, case.call.arguments.data, gate.outlet)
    if size_of(arguments) > LARGEST_ARGUMENTS:
        most = f"{LARGEST_ARGUMENTS // 1024} KiB"
        return Refused(name, f"{name}: its arguments are above {most}; send less", by="gate", correctable=True)
    if not (errors := argument_errors(case.tool.input_schema, arguments)):
        return None
    properties: Json = case.tool.open_schema.get("properties")
    takes = ", ".join(properties if is_object(properties) else ()) or "no arguments"
    said = gate.outlet.text("; ".join(errors))
    return Refused(name, f"the arguments do not fit {name}: {said}. It takes: {takes}", by="gate", correctable=True)


def definition_is_unchanged(gate: Gate, name: str) -> Refused | None:
    """Stage 2: the tool is not held back because its definition changed; the connection looks again as it sends."""
    why = gate.held(name)
    return None if why is None else Refused(name, f"{name} may not be used: {why}", by="gate")


def tool_is_listed(case: Case) -> Refused | None:
    """Stage 3: the step lists this tool."""
    name = case.tool.full_name
    if name in case.call.allowed:
        return None
    listed = ", ".join(sorted(case.call.allowed)) or "no tool"
    return Refused(name, f"step {case.call.step} does not list {name}; it lists {listed}", by="gate")


async def budget_allows(journal: RunJournal) -> None:
    """Stage 4: one more call fits. Looked at before a person is asked; each call is reserved as it begins, so that a
    waiting one holds nothing."""
    used, allowed = (await journal.usage()).tool_calls, journal.limits.tool_calls
    if used + 1 > allowed:
        raise BudgetReached("tool_calls", allowed=allowed, used=used)


def policy_says(gate: Gate, case: Case) -> Verdict:
    """Stage 5: deny, ask or allow by the settings' rules; what a person edited is always asked for."""
    verdict = decide(gate.policy, case.tool, case.call.arguments.data)
    return verdict.asking(case.edited.level) if case.edited else verdict


def taint_raises(gate: Gate, case: Case, verdict: Verdict, tools: Sequence[Tool]) -> Verdict:
    """Stage 6: where the arguments come from may make it a question, or one for a person."""
    flow = Flow(
        tool=case.tool,
        arguments=case.call.arguments,
        read=case.call.read,
        goal=case.run.goal,
        described=described_in(words_of_tools(tools)),
        private=private_servers(gate.servers.values()),
    )
    return raise_for_taint(verdict, flow, targets(case.tool, case.call.arguments.data, gate.policy))


def private_servers(servers: Iterable[ServerSettings]) -> frozenset[str]:
    """The names of those among which data may pass without a question."""
    return frozenset(server.name for server in servers if server.options.private)


async def repetition_raises(journal: RunJournal, case: Case, verdict: Verdict) -> Verdict:
    """Still stage 6: an effect that this run has had, or may have had, is repeated only if a person says so.

    Two equal steps of the first plan are the plan's own wish, unless a run that this one continues made the call. An
    idempotency key is no excuse: the other call had another.
    """
    if not case.has_effect or case.tool.idempotent:
        return verdict
    tool = case.tool.full_name
    same = await journal.same_effect(tool=tool, arguments_hash=case.hash, besides=case.call.key)
    if same is None or (not same.past and case.call.origin == "plan"):
        return verdict
    became = "was made" if same.state == "done" else "may have been made"
    where = "in the run that this one continues" if same.past else "in this run"
    return verdict.asking("person", f"the same call {became} already {where}, by step {same.step}")


def secrets_in(gate: Gate, case: Case, verdict: Verdict) -> Verdict | Refused:
    """The end of stage 6: what secrets in the arguments add."""
    arguments = case.call.arguments.data
    aimed = targets(case.tool, arguments, gate.policy)
    return secrets_raise(verdict, case.tool, arguments=arguments, targets=aimed, outlet=gate.outlet)


def repeats_safely(gate: Gate, tool: Tool) -> bool:
    """Whether a call may be sent again just as it was, under the same key, when nobody knows what became of it."""
    return tool.class_ not in HAS_EFFECT or tool.idempotent or gate.options(tool).idempotency_key is not None
