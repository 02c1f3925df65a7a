"""Runs of every kind, driven in this process on a scripted model and the quick tool server, to be replayed."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import quick_jobs
import toys
from products import call_step, open_test_product, script

from journal.actions import Decision
from journal.archive.fork import create_fork, memo_of
from journal.runs import Run
from planner.forking import fork_of
from server.product import Product, Request
from server.settings import Settings

Json = Any
GOAL = "Compare the Zanzibar offers of 47110815 and mail the winner to kurt@secret-corp.example."
LONG = "Marzipan 8150042 " * 700
"""A text that is kept as an artifact."""
ALLOWED: Json = {"rules": [{"allow": "quick.add"}, {"allow": "quick.stuck"}]}


def worker(id_: str, *needs: str, **more: Json) -> Json:
    """A step of the researcher, with the quick server's reading tools."""
    tools = ["quick.read", "quick.tell", "quick.fail"]
    task = f"Find the Zanzibar price of {id_}."
    return {
        "id": id_,
        "kind": "worker",
        "worker": "researcher",
        "task": task,
        "tools": tools,
        "needs": [*needs],
        **more,
    }


def compose(id_: str, *needs: str) -> Json:
    return {"id": id_, "kind": "compose", "title": "Write", "task": "Write to Kurt.", "needs": list(needs)}


def said(tool: str, status: str = "done", data: Json = None, **arguments: Json) -> Json:
    """An attempt with one call and a report that cites it."""
    findings = [{"claim": "The Zanzibar offer is 47110815 euros.", "evidence": [0]}]
    report = {"status": status, "summary": "Kurt wins with 47110815.", "findings": findings, "confidence": 0.9}
    report |= {} if data is None else {"data": data}
    return {"turns": [{"calls": [{"tool": tool, "arguments": arguments}]}], "report": report}


@dataclass(frozen=True)
class Kind:
    """A run: what its model says, under which settings, what a person does meanwhile, and how it then stands."""

    script: Json
    ends: tuple[str, str | None]
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    choices: tuple[str, ...] = ()
    request: Mapping[str, Json] = field(default_factory=dict[str, Json])
    cancel_at: int | None = None
    """It is cancelled once it has so many events."""
    reopened: Mapping[str, Json] | None = None
    forked: str | None = None


