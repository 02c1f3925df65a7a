"""What goes with a run's rows into its export: the tools that it used, and the settings that a replay needs."""

from dataclasses import asdict

from downstream.servers.catalogue import remembered_tools
from journal.archive.transfer import About
from journal.store import Store
from journal.values import Json, JsonObject

from .settings import Settings


async def about_run(store: Store, settings: Settings, run_id: str) -> About:
    """Without the values of secrets, commands, addresses and variables of servers."""
    used = await _servers_of(store, run_id)
    tools = await remembered_tools(store.remembered, [server for server in settings.servers if server.name in used])
    shown: list[Json] = []
    for tool in tools:
        fields = asdict(tool)
        shown.append({"class": fields.pop("class_"), "pin": tool.pin, **fields})
    return About(shown, _needed(settings))


async def _servers_of(store: Store, run_id: str) -> set[str]:
    """The servers that the run's calls and steps name."""
    named: list[Json] = [event.data.get("tool") for event in await store.events(run_id) if event.type == "call.started"]
    for step in await store.steps(run_id):
        named += [step.definition.get("tool"), *(step.definition.get("tools") or ())]
    return {str(name).partition(".")[0].partition("__")[0] for name in named if name}


def _needed(settings: Settings) -> JsonObject:
    workers = [worker.model_dump(mode="json", exclude_none=True) for worker in settings.workers]
    model = settings.model.model_dump(mode="json", exclude_none=True, exclude={"options"})
    return {
        "fingerprint": settings.fingerprint,
        "model": model,
        "workers": workers,
        "server_options": {server.name: server.options.model_dump(mode="json") for server in settings.servers},
        "policy": settings.policy.model_dump(mode="json", exclude_none=True),
        "approvals": settings.approvals.model_dump(mode="json"),
        "budget": settings.budget.model_dump(mode="json"),
        "revise": settings.revise,
    }
