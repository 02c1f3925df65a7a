"""One worker in place of a plan: a goal that a worker can reach by reading goes to it in the user's own words."""

from downstream.json_shape import is_array, is_object
from executors.settings import REVIEWER
from executors.step import WorkerStep
from executors.tools_of_step import tools_of_worker
from executors.wording import cut, wrapped
from journal.runs import Run
from journal.values import Json, JsonObject

from .asking import NOBODY
from .checker import Bounds
from .plan import PlanError

WHOLE_GOAL = "The whole goal"
"""What the one step is called that has the goal for its task."""
CONTEXT = 40_000
"""So many characters of a run's context are used to plan, and given to a worker that does it all."""
_CHANGES_NOTHING = frozenset({"read", "egress"})


def to_plan_with(bounds: Bounds) -> list[str]:
    """The workers that the planner hears of; the reviewer comes by itself."""
    return [name for name in bounds.workers if name != REVIEWER.name]


def readers(bounds: Bounds) -> list[str]:
    """The workers that have tools, none of which changes anything: one of them may be given the goal as it stands."""
    own = {name: tools_of_worker(bounds.workers[name], bounds.offered) for name in to_plan_with(bounds)}
    return [name for name, tools in own.items() if tools and _CHANGES_NOTHING.issuperset(tool.class_ for tool in tools)]


def task_of(goal: str, context: str) -> str:
    """The goal as the task of one worker; its context is material, as it is for a planner."""
    return f"{goal}\n\nContext:\n{wrapped(cut(context, CONTEXT), origin='context')}" if context else goal


def whole_goal(run: Run, worker: str) -> WorkerStep:
    """The goal as the only step, for this worker with all of its tools."""
    task = task_of(run.goal, run.context)
    return WorkerStep(id="goal", kind="worker", title=WHOLE_GOAL, worker=worker, task=task)


def spelled_out(reply: JsonObject, run: Run, bounds: Bounds) -> JsonObject:
    """The plan that is meant by a reply which names the one worker that is to do it all, else the reply.

    Steps of that worker beside its name, and texts made of what it finds, say the same at greater length; with any
    other step the steps count. Raises PlanError for a worker that may not be named in place of steps.
    """
    name: Json = reply.get("alone")
    steps: Json = reply.get("steps") or []
    if name in readers(bounds) and is_array(steps) and all(_adds_nothing(step, name) for step in steps):
        return {"steps": [whole_goal(run, name).model_dump(mode="json", exclude_none=True)]}
    if name and name != NOBODY and not steps:
        may = ", ".join(readers(bounds)) or "none here"
        raise PlanError([f"`alone` is {name!r}, which no worker is that only reads ({may}); write `steps`"])
    # Where nothing stands in them, the reader of replies has left them out.
    no_steps: JsonObject = {"steps": []}
    return no_steps | reply


def _adds_nothing(step: Json, worker: Json) -> bool:
    return is_object(step) and (step.get("worker") == worker or step.get("kind") == "compose")