_OFFER: Json = {
    "type": "object",
    "properties": {
        "kurt_name": {"type": "string", "pattern": "^Kurt"},
        "kurt_price": {"type": "integer", "minimum": 9},
    },
    "required": ["kurt_name"],
}
PRICED: Json = {
    "type": "object",
    "properties": {"zanzibar_offers": {"type": "array", "items": _OFFER}, "zanzibar_unit": {"enum": ["Kurt", "Paul"]}},
    "required": ["zanzibar_offers"],
}
PRICES: Json = {"zanzibar_offers": [{"kurt_name": "Kurt & Co", "kurt_price": 47110815}], "zanzibar_unit": "Kurt"}
ADD = call_step("add", "quick.add", key="Kurt 47110815")
WAIT = call_step("wait", "quick.wait", gate="never")
KINDS: dict[str, Kind] = {
    "success": Kind(
        script(call_step("look", "quick.read", key="Zanzibar"), answer="Kurt wins, 47110815."), ("succeeded", "done")
    ),
    "parallel": Kind(
        script(
            *(worker(name) for name in ("left", "right", "middle")),
            compose("text", "left", "right", "middle"),
            steps={
                "left": {"attempts": [said("quick.tell", key="Zanzibar left")]},
                "right": {"attempts": [said("quick.read", key="Zanzibar right")]},
                "middle": {"attempts": [said("quick.tell", key="Zanzibar middle 17")]},
                "text": {"text": "Dear Kurt, it is 47110815."},
            },
        ),
        ("succeeded", "done"),
    ),
    "retry": Kind(
        script(
            worker("study"),
            steps={"study": {"attempts": [said("quick.read", "failed", key="a"), said("quick.tell", key="Kurt b")]}},
        ),
        ("succeeded", "done"),
    ),
    "revision": Kind(
        script(
            call_step("bad", "quick.fail", text="Zanzibar"),
            call_step("side", "quick.read", key="side"),
            revise=[
                {
                    "decision": "revise",
                    "reason": "Kurt broke.",
                    "drop": ["bad"],
                    "add": [call_step("good", "quick.read", key="Kurt")],
                }
            ],
        ),
        ("succeeded", "done"),
    ),
    "widened": Kind(
        script(
            call_step("bad", "quick.fail", text="Zanzibar"),
            call_step("side", "quick.read", key="side"),
            revise=[
                {
                    "decision": "revise",
                    "reason": "Kurt broke.",
                    "drop": ["bad"],
                    "add": [call_step("good", "quick.tell", key="Kurt")],
                }
            ],
        ),
        ("succeeded", "done"),
        choices=("approve",),
    ),
    "commented": Kind(
        script(
            ADD,
            call_step("then", "quick.read", "add", key="x"),
            revise=[{"decision": "continue", "reason": "Kurt."}] * 2,
        ),
        ("succeeded", "done"),
        {"policy": {}},
        ("approve: hurry up for Kurt 47110815",),
    ),
    "raised": Kind(
        script(call_step("one", "quick.read", key="x"), call_step("two", "quick.read", "one", key="y")),
        ("succeeded", "done"),
        {"budget": {"tool_calls": 1}},
        ("raise",),
        {"interactive": True},
    ),
    "resumed": Kind(
        script(call_step("one", "quick.read", key="x"), call_step("two", "quick.read", "one", key="y")),
        ("succeeded", "done"),
        {"budget": {"tool_calls": 1}},
        reopened={"tool_calls": 5},
    ),
    "forked": Kind(
        script(
            call_step("look", "quick.tell", key="Zanzibar"),
            worker("study", "look"),
            call_step("add", "quick.add", "study", key="Kurt"),
            call_step("last", "quick.read", "add", key="x"),
            steps={"study": {"attempts": [said("quick.tell", key="Kurt")]}},
        ),
        ("succeeded", "done"),
        forked="last",
    ),
    "partial": Kind(
        script(
            call_step("look", "quick.read", key="Zanzibar"),
            call_step("bad", "quick.fail", text="Kurt 47110815"),
            call_step("later", "quick.read", "bad", key="x"),
            revise=[{"decision": "continue", "reason": "Kurt says so."}],
        ),
        ("partial", "error"),
    ),
    "refused": Kind(
        script(ADD, call_step("look", "quick.read", key="x")),
        ("partial", "refused"),
        {"policy": {}, "revise": "never"},
        ("deny",),
    ),
    "cancelled": Kind(script(call_step("look", "quick.read", key="x"), WAIT), ("cancelled", "cancelled"), cancel_at=9),
    "budget": Kind(
        script(call_step("one", "quick.read", key="x"), call_step("two", "quick.read", "one", key="y")),
        ("partial", "budget"),
        {"budget": {"tool_calls": 1}},
    ),
    "deadline": Kind(
        script(call_step("look", "quick.read", key="x"), WAIT), ("partial", "deadline"), {"budget": {"seconds": 3.0}}
    ),
    "approved and unknown": Kind(
        script(ADD, call_step("stuck", "quick.stuck", "add", key="Kurt", gate="never")),
        ("succeeded", "done"),
        {"policy": {}, "server_options": {"quick": {"call_timeout": 0.4}}},
        ("approve", "approve", "done"),
    ),
    "artifact": Kind(
        script(
            call_step("big", "quick.tell", key=LONG),
            worker("study", "big"),
            compose("text", "study"),
            steps={
                "study": {"attempts": [said("quick.tell", key="Kurt")]},
                "text": {"text": "Dear Kurt,\nyou win with 47110815."},
            },
        ),
        ("succeeded", "done"),
    ),
    "references": Kind(
        script(
            worker("study", output=PRICED),
            call_step("tell", "quick.tell", key={"$step": "study.zanzibar_offers[0].kurt_name"}),
            steps={"study": {"attempts": [said("quick.tell", key="Zanzibar", data=PRICES)]}},
        ),
        ("succeeded", "done"),
    ),
    "fallback": Kind(
        {
            "plans": [[call_step("no", "quick.nothing", key="Kurt")]] * 3,
            "answer": "Kurt.",
            "steps": {"goal": {"attempts": [said("quick.read", key="Zanzibar")]}},
        },
        ("succeeded", "done"),
    ),
    "given plan": Kind(
        {"answer": "Kurt."},
        ("succeeded", "done"),
        request={"plan": {"steps": [call_step("look", "quick.read", key="Zanzibar")]}},
    ),
    "reviewed": Kind(
        script(
            worker("study", review=True),
            steps={"study": {"attempts": [said("quick.tell", key="Kurt"), said("quick.tell", key="Kurt again")]}},
            review=[{"accepted": False, "problems": ["Kurt is not 47110815."]}, {"accepted": True, "problems": []}],
        ),
        ("succeeded", "done"),
    ),
    "asked first": Kind(
        script(call_step("look", "quick.read", key="x")),
        ("succeeded", "done"),
        choices=("approve",),
        request={"review_plan": True},
    ),
    "cancelled at once": Kind(
        {"plan": {"steps": [ADD], "delay": 30}, "answer": "Kurt."}, ("cancelled", "cancelled"), cancel_at=1
    ),
    "cancelled in a revision": Kind(
        script(call_step("bad", "quick.fail", text="Kurt"), revise=[{"decision": "continue", "delay": 30}]),
        ("cancelled", "cancelled"),
        cancel_at=10,
    ),
    "plan refused": Kind(
        script(call_step("look", "quick.read", key="x")),
        ("partial", "refused"),
        choices=("deny",),
        request={"review_plan": True},
    ),
    "plan waits": Kind(
        script(call_step("look", "quick.read", key="x")), ("awaiting_approval", None), request={"review_plan": True}
    ),
    "waiting": Kind(script(ADD, call_step("look", "quick.read", key="x")), ("awaiting_approval", None), {"policy": {}}),
}


