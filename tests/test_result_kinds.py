"""Each kind of result through the whole product: what models see of it, what people see, and what other steps get."""

import base64
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from executing import open_bench, prose, report, texts, turns, uses, worker_step
from products import call_step, open_test_product, script

from executors.step import ComposeStep
from journal.artifacts import NewArtifact
from journal.values import Value
from server.product import Request
from server.views.standing import standing_lines, standing_of

SERVER = Path(__file__).parent / "support" / "toy_servers" / "canned_server.py"
BYTES = base64.b64encode(b"1234").decode()
ODD = "pay\u202elive\u202c \u200bnow\x1b[31m"
PAGE = "".join(f"line {number:03d}\n" for number in range(1000))


def text(*said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": each} for each in said], **more}


def block(**content: Any) -> dict[str, Any]:
    return {"content": [content]}


@dataclass(frozen=True)
class Kind:
    """A result as a server gives it, and what becomes of it; `f_…` stands for the id of an artifact.

    `told` is the summary of its step; the value of other steps is the text that models see, unless `value` says more.
    """

    result: dict[str, Any]
    seen: str
    told: str
    value: Any = None
    ok: bool = True
    empty: bool = False


IMAGE = "[image, image/png, 4 bytes, kept as f_…]"
SOUND = "[audio, audio/wav, 4 bytes, kept as f_…]"
BLOB = "[resource note://2, application/pdf, 4 bytes, kept as f_…]"
LINK = "[link to note://3, not read: three, text/plain]"
HANDLE = "f_…; read_artifact reads a range, searches or takes a JSON path, and"
LARGE = (
    f'[9,000 characters, kept whole as {HANDLE} {{"$artifact": "f_…"}} passes it on as an argument]\n'
    f"{PAGE[:4000]}\n[… 3,000 characters left out …]\n{PAGE[-2000:]}"
)
KINDS = {
    "text": Kind(text("nine", "to five"), "nine\nto five", 'answered "nine"'),
    "data": Kind(text(structuredContent={"from": 9}), '{"from": 9}', 'answered {"from": 9}', value={"from": 9}),
    "data_as_text": Kind(
        text('{"from": 9}', structuredContent={"from": 9}), '{"from": 9}', 'answered {"from": 9}', value={"from": 9}
    ),
    "both": Kind(
        text("One.", structuredContent={"from": 9}),
        'One.\n\nAs data: {"from": 9}',
        'answered {"from": 9}',
        value={"from": 9},
    ),
    "image": Kind(block(type="image", data=BYTES, mimeType="image/png"), IMAGE, f'answered "{IMAGE}"'),
    "audio": Kind(block(type="audio", data=BYTES, mimeType="audio/wav"), SOUND, f'answered "{SOUND}"'),
    "words_and_image": Kind(
        {"content": [*text("Look:")["content"], {"type": "image", "data": BYTES, "mimeType": "image/png"}]},
        f"Look:\n{IMAGE}",
        'answered "Look:"',
    ),
    "resource": Kind(
        block(type="resource", resource={"uri": "note://1", "text": "inside"}),
        "[resource note://1]\ninside",
        'answered "[resource note://1]"',
    ),
    "resource_blob": Kind(
        block(type="resource", resource={"uri": "note://2", "mimeType": "application/pdf", "blob": BYTES}),
        BLOB,
        f'answered "{BLOB}"',
    ),
    "link": Kind(
        block(type="resource_link", uri="note://3", name="three", mimeType="text/plain"), LINK, f'answered "{LINK}"'
    ),
    "nothing": Kind(text(), "", "gave an empty result", value="", empty=True),
    "error": Kind(
        text("no such room", isError=True),
        "no such room",
        'failed: "no such room" (attempt 1: canned.error failed: "no such room")',
        ok=False,
    ),
    "progress": Kind(text("done"), "done", 'answered "done"'),
    "hidden": Kind(text(ODD), "paylive now", 'answered "paylive now"', value=ODD),
    "hidden_data": Kind(
        text(structuredContent={"note": ODD}),
        '{"note": "paylive now"}',
        'answered {"note": "paylive now"}',
        value={"note": ODD},
    ),
    "large": Kind(
        text(PAGE),
        LARGE,
        'answered "line 000"',
        value=PAGE,
    ),
}


def without_ids(said: Any) -> Any:
    return json.loads(re.sub("f_[a-z2-7]{26}", "f_…", json.dumps(said)))


@pytest.mark.e2e
async def test_every_kind_of_result_reaches_models_people_and_other_steps_in_its_own_form(tmp_path: Path) -> None:
    results = {name: kind.result for name, kind in KINDS.items()} | {"send": text("sent")}
    (tmp_path / "results.json").write_text(json.dumps(results))
    servers = {"canned": toys.entry([sys.executable, str(SERVER), str(tmp_path / "results.json")])}
    reads = [call_step(name, f"canned.{name}") | {"optional": True} for name in KINDS]
    send = call_step("send", "canned.send", body={"$step": "hidden"}, note={"$step": "hidden_data.note"})
    settings = {"server_options": {"canned": {"longest_call": 60}}, "budget": {"steps": len(reads) + 1}}
    planned = script(*reads, send)
    async with open_test_product(tmp_path, script=planned, servers=servers, settings=settings) as (product, _):
        run_id = await product.start(Request("Read all there is, and send it"))
        with anyio.fail_after(60):
            await product.until(run_id, lambda run: run.status == "awaiting_approval" and run.driver is None)
        view, standing = await product.view(run_id, detail=True), await standing_of(product.store, run_id)
        events = await product.store.events(run_id)
        rows = await product.store.database.read(lambda tx: tx.rows("SELECT key, value FROM memo WHERE name = 'tool'"))
    ends = {row["key"].split("@")[0].removeprefix("step."): json.loads(row["value"])["called"] for row in rows}
    shown = {step.id: step.summary for step in view.step_list or []}
    ended = {event.step: event.data for event in events if event.type == "call.ended"}
    lines = "\n".join(standing_lines(view, standing, how=str))
    for name, kind in KINDS.items():
        end = without_ids(ends[name])
        assert (name, end["text"], end["value"]["data"]) == (
            name,
            kind.seen,
            kind.seen if kind.value is None else kind.value,
        )
        assert (name, end["ok"], end["empty"], end["value"]["label"]) == (name, kind.ok, kind.empty, ["private:canned"])
        assert (name, ended[name]["ok"], ended[name]["empty"]) == (name, kind.ok, kind.empty)
        # Addresses are in code marks, so that nobody follows them unread.
        assert without_ids(shown[name]).replace("`", "") == f"canned.{name} {kind.told}"
        assert shown[name] in lines
    (action,) = view.actions
    # A person sees what is hidden, and it is passed on as it is.
    assert action.arguments == {"body": ODD, "note": ODD}
    assert r"pay\u202elive\u202c \u200bnow\u001b[31m" in action.question
    assert lines.replace("\n", "").isprintable()


async def test_what_nobody_sees_is_taken_out_of_values_and_artifacts_that_models_read(tmp_path: Path) -> None:
    look = turns(uses(("read_artifact", {"artifact_id": "f_7"})), report())
    async with open_bench(tmp_path, say=look) as bench:
        new = NewArtifact("list", "c_1", "text/plain", ODD.encode(), frozenset({"private:notes"}))
        kept = await bench.store.artifacts.add(bench.run_id, new)
        bench.say = turns(uses(("read_artifact", {"artifact_id": kept.id})), report())
        given = {"list": Value({"note": ODD}, frozenset({"private:notes"})), "see": Value(ODD, frozenset({"config"}))}
        await bench.outcome(worker_step(needs=("list", "see")), given)
        bench.say = turns(prose("fine"))
        await bench.outcome(ComposeStep(id="draft", kind="compose", task="Write.", needs=("list", "see")), given)
    said = "\n".join(map(texts, bench.requests))
    assert [said.count('"note": "paylive now"'), said.count("paylive now\n"), said.count("\u202e")] == [3, 4, 0]
