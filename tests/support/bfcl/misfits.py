"""BFCL's ground truths that do not fit their own definitions: what becomes of them in a plan, and by a worker."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from model_script import Rule, answer
from model_server import ModelServer, serve_model

from planner.plan import PlanError
from server.product import Product, Request

from .reading import Item, Json
from .replay import open_shelves
from .shelves import Arrival, Placed, Shelves
from .ways import Way, call_step, worker_rules, worker_step

_SECONDS = 120.0


@dataclass(frozen=True)
class Misfit:
    """A call that does not fit: the errors of a plan with it, what its worker was told, and what the events tell of how
    it was read where it was made after all."""

    item: str
    plan: Sequence[str]
    worker: str
    read_as: Sequence[str]


@dataclass(frozen=True)
class Tried:
    """All misfits of some items, and what reached the tool servers."""

    misfits: Sequence[Misfit]
    arrived: Counter[Arrival]

    @property
    def refused(self) -> list[Misfit]:
        return [each for each in self.misfits if not each.read_as]

    @property
    def read(self) -> dict[str, Sequence[str]]:
        """By item, how the calls that were made were read."""
        return {each.item: each.read_as for each in self.misfits if each.read_as}


async def try_misfits(folder: Path, items: Sequence[Item], way: Way) -> Tried:
    """Every call that does not fit its schema, in a plan of its own and by a worker of its own; it prints the ends."""
    shelves = Shelves.of(item for item in items if not item.fits)
    misfits = {f"w{number}": each for number, each in enumerate(each for each in shelves.calls if not each.fits)}
    rules: list[Rule] = answer("None of them.")
    for id_, each in misfits.items():
        rules += worker_rules(way, id_, [each], shelves, done=False)
    with serve_model(rules) as model:
        async with open_shelves(folder, shelves, way, model) as product:
            plans = {id_: await _plan_errors(product, each) for id_, each in misfits.items()}
            steps = [worker_step(id_, [each], shelves) for id_, each in misfits.items()]
            run_id = await product.start(Request("Make the calls.", plan={"steps": steps}))
            with anyio.fail_after(_SECONDS):
                await product.until(run_id, lambda run: run.ended)
            started = [each for each in await product.store.events(run_id) if each.type == "call.started"]
        read: dict[str | None, Json] = {each.step: each.data.get("read_as", ["as it was"]) for each in started}
        told = [Misfit(each.item, plans[id_], _told(model, id_), read.get(id_, ())) for id_, each in misfits.items()]
    tried = Tried(told, shelves.arrived(folder))
    sys.stdout.write(f"{way}: {len(told)} misfits, {len(tried.refused)} refused, read in another way: {tried.read}\n")
    return tried


async def _plan_errors(product: Product, placed: Placed) -> Sequence[str]:
    try:
        await product.check({"steps": [call_step("only", placed)]})
    except PlanError as error:
        return error.errors
    return ()


def _told(model: ModelServer, step: str) -> str:
    """What came back to the worker for its first call."""
    asked = [each for each in model.requests if each.step == step and each.turn == 1]
    return asked[0].last("tool") or json.dumps(asked[0].body)
