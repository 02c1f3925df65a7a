"""Checks what a reviser wants against what a revision may do."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from executors.step import CallStep, ComposeStep, WorkerStep
from executors.tools_of_step import find_tool, tools_of_worker
from journal.canonical import digest
from journal.values import Json, JsonObject

from .checker import Bounds, check_plan
from .plan import AnyStep, PlanError, some
from .progress import BLOCKING, Change, Decision, Progress
from .reading import read_texts

_DROPPABLE = frozenset({"pending", "waiting", "failed", "partial", "refused"})
_DECISIONS: tuple[Decision, ...] = ("continue", "revise", "finish")


@dataclass(frozen=True)
class Ground:
    """What a revision is checked against: the run, what there is, the snapshot that was seen, and what runs by now."""

    progress: Progress
    bounds: Bounds
    seen: JsonObject
    running: Collection[str]

    @property
    def statuses(self) -> dict[str, str]:
        return {step["step"]["id"]: step["status"] for step in self.seen["steps"]}


def check_change(reply: JsonObject, ground: Ground, *, asks: int) -> Change:
    """The decision that a reply holds. Raises PlanError with everything that speaks against it."""
    decision, reason = reply.get("decision"), str(reply.get("reason") or "")[:500]
    drop = tuple(dict.fromkeys(read_texts(reply.get("drop"))))
    if decision == "continue":
        return Change("continue", reason, asks=asks)
    if decision == "finish":
        # Dropping what has ended would only hide how it ended.
        still = {id_ for id_, status in ground.statuses.items() if status in ("pending", "waiting")}
        unended = tuple(id_ for id_ in drop if id_ in still and id_ not in ground.running)
        return Change("finish", reason, unended if _may_all_go(unended, ground) else (), asks=asks)
    if decision != "revise":
        raise PlanError([f"decision {decision!r} is unknown; use one of {', '.join(_DECISIONS)}"])
    if reply.get("drop") and not drop:
        raise PlanError(["drop must be a list of ids of steps"])
    return _revision(reply.get("add") or [], drop, ground, Change("revise", reason, drop, asks=asks))


def _may_all_go(drop: Collection[str], ground: Ground) -> bool:
    """Whether the steps that stay need none of those that go."""
    kept = [step for step in ground.progress.plan.steps if step.id not in drop]
    return bool(kept) and not any(need in drop for step in kept for need in step.needs)


def _revision(add: Json, drop: tuple[str, ...], ground: Ground, change: Change) -> Change:
    errors = list(_drop_errors(drop, ground))
    progress = ground.progress
    kept = tuple(step for step in progress.plan.steps if step.id not in drop)
    bounds = replace(ground.bounds, kept=kept, used=frozenset(progress.every))
    added: tuple[AnyStep, ...] = ()
    try:
        added = check_plan({"steps": add}, bounds).steps[len(kept) :]
    except PlanError as error:
        errors += error.errors
    errors += _repeat_errors(added, progress)
    if not errors and not _changes_something(drop, added, progress):
        errors.append("this changes nothing; drop or add something that differs, or continue or finish")
    if errors:
        raise PlanError(errors)
    added, widens = _narrowed(added, ground)
    return replace(change, decision="widen" if widens else "revise", add=added, widens=widens)


def _drop_errors(drop: Iterable[str], ground: Ground) -> Iterable[str]:
    for id_ in drop:
        status = "running" if id_ in ground.running else ground.statuses.get(id_)
        if status is None:
            yield f"there is no step {id_!r} to drop; the plan has {some(ground.statuses)}"
        elif status not in _DROPPABLE:
            yield f"step {id_!r} is {status} and can't be dropped; leave it out of `drop`"


def _repeat_errors(added: Iterable[AnyStep], progress: Progress) -> Iterable[str]:
    done = {
        essence(step): step.id
        for step in progress.every.values()
        if (outcome := progress.outcomes.get(step.id)) is not None and outcome.status == "succeeded"
    }
    for step in added:
        if (same := done.get(essence(step))) is not None:
            yield f"step {step.id!r} repeats {same!r}, which succeeded; use its result instead"
        for need in step.needs:
            outcome, needed = progress.outcomes.get(need), progress.every.get(need)
            if outcome is not None and outcome.status in BLOCKING and needed is not None and not needed.optional:
                yield f"step {step.id!r} needs {need!r}, which is {outcome.status}, so it would never run; need it not"


def essence(step: AnyStep) -> str:
    """What a step does, without its id, title and flags: equal for steps that do the same."""
    match step:
        case CallStep():
            does: Json = [step.tool, step.arguments]
        case WorkerStep():
            does = [step.worker, step.task, sorted(step.needs)]
        case ComposeStep():
            does = [step.task, sorted(step.needs)]
    return digest([step.kind, does])


def _changes_something(drop: Collection[str], added: Collection[AnyStep], progress: Progress) -> bool:
    if any(id_ in progress.outcomes for id_ in drop):
        return True
    return Counter(essence(progress.every[id_]) for id_ in drop) != Counter(map(essence, added))


def _narrowed(added: tuple[AnyStep, ...], ground: Ground) -> tuple[tuple[AnyStep, ...], tuple[str, ...]]:
    """The steps within the tools that the plan has had so far, and the tools beyond those that they still want.

    A worker step that lists no tools gets those of its worker that the plan has had, if there are any.
    """
    had = {tool for step in ground.progress.every.values() for tool in tools_wanted(step, ground.bounds)}
    narrowed: list[AnyStep] = []
    wanted: set[str] = set()
    for step in added:
        wants = tools_wanted(step, ground.bounds)
        if (
            isinstance(step, WorkerStep)
            and step.tools is None
            and had.intersection(wants)
            and not had.issuperset(wants)
        ):
            step = step.model_copy(update={"tools": tuple(tool for tool in wants if tool in had)})
            wants = list(step.tools or ())
        narrowed.append(step)
        wanted.update(wants)
    return tuple(narrowed), tuple(sorted(wanted - had))


def tools_wanted(step: AnyStep, bounds: Bounds) -> list[str]:
    """The full names of the tools that a step may use."""
    if isinstance(step, CallStep):
        tool = find_tool(step.tool, bounds.tools)
        return [step.tool if tool is None else tool.full_name]
    if isinstance(step, WorkerStep):
        worker = bounds.workers.get(step.worker)
        own = tools_of_worker(worker, bounds.tools) if worker is not None else []
        return list(step.tools) if step.tools is not None else sorted(tool.full_name for tool in own)
    return []
