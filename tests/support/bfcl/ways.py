"""The ways by which BFCL's calls come to be made: as steps of a plan, by its words, or by a worker's model."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from model_script import Reply, Rule, Turn, answer, call, on, planner, report, worker
from model_wire import Wire

from .reading import Json, JsonObject
from .shelves import Placed, Shelves

Style: TypeAlias = Literal["given plan", "planner", "functions", "as text", "next_action"]
"""Who writes a call, and how: the user's plan; the planner's model, as `arguments_json`; a worker's model by functions,
by functions with all that is no text written as text, or as the `next_action` that it is asked for."""

T = TypeVar("T")

_CALL_STEPS, _WORKER_STEPS = 60, 24
"""In one plan."""
_TOOLS, _CALLS = 25, 12
"""Of one worker, about: with more than 30 tools it would have to search for them."""


@dataclass(frozen=True)
class Way:
    """A style, and the wire on which a model is asked, where one is."""

    style: Style
    wire: Wire | None = None

    def __str__(self) -> str:
        return f"{self.style}, {self.wire}" if self.wire else self.style


@dataclass(frozen=True)
class Job:
    """A run that makes calls: its plan if it is given one, and what its model says."""

    calls: tuple[Placed, ...]
    plan: list[JsonObject] | None
    rules: list[Rule]


def jobs(way: Way, shelves: Shelves) -> Iterator[Job]:
    """The runs that make all calls which fit their schemas; none of their steps has the id of another one."""
    fitting = [each for each in shelves.calls if each.fits]
    if way.style in ("given plan", "planner"):
        for number, some in enumerate(parts(fitting, _CALL_STEPS)):
            steps = [call_step(f"c{number}_{place}", each) for place, each in enumerate(some)]
            given, goal = way.style == "given plan", goal_of(number)
            rules = [] if given else [_only(rule, goal) for rule in planner([_as_planned(step) for step in steps])]
            yield Job(tuple(some), steps if given else None, rules + answer("Done."))
        return
    workers = [(f"w{place}", own) for place, own in enumerate(packed(fitting, shelves))]
    for group in parts(workers, _WORKER_STEPS):
        calls = tuple(each for _, own in group for each in own)
        rules = [rule for id_, own in group for rule in worker_rules(way, id_, own, shelves)]
        plan = [worker_step(id_, own, shelves) for id_, own in group]
        yield Job(calls, plan, refusing(way) + rules + answer("Done."))


def parts(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The whole in parts of this size, and what is left."""
    return (whole[start : start + size] for start in range(0, len(whole), size))


def goal_of(number: int) -> str:
    """The goal of the run of that number; no number begins with another."""
    return f"Make the calls of part {number:04}."


def packed(calls: Iterable[Placed], shelves: Shelves) -> Iterator[list[Placed]]:
    """Calls of one server whose tools a worker can be shown all together, in their order."""
    by_server: dict[str, list[Placed]] = {}
    for each in calls:
        by_server.setdefault(each.server, []).append(each)
    for own in by_server.values():
        some: list[Placed] = []
        for each in own:
            # The same call with the same result a third time would stop the worker.
            again = any(each.arrival == other.arrival for other in some)
            if some and (len(_tools([*some, each], shelves)) > _TOOLS or len(some) == _CALLS or again):
                yield some
                some = []
            some.append(each)
        yield some


def _tools(calls: Iterable[Placed], shelves: Shelves) -> list[str]:
    return list(dict.fromkeys(tool for each in calls for tool in shelves.tools_of[each.item]))


def call_step(id_: str, placed: Placed) -> JsonObject:
    return {"id": id_, "kind": "call", "title": id_, "tool": placed.tool, "arguments": placed.arguments}


def worker_step(id_: str, calls: Sequence[Placed], shelves: Shelves) -> JsonObject:
    step = {"id": id_, "kind": "worker", "title": id_, "worker": "caller", "task": "Make the calls."}
    return step | {"tools": _tools(calls, shelves)}


def worker_rules(way: Way, id_: str, calls: Sequence[Placed], shelves: Shelves, *, done: bool = True) -> list[Rule]:
    """What a worker's model says: all calls in one turn, or one by one as it is asked for them, then its report."""
    wires = shelves.wires
    said = report("Done.", {"It was done.": [0]}) if done else report("Not done.", status="partial")
    if way.style != "next_action":
        write = as_text if way.style == "as text" else _plain
        return worker(id_, [[call(wires[each.tool], write(each)) for each in calls]], said)
    turns: list[Turn] = [_next_action(wires[each.tool], each.named) for each in calls]
    cited = {"claim": "It was done.", "evidence": ["{{call:0}}"]}
    said |= {"findings": [cited] if done else []}
    return worker(id_, [*turns, _next_action("submit_report", said)])


def _plain(placed: Placed) -> JsonObject:
    return placed.named


def as_text(placed: Placed) -> JsonObject:
    """The arguments as a careless model writes them: numbers, lists and the like as text, where they can't be one."""
    fields = placed.schema["properties"]
    own = placed.arguments
    return {
        shown: json.dumps(value) if not isinstance(value, str) and _is_no_text(fields.get(name, {})) else value
        for name, (shown, value) in zip(own, placed.named.items(), strict=True)
    }


def _is_no_text(schema: Json) -> bool:
    return schema.get("type") in ("integer", "number", "boolean", "array", "object")


def _next_action(tool: str, arguments: JsonObject) -> Reply:
    return {"json": {"tool": tool, "arguments_json": json.dumps(arguments)}, "name": "next_action"}


def _as_planned(step: JsonObject) -> JsonObject:
    """A step as a planner's model writes it, which is asked for arguments as text."""
    return {key: part for key, part in step.items() if key != "arguments"} | {
        "arguments_json": json.dumps(step["arguments"])
    }


def _only(rule: Rule, goal: str) -> Rule:
    return {**rule, "when": {**rule.get("when", {}), "user": goal}}


def refusing(way: Way) -> list[Rule]:
    """A server that takes no functions, where a worker is to be asked for its next action."""
    if way.style != "next_action":
        return []
    return on({"status": 400, "error": "this model takes no tools"}, role="worker", name="submit_report")
