"""Which wording a model had: every request's event names its prompt files, and no run depends on them."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from executing import called, limited, open_bench, prose, report, tool, turns, uses, worker_step
from products import call_step, open_test_product, script
from run_at_hand import RunAtHand, open_run

from downstream.model_port import FREE, Message, ModelReply, ModelRequest, Models, Place, Rate
from downstream.models.door import ModelDoor
from downstream.settings import ModelSettings
from executors.wording import prompt_file, versions
from journal.run_journal import Meaning
from server.product import Request

PROSE = {"text": "I would rather talk."}
READ = {"calls": [{"tool": "ledger.read_item", "arguments": {"key": "plan"}}]}
DONE = {"status": "done", "summary": "Friday.", "findings": [{"claim": "It ships on Friday.", "evidence": [0]}]}
SCRIPT = script(
    {"id": "study", "kind": "worker", "worker": "researcher", "task": "Read it.", "review": True, "optional": True},
    {"id": "draft", "kind": "compose", "task": "Write.", "needs": ["study"]},
    call_step("bad", "ledger.read_item", key="none"),
    steps={
        "study": {"attempts": [{"turns": [PROSE, PROSE, READ], "report": DONE | {"confidence": 0.9}}]},
        "draft": {"text": "On Friday."},
    },
    review=[{"accepted": True, "problems": []}],
    revise=[{"decision": "continue", "reason": "It is well."}],
)


def versions_of(*paths: str) -> str:
    """As a person would find them: the beginning of the SHA-256 of each file."""
    found = [(Path(path).stem, hashlib.sha256(Path(path).read_bytes()).hexdigest()) for path in paths]
    return "+".join(f"{name}@{digest[:8]}" for name, digest in found)


@pytest.mark.e2e
async def test_the_events_of_a_run_name_the_wording_of_every_request(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=SCRIPT) as (product, _):
        run_id = await product.start(Request("When does it ship?", "", goal_label="user"))
        await product.until(run_id, lambda run: run.ended)
        called = [event.data for event in await product.store.events(run_id) if event.type == "model.called"]
    planner, executors = (f"{Path(__file__).parent.parent}/{floor}/prompts" for floor in ("planner", "executors"))
    assert {(data["role"], data["prompt"]) for data in called} == {
        *((role, versions_of(f"{planner}/{role}.md")) for role in ("planner", "reviser", "answer")),
        *((role, versions_of(f"{executors}/{role}.md")) for role in ("worker", "reviewer", "compose")),
        ("worker", versions_of(f"{executors}/worker.md", f"{executors}/no_call.md")),
        ("worker", versions_of(f"{executors}/worker.md", f"{executors}/next_action.md")),
        ("worker", versions_of(*(f"{executors}/{name}.md" for name in ("worker", "next_action", "after_call")))),
    }


SEARCH = ("notes__search", {"query": "budget"})
FOUND = report(("x", ["c_120"]))


@pytest.mark.parametrize(
    ("replies", "named"),
    [
        ([prose("Hm."), uses(SEARCH), FOUND], ["", "no_call", "no_call"]),
        ([replace(prose("Hm."), finish="length"), uses(SEARCH), FOUND], ["", "cut_off", "cut_off"]),
        ([prose("Hm."), uses(SEARCH), report(), FOUND], ["", "no_call", "no_call", "no_call repair"]),
        ([uses(SEARCH), prose("Hm."), uses(SEARCH), uses(SEARCH)], ["", "", "no_call", "no_call", "no_call last_turn"]),
        ([prose("Hm."), prose("Hm.")], ["", "no_call", "next_action"]),
    ],
    ids=["no call", "cut off", "repair", "last turn", "begun again"],
)
async def test_a_request_names_the_reminders_that_stand_in_its_history(
    tmp_path: Path, replies: list[ModelReply], named: list[str]
) -> None:
    tools, workers = [tool("notes.search")], [limited(turns=4)]
    async with open_bench(tmp_path, say=turns(*replies), act=called, tools=tools, workers=workers) as bench:
        bench.retries = 0
        await bench.outcome(worker_step())
        prompts = [request.prompt for request in bench.requests]
    assert prompts[: len(named)] == [versions("worker", *names.split()) for names in named]


async def ask(run: RunAtHand, prompt: str, asked: list[ModelRequest]) -> Any:
    async def complete(model: str, request: ModelRequest) -> ModelReply:
        asked.append(request)
        return ModelReply(model, request.prompt)

    async def rate_of(model: str) -> Rate | None:
        return FREE

    async def warm_up() -> None:
        """There is nothing to warm."""

    door = ModelDoor(Models(complete, rate_of, warm_up), ModelSettings(model="m"), run.store.remembered)
    request = ModelRequest("compose", Place(step="a"), (Message("user", prompt),), 10, prompt=prompt)
    return (await door.ask(await run.take(), "a/turn.1", Meaning("compose", {"n": 1}), request)).text


async def test_a_run_that_goes_on_under_another_wording_finds_what_was_said_before(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []
    async with open_run(tmp_path) as run:
        said = [await ask(run, prompt, asked) for prompt in ("compose@11111111", "compose@22222222")]
        assert (said, len(asked)) == (["compose@11111111"] * 2, 1)
        assert await run.data("model.called", "prompt") == [{"prompt": "compose@11111111"}]


async def test_a_request_without_a_prompt_file_names_none(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run:
        await ask(run, "", [])
        [event] = await run.events("model.called")
        assert "prompt" not in event.data


def test_another_letter_is_another_version(tmp_path: Path) -> None:
    (tmp_path / "worker.md").write_text("Do it.\n")
    first = prompt_file(tmp_path, "worker")
    prompt_file.cache_clear()
    (tmp_path / "worker.md").write_text("Do it!\n")
    second = prompt_file(tmp_path, "worker")
    prompt_file.cache_clear()
    assert (first.text, replace(second, version=first.version)) == ("Do it.", replace(first, text="Do it!"))
    assert first.version != second.version
    assert versions("worker", "repair").count("@") == 2
