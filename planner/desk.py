"""What the planner floor works with: whom it asks, who carries out steps, and what there is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from downstream.gate.policy import idle_waivers
from downstream.model_port import Role
from downstream.models.door import Account
from downstream.policy_settings import PolicySettings
from downstream.tools import Tool
from executors.contract import Execute
from executors.settings import WorkerSettings
from journal.runs import Run

from .asking import Ask
from .checker import Bounds
from .offer import Offer, idle_patterns, offer_workers
from .settings import BudgetSettings, Revise


class Catalogue(Protocol):
    """The tools of all servers, opening those never seen; and of servers that could not be opened, why not."""

    async def tools(self) -> Sequence[Tool]: ...

    def missing(self) -> Mapping[str, str]: ...

    def quarantined(self) -> Mapping[str, str]:
        """Why tools that their servers list may not be used, by their full names."""
        ...

    def warnings(self) -> Sequence[str]:
        """Sentences for the run about what is missing or has changed."""
        ...


def _any_model(role: Role, account: Account) -> str:
    """One model for everything, whichever that is."""
    return ""


@dataclass(frozen=True)
class Desk:
    """Everything that a drive needs besides its journal. `notes` are the operator's words to the planner.

    `denied` says whether the policy never lets a tool be called; `warnings` are sentences that every run carries.
    `pending_seconds` is how long a question of this floor waits for a person. `model_for` names the model that would be
    asked first, and raises NoModel.
    """

    ask: Ask
    execute: Execute
    catalogue: Catalogue
    workers: tuple[WorkerSettings, ...]
    denied: Callable[[Tool], bool]
    budget: BudgetSettings
    revise: Revise = "on_trigger"
    notes: str = ""
    warnings: tuple[str, ...] = ()
    pending_seconds: float = 86_400.0
    policy: PolicySettings = field(default_factory=PolicySettings)
    model_for: Callable[[Role, Account], str] = _any_model

    def budget_of(self, run: Run) -> BudgetSettings:
        """The settings' budget with the limits that this run was given."""
        known = {
            name: value for name, value in run.options.get("budget", {}).items() if name in BudgetSettings.model_fields
        }
        return self.budget.model_copy(update=known)

    async def offer(self) -> Offer:
        """The workers that may be named now, with the tools of all servers."""
        tools = await self.catalogue.tools()
        offer = offer_workers(self.workers, tools, missing=self.catalogue.missing())
        names = tuple(dict.fromkeys((*(tool.full_name for tool in tools), *self.catalogue.quarantined())))
        idle = [*idle_patterns(self.policy, names), *idle_waivers(self.policy, tools)]
        return replace(offer, warnings=(*offer.warnings, *idle))

    def bounds(self, offer: Offer, *, max_steps: int) -> Bounds:
        """What a first plan may use."""
        held = frozenset(self.catalogue.quarantined())
        return Bounds(offer.tools, offer.workers, self.denied, max_steps, held=held)
