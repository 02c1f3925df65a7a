"""BFCL's calls through the whole product, and how they arrived at the tool servers."""

import gc
import json
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from jsonschema import Draft202012Validator
from model_server import ModelServer, serve_model
from model_wire import ModelRequest, Wire
from products import open_test_product

from downstream.json_shape import is_array, is_object
from server.product import Product, Request

from .reading import Item, Json, JsonObject
from .shelves import Arrival, Placed, Shelves
from .ways import Job, Way, goal_of, jobs, parts

MODELS: dict[Wire, str] = {
    "openai": "openai/m",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
_ITEMS = 300
"""In one product: with more of them, more servers are needed that have a tool of the same name."""
_SECONDS = 300.0
_LINES = re.MULTILINE | re.DOTALL


@dataclass
class Replayed:
    """What came of a way: calls that should arrive and that did, runs that did not succeed, and requests that did not
    offer what was called, or not with a schema that its arguments fit."""

    way: Way
    expected: Counter[Arrival] = field(default_factory=Counter[Arrival])
    arrived: Counter[Arrival] = field(default_factory=Counter[Arrival])
    failed: list[str] = field(default_factory=list[str])
    unfit: list[str] = field(default_factory=list[str])
    requests: int = 0
    seconds: float = 0.0

    @property
    def mismatches(self) -> list[str]:
        """All that went wrong, as lines to read."""
        lost, foreign = self.expected - self.arrived, self.arrived - self.expected
        lines = [f"did not arrive: {each}" for each in lost] + [f"arrived: {each}" for each in foreign]
        return [*lines, *self.failed, *self.unfit]

    def __str__(self) -> str:
        equal = (self.expected & self.arrived).total()
        sent = f"{self.expected.total()} calls, {equal} arrived equal, {len(self.mismatches)} mismatches"
        return f"{self.way!s:24} {sent}, {self.requests} requests to models, {self.seconds:.0f} s"


async def replay(folder: Path, items: Sequence[Item], way: Way) -> Replayed:
    """All calls of these items that fit their schemas, by this way; it prints what came of them."""
    replayed, began = Replayed(way), time.monotonic()
    for number, some in enumerate(parts(items, _ITEMS)):
        await _replay(folder / str(number), Shelves.of(some), replayed)
    replayed.seconds = time.monotonic() - began
    sys.stdout.write(f"{replayed}\n" + "".join(f"  {line}\n" for line in replayed.mismatches))
    return replayed


async def _replay(folder: Path, shelves: Shelves, replayed: Replayed) -> None:
    every = list(jobs(replayed.way, shelves))
    rules = [rule for job in every for rule in job.rules]
    with serve_model(rules) as model:
        async with open_shelves(folder, shelves, replayed.way, model) as product:
            for number, job in enumerate(every):
                with anyio.fail_after(_SECONDS):
                    replayed.failed += await _run(product, job, number)
        replayed.expected.update(each.arrival for job in every for each in job.calls)
        replayed.arrived.update(shelves.arrived(folder))
        replayed.failed += [f"nothing answers {each.describe()}" for each in model.unmatched]
        replayed.requests += len(model.requests)
        replayed.unfit += unfit(model.requests, shelves)


@asynccontextmanager
async def open_shelves(folder: Path, shelves: Shelves, way: Way, model: ModelServer) -> AsyncGenerator[Product]:
    """A product over these servers, whose models are the model server, on the way's wire or else OpenAI's."""
    await anyio.Path(folder).mkdir(parents=True)
    wire: Wire = way.wire or "openai"
    base = f"{model.url}/v1" if wire == "openai" else model.url
    servers = shelves.entries(folder)
    settings = {
        "model": MODELS[wire],
        "model_options": {"api_base": base, "api_key": "none-is-needed", "timeout": 60},
        # So that no call is left out for one before it, and what one server's tools tell may go to another.
        "server_options": {name: {"private": True, "tools": {"*": {"cache": False}}} for name in servers},
        "workers": [{"name": "caller", "tools": ["*"], "limits": {"turns": 50, "tool_calls": 50}}],
        "budget": dict.fromkeys(("steps", "model_calls", "tool_calls"), 10_000) | {"tokens": 100_000_000},
        "revise": "never",
    }
    async with open_test_product(folder, script={}, servers=servers, settings=settings) as (product, _):
        yield product
    # litellm leaves the connection of a stream to the garbage collector, which would warn of it at the very end.
    gc.collect()


async def _run(product: Product, job: Job, number: int) -> list[str]:
    plan: JsonObject | None = None if job.plan is None else {"steps": job.plan}
    run_id = await product.start(Request(goal_of(number), plan=plan))
    run = await product.until(run_id, lambda run: run.ended or run.status == "awaiting_approval")
    if run.status == "succeeded":
        return []
    asked = [f"{action.tool} {action.reasons}" for action in await product.store.actions(run_id)]
    ended = [event for event in await product.store.events(run_id) if event.type == "step.ended"]
    told = [f"{event.step} {event.data}" for event in ended if event.data.get("status") != "succeeded"]
    return [f"run {number} is {run.status}: {run.message} {asked[:3]} {told[:3]}"]


def unfit(requests: Iterable[ModelRequest], shelves: Shelves) -> list[str]:
    """Of the first requests of workers: which tools they lack, or show so that a model which keeps to their schemas
    could not make the calls. They are read from the body, as the provider gets them."""
    wanted: dict[str, list[Placed]] = {}
    for each in shelves.calls:
        if each.fits:
            wanted.setdefault(shelves.wires[each.tool], []).append(each)
    found: dict[str, str] = {}
    seen: set[str] = set()
    for request in requests:
        if request.role == "worker" and request.turn == 0:
            for name, schema in _offered(request):
                seen.add(name)
                validator: Any = Draft202012Validator(schema)
                for each in wanted.get(name, ()):
                    if not validator.is_valid(each.named):
                        found[f"{each.item} {name}"] = f"{each.item}: {name} is shown as {json.dumps(schema)}"
    lacking = [f"{name} was offered to nobody" for name in wanted if seen and name not in seen]
    return [*found.values(), *lacking]


def _offered(request: ModelRequest) -> Iterable[tuple[str, Json]]:
    """The functions of a request on any of the wires, or those that its words tell of, with their parameters as a JSON
    Schema."""
    for name, schema in re.findall(r"^- ([\w-]+): .*?^  arguments: (\{.*?\})$", request.text("system"), _LINES):
        yield name, json.loads(schema)
    for tool in request.body.get("tools", ()):
        for each in tool.get("function_declarations") or [tool.get("function") or tool]:
            yield each["name"], _lower(each.get("parameters") or each.get("input_schema") or {"type": "object"})


def _lower(schema: Json) -> Json:
    """Gemini's types may be in capitals."""
    if is_object(schema):
        kind: Json = schema.get("type")
        lowered = {"type": kind.lower()} if isinstance(kind, str) else {}
        return {key: _lower(part) for key, part in schema.items()} | lowered
    return [_lower(part) for part in schema] if is_array(schema) else schema
