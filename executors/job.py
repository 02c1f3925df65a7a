"""A step to carry out with what its memo rows mean, and what executors are given to carry it out with."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeAlias, TypeVar

from downstream.door import CallTool, Origin
from downstream.model_port import ModelReply, ModelRequest, Role, Traits
from downstream.models.door import Account
from journal.canonical import digest
from journal.remembered import Remembered
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject, Label, Value, join

from .settings import WorkerSettings
from .step import CallStep, ComposeStep, WorkerStep, step_key
from .tools_of_step import Catalogue

S = TypeVar("S", bound=CallStep | WorkerStep | ComposeStep, covariant=True)


class Ask(Protocol):
    """A model's reply, recorded under `key` before it is returned; see `ModelDoor.ask`."""

    async def __call__(
        self, journal: RunJournal, key: str, meaning: Meaning, request: ModelRequest, *, account: Account
    ) -> ModelReply: ...


async def _what_most_have(model: str) -> Traits:
    return Traits()


@dataclass(frozen=True)
class Equipment:
    """What executors have: the two doors, what is known of tools and workers, and what is remembered between runs.

    `model_for` names the model that would be asked first; `retries` says how often a failed attempt of this run may be
    made again. `traits_of` tells what is known of a model, such as how many tokens it takes in one request.
    """

    ask: Ask
    call_tool: CallTool
    catalogue: Catalogue
    workers: Mapping[str, WorkerSettings]
    remembered: Remembered
    model_for: Callable[[Role, Account], str]
    retries: Callable[[RunJournal], int]
    traits_of: Callable[[str], Awaitable[Traits]] = _what_most_have


@dataclass(frozen=True)
class Job(Generic[S]):
    """An assignment with the root of its memo keys and the meaning of its rows; `label` is of the step's own words."""

    step: S
    inputs: Mapping[str, Value]
    origin: Origin
    label: Label

    @cached_property
    def key(self) -> str:
        return step_key(self.step)

    @cached_property
    def meaning(self) -> JsonObject:
        """The step's definition and hashes of the values that it was given."""
        hashes = {step: _hash(value) for step, value in sorted(self.inputs.items())}
        return {"step": self.step.model_dump(mode="json"), "inputs": hashes}

    @property
    def read(self) -> Label:
        """Of all that a model reads which is given this step."""
        return join([self.label, *(value.label for value in self.inputs.values())])

    @property
    def artifact_steps(self) -> frozenset[str]:
        """The steps whose artifacts this one may use."""
        return frozenset({self.step.id, *self.inputs})


AnyJob: TypeAlias = Job[CallStep | WorkerStep | ComposeStep]


def under_limits(key: str, journal: RunJournal) -> str:
    """A key for what holds only under the run's limits of now: tried anew once a person raises one, or reopens the run.

    A day's budget has room again on another day, with no limit raised.
    """
    holds: list[Json] = [journal.limits.__dict__]
    if generation := journal.run.options.get("reopened", 0):
        holds.append(generation)
    return f"{key}/limits.{digest(holds)[:8]}"


def _hash(value: Value) -> str:
    # Not canonical JSON: a result may hold what has no canonical form, such as half a surrogate pair.
    return hashlib.sha256(json.dumps(value.to_json(), sort_keys=True).encode()).hexdigest()
