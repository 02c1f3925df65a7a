"""What the policy says of a call and why, for a person who writes rules: nothing is called or asked."""

import json
from dataclasses import dataclass, replace

from downstream.door import Arguments
from downstream.policy_settings import PolicySettings, Verb
from downstream.tools import Tool
from journal.actions import Level
from journal.values import WORST, Json

from .approvals import TOO_LONG
from .argument_check import argument_errors
from .matchers import MISSING
from .policy import Reading, Tried, decide, deciding, default_of, read_rules
from .prompt_text import is_shown
from .taint import Flow, raise_for_taint
from .targets import targets

_LONGEST = 120


@dataclass(frozen=True)
class Decided:
    """What becomes of a call; `level` is the least of a yes, where one is needed."""

    verb: Verb
    level: Level | None
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """`deciders` are the numbers of the rules that decide; without any, the class does, by `default`.

    `tainted` is what becomes of the same call if all its arguments come from an unknown place.
    """

    tool: Tool
    default: Verb
    deciders: tuple[int, ...]
    readings: tuple[Reading, ...]
    targets: tuple[tuple[str, Json], ...]
    decided: Decided
    tainted: Decided
    misfits: tuple[str, ...]


def explain(policy: PolicySettings, flow: Flow) -> Explanation:
    """What the gate makes of this call, apart from its run, step and budget."""
    tool, arguments = flow.tool, flow.arguments.data
    readings = read_rules(policy, tool.full_name, arguments)
    elsewhere = replace(flow, arguments=Arguments(arguments, WORST), read=WORST, goal="")
    return Explanation(
        tool=tool,
        default=default_of(policy, tool.class_),
        deciders=tuple(reading.number for reading in deciding(readings)),
        readings=tuple(readings),
        targets=tuple(targets(tool, arguments, policy)),
        decided=_decided(policy, flow),
        tainted=_decided(policy, elsewhere),
        misfits=tuple(argument_errors(tool.input_schema, arguments)),
    )


def condition_text(tried: Tried) -> str:
    """A condition of a rule, what stands at its pointer, and whether it holds."""
    conditions = ", ".join(f"{name}: {brief(value)}" for name, value in tried.matcher.conditions.items())
    found = "is missing" if tried.value is MISSING else f"is {brief(tried.value)}"
    told = {True: "holds", False: "does not hold", None: "cannot be told"}[tried.holds]
    return f"{tried.pointer} {found}: {{{conditions}}} {told}"


def brief(value: Json) -> str:
    """A value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _decided(policy: PolicySettings, flow: Flow) -> Decided:
    arguments = flow.arguments.data
    verdict = raise_for_taint(decide(policy, flow.tool, arguments), flow, targets(flow.tool, arguments, policy))
    if verdict.verb == "ask" and not is_shown(arguments):
        verdict = verdict.asking("person", TOO_LONG)
    return Decided(verdict.verb, verdict.level if verdict.verb == "ask" else None, verdict.reasons)
