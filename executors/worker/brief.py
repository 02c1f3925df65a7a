"""What a loop of turns begins with, and how it ended."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from downstream.door import Origin
from downstream.model_port import Function, Place
from downstream.models.door import Account
from downstream.tools import Tool
from executors.settings import WorkerSettings
from journal.run_journal import Meaning
from journal.values import JsonObject, Label

from .call_log import CallLog

Style: TypeAlias = Literal["functions", "schema", "text"]
"""How a worker's model is asked for its next action: by native functions, by a JSON schema, or by words alone."""
STYLES: tuple[Style, ...] = ("functions", "schema", "text")


@dataclass(frozen=True)
class Brief:
    """A worker or reviewer about to begin. `key` is the root of its memo keys, `label` that of all it is told.

    `task` is what a long list of tools is searched for; `ending` is the function by which it hands in its result.
    `uncalled` says that its model was offered functions for this before, and called none.
    """

    key: str
    role: Literal["worker", "reviewer"]
    place: Place
    meaning: JsonObject
    worker: WorkerSettings
    task: str
    system: str
    first_message: str
    tools: Collection[Tool]
    ending: Function
    origin: Origin
    label: Label
    artifact_steps: frozenset[str]
    fresh: bool = False
    uncalled: bool = False

    def row(self, name: str) -> Meaning:
        return Meaning(name, self.meaning)

    @property
    def account(self) -> Account:
        return Account(worker=self.worker.name, model=self.worker.model)


@dataclass(frozen=True)
class Ended:
    """How a loop ended: with what was handed in (None: nothing), or why not.

    `limit` names the limit that stopped it; `over_budget` says that it was the run's; `may_retry` is false where the
    model failed in a way that another attempt will not mend.
    """

    log: CallLog
    submission: JsonObject | None = None
    problem: str | None = None
    limit: str | None = None
    over_budget: bool = False
    may_retry: bool = True
