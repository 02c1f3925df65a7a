"""How often a person is asked by the policy as shipped, in everyday tasks over tool servers that others wrote."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import third_party
import toys
from products import call_step, open_test_product, script
from real_servers import open_pages

from journal.actions import Action, Decision
from server.product import Product, Request

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
_CANNED = Path(__file__).parent / "support" / "toy_servers" / "canned_server.py"
LINKS = ["http://press.example/hours.html", "http://archive.example/hours.html"]
CONFIRMED = {"server_options": {"web": {"effects": {"search": "egress"}}}}
"""What settings hold once a person has said what the unannotated tool does."""
ALL_THREE = ["web.search", "fetch.fetch", "fetch.fetch"]


async def installed(program: third_party.Program) -> list[str]:
    found = await anyio.to_thread.run_sync(third_party.install, program)
    if isinstance(found, third_party.Missing):
        pytest.skip(found.reason)  # no Node or registry here: the reason says which
    return found.command


async def asked_of_a_person(product: Product, run_id: str) -> list[Action]:
    """Every question of the run; the person says yes to all."""
    asked: list[Action] = []
    while True:
        ring = product.store.bell.listen(run_id)
        if (await product.store.run(run_id)).ended:
            return asked
        for action in await product.store.waiting_actions():
            asked.append(action)
            await product.decide(action, Decision("approve", "person", "terminal"))
        await ring.wait()


async def questions(
    folder: Path, title: str, said: Any, *, servers: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[Action]:
    """What is asked until the run has succeeded, printed."""
    async with open_test_product(folder, script=said, servers=servers, settings=settings) as (product, _):
        run_id = await product.start(Request(title))
        with anyio.fail_after(90):
            asked = await asked_of_a_person(product, run_id)
        run = await product.store.run(run_id)
        ended = await product.view(run_id, detail=True)
    assert run.status == "succeeded", ended
    lines = [f"  {action.tool} ({action.level}): {'; '.join(action.reasons)}" for action in asked]
    sys.stdout.write("\n".join([f"\n{title}: {len(asked)} questions", *lines]) + "\n")
    return asked


def work(*turns: Sequence[tuple[str, Mapping[str, Any]]], **data: Any) -> Any:
    """A worker that makes these calls, turn by turn, and reports."""
    made = [{"calls": [{"tool": tool, "arguments": dict(given)} for tool, given in turn]} for turn in turns]
    count = sum(map(len, turns))
    findings = [{"claim": "It stands there.", "evidence": list(range(count))}]
    report = {"status": "done", "summary": "Found.", "findings": findings, "data": data, "confidence": 0.9}
    return {"attempts": [{"turns": made, "report": report}]}


def worker_step(id_: str, *tools: str, needs: Sequence[str] = ()) -> Any:
    step = {"id": id_, "kind": "worker", "title": id_, "worker": "operator", "task": "Find out the hours."}
    return step | {"tools": list(tools), "needs": list(needs)}


async def test_a_filesystem_task_asks_once(tmp_path: Path) -> None:
    command = await installed("mcp-server-filesystem")
    room = tmp_path / "room"
    room.mkdir()
    names = ["monday.txt", "tuesday.txt", "sunday.txt"]
    for name in names:
        (room / name).write_text(f"{name}: open from nine to five.\n")
    reads = [("files.read_text_file", {"path": str(room / name)}) for name in names]
    look = worker_step("look", "files.list_directory", "files.read_text_file")
    write = call_step("write", "files.write_file", path=str(room / "hours.txt"), content={"$step": "look.text"})
    steps = {"look": work([("files.list_directory", {"path": str(room)})], reads, text="Nine to five, every day.\n")}
    asked = await questions(
        tmp_path / "work",
        "List a folder, read three files, write one",
        script(look, write, steps=steps),
        servers={"files": toys.entry([*command, str(room)])},
        settings={},
    )
    assert [action.tool for action in asked] == ["files.write_file"]
    assert (room / "hours.txt").read_text() == "Nine to five, every day.\n"


@pytest.mark.parametrize(
    ("title", "settings", "private", "tools"),
    [
        ("Web research, classes not confirmed", {}, False, ALL_THREE),
        ("Web research, classes confirmed", CONFIRMED, False, []),
        (
            "Web research after a private note, classes confirmed",
            CONFIRMED,
            True,
            ALL_THREE,
        ),
    ],
    ids=["not confirmed", "confirmed", "after a private note"],
)
async def test_web_research_asks_only_where_a_private_note_was_read(
    tmp_path: Path, title: str, settings: Mapping[str, Any], private: bool, tools: list[str]
) -> None:
    command = await installed("mcp-server-fetch")
    fetches = [("fetch.fetch", {"url": link}) for link in LINKS]
    steps = {"study": work([("web.search", {"query": "opening hours"})], fetches)}
    plan = [worker_step("study", "web.search", "fetch.fetch")]
    if private:
        plan = [call_step("note", "notes.read", path="desk.md"), plan[0] | {"needs": ["note"]}]
    with open_pages(web_in(tmp_path)) as proxy:
        servers = {
            "web": toys.entry(bare_search(tmp_path)),
            # The names lead nowhere by themselves, so that nothing but the proxy on this machine is asked.
            "fetch": toys.entry([*command, "--proxy-url", proxy]),
            "notes": toys.entry(notes(tmp_path)),
        }
        asked = await questions(
            tmp_path / "work", title, script(*plan, steps=steps), servers=servers, settings=settings
        )
    assert [action.tool for action in asked] == tools
    if private:
        assert {action.reasons for action in asked} == {("it may carry out what was read from notes",)}
        assert {action.level for action in asked} == {"host"}


def web_in(folder: Path) -> Path:
    """A folder from which a server of files answers as a proxy that knows two pages."""
    for link in LINKS:
        page = folder / "web" / "http:" / link.removeprefix("http://")
        page.parent.mkdir(parents=True)
        page.write_text("<html><body><p>Open from nine to five.</p></body></html>")
    return folder / "web"


def bare_search(folder: Path) -> list[str]:
    """The command of a server with a tool `search` of which it says nothing."""
    found = {"content": [{"type": "text", "text": "\n".join(LINKS)}]}
    (folder / "search.json").write_text(json.dumps({"search": found}))
    return [sys.executable, "-I", str(_CANNED), str(folder / "search.json"), "bare"]


def notes(folder: Path) -> list[str]:
    """The command of our own notes server, over one private note."""
    (folder / "notes").mkdir()
    (folder / "notes" / "desk.md").write_text("# Desk\n\nThe key is under the mat.\n")
    program = Path(sys.executable).parent / "steprelay"
    return [str(program), "tool-server", "notes", str(folder / "notes")]
