"""What the five tools take (DESIGN section 9), and errors about it in our own words."""

from typing import Any, Literal, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from journal.values import JsonObject
from planner.settings import BudgetRequest

GOAL_CHARACTERS = 20_000
CONTEXT_CHARACTERS = 200_000


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanAndExecute(_Arguments):
    goal: str = Field(min_length=1, max_length=GOAL_CHARACTERS, description="What is to be achieved, in plain words.")
    context: str | None = Field(
        default=None, max_length=CONTEXT_CHARACTERS, description="Facts the planner cannot find: names, dates, limits."
    )
    review_plan: bool = Field(default=False, description="Stop after planning, so that a person sees the plan first.")
    wait_seconds: float | None = Field(
        default=None, ge=0, le=600, description="How long to wait for the end; less where this client bears less."
    )
    budget: BudgetRequest | None = Field(default=None, description="Lower limits for this run only.")
    idempotency_key: str | None = Field(
        default=None, min_length=1, max_length=200, description="The same key attaches to the same run."
    )


class ApproveAction(_Arguments):
    action_id: str = Field(description="The action, as get_run shows it.")
    decision: str = Field(description="One of the action's choices.")
    tool: str | None = Field(default=None, description="The tool that is approved, repeated exactly.")
    arguments: JsonObject | None = Field(default=None, description="The arguments approved, repeated exactly.")
    edited_arguments: JsonObject | None = Field(
        default=None, description="Other arguments: nothing runs, the old action ends and a new one waits."
    )
    content: JsonObject | None = Field(default=None, description="For a form: what the user filled in.")
    note: str | None = Field(default=None, max_length=2_000, description="What the user said about it.")
    wait_seconds: float | None = Field(default=None, ge=0, le=600, description="How long to wait for the run to end.")


class GetRun(_Arguments):
    run_id: str
    wait_seconds: float = Field(default=0, ge=0, le=600, description="Wait so long for a change.")
    detail: bool = Field(default=False, description="Show steps, sources and budget also while it runs.")


class ListRuns(_Arguments):
    status: (
        Literal["planning", "running", "awaiting_approval", "succeeded", "partial", "failed", "cancelled"] | None
    ) = None
    limit: int = Field(default=20, ge=1, le=100)


class CancelRun(_Arguments):
    run_id: str
    reason: str | None = Field(default=None, max_length=2_000)


Arguments = TypeVar("Arguments", bound=BaseModel)


def read_arguments(tool: str, kind: type[Arguments], given: dict[str, Any]) -> Arguments:
    """The arguments of a call, checked. Raises ToolError that names each wrong one and what it may be."""
    try:
        return kind.model_validate(_whole_numbers(given))
    except ValidationError as error:
        problems = [_problem(dict(each), kind) for each in error.errors(include_url=False, include_input=True)]
        raise ToolError(f"{tool}: {'; '.join(problems)}") from error


def _whole_numbers(given: dict[str, Any]) -> dict[str, Any]:
    """JSON has one kind of number: 20.0 is a whole one."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in given.items()
    }


def _problem(error: dict[str, Any], kind: type[BaseModel]) -> str:
    place = ".".join(str(part) for part in error["loc"]) or "arguments"
    match error["type"]:
        case "extra_forbidden":
            known = BudgetRequest if place.startswith("budget.") else kind
            return f"unknown argument {place!r}; it takes: {', '.join(known.model_fields)}"
        case "missing":
            return f"argument {place!r} is missing"
        case "string_too_short":
            return f"{place} is empty; say what is to be achieved"
        case "string_too_long":
            limit, length = error["ctx"]["max_length"], len(error["input"])
            return f"{place} has {length} characters; at most {limit} are taken, put the rest into a file or tool"
        case _:
            return f"{place}: {error['msg'].removeprefix('Input ')}"
