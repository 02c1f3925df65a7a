"""Which workers a plan may name, and what the policy never lets it use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from downstream.policy_settings import PolicySettings
from downstream.tool_names import has_glob, matches
from downstream.tools import Tool
from executors.settings import WorkerSettings
from executors.tools_of_step import tools_of_worker


@dataclass(frozen=True)
class Offer:
    """The tools there are, the workers that a plan may name, and a warning for each left out for want of its tools."""

    tools: tuple[Tool, ...]
    workers: dict[str, WorkerSettings]
    warnings: tuple[str, ...]


def offer_workers(workers: Iterable[WorkerSettings], tools: Sequence[Tool], *, missing: Iterable[str] = ()) -> Offer:
    """Leave out workers that name a tool which no server has, or that want tools and have none.

    `missing` are servers whose tools are not known now. Without any worker left, all stay.
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
    return Offer(tuple(tools), listed or every, tuple(warnings))


def never_allowed(policy: PolicySettings, tool: Tool) -> bool:
    """Whether the settings deny this tool whatever its arguments are; rules with conditions are the gate's to judge."""
    fitting = [rule for rule in policy.rules if matches(rule.tool, tool.full_name)]
    if any(rule.verb == "deny" and not rule.when for rule in fitting):
        return True
    return not fitting and policy.defaults.get(tool.class_) == "deny"