EVERYTHING = Kind(
    script(
        call_step("big", "quick.tell", key=LONG),
        worker("study", "big"),
        compose("text", "study"),
        call_step("add", "quick.add", "text", key="Kurt"),
        steps={"study": {"attempts": [said("quick.tell", key="Kurt")]}, "text": {"text": "Dear Kurt."}},
        answer="Kurt wins.",
    ),
    ("succeeded", "done"),
    {"policy": {}},
    ("approve",),
)


@asynccontextmanager
async def open_recorded(folder: Path, kind: Kind) -> AsyncGenerator[tuple[Product, str]]:
    """A product with the run of this kind, as it stands then."""
    settings = {"policy": ALLOWED, **kind.settings}
    servers = {"quick": toys.entry(quick_jobs.quick(_made(folder) / quick_jobs.LOG))}
    async with open_test_product(folder, script=kind.script, servers=servers, settings=settings) as (product, _):
        request: Json = {"goal": GOAL, "context": "Kurt is our man in Zanzibar, room 47110815.", **kind.request}
        run_id = await product.start(Request(**request))
        with anyio.fail_after(20):
            for choice in kind.choices:
                await _decide(product, run_id, choice)
            if (count := kind.cancel_at) is not None:
                await product.until(run_id, lambda now: now.last_seq >= count)
                await product.cancel(run_id, "enough of Kurt")
            if kind.reopened is not None:
                await _reopen(product, run_id, kind.reopened)
            if kind.forked is not None:
                run_id = await _fork(product, run_id, kind.forked)
            run = await product.until(run_id, lambda now: now.ended or (now.status, None) == kind.ends)
        assert (run.status, run.stop_reason) == kind.ends, run
        yield product, run_id


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def _decide(product: Product, run_id: str, choice: str) -> None:
    while True:
        ring = product.store.bell.listen(run_id)
        waiting = [action for action in await product.store.waiting_actions() if action.run == run_id]
        if waiting:
            said, _, note = choice.partition(": ")
            await product.decide(waiting[0], Decision(said, "person", "terminal", note or None))
            return
        await ring.wait()


async def _reopen(product: Product, run_id: str, budget: Mapping[str, Json]) -> None:
    """Let it end, and go on with more."""
    run: Run = await product.until(run_id, lambda now: now.ended)
    options = run.options | {"budget": run.options["budget"] | dict(budget), "reopened": 1}
    await product.store.reopen(run, options=options)
    await product.engine.wake(run_id)


async def _fork(product: Product, run_id: str, step: str) -> str:
    """Let it end; the id of a new run that goes on from the step."""
    run = await product.until(run_id, lambda now: now.ended)
    store, bound = product.store, {"fingerprint": run.fingerprint, "settings_path": run.settings_path}
    steps, intents = await store.steps(run_id), await store.intents(run_id)
    fork = fork_of(run, step, await memo_of(store, run_id), steps=steps, intents=intents)
    forked = await create_fork(store, fork, **bound)
    await product.engine.wake(forked)
    return forked


async def recorded_once(folder: Path) -> tuple[Settings, str]:
    """The run of every kind of record, made and closed; the settings that it lies under, and its id."""
    async with open_recorded(folder, EVERYTHING) as (product, run_id):
        return product.settings, run_id
