"""A piece of work through the whole product, asked of the counting server over the wire."""

import base64
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import anyio

from journal.values import JsonObject
from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings
from server.views.cost import Amount, cost_of

from .counting import Counted, serve_counting
from .scripts import Way

OPENAI, ANTHROPIC = "openai/scripted", "anthropic/claude-sonnet-4-5"
_BASES = {OPENAI: "/v1", ANTHROPIC: ""}
_SECONDS = 120.0


@dataclass(frozen=True)
class Ran:
    """A run: how it ended, every request as the server counted it, and what the ledger says by role."""

    way: str
    status: str
    requests: Sequence[Counted]
    ledger: Mapping[str, Amount]

    @property
    def by_role(self) -> dict[str, int]:
        """Input tokens as the server counted them."""
        sums: dict[str, int] = defaultdict(int)
        for request in self.requests:
            sums[request.role] += request.tokens
        return dict(sums)

    @property
    def tokens(self) -> int:
        return sum(self.by_role.values())

    @property
    def cached(self) -> int:
        """Those that a provider's cache gave."""
        return sum(request.cached for request in self.requests)

    @property
    def written(self) -> int:
        """Those that were put into a provider's cache."""
        return sum(request.written for request in self.requests)


def run(way: Way, folder: Path, *, model: str = OPENAI) -> Ran:
    """Do the work in this folder, with a model on OpenAI's or Anthropic's wire."""
    with serve_counting(way.rules) as server:
        config = _settings(way, folder, {"model": model, "model_options": {"api_base": f"{server.url}{_BASES[model]}"}})
        status, ledger = anyio.run(partial(_driven, way.goal, config))
        return Ran(way.name, status, server.counted, ledger)


def _settings(way: Way, folder: Path, model: JsonObject) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    for name, text in way.notes.items():
        (notes / name).write_text(text, encoding="utf-8")
    commands = {name: [word.replace("{notes}", str(notes)) for word in words] for name, words in way.servers.items()}
    settings: JsonObject = {
        **model,
        "mcpServers": {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()},
        "store": f"sqlite:///{folder / 'store.db'}",
        "approvals": {"page": "off"},
    }
    path = folder / "steprelay.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


async def _driven(goal: str, config: Path) -> tuple[str, dict[str, Amount]]:
    settings = load_settings(Found(config, "option"), environ=os.environ)
    chance = Random(1)

    def new_id(prefix: str) -> str:
        """As the product's, but the same in each run: ids take tokens too."""
        return f"{prefix}_{base64.b32encode(chance.randbytes(17)).decode().lower()[:26]}"

    async with open_product(settings, world=World(new_id=new_id), adopts=False) as product:
        run_id = await product.start(Request(goal, goal_label="user"))
        with anyio.fail_after(_SECONDS):
            ended = await product.until(run_id, lambda now: now.ended)
        return ended.status, await _ledger(product, run_id)


async def _ledger(product: Product, run_id: str) -> dict[str, Amount]:
    cost = await cost_of(product.store, run_id)
    lines: dict[str, list[Amount]] = defaultdict(list)
    for line in cost.lines:
        if line.took.model_calls:
            lines[line.role].append(line.took)
    return {role: _sum(several) for role, several in lines.items()}


def _sum(several: Sequence[Amount]) -> Amount:
    return Amount(
        model_calls=sum(each.model_calls for each in several),
        input_tokens=sum(each.input_tokens for each in several),
        output_tokens=sum(each.output_tokens for each in several),
        cached_tokens=sum(each.cached_tokens for each in several),
    )
