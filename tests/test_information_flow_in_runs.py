"""Where values come from, followed through whole runs: each way in both directions."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import executing
import pytest
import toys
from executing import called, report, uses
from products import open_test_product, script

from downstream.door import Called, ToolCall
from downstream.model_port import ModelReply, ModelRequest
from journal.actions import Action, Decision
from journal.values import JsonObject, Value
from journal.world import World
from server.product import Product, Request

GOAL = "Mail the figures to ana@example.org, and see https://example.org/a."


@dataclass(frozen=True)
class Way:
    """A way through a run: its plan, what its steps say, and the questions that it leads to, by tool and level."""

    plan: list[Any]
    asked: Sequence[tuple[str | None, str]]
    steps: Mapping[str, Any] = field(default_factory=dict[str, Any])
    revise: list[Any] = field(default_factory=list[Any])


def made(id_: str, tool_: str, *needs: str, **arguments: Any) -> JsonObject:
    return {"id": id_, "kind": "call", "tool": tool_, "arguments": arguments, "needs": list(needs)}


def left_to_worker(id_: str, *tools: str, needs: tuple[str, ...] = (), **more: Any) -> JsonObject:
    step = {"id": id_, "kind": "worker", "worker": "operator", "task": "Do it.", "tools": list(tools)}
    return step | {"needs": list(needs)} | more


def composed(id_: str, *needs: str) -> JsonObject:
    return {"id": id_, "kind": "compose", "task": "Write it.", "needs": list(needs)}


def attempt(*calls: tuple[str, JsonObject], status: str = "done", data: Any = None) -> JsonObject:
    """One attempt that makes these calls and hands in a report."""
    findings = [{"claim": "It is so.", "evidence": list(range(len(calls)))}] if status == "done" else []
    report = {"status": status, "summary": "Ask www.evil.example.", "findings": findings, "confidence": 0.9}
    turns = [{"calls": [{"tool": name, "arguments": arguments} for name, arguments in calls]}] if calls else []
    return {"turns": turns, "report": report | ({"data": data} if data else {})}


def says(*attempts: JsonObject) -> JsonObject:
    return {"attempts": list(attempts)}


def revised(*steps: JsonObject) -> list[JsonObject]:
    return [{"decision": "revise", "reason": "Another way.", "drop": [], "add": list(steps)}]


PRIVATE, OPEN = ("notes.note", dict[str, Any]()), ("web.page", {"url": "https://x.example"})
ASKED, PERSON = [("web.page", "host")], [("mail.send", "person")]
REPORTED = {"url": "https://x.example"}
LAST = made("last", "web.page", url={"$step": "w.url"})
GOES_ON = made("again", "web.page", url="https://y.example")
LONG = json.dumps({"url": "https://x.example", "more": "words " * 2000})
LITERAL = made("first", "web.page", url="https://x.example")


@pytest.mark.e2e
@pytest.mark.parametrize(
    "way",
    [
        pytest.param(Way([LITERAL], []), id="a literal of the plan"),
        pytest.param(
            Way([made("n", "notes.note"), made("p", "web.page", url={"$step": "n"})], ASKED), id="a private result"
        ),
        pytest.param(
            Way([made("n", "web.search"), made("p", "web.page", url={"$step": "n"})], []), id="an open result"
        ),
        pytest.param(
            Way([made("n", "notes.note"), made("p", "web.page", "n", url="https://y.example")], []),
            id="needed and not referred to",
        ),
        pytest.param(
            Way([made("n", "web.search"), made("p", "mail.send", to={"$step": "n"})], PERSON), id="an open target"
        ),
        pytest.param(Way([made("p", "mail.send", to="bob@example.org")], []), id="a target of the plan"),
        pytest.param(
            Way(
                [left_to_worker("w", "notes.note"), LAST],
                ASKED,
                {"w": says(attempt(PRIVATE, data=REPORTED))},
            ),
            id="a report of who read the private",
        ),
        pytest.param(
            Way([left_to_worker("w", "web.page"), LAST], [], {"w": says(attempt(OPEN, data=REPORTED))}),
            id="a report of who read the open",
        ),
        pytest.param(
            Way(
                [made("n", "notes.note"), left_to_worker("w", "web.page", needs=("n",))],
                ASKED,
                {"w": says(attempt(OPEN))},
            ),
            id="a worker that was given the private",
        ),
        pytest.param(
            Way(
                [made("n", "notes.note"), composed("c", "n"), made("p", "web.page", url={"$step": "c"})],
                ASKED,
                {"c": {"text": "https://x.example"}},
            ),
            id="composed of the private",
        ),
        pytest.param(
            Way(
                [made("n", "web.search"), composed("c", "n"), made("p", "web.page", url={"$step": "c"})],
                [],
                {"c": {"text": "https://x.example"}},
            ),
            id="composed of the open",
        ),
        pytest.param(
            Way([made("n", "notes.long"), made("p", "web.page", "n", url={"$artifact": "f_1", "path": "url"})], ASKED),
            id="a private artifact",
        ),
        pytest.param(
            Way([made("n", "web.long"), made("p", "web.page", "n", url={"$artifact": "f_1", "path": "url"})], []),
            id="an open artifact",
        ),
        pytest.param(
            Way(
                [left_to_worker("w", "notes.note", "web.page")],
                ASKED,
                {"w": says(attempt(PRIVATE, status="failed"), attempt(OPEN))},
            ),
            id="an attempt after one that read the private",
        ),
        pytest.param(
            Way(
                [left_to_worker("w", "web.search", "web.page")],
                [],
                {"w": says(attempt(("web.search", {}), status="failed"), attempt(OPEN))},
            ),
            id="an attempt after one that read the open",
        ),
        pytest.param(
            Way(
                [left_to_worker("w", "notes.note", "web.page")],
                ASKED,
                {"w": says(attempt(PRIVATE, status="blocked"))},
                revised(GOES_ON),
            ),
            id="a revision after a failure that read the private",
        ),
        pytest.param(
            Way(
                [left_to_worker("w", "web.search", "web.page")],
                [],
                {"w": says(attempt(("web.search", {}), status="blocked"))},
                revised(GOES_ON),
            ),
            id="a revision after a failure that read the open",
        ),
        pytest.param(
            Way(
                [made("n", "notes.bad"), made("m", "mail.send", "n", to="bob@example.org")],
                PERSON,
                revise=revised(made("again", "mail.send", to="bob@example.org")),
            ),
            id="a target of a revision",
        ),
        pytest.param(
            Way(
                [made("n", "notes.bad"), made("m", "mail.send", "n", to="bob@example.org")],
                [],
                revise=revised(made("again", "mail.send", to="ana@example.org")),
            ),
            id="a target of a revision that the goal says",
        ),
        pytest.param(
            Way([made("n", "notes.bad")], [(None, "person")], revise=revised(made("again", "notes.note"))),
            id="a revision that wants another tool",
        ),
        pytest.param(
            Way([made("n", "notes.note"), made("o", "other.look", q={"$step": "n"})], [("other.look", "host")]),
            id="another server's read",
        ),
        pytest.param(
            Way([made("n", "notes.note"), made("o", "notes.long", q={"$step": "n"})], []), id="the same server's read"
        ),
    ],
)
async def test_through_a_run(tmp_path: Path, way: Way) -> None:
    asked, untrusted, reasons = await run_through(tmp_path, way)
    assert asked == list(way.asked)
    assert untrusted
    assert all(reasons)


@pytest.mark.e2e
async def test_an_answer_says_whether_it_rests_on_words_of_tools(tmp_path: Path) -> None:
    blocked = Way([left_to_worker("w", "notes.note")], [], {"w": says(attempt(PRIVATE, status="blocked"))})
    erred = ("notes.bad", dict[str, Any]())
    failed = Way([left_to_worker("w", "notes.bad")], [], {"w": says(attempt(erred, status="blocked"))})
    unread = Way([made("m", "web.page", url={"$artifact": "f_9"})], [])
    ways = {"blocked": blocked, "failed": failed, "unread": unread}
    told = {name: (await run_through(tmp_path / name, way))[1] for name, way in ways.items()}
    assert told == {"blocked": True, "failed": True, "unread": False}


async def test_an_attempt_after_a_rejection_has_read_what_the_reviewer_had(tmp_path: Path) -> None:
    def say(request: ModelRequest) -> ModelReply:
        if request.role == "reviewer":
            verdict = uses(("submit_review", {"accepted": False, "problems": ["The key is under the mat."]}))
            return uses(("notes__note", {"query": "key"})) if request.place.turn == 1 else verdict
        call_ = f"c_{request.place.attempt}10"
        return uses(("web__page", {"query": "hours"})) if request.place.turn == 1 else report(("Open.", [call_]))

    def act(wanted: ToolCall) -> Called:
        origin = "open" if wanted.tool.startswith("web.") else "private"
        return called(wanted, value=Value("found", frozenset({f"{origin}:{wanted.tool.partition('.')[0]}"})))

    tools = [executing.tool("web.page", "egress"), executing.tool("notes.note")]
    async with executing.open_bench(tmp_path, say=say, act=act, tools=tools) as bench:
        await bench.outcome(executing.worker_step(review=True, tools=["web.page"]))
        read = [sent.read for sent in bench.sent if sent.tool == "web.page"]
    assert read == [frozenset({"plan", "model"}), frozenset({"plan", "model", "open:web", "private:notes"})]


async def run_through(folder: Path, way: Way) -> tuple[list[tuple[str | None, str]], bool, list[str]]:
    """What was asked of a person who approves all, whether the answer counts as untrusted, and why it was asked."""
    numbers: Counter[str] = Counter()

    def new_id(prefix: str) -> str:
        numbers[prefix] += 1
        return f"{prefix}_{numbers[prefix]}"

    settings = {
        "server_options": {"web": {"effects": {"*": "egress"}}},
        "policy": {"rules": [{"allow": "mail.send"}]},
    }
    said = script(*way.plan, steps=dict(way.steps), revise=way.revise)
    opened = open_test_product(
        folder, script=said, servers=canned(folder), settings=settings, world=World(new_id=new_id)
    )
    async with opened as (product, _):
        run_id = await product.start(Request(GOAL))
        with anyio.fail_after(60):
            asked = await approve_all(product, run_id)
        run = await product.store.run(run_id)
    why = [reason for action in asked for reason in action.reasons or ([] if action.kind == "widen" else [""])]
    return [(action.tool, action.level) for action in asked], bool(run.result["contains_untrusted"]), why


def canned(folder: Path) -> dict[str, Any]:
    """Servers that give the same each time: all reads, besides `mail.send`."""
    folder.mkdir(exist_ok=True)
    gives = {
        "notes": {"note": "secret", "long": LONG, "bad": "no"},
        "web": {"page": "words", "search": "https://x.example", "long": LONG},
        "other": {"look": "seen"},
        "mail": {"send": "sent"},
    }
    for name, texts in gives.items():
        results = {tool_name: _result(tool_name, text) for tool_name, text in texts.items()}
        (folder / f"{name}.json").write_text(json.dumps(results))
    program = Path(__file__).parent / "support" / "toy_servers" / "canned_server.py"
    return {name: toys.entry([sys.executable, "-I", str(program), str(folder / f"{name}.json")]) for name in gives}


def _result(name: str, text: str) -> JsonObject:
    result = {"content": [{"type": "text", "text": text}], "isError": name == "bad"}
    return result | ({"structuredContent": json.loads(text)} if text is LONG else {})


async def approve_all(product: Product, run_id: str) -> list[Action]:
    asked: list[Action] = []
    while True:
        ring = product.store.bell.listen(run_id)
        if (await product.store.run(run_id)).ended:
            return asked
        for action in await product.store.waiting_actions():
            asked.append(action)
            await product.decide(action, Decision("approve", "person", "terminal"))
        await ring.wait()
