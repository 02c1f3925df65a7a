"""What a worker hands in (a report, written by a model) and what code says happened to a step (an outcome)."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from downstream.door import Origin, Waiting
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject, Label, Value

from .step import CallStep, ComposeStep, WorkerStep

OutcomeStatus: TypeAlias = Literal["succeeded", "partial", "failed", "refused", "skipped", "cancelled"]


class Finding(BaseModel):
    """A claim with the ids of the calls that bear it out; `supported` is set by code, never by a model."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    claim: str
    evidence: tuple[str, ...] = ()
    supported: bool = False


class Report(BaseModel):
    """A worker's report (DESIGN section 12); unknown fields are dropped, missing optional ones have defaults."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    status: Literal["done", "partial", "blocked", "failed"]
    summary: str = ""
    findings: tuple[Finding, ...] = ()
    data: JsonObject | None = None
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    suggestions: tuple[str, ...] = ()
    plan_holds: bool = True


@dataclass(frozen=True)
class Source:
    """A call that a result rests on."""

    step: str
    tool: str
    call: str

    def to_json(self) -> JsonObject:
        return {"step": self.step, "tool": self.tool, "call": self.call}


@dataclass(frozen=True)
class Outcome:
    """What became of a step, said by code. `value` is what later steps may refer to (None unless there is one).

    `problem` says in our words why it is not succeeded; `effects` lists the calls that changed something;
    `limit` names the limit that cut the step short (turns, tool_calls, tokens, usd, seconds, …), if one did;
    `over_budget`: it is one of the run's budget, none of a worker's own.
    `label` is that of the words that a model wrote in summary, problem and suggestions; empty where none did, and where
    the value's own label says it already.
    """

    step: str
    status: OutcomeStatus
    summary: str = ""
    value: Value | None = None
    findings: tuple[Finding, ...] = ()
    problem: str | None = None
    confidence: float = 1.0
    plan_holds: bool = True
    suggestions: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    failed_calls: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    limit: str | None = None
    attempts: int = 1
    label: Label = frozenset()
    over_budget: bool = False

    def __post_init__(self) -> None:
        if self.value is not None and self.label <= self.value.label:
            object.__setattr__(self, "label", frozenset[str]())

    @property
    def origins(self) -> Label:
        """Where everything comes from that this holds; nothing where it is all ours, or where nobody knows any more."""
        return self.label if self.value is None else self.label | self.value.label

    def to_json(self) -> JsonObject:
        fields: JsonObject = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["value"] = None if self.value is None else self.value.to_json()
        fields["findings"] = [finding.model_dump(mode="json") for finding in self.findings]
        fields["sources"] = [source.to_json() for source in self.sources]
        for name in ("suggestions", "failed_calls", "effects"):
            fields[name] = list(fields[name])
        # Where they say nothing they are left out, as in rows of earlier releases.
        fields["label"] = sorted(self.label)
        return {name: value for name, value in fields.items() if value or name not in ("label", "over_budget")}

    @classmethod
    def from_json(cls, data: Json) -> "Outcome":
        fields: JsonObject = dict(data)
        fields["value"] = None if data["value"] is None else Value.from_json(data["value"])
        fields["findings"] = tuple(Finding.model_validate(finding) for finding in data["findings"])
        fields["sources"] = tuple(Source(**source) for source in data["sources"])
        fields["label"] = frozenset(data.get("label", ()))
        for name in ("suggestions", "failed_calls", "effects"):
            fields[name] = tuple(data[name])
        return cls(**fields)


PLANNED: Label = frozenset({"plan"})


@dataclass(frozen=True)
class Assignment:
    """A step to carry out, with the values of the steps that it needs (by step id) and who put it into the plan.

    `label` is that of the step's own words: of all that a reviser had read; without it they are the first plan's.
    """

    step: CallStep | WorkerStep | ComposeStep
    inputs: dict[str, Value]
    origin: Origin = "plan"
    label: Label = PLANNED


class Execute(Protocol):
    """Carry out a step from wherever its memo left off. Waiting: nothing more can be done before a decision.

    Raises Fenced and MemoMismatch only; a budget that is reached is an outcome with `limit`.
    """

    async def __call__(self, journal: RunJournal, assignment: Assignment) -> Outcome | Waiting: ...
