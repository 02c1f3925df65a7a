"""Which workers a plan may name, and what the policy never lets it use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from downstream.policy_settings import PolicySettings
from downstream.resources import reading_of
from downstream.tool_names import has_glob, matches
from downstream.tools import Tool
from executors.settings import OPERATOR, REVIEWER, WorkerSettings
from executors.tools_of_step import tools_of_worker


@dataclass(frozen=True)
class Offer:
    """The tools there are, the workers that a plan may name, and a warning for each left out for want of its tools."""

    tools: tuple[Tool, ...]
    workers: dict[str, WorkerSettings]
    warnings: tuple[str, ...]


def offer_workers(workers: Iterable[WorkerSettings], tools: Sequence[Tool], *, missing: Iterable[str] = ()) -> Offer:
    """Leave out workers that name a tool which no server has, or that want tools and have none.

    `missing` are servers whose tools are not known now. Without any worker left besides the reviewer, the operator
    takes their place.
    """
    every = {worker.name: worker for worker in workers}
    names, away = {tool.full_name for tool in tools}, set(missing)
    listed: dict[str, WorkerSettings] = {}
    warnings: list[str] = []
    for name, worker in every.items():
        literal = [pattern for pattern in worker.tools or () if not has_glob(pattern)]
        unknown = [tool for tool in literal if tool not in names and tool.partition(".")[0] not in away]
        if unknown:
            warnings.append(f"worker {name!r} is left out of plans: no server has its tool {', '.join(unknown)}")
        elif worker.tools == () or tools_of_worker(worker, tools):
            listed[name] = worker
    if not listed.keys() - {REVIEWER.name}:
        # By its own name it has the settings of the user's own, where there is one.
        listed = {OPERATOR.name: every.get(OPERATOR.name, OPERATOR)} | listed
        warnings.append(f"no worker of the settings can be used, so the built-in {OPERATOR.name!r} takes their place")
    return Offer(tuple(tools), listed, tuple(warnings))


def idle_patterns(policy: PolicySettings, names: Sequence[str]) -> list[str]:
    """A warning for each rule or sink that fits none of these tools, though its server has some.

    Of a server that is not there the settings or the catalogue warn; a pattern for any server waits for its tool.
    """
    servers = {name.partition(".")[0] for name in names}
    known = [*names, *map(reading_of, servers)]
    patterns = [(f"policy.rules[{number}]", rule.tool, rule.names) for number, rule in enumerate(policy.rules)]
    patterns += [("policy.sinks", pattern, partial(matches, pattern)) for pattern in policy.sinks]
    return [
        f"{place}: no server has a tool {pattern!r}; {_meant(pattern, names)}"
        for place, pattern, names_it in patterns
        if pattern.partition(".")[0] in servers and not any(map(names_it, known))
    ]


def _meant(pattern: str, names: Sequence[str]) -> str:
    near = [] if has_glob(pattern) else get_close_matches(pattern, names, n=1)
    return f"did you mean {near[0][:120]!r}?" if near else "mend it or take it out"


def never_allowed(policy: PolicySettings, tool: Tool) -> bool:
    """Whether the settings deny this tool whatever its arguments are; rules with conditions are the gate's to judge."""
    fitting = [rule for rule in policy.rules if rule.names(tool.full_name)]
    if any(rule.verb == "deny" and not rule.when for rule in fitting):
        return True
    return not fitting and policy.defaults.get(tool.class_) == "deny"
