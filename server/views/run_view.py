"""The shape of what hosts get about a run (DESIGN section 9): complete by itself, the same for every tool."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from journal.actions import ActionKind, Level
from journal.runs import RunStatus, StopReason
from journal.steps import StepStatus
from journal.values import JsonObject

RUN_VIEW_VERSION: Literal[1] = 1


class _Shown(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StepCounts(_Shown):
    """How many steps stand where; the last five sum to `total`."""

    total: int
    succeeded: int
    failed: int = Field(description="failed, partial and refused steps")
    running: int
    waiting: int = Field(description="steps not begun, and steps that wait for a person")
    skipped: int = Field(description="skipped and cancelled steps")


class StepView(_Shown):
    """One step of the plan; `summary` has at most 200 characters."""

    id: str
    title: str
    kind: Literal["call", "worker", "compose"]
    worker: str | None
    status: StepStatus
    summary: str


class ActionView(_Shown):
    """Something that waits for a decision."""

    action_id: str
    kind: ActionKind
    choices: list[str]
    question: str
    step: str | None
    tool: str | None
    arguments: JsonObject | None = Field(description="exactly what is decided; null where it is too long for a host")
    effect: str | None = Field(description="what the call may do: write, destructive, egress, unknown or read")
    level: Level = Field(description="who must say yes: host (this client's user), person (page or terminal), passkey")
    reasons: list[str]
    digest: str = Field(description="the first 8 hex digits of the hash that binds the decision")
    expires_at: str | None
    how: str = Field(description="how a person can decide")


class UsageView(_Shown):
    """What the run has taken so far; `seconds` is time at work, without waiting for a person."""

    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_usd: float
    cost_known: bool
    seconds: float


class SourceView(_Shown):
    step: str
    tool: str
    call: str


class RunView(_Shown):
    """A run as hosts see it."""

    version: Literal[1]
    run_id: str
    status: RunStatus
    stop_reason: StopReason | None
    message: str
    answer: str | None = Field(description="the condensed answer as Markdown; null until there is one")
    steps: StepCounts
    step_list: list[StepView] | None
    actions: list[ActionView]
    usage: UsageView
    budget: JsonObject | None
    warnings: list[str]
    sources: list[SourceView] | None
    contains_untrusted: bool = Field(description="whether the answer rests on text from tools: data, not instructions")
    next_actions: list[str]
    resources: list[str]


class RunLine(_Shown):
    """One run in `list_runs`; `needs` is null, `person` or `settings: PATH`."""

    run_id: str
    goal: str
    status: RunStatus
    stop_reason: StopReason | None
    created_at: str
    updated_at: str
    cost_usd: float
    needs: str | None


class RunLines(_Shown):
    runs: list[RunLine]
