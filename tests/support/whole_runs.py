"""A run in which every role is asked, over a tool server whose words are all canaries; what was sent to its models."""

import gc
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from model_script import Rule, Turn, answer, call, compose, planner, report, reviewer, reviser, worker
from model_server import serve_model
from model_wire import ModelRequest, Wire
from products import write_settings
from recorded_requests import Sent, open_relay

from journal.world import World
from server.assembly import open_product
from server.product import Product, Request
from server.settings import Found, load_settings

_CANNED = Path(__file__).parent / "toy_servers" / "canned_server.py"
MODELS: dict[Wire, str] = {
    "openai": "openai/m",
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
GOAL = "Find out what the shop has."
CANARIES = {
    "look": "canary-look-4f1a",
    "peek": "canary-peek-77c0",
    "big": "canary-big-b21e",
    "fail": "canary-error-90ad",
    "send": "canary-sent-1c3d",
}
"""By tool, a word that stands in its results and nowhere else."""
LOOK_ALIKE = "Iook"
LISTED = ("shop.big", "shop.fail", "shop.look")
_REPORT = report("Seen.", {"It is there.": [0]})


def results() -> dict[str, Any]:
    """What each tool of the server gives; of two more the policy denies one, and one can be taken for `look`."""
    said: dict[str, Any] = {tool: {"content": [_text(f"{word} is what it has.")]} for tool, word in CANARIES.items()}
    said["look"]["structuredContent"] = {"note": CANARIES["look"], "stock": {"pears": 3}}
    said["big"]["content"] = [_text(f"{CANARIES['big']} line {number}\n" * 3) for number in range(200)]
    said["fail"]["isError"] = True
    return said | {tool: {"content": [_text("never to be called")]} for tool in ("shut", LOOK_ALIKE)}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _worker(id_: str, task: str, *, needs: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    step = {"id": id_, "kind": "worker", "title": id_, "worker": "researcher", "task": task, "needs": list(needs)}
    return step | {"tools": list(LISTED)} | changes


def _call(id_: str, tool: str, *needs: str) -> dict[str, Any]:
    return {"id": id_, "kind": "call", "title": id_, "tool": tool, "arguments": {}, "needs": list(needs)}


def _plan(*, reviewed: bool) -> list[dict[str, Any]]:
    draft = {"id": "draft", "kind": "compose", "title": "draft", "task": "Write it up."}
    return [
        _call("first", "shop.look"),
        _call("large", "shop.big"),
        _worker("study", "Study the shelves.", needs=("first", "large"), review=reviewed),
        _worker("twin", "Study the cellar.", needs=("first", "large")),
        _worker("keep", "Keep watch.", worker="keeper", tools=None),
        _worker("hasty", "Look around.", worker="hasty", optional=True),
        _worker("mute", "Look in silence.", optional=True),
        _call("post", "shop.send"),
        draft | {"needs": ["first", "study", "twin"]},
        _call("broken", "shop.fail", "draft", "keep", "post", "hasty", "mute"),
    ]


_TURNS: list[Turn] = [
    [call("shop.look"), call("shop.fail")],
    [call("shop.big")],
    [call("shop.look", again=True)],
]
REVISED = {"decision": "revise", "drop": ["broken"], "add": [_call("mend", "shop.peek", "draft")]}
RULES: list[Rule] = [
    *worker("study", _TURNS, _REPORT),
    *worker("twin", _TURNS, _REPORT | {"confidence": 0.3}),
    *worker("keep", [[call("shop.peek"), call("shop.look")]], _REPORT),
    *worker("hasty", [[call("shop.look"), call("shop.fail")], "I go on."]),
    *worker("mute", [[call("shop.look"), call("shop.fail")], "I say nothing of it."]),
    *reviewer("study", [[call("shop.peek")]]),
    *compose("draft", "It is written."),
    *reviser([{"decision": "continue"}, REVISED], cues={1: "required step broken failed"}),
    *answer("There it is."),
]


Refused: TypeAlias = Literal["nothing", "schemas", "functions", "both"]
"""What models are asked for and do not take, so that they are asked in the next way."""
_REFUSES: dict[Refused, Callable[[ModelRequest], bool]] = {
    "nothing": lambda _: False,
    "schemas": lambda asked: asked.schema is not None,
    "functions": lambda asked: bool(asked.functions),
    "both": lambda asked: bool(asked.functions) or asked.schema is not None,
}


@dataclass(frozen=True)
class Whole:
    """A run that has ended, and all that its models were sent, in order."""

    status: str
    sent: list[Sent]

    def of(self, role: str, step: str | None = None) -> list[Sent]:
        """The requests of a role, or of a step's, in order."""
        return [each for each in self.sent if each.read.role == role and step in (None, each.read.step)]


def settings_of(folder: Path, wire: Wire, url: str) -> Path:
    """Settings whose model is at this address, and whose one tool server gives canaries."""
    (folder / "results.json").write_text(json.dumps(results()))
    base = f"{url}/v1" if wire == "openai" else url
    given = {
        "model": MODELS[wire],
        "model_options": {"api_base": base, "api_key": "none-is-needed", "timeout": 60},
        "policy": {"rules": [{"deny": "shop.shut"}, {"allow": "shop.send"}]},
        "workers": [
            {"name": "researcher", "instructions": "You look.", "tools": [*LISTED, "shop.peek"]},
            {"name": "hasty", "instructions": "You hurry.", "tools": [*LISTED], "limits": {"turns": 1}},
            {"name": "keeper", "instructions": "You watch.", "tools": ["shop.*"], "disallowed_tools": ["shop.send"]},
        ],
    }
    command = {"command": sys.executable, "args": ["-I", "-S", str(_CANNED), str(folder / "results.json")]}
    return write_settings(folder, script={}, servers={"shop": command}, settings=given)


@asynccontextmanager
async def open_on(config: Path) -> AsyncGenerator[Product]:
    """A product on these settings."""
    loaded = load_settings(Found(config, "option"), environ=os.environ)
    async with open_product(loaded, world=World()) as product:
        yield product
    # litellm leaves the connection of a stream to the garbage collector, which would warn of it at the very end.
    gc.collect()


@cache
def whole_run(wire: Wire, refused: Refused = "nothing") -> Whole:
    """The run on this wire, with models that take not everything; it is made once."""
    with tempfile.TemporaryDirectory() as place:
        return anyio.run(_whole_run, Path(place), wire, refused)


async def _whole_run(folder: Path, wire: Wire, refused: Refused) -> Whole:
    rules = planner(_plan(reviewed=refused in ("nothing", "schemas"))) + RULES
    with serve_model(rules) as model, open_relay(model.url, refuses=_REFUSES[refused]) as relay:
        async with open_on(settings_of(folder, wire, relay.url)) as product:
            with anyio.fail_after(60):
                run_id = await product.start(Request(GOAL))
                run = await product.until(run_id, lambda run: run.ended or run.status == "awaiting_approval")
        unmatched = [each.describe() for each in model.unmatched]
        assert unmatched == [], unmatched
        return Whole(f"{run.status}: {run.message}", list(relay.kept))


def canaries_in(sent: Sent) -> list[str]:
    """The tools of which a word stands in the request."""
    return [tool for tool, word in CANARIES.items() if word.encode() in sent.body]
