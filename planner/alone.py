"""One worker in place of a plan: a goal that a worker can reach by reading goes to it in the user's own words."""

import json
from collections.abc import Sequence

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
    other step, or one whose result is to be reviewed, the steps count. Raises PlanError for a worker that may not be
    named in place of steps.
    """
    may = readers(bounds)
    name, steps = _named(reply.get("alone"), may), _steps(reply)
    if name in may and is_array(steps) and all(_adds_nothing(step, name) for step in steps):
        return {"steps": [whole_goal(run, name).model_dump(mode="json", exclude_none=True)]}
    if name and name != NOBODY and not steps:
        there = ", ".join(may) or "none here"
        raise PlanError([f"`alone` is {name!r}, which no worker is that only reads ({there}); write `steps`"])
    return reply | {"steps": steps}


def _named(written: Json, may: Sequence[str]) -> Json:
    """Who is meant: a list of one name, and a name in other letters, can mean one only."""
    name: Json = written[0] if is_array(written) and len(written) == 1 else written
    small = name.strip().lower() if isinstance(name, str) else name
    return small if small in (*may, NOBODY) else written


def _steps(reply: JsonObject) -> Json:
    """The steps of a reply. A text is read as the list that it writes down, or beside a name as a word for none."""
    steps: Json = reply.get("steps") or []
    if not isinstance(steps, str):
        return steps
    if not steps.strip().startswith("["):
        return [] if reply.get("alone") else steps
    try:
        return json.loads(steps)
    except (ValueError, RecursionError):
        return steps


def _adds_nothing(step: Json, worker: Json) -> bool:
    if not is_object(step) or step.get("kind") not in ("worker", "compose", None):
        # A call may carry a worker's name too, where every field has to be filled in.
        return False
    return step.get("kind") == "compose" or (_named(step.get("worker"), [worker]) == worker and not step.get("review"))
