"""Checks a plan against what there is: workers, tools, policy, schemas and limits. All errors at once, or a Plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from downstream.json_shape import is_array, is_object
from downstream.tools import Tool
from executors.settings import WorkerSettings
from executors.step import CallStep, WorkerStep
from executors.tools_of_step import find_tool, tools_of_worker
from journal.values import Json

from .arguments import argument_errors, output_errors
from .plan import NAMED, AnyStep, Plan, PlanError, graph_errors
from .reading import Known, closest, read_step
from .references import referenced_steps

_LOOKED_AT = 100
"""Of more steps than are allowed so many are looked at, so that a plan without end takes no time without end."""


@dataclass(frozen=True)
class Bounds:
    """What a plan may use; `denied` says whether policy never lets a tool be called.

    `kept` are steps of the run's plan that stay; `used` are the ids that this run's plan has had so far. `held` names
    tools that a person has to accept first: a call that names one waits for that, and is checked then.
    """

    tools: Sequence[Tool]
    workers: Mapping[str, WorkerSettings]
    denied: Callable[[Tool], bool]
    max_steps: int
    kept: tuple[AnyStep, ...] = ()
    used: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()

    @property
    def offered(self) -> list[Tool]:
        """The tools that a model may hear of: those that policy always denies it would plan with in vain."""
        return [tool for tool in self.tools if not self.denied(tool)]

    @property
    def tool_names(self) -> list[str]:
        return [tool.full_name for tool in self.tools]


def check_plan(data: Json, bounds: Bounds) -> Plan:
    """The plan of the steps that are kept and those in `data` ({"steps": [Step]}). Raises PlanError with all errors."""
    raw = data.get("steps") if is_object(data) else data
    if not is_array(raw):
        raise PlanError(['a plan is an object with a list of steps: {"steps": [{"id": …, "kind": …}]}'])
    errors: list[str] = []
    looked_at = raw
    if len(raw) + len(bounds.kept) > bounds.max_steps:
        kept = f" besides {len(bounds.kept)} that stay" if bounds.kept else ""
        errors.append(f"{len(raw)} steps{kept} are too many; budget.steps allows {bounds.max_steps}, so join some")
        looked_at = raw[: max(_LOOKED_AT, bounds.max_steps)]
    added, found = _read(looked_at, bounds, known=_known(raw, bounds))
    errors += found
    # What hangs together can't be told without the steps that nobody looked at.
    if len(looked_at) == len(raw) and (added or not raw):
        errors += graph_errors((*bounds.kept, *added))
    if errors:
        raise PlanError(errors)
    return Plan((*bounds.kept, *added))


def _read(raw: Sequence[Json], bounds: Bounds, *, known: Known) -> tuple[list[AnyStep], list[str]]:
    """The steps, as far as they can be read, and what is wrong with each by itself."""
    added: list[AnyStep] = []
    errors: list[str] = []
    for number, item in enumerate(raw, 1):
        step, problems = read_step(item, number, known=known)
        errors += problems
        if step is not None:
            step = _with_full_names(step, bounds)
            errors += _step_errors(step, bounds)
            added.append(step)
    return added, errors


def check_given_plan(data: Json, bounds: Bounds) -> Plan:
    """The plan that a user hands in for a new run. Raises PlanError with all errors, before there is a run."""
    return check_plan(data, replace(bounds, kept=(), used=frozenset()))


def _known(raw: Sequence[Json], bounds: Bounds) -> Known:
    # A step that was dropped is told of as what it is, whatever else has its name.
    steps = {step.id for step in bounds.kept} | bounds.used
    ids = {item["id"] for item in raw if is_object(item) and isinstance(item.get("id"), str)}
    return Known(steps | ids, bounds.workers.keys(), lambda name: find_tool(name, bounds.tools) is not None)


def _with_full_names(step: AnyStep, bounds: Bounds) -> AnyStep:
    """The step with its tools as `server.tool`, also where it was written as models are shown it."""
    if isinstance(step, CallStep):
        return step.model_copy(update={"tool": _full_name(step.tool, bounds)})
    if isinstance(step, WorkerStep) and step.tools is not None:
        names = dict.fromkeys(_full_name(tool, bounds) for tool in step.tools)
        return step.model_copy(update={"tools": tuple(names)})
    return step


def _full_name(written: str, bounds: Bounds) -> str:
    tool = find_tool(written, bounds.tools)
    if tool is not None:
        return tool.full_name
    return next((name for name in bounds.held if written == name.replace(".", "__", 1)), written)


def _step_errors(step: AnyStep, bounds: Bounds) -> Iterator[str]:
    if step.id in bounds.used:
        free = _free_id(step.id, bounds)
        yield f"step id {step.id!r} was used before in this run; a new step needs a new id, such as {free!r}"
    if isinstance(step, CallStep):
        yield from _call_errors(step, bounds)
    elif isinstance(step, WorkerStep):
        yield from _worker_errors(step, bounds)


def _free_id(taken: str, bounds: Bounds) -> str:
    stem, numbers = taken[:28].rstrip("_"), range(2, 1000)
    return next(f"{stem}_{number}" for number in numbers if f"{stem}_{number}" not in bounds.used)


def _call_errors(step: CallStep, bounds: Bounds) -> Iterator[str]:
    references = referenced_steps(step.arguments)
    yield from (f"step {step.id!r}: {error}" for error in references.errors)
    tool = find_tool(step.tool, bounds.tools)
    if tool is None and step.tool in bounds.held:
        return
    if tool is None:
        yield f"step {step.id!r}: unknown tool {step.tool!r}; {closest(step.tool, bounds.tool_names)}"
        return
    if bounds.denied(tool):
        yield f"step {step.id!r}: the policy never allows {step.tool!r}; do without it"
    if step.tool not in bounds.held:
        yield from (f"step {step.id!r}: {error}" for error in argument_errors(tool, step.arguments, references.places))


def _worker_errors(step: WorkerStep, bounds: Bounds) -> Iterator[str]:
    yield from (f"step {step.id!r}: {error}" for error in output_errors(step.output))
    worker = bounds.workers.get(step.worker)
    if worker is None:
        yield f"step {step.id!r}: unknown worker {step.worker!r}; {closest(step.worker, bounds.workers)}"
    own = tools_of_worker(worker, bounds.tools) if worker is not None else bounds.tools
    found = {name: find_tool(name, bounds.tools) for name in step.tools or ()}
    unknown = [name for name, tool in found.items() if tool is None]
    for name in unknown[:NAMED]:
        yield f"step {step.id!r}: unknown tool {name!r}; {closest(name, [tool.full_name for tool in own])}"
    if len(unknown) > NAMED:
        yield f"step {step.id!r}: {len(unknown) - NAMED} more of its tools are unknown"
    for name, tool in found.items():
        if tool is None:
            continue
        if tool not in own:
            yield f"step {step.id!r}: worker {step.worker!r} may not use {name!r}; {_who_may(tool, bounds)}"
        elif bounds.denied(tool):
            yield f"step {step.id!r}: the policy never allows {name!r}; do without it"


def _who_may(tool: Tool, bounds: Bounds) -> str:
    may = [name for name, worker in bounds.workers.items() if tool in tools_of_worker(worker, bounds.tools)]
    return f"{', '.join(may)} may, or use a call step" if may else "use a call step"


def definitions(steps: Sequence[AnyStep]) -> list[Json]:
    """What steps are, apart from their ids and titles: equal for steps that do the same."""
    return [step.model_dump(mode="json", exclude={"id", "title"}) for step in steps]
