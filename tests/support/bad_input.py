"""A product in this process whose models are asked through real litellm, for tests of what goes wrong on the way."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import model_server as m
import toys
from audit_chain import broken_line
from mcp_hosts import Host, open_host
from products import call_step, open_test_product

from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World

GOAL = "Say when it ships."
FOUND = "Ship on Friday."
"""What the step `look` finds in the ledger; it must not be lost, whatever becomes of the others."""
LOOK = call_step("look", "ledger.read_item", key="plan")
STUDY = {
    "id": "study",
    "kind": "worker",
    "title": "Study it",
    "worker": "researcher",
    "task": "Find out when it ships.",
    "tools": ["ledger.read_item", "ledger.echo", "ledger.fail"],
}
ANSWER = "It ships on Friday."
READ = m.call("ledger.read_item", key="plan")
STUDIED = m.worker("study", [[READ]], m.report("It ships on Friday.", {"It ships on Friday.": [0]}))


@dataclass(frozen=True)
class Asked:
    """A host in front of the product, and the server that its models are asked at."""

    host: Host
    model: m.ModelServer
    log: Path

    async def run(self, goal: str = GOAL, *, within: float = 40) -> Any:
        """The RunView of a run of this goal; raises TimeoutError where it does not end or wait in time."""
        return await self.host.structured("plan_and_execute", {"goal": goal}, within=within)

    def asked(self, role: str) -> list[m.ModelRequest]:
        """The requests of one role, in order."""
        return [request for request in self.model.requests if request.role == role]


@asynccontextmanager
async def open_asked_product(
    folder: Path,
    rules: Sequence[m.Rule],
    *,
    servers: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    root: bool = False,
) -> AsyncGenerator[Asked]:
    """The product on a ledger server and these others, without the chance in the pauses between its tries.

    Models are asked as OpenAI's are, or at the `root`, as those of the others.
    """
    log = folder / "ledger.log"
    ledger = toys.entry(toys.ledger(log, plan=FOUND))
    with m.serve_model(rules) as model:
        base = model.url if root else f"{model.url}/v1"
        asking = {"api_base": base, "api_key": "not-a-secret-1", "timeout": 20, **(options or {})}
        written = {"model": "openai/scripted", "model_options": asking, **(settings or {})}
        given = {"ledger": ledger, **(servers or {})}
        world = World(chance=lambda: 0.0)
        async with (
            open_test_product(folder, script={}, servers=given, settings=written, world=world) as (_, server),
            open_host(server) as host,
        ):
            yield Asked(host, model, log)


async def check_kept(folder: Path, view: Any, *steps: str) -> None:
    """The store opens again: it says the same of the run, these steps succeeded, and its audit lines hold together."""
    with anyio.fail_after(10):
        async with open_store(folder / "store.db", World(), Outlet(), owner="local") as store:
            run = await store.run(view["run_id"])
            rows = await store.steps(run.id)
            broken = await broken_line(store)
    assert (run.status, run.stop_reason, run.driver) == (view["status"], view["stop_reason"], None)
    assert set(steps) <= {row.id for row in rows if row.status == "succeeded"}
    assert broken is None


def kinds(view: Any) -> dict[str, str]:
    """What became of each step of a run that has ended."""
    return {step["id"]: step["status"] for step in view["step_list"]}


OURS = ("Traceback", "site-packages", "pydantic", "litellm.", "Exception", "<class", "errors.pydantic.dev")
"""Words that no message of ours may hold: a person can do nothing with them."""


def check_words(text: str, *told: str) -> None:
    """The text says all of this, in our own words."""
    assert [words for words in told if words not in text] == [], text
    assert [words for words in OURS if words in text] == [], text
