"""What the five tools take (DESIGN section 9), and errors about it in our own words."""

from typing import Any, Literal, TypeVar, cast

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from downstream.gate.prompt_text import quoted
from journal.values import Json, JsonObject
from planner.settings import BudgetRequest

GOAL_CHARACTERS = 20_000
CONTEXT_CHARACTERS = 200_000


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlanAndExecute(_Arguments):
    goal: str = Field(
        min_length=1, max_length=GOAL_CHARACTERS, pattern=r"\S", description="What is to be achieved, in plain words."
    )
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
        default=None,
        description="Other arguments, for kind call only: nothing runs, the old action ends and a new one waits.",
    )
    content: JsonObject | None = Field(default=None, description="For a form: what the user filled in.")
    note: str | None = Field(default=None, max_length=2_000, description="What the user said about it.")
    wait_seconds: float | None = Field(default=None, ge=0, le=600, description="How long to wait for the run to end.")


class GetRun(_Arguments):
    run_id: str = Field(description="The run, as plan_and_execute or list_runs names it.")
    wait_seconds: float = Field(default=0, ge=0, le=600, description="Wait so long for a change.")
    detail: bool = Field(default=False, description="Show steps, sources and budget also while it runs.")


class ListRuns(_Arguments):
    status: (
        Literal["planning", "running", "awaiting_approval", "succeeded", "partial", "failed", "cancelled"] | None
    ) = Field(default=None, description="Only runs of this status.")
    limit: int = Field(default=20, ge=1, le=100, description="How many at most.")


class CancelRun(_Arguments):
    run_id: str = Field(description="The run that is to end.")
    reason: str | None = Field(default=None, max_length=2_000, description="Why; kept in the run's record.")


Arguments = TypeVar("Arguments", bound=BaseModel)

_KINDS = {
    "string": "text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "dict": "an object",
    "model": "an object",
}
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def read_arguments(tool: str, kind: type[Arguments], given: dict[str, Any]) -> Arguments:
    """The arguments of a call, checked; null counts as left out. Raises ToolError that names each wrong one."""
    present = {
        name: _plain(name, value) for name, value in given.items() if value is not None or not _takes(kind, name)
    }
    try:
        return kind.model_validate(present, strict=True)
    except ValidationError as error:
        problems = [_problem(dict(each), kind) for each in error.errors(include_url=False)]
        raise ToolError(f"{tool}: {'; '.join(problems)}") from error


def _takes(kind: type[BaseModel], name: str) -> bool:
    return name in kind.model_fields


def _plain(name: str, value: Json) -> Json:
    """JSON has one kind of number, so 20.0 is a whole one; what is inside of tool arguments stays as it is."""
    if name == "budget" and isinstance(value, dict):
        limits = cast("JsonObject", value)
        return {key: _plain(key, limit) for key, limit in limits.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _problem(error: dict[str, Any], kind: type[BaseModel]) -> str:
    place, type_ = ".".join(map(str, error["loc"])), str(error["type"])
    match type_:
        case "extra_forbidden":
            known = BudgetRequest if place.startswith("budget.") else kind
            return f"unknown argument {quoted(place)}; it takes: {', '.join(known.model_fields)}"
        case "missing":
            return f"argument {place!r} is missing"
        case "string_too_short" | "string_pattern_mismatch":
            return (
                f"{place} is empty; {'say what is to be achieved' if place == 'goal' else 'fill it in or leave it out'}"
            )
        case "string_too_long":
            limit, length = error["ctx"]["max_length"], len(error["input"])
            return f"{place} has {length} characters; at most {limit} are taken, put the rest into a file or tool"
        case "literal_error":
            return f"{place} takes one of {error['ctx']['expected']}, not {_shown(error['input'])}"
        case "string_unicode":
            return f"{place} holds half a character (a lone surrogate); send it again as whole text"
        case _:
            return f"{place} takes {_range(kind, place, type_)}, not {_shown(error['input'])}"


def _range(kind: type[BaseModel], place: str, type_: str) -> str:
    """What an argument may be, such as `a number from 0 to 600`."""
    owner = BudgetRequest if place.startswith("budget.") else kind
    said: JsonObject = owner.model_json_schema()["properties"].get(place.rpartition(".")[2], {})
    shape: JsonObject = next((each for each in said.get("anyOf", ()) if each.get("type") != "null"), said)
    least, above, most, _ = (shape.get(bound) for bound in _BOUNDS)
    what = _KINDS.get(type_.partition("_")[0], "a whole number" if shape.get("type") == "integer" else "a number")
    if what.endswith("number") and least is not None:
        return f"{what} from {least} to {most}" if most is not None else f"{what} of at least {least}"
    return f"{what} above {above}" if what.endswith("number") and above is not None else what


def _shown(value: Json) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return quoted(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
