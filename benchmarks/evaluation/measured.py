"""What a run of a goal has shown and taken, read from its store; one line of the results."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from downstream.json_shape import is_array, is_object
from downstream.models.structured import REPAIRS, RUNGS, Rung
from journal.events import Event
from journal.store import Store
from journal.values import Json, JsonObject
from server.views.cost import Cost

from .goal import Kind
from .judging import Made

Validity: TypeAlias = Literal["first", "repaired", "not"]
"""A valid plan came at the first ask of a rung, after repairs, or not on that rung."""
Verdict: TypeAlias = Literal["reached", "not reached", "false success", "skipped"]
"""`false success`: the run says succeeded, and the checks say otherwise."""


@dataclass(frozen=True)
class Tokens:
    """By one role."""

    asked: int
    input: int
    cached: int
    output: int


@dataclass(frozen=True)
class Result:
    """One goal, run once. `planned_by` is `planner` or `fallback`; nothing where no plan was made.

    `asked` counts the questions to the person, `unwanted` names the tools of calls that the goal did not want.
    """

    goal: str
    kind: Kind
    model: str
    seed: int
    repeat: int
    verdict: Verdict
    problems: tuple[str, ...] = ()
    status: str = ""
    stop_reason: str | None = None
    planned_by: str = ""
    plan: Mapping[Rung, Validity] = field(default_factory=dict[Rung, Validity])
    tokens: Mapping[str, Tokens] = field(default_factory=dict[str, Tokens])
    model_calls: int = 0
    tool_calls: int = 0
    asked: int = 0
    unwanted: tuple[str, ...] = ()
    usd: float = 0.0
    cost_known: bool = True
    seconds: float = 0.0
    answer: str = ""

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: JsonObject) -> "Result":
        fields: JsonObject = dict(data)
        fields |= {name: tuple(data.get(name, ())) for name in ("problems", "unwanted")}
        fields["tokens"] = {role: Tokens(**each) for role, each in data["tokens"].items()}
        return cls(**fields)


@dataclass(frozen=True)
class Told:
    """A run's history and memo."""

    events: Sequence[Event]
    memo: Mapping[str, Json]

    @property
    def planned_by(self) -> str:
        return next((str(event.data["by"]) for event in self.events if event.type == "plan.accepted"), "")

    def made(self) -> list[Made]:
        """The calls that tool servers answered."""
        called: list[JsonObject] = [value["called"] for value in self.memo.values() if _is_call(value)]
        return [Made(each["tool"], each["ok"], "\n".join([each["text"], *_texts(each["value"])])) for each in called]

    def plan_rungs(self) -> dict[Rung, Validity]:
        """How the planner's plans came out, by the way in which it was asked (`downstream/models/structured.py`)."""
        verdicts: dict[Rung, Validity] = {}
        for number in range(1, 4):
            if (first := self.memo.get(f"plan.{number}/rung")) is not None:
                rung = first if isinstance(first, str) else first["rung"]
                self._one_plan(number, RUNGS.index(rung), verdicts)
        return verdicts

    def _one_plan(self, number: int, rung: int, verdicts: dict[Rung, Validity]) -> None:
        asks, repairs = self._asks(number), 0
        refused = f"plan.{number}/check" in self.memo
        accepted = self.planned_by == "planner" and f"plan.{number + 1}/rung" not in self.memo and not refused
        for place, ask in enumerate(asks, 1):
            name = RUNGS[min(rung, len(RUNGS) - 1)]
            if place == len(asks) and accepted:
                verdicts[name] = "repaired" if repairs or number > 1 or name in verdicts else "first"
                return
            verdicts.setdefault(name, "not")
            if ask.get("error") == "bad_request" or repairs == REPAIRS:
                rung, repairs = rung + 1, 0
            else:
                repairs += 1

    def _asks(self, number: int) -> list[JsonObject]:
        key = f"plan.{number}"
        asks: dict[str, JsonObject] = {}
        for event in self.events:
            name = str(event.data.get("key", ""))
            if event.type == "model.called" and (name == key or name.startswith(f"{key}/")):
                # The last of a key counts: those before it fell back to another model.
                asks[name] = event.data
        return list(asks.values())


async def told_of(store: Store, run_id: str) -> Told:
    """Raises UnknownId."""
    rows = await store.database.read(lambda tx: tx.rows("SELECT key, value FROM memo WHERE run = ?", (run_id,)))
    return Told(await store.events(run_id), {row["key"]: json.loads(row["value"]) for row in rows})


def tokens_by_role(cost: Cost) -> dict[str, Tokens]:
    """What each role took, tools left out."""
    lines: dict[str, list[Tokens]] = defaultdict(list)
    for line in cost.lines:
        took = line.took
        if took.model_calls:
            lines[line.role].append(Tokens(took.model_calls, took.input_tokens, took.cached_tokens, took.output_tokens))
    return {role: _sum(several) for role, several in lines.items()}


def _sum(several: Iterable[Tokens]) -> Tokens:
    listed = list(several)
    return Tokens(
        sum(each.asked for each in listed),
        sum(each.input for each in listed),
        sum(each.cached for each in listed),
        sum(each.output for each in listed),
    )


def _is_call(value: Json) -> bool:
    return is_object(value) and "called" in value


def _texts(data: Json) -> list[str]:
    """All texts and numbers in it."""
    if is_object(data):
        return [text for item in data.values() for text in _texts(item)]
    if is_array(data):
        return [text for item in data for text in _texts(item)]
    return [] if data is None else [str(data)]
