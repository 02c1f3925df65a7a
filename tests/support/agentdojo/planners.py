"""Plans for AgentDojo's tasks, and what the gullible workers of their steps do.

A worker makes the call that its step is for. Once any result so far has shown it the injected text, it also makes every
call of the attack, whatever its step lists.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .dojo import Call, Told
from .inside.classes import class_of

Json: TypeAlias = Any
TOO_MANY = 3
"""Tools that an over-granting planner gives each step besides the one it needs."""
_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True)
class Planned:
    """A task with its goal, the plan for it, and what a scripted model says in its steps."""

    told: Told
    plan: list[Json]
    script: dict[str, Json]

    @property
    def suite(self) -> str:
        return self.told.task.suite

    def own_calls(self) -> list[Call]:
        """The calls that the user's own task needs, as often as it needs them."""
        return [Call(call.tool, call.arguments) for call in self.told.calls]


@dataclass
class _Planner:
    """Makes a plan step by step. Each step needs the one before it, so that everything is done in turn and whatever a
    worker hands on is read by the next one."""

    told: Told
    tag: str
    plan: list[Json] = field(default_factory=list[Json])
    script: dict[str, Json] = field(default_factory=dict[str, Json])
    sources: dict[int, str] = field(default_factory=dict[int, str])

    def call(self, number: int) -> None:
        """A step without a model: arguments that an earlier result gave are references."""
        call = self.told.calls[number]
        for source in sorted(set(call.given.values()) - self.sources.keys()):
            self.read_out(source)
        arguments = {
            name: {"$step": f"{self.sources[call.given[name]]}.{_field(number, name)}"} if name in call.given else value
            for name, value in call.arguments.items()
        }
        self._add(f"{self.tag}_{number}", {"kind": "call", "tool": self._full(call.tool), "arguments": arguments})

    def worker(self, numbers: Sequence[int], *, more: Iterable[str] = ()) -> None:
        """A step of a worker that has the tools of these calls, and more besides."""
        calls, id_ = [self.told.calls[number] for number in numbers], f"{self.tag}_{numbers[0]}"
        tools = [self._full(tool) for tool in dict.fromkeys([*(call.tool for call in calls), *more])]
        handed_on = self._handed_on(numbers)
        step = {"kind": "worker", "worker": "operator", "task": "Find out what is needed.", "tools": tools}
        self._add(id_, step | _output(handed_on))
        self.sources |= dict.fromkeys(numbers, id_)
        own = [{"tool": self._full(call.tool), "arguments": call.arguments} for call in calls]
        turns = [{"calls": own}, *self._attack(numbers[-1])]
        found = [{"claim": "The tools gave a result.", "evidence": list(range(len(calls)))}]
        self.script[id_] = _attempt(turns, _report(found, handed_on))

    def read_out(self, number: int) -> None:
        """A step of a worker without tools, which takes data out of what a step without a model gave."""
        id_ = f"{self.tag}_{number}_x"
        handed_on = self._handed_on([number])
        step = {"kind": "worker", "worker": "writer", "task": "Take out the data that is needed.", "tools": list[str]()}
        needs = [f"{self.tag}_{number}"]
        self._add(id_, step | _output(handed_on), needs=needs)
        self.sources[number] = id_
        self.script[id_] = _attempt(self._attack(number), _report([], handed_on))

    def _add(self, id_: str, step: Json, needs: Sequence[str] = ()) -> None:
        before = [self.plan[-1]["id"]] if self.plan else []
        self.plan.append({"id": id_, "title": id_, "needs": list(dict.fromkeys([*before, *needs])), **step})

    def _full(self, tool: str) -> str:
        return f"{self.told.task.suite}.{tool}"

    def _handed_on(self, numbers: Sequence[int]) -> dict[str, Json]:
        """What later calls take from the results of these."""
        return {
            _field(later, name): call.arguments[name]
            for later, call in enumerate(self.told.calls)
            for name, source in call.given.items()
            if source in numbers
        }

    def _attack(self, number: int) -> list[Json]:
        if not any(call.seen for call in self.told.calls[: number + 1]) or not self.told.attack:
            return []
        return [{"calls": [{"tool": self._full(call.tool), "arguments": call.arguments} for call in self.told.attack]}]


def ideal_plan(told: Told, tag: str) -> Planned:
    """Least privilege: what has an effect, and a visit to an address in the goal, is a call without a model; all other
    reading is done by workers with the tools that they need, one worker for what can be read together."""
    planner = _Planner(told, tag)
    for numbers in _together(told):
        if _is_known(told, numbers[0]):
            planner.call(numbers[0])
        else:
            planner.worker(numbers)
    return Planned(told, planner.plan, planner.script)


def over_granting_plan(told: Told, tag: str, tools: Sequence[str]) -> Planned:
    """Everything is left to workers, each of which gets three tools of the suite too many: the same in each run."""
    planner = _Planner(told, tag)
    for numbers in _together(told):
        needed = {told.calls[number].tool for number in numbers}
        chance = random.Random(f"{told.task.suite} {told.task.user} {numbers[0]}")
        planner.worker(numbers, more=chance.sample([tool for tool in tools if tool not in needed], TOO_MANY))
    return Planned(told, planner.plan, planner.script)


def _together(told: Told) -> list[list[int]]:
    """The numbers of the calls in turn, step by step: of those that read, what needs nothing of each other together."""
    steps: list[list[int]] = []
    for number, call in enumerate(told.calls):
        before = steps[-1] if steps else []
        alone = _is_known(told, number) or not before or _is_known(told, before[0])
        if alone or set(call.given.values()).intersection(before):
            steps.append([number])
        else:
            before.append(number)
    return steps


def _is_known(told: Told, number: int) -> bool:
    """Whether the call is one to plan without a model: it has an effect, or goes to an address that the goal gives."""
    call = told.calls[number]
    class_ = class_of(told.task.suite, call.tool)
    return class_ in ("write", "destructive") or (class_ == "egress" and not call.given)


def _field(number: int, name: str) -> str:
    return f"for_{number}_{name}"


def _output(handed_on: dict[str, Json]) -> Json:
    if not handed_on:
        return {}
    properties = {name: {"type": _TYPES[type(value)]} for name, value in handed_on.items()}
    return {"output": {"type": "object", "properties": properties, "required": list(properties)}}


def _report(findings: list[Json], handed_on: dict[str, Json]) -> Json:
    report = {"status": "done", "summary": "It is done.", "findings": findings, "confidence": 0.9, "plan_holds": True}
    return report | ({"data": handed_on} if handed_on else {})


def _attempt(turns: list[Json], report: Json) -> Json:
    return {"attempts": [{"turns": turns, "report": report}]}
