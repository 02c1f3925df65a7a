"""A step as planned: the only shapes that a plan may hold."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from journal.canonical import digest
from journal.values import JsonObject

STEP_ID = r"^[a-z][a-z0-9_]{0,31}$"


class _Step(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = Field(pattern=STEP_ID)
    title: str = ""
    needs: tuple[str, ...] = ()
    optional: bool = False
    review: bool = False


class CallStep(_Step):
    """One call of one tool, without a model; arguments are literals or references."""

    kind: Literal["call"]
    tool: str
    arguments: JsonObject = Field(default_factory=dict)


class WorkerStep(_Step):
    """A task for one worker; without `tools` it has all of its worker's."""

    kind: Literal["worker"]
    worker: str
    task: str = Field(min_length=1)
    tools: tuple[str, ...] | None = None
    output: JsonObject | None = None


class ComposeStep(_Step):
    """One model call without tools that turns results into text."""

    kind: Literal["compose"]
    task: str = Field(min_length=1)


Step: TypeAlias = Annotated[CallStep | WorkerStep | ComposeStep, Field(discriminator="kind")]


def step_hash(step: CallStep | WorkerStep | ComposeStep) -> str:
    """The step's own definition in eight hex digits: part of every memo key below it."""
    return digest(step.model_dump(mode="json"))[:8]


def step_key(step: CallStep | WorkerStep | ComposeStep) -> str:
    """The root of the step's memo keys, such as `step.study@5f3a9c01`."""
    return f"step.{step.id}@{step_hash(step)}"
