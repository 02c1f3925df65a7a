"""Settings of workers, and the workers that are there without any."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, PositiveFloat

from downstream.settings import Effect, ModelName
from downstream.tool_names import read_tool_name
from journal.settings import SETTINGS

ToolPatterns = tuple[Annotated[str, AfterValidator(read_tool_name)], ...]


class WorkerLimits(BaseModel):
    """Where one attempt of a worker stops; tokens and seconds are bounded by the run's budget where null."""

    model_config = SETTINGS

    turns: int = Field(default=12, ge=1)
    tool_calls: int = Field(default=20, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    seconds: PositiveFloat | None = None


class WorkerEntry(BaseModel):
    """A worker as a settings file writes it; `tools: null` means all tools, an empty list none."""

    model_config = SETTINGS

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    description: str = ""
    instructions: str = ""
    tools: ToolPatterns | None = None
    disallowed_tools: ToolPatterns = ()
    model: ModelName | None = None
    limits: WorkerLimits = WorkerLimits()


class WorkerSettings(WorkerEntry):
    """A named role. `classes` narrows its tools to classes of effect; only built-in workers have it."""

    classes: frozenset[Effect] | None = None


REVIEWER = WorkerSettings(
    name="reviewer",
    description="Checks another worker's report against the evidence.",
    instructions=(
        "You check claims against evidence. For each claim, read the cited results and, where that is not enough, "
        "look it up yourself with your tools. Accept only what the evidence supports. Name each problem in one "
        "sentence: the claim, and what the evidence says instead. Style is not a problem."
    ),
    classes=frozenset({"read"}),
)


OPERATOR = WorkerSettings(
    name="operator",
    description="Does things with any tool, including those that change something.",
    instructions=(
        "You carry out the task with your tools. Look before you change anything, change only what the task "
        "asks for, and check the result by reading it back. Never repeat a change whose outcome you do not "
        "know: report it."
    ),
)
"""Takes the goal where no plan holds and no configured worker can be used, so it is there in every installation."""


def built_in_workers() -> tuple[WorkerSettings, ...]:
    """The workers of settings that name none: researcher, operator, writer, reviewer."""
    return (
        WorkerSettings(
            name="researcher",
            description="Finds, reads and compares; changes nothing.",
            instructions=(
                "You find things out. Search first, then read what matters, and stop once the task is answered. "
                "Each finding is one claim with the calls that show it. Say what you looked for and did not find; "
                "never fill a gap from memory."
            ),
            classes=frozenset({"read", "egress"}),
        ),
        OPERATOR,
        WorkerSettings(
            name="writer",
            description="Writes text from what it is given; has no tools.",
            instructions=(
                "You write from the material you are given and from nothing else. Keep names, numbers and quotations "
                "exact. Lead with what the reader needs, and say plainly what the material does not tell."
            ),
            tools=(),
        ),
        REVIEWER,
    )
