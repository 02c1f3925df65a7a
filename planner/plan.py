"""A plan: steps that are known to fit together. One that does not cannot be constructed."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from executors.step import CallStep, ComposeStep, WorkerStep
from executors.wording import cut
from journal.errors import SteprelayError
from journal.values import JsonObject

from .references import referenced_steps

AnyStep: TypeAlias = CallStep | WorkerStep | ComposeStep
NAMED = 12
"""So many names of a kind are listed in one error, or about one step; more would only hide what is wrong."""
_TOLD, _LONGEST = 40, 1_000


class PlanError(ValueError, SteprelayError):
    """A plan that may not run; `errors` lists everything that is wrong with it, each with its way out.

    `told` are those that its writer is told of: the first ones, and how many there are besides.
    """

    def __init__(self, errors: Iterable[str]) -> None:
        self.errors = tuple(cut(error, _LONGEST) for error in errors)
        more = len(self.errors) - _TOLD
        self.told = (
            *self.errors[:_TOLD],
            *([f"and {more} more {'error' if more == 1 else 'errors'}"] if more > 0 else []),
        )
        super().__init__("\n".join(["the plan is not valid:", *(f"- {error}" for error in self.told)]))


@dataclass(frozen=True)
class Plan:
    """Steps in the order in which they were written: ids unique, needs known and acyclic, every reference a need.

    Raises PlanError otherwise. Whether workers, tools and arguments exist and fit is what `check_plan` has checked.
    """

    steps: tuple[AnyStep, ...]

    def __post_init__(self) -> None:
        if errors := graph_errors(self.steps):
            raise PlanError(errors)

    @property
    def by_id(self) -> dict[str, AnyStep]:
        return {step.id: step for step in self.steps}

    def to_json(self) -> list[JsonObject]:
        """The steps as plain data, without fields that are empty."""
        return [step.model_dump(mode="json", exclude_defaults=True) for step in self.steps]


def listed(steps: Iterable[AnyStep]) -> list[JsonObject]:
    """Steps as events tell of them."""
    return [{"id": step.id, "kind": step.kind, "title": step.title, "needs": list(step.needs)} for step in steps]


def with_implied_needs(step: AnyStep) -> AnyStep:
    """The step with every step that its arguments refer to among its needs."""
    if not isinstance(step, CallStep):
        return step
    implied = [id_ for id_ in referenced_steps(step.arguments).ids if id_ not in step.needs]
    return step.model_copy(update={"needs": (*step.needs, *dict.fromkeys(implied))}) if implied else step


def some(names: Collection[str]) -> str:
    """These names, or the first of them and how many there are besides."""
    more = len(names) - NAMED
    return ", ".join([*islice(names, NAMED), *([f"and {more} more"] if more > 0 else [])])


def graph_errors(steps: Sequence[AnyStep]) -> list[str]:
    """Everything that is wrong with the way these steps hang together."""
    if not steps:
        return ["the plan has no step; it needs at least one"]
    ids = [step.id for step in steps]
    twice = sorted(id_ for id_, times in Counter(ids).items() if times > 1)
    errors = [f"step id {id_!r} is used more than once; give each step an id of its own" for id_ in twice]
    needs = {step.id: step.needs for step in steps}
    for step in steps:
        errors += _need_errors(step, needs)
    return errors + _cycle_errors(needs)


def _need_errors(step: AnyStep, needs: Mapping[str, Sequence[str]]) -> list[str]:
    unknown = [need for need in step.needs if need not in needs]
    errors = [
        f"step {step.id!r} needs {need!r}, which is no step of the plan; it has: {some(needs)}"
        for need in unknown[:NAMED]
    ]
    if len(unknown) > NAMED:
        errors.append(f"step {step.id!r} needs {len(unknown) - NAMED} more that are no steps of the plan")
    if step.id in step.needs:
        errors.append(f"step {step.id!r} needs itself; take that need out")
    if isinstance(step, CallStep):
        missing = [id_ for id_ in referenced_steps(step.arguments).ids if id_ not in step.needs]
        errors += [f"step {step.id!r} refers to {id_!r} without needing it; add it to its needs" for id_ in missing]
    return errors


def _cycle_errors(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """One error that names a cycle, found by taking away steps whose needs are all taken away."""
    # What is no step, or the step itself, has been told of already.
    open_needs = {id_: {need for need in named if need in needs and need != id_} for id_, named in needs.items()}
    while free := [id_ for id_, named in open_needs.items() if not named]:
        for id_ in free:
            del open_needs[id_]
        for named in open_needs.values():
            named.difference_update(free)
    if not open_needs:
        return []
    path = [next(iter(open_needs))]
    while path[-1] not in path[:-1]:
        path.append(min(open_needs[path[-1]]))
    cycle = path[path.index(path[-1]) :]
    return [f"the needs form a cycle: {' needs '.join(cycle)}; take one of these needs out"]
