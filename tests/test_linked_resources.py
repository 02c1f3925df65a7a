"""What a result links to is read when a worker asks for it, of the server that named it; nothing else is."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import third_party
import toys
from executing import called, last_message, open_bench, report, tool, turns, uses, worker, worker_step
from products import open_test_product, script
from tool_connections import stdio
from toy_servers.by_hand import MODERN
from toy_servers.linking_server import HELD

from downstream.door import ToolCall, ToolEnd
from downstream.questions import FormAsked
from downstream.resources import READ, reading_of, reading_tool, with_reading
from downstream.servers.asking import AsksBack
from downstream.servers.pool import open_pool
from downstream.tools import Tool
from executors.settings import WorkerSettings
from journal.world import World
from server.product import Product, Request

SUPPORT = Path(__file__).parent / "support"
LONG = HELD["note://long"][0]["text"]


def linking(version: str, log: Path) -> dict[str, Any]:
    command = ["-m", "toy_servers.linking_server", version, str(log)]
    return {"command": sys.executable, "args": command, "cwd": str(SUPPORT)}


def use(tool: str, **arguments: str) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def study(*turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A script in which one worker makes these calls, turn by turn, and cites the second of them."""
    step = {"id": "study", "kind": "worker", "worker": "operator", "task": "Find the hours.", "title": "Study"}
    finding = {"claim": "Nine to five.", "evidence": [1]}
    said = {"status": "done", "summary": "Nine to five.", "findings": [finding], "confidence": 1, "plan_holds": True}
    work = {"attempts": [{"turns": [{"calls": list(calls)} for calls in turns], "report": said}]}
    return script(step, steps={"study": work})


async def finished(product: Product, *, status: str) -> str:
    run_id = await product.start(Request("Find the hours"))
    with anyio.fail_after(30):
        run = await product.until(run_id, lambda run: run.ended)
    assert run.status == status
    return run_id


async def ends(product: Product, run_id: str) -> list[Any]:
    """What became of the calls of the run, in the order of their keys."""
    sql = "SELECT value FROM memo WHERE name = 'tool' AND run = ? ORDER BY key"
    rows = await product.store.database.read(lambda tx: tx.rows(sql, [run_id]))
    return [json.loads(row["value"]) for row in rows]


@pytest.mark.e2e
@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
async def test_a_link_is_read_when_a_worker_asks_for_it_and_never_by_itself(tmp_path: Path, version: str) -> None:
    log = tmp_path / "log"
    read = [use("read_resource", uri=f"note://{name}") for name in ("hours", "long", "album", "gone", "secret")]
    planned = study([use("box.find", kind="near")], read, [use("read_resource", uri=" note://hours ")])
    servers = {"box": linking(version, log)}
    async with open_test_product(tmp_path, script=planned, servers=servers) as (product, _):
        run_id = await finished(product, status="succeeded")
        events, view = await product.store.events(run_id), await product.view(run_id, detail=True)
        found, *made = [end["called"] for end in await ends(product, run_id)]
        (large,) = made[1]["artifacts"]
        kept = await product.store.artifacts.content(await product.store.artifacts.get(large, run_id=run_id))
    # The second time it was in the cache; the one that no result named was not asked for.
    assert sorted(log.read_text().split()) == ["note://album", "note://gone", "note://hours", "note://long"]
    assert [link for link in found["links"] if link.endswith("hours")] == ["note://hours"]
    assert [(end["tool"], end["ok"], end["value"]["label"]) for end in made] == [
        ("box.resources/read", ok, ["private:box"]) for ok in (True, True, True, False, True)
    ]
    assert [made[0]["text"], made[4]["text"], kept.decode()] == ["nine to five", "nine to five", LONG]
    assert "kept whole as f_" in made[1]["text"]
    assert made[2]["text"].startswith(
        "[resource note://album]\nTwo pictures.\n[resource note://album, image/png, 4 byte"
    )
    assert made[3]["text"] == "box answered with an error: Resource not found"
    started = [event.data for event in events if event.type == "call.started"]
    assert started[1] == {"tool": "box.resources/read", "arguments": {"uri": "note://hours"}}
    assert sum(event.type == "call.ended" for event in events) == len(started) == 6
    assert (view.usage.tool_calls, [source.tool for source in view.sources or []]) == (5, ["box.resources/read"])


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("rule", "status"), [("deny", "partial"), ("ask", "awaiting_approval")], ids=["denied", "asked for"]
)
async def test_the_policy_decides_on_what_is_read_as_on_any_read_of_that_server(
    tmp_path: Path, rule: str, status: str
) -> None:
    planned = study([use("box.find", kind="far")], [use("read_resource", uri="note://far")])
    servers, policy = {"box": linking(MODERN, tmp_path / "log")}, {"rules": [{rule: "box.resources/*"}]}
    async with open_test_product(tmp_path, script=planned, servers=servers, settings={"policy": policy}) as (
        product,
        _,
    ):
        run_id = await product.start(Request("Find the hours"))
        with anyio.fail_after(30):
            run = await product.until(run_id, lambda run: run.ended or run.status == status)
        view = await product.view(run_id, detail=True)
    assert (run.status in (status, "failed"), (tmp_path / "log").exists()) == (True, False)
    asked = [(action.tool, action.arguments) for action in view.actions]
    assert asked == ([("box.resources/read", {"uri": "note://far"})] if rule == "ask" else [])


@pytest.mark.e2e
async def test_a_server_may_ask_before_it_lets_something_be_read(tmp_path: Path) -> None:
    entry = linking(MODERN, tmp_path / "log")
    box = stdio("box", [entry["command"], *entry["args"]]).model_copy(update={"cwd": SUPPORT})
    async with open_pool([box], World()) as pool:
        with anyio.fail_after(20), pytest.raises(AsksBack) as asks:
            await pool.connection("box").call(READ, {"uri": "note://asked"}, timeout=10)
    assert asks.value.questions == {"who": FormAsked("Who is there?", {"type": "object", "properties": {}})}


@pytest.mark.slow
async def test_links_of_a_server_that_others_wrote_are_read(tmp_path: Path) -> None:
    found = await anyio.to_thread.run_sync(third_party.install, "mcp-server-everything")
    if isinstance(found, third_party.Missing):
        pytest.skip(found.reason)  # no Node or registry here: the reason says which
    links = [use("read_resource", uri=f"demo://resource/dynamic/{name}") for name in ("text/2", "blob/1", "text/7")]
    planned = study([{"tool": "real.get-resource-links", "arguments": {"count": 2}}], links)
    async with open_test_product(tmp_path, script=planned, servers={"real": toys.entry(found.command)}) as (product, _):
        named, *made = [end["called"] for end in await ends(product, await finished(product, status="succeeded"))]
    assert named["links"] == ["demo://resource/dynamic/blob/1", "demo://resource/dynamic/text/2"]
    assert [(end["tool"], end["ok"], len(end["artifacts"])) for end in made] == [
        ("real.resources/read", True, artifacts) for artifacts in (0, 1)
    ]
    assert made[0]["text"].startswith("Resource 2: This is a plaintext resource created at")


HITS = [tool("notes.search"), tool("web.search", "egress"), tool("mail.send", "write")]
SEARCH = [("notes__search", {"query": "a"}), ("web__search", {"query": "b"})]


def linked(call: ToolCall) -> ToolEnd:
    """Both searches name one address, and each one of its own."""
    server = call.tool.partition(".")[0]
    links = () if call.tool.endswith(READ) else ("doc://both", f"doc://{server}")
    return called(call, f"of {server}", links=links)


WRONG = [
    ({"uri": "doc://other"}, 'no result of this attempt links to "doc://other", so it is not read; linked to: "doc://'),
    ({"uri": "doc://both"}, '"doc://both" was named by notes, web; give one of them as server'),
    ({"uri": "doc://notes", "server": "web"}, '"doc://notes" was named by notes; give one of them as server'),
    ({"server": "web"}, "the arguments do not fit: uri: Field required"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=["unnamed", "two servers", "another server", "no address"])
async def test_an_address_that_no_result_of_that_server_named_is_not_read(
    tmp_path: Path, arguments: dict[str, str], said: str
) -> None:
    say = turns(uses(*SEARCH), uses(("read_resource", arguments)), report(("x", ["c_110"])))
    async with open_bench(tmp_path, say=say, act=linked, tools=HITS) as bench:
        await bench.outcome(worker_step())
        assert said in last_message(bench.requests[2]).content
        assert [call.tool for call in bench.sent] == ["notes.search", "web.search"]


async def test_reading_is_offered_once_a_result_links_to_something(tmp_path: Path) -> None:
    read = uses(("read_resource", {"uri": "doc://both", "server": "web"}), ("read_resource", {"uri": "doc://notes"}))
    say = turns(uses(*SEARCH), read, report(("x", ["c_120"])))
    async with open_bench(tmp_path, say=say, act=linked, tools=HITS) as bench:
        outcome = await bench.outcome(worker_step())
        offered = [[function.name for function in request.functions][3:] for request in bench.requests[:2]]
        assert offered == [["read_artifact", "submit_report"], ["read_artifact", "read_resource", "submit_report"]]
        assert [source.tool for source in outcome.sources] == ["web.resources/read"]
        sent = [(call.tool, call.arguments.data, [*call.allowed]) for call in bench.sent[2:]]
    assert sent == [
        ("web.resources/read", {"uri": "doc://both"}, ["web.resources/read"]),
        ("notes.resources/read", {"uri": "doc://notes"}, ["notes.resources/read"]),
    ]


@pytest.mark.parametrize(
    "who",
    [worker(disallowed_tools=("shop.resources/*",)), worker(classes=frozenset({"write"}))],
    ids=["by name", "by class"],
)
async def test_a_worker_that_may_not_read_of_a_server_is_not_offered_its_links(
    tmp_path: Path, who: WorkerSettings
) -> None:
    call = ("shop__add", {"query": "b"})
    say = turns(uses(call), uses(("read_resource", {"uri": "doc://both"})), report(("x", ["c_110"])))
    tools = [tool("shop.find", "egress"), tool("shop.add", "write")]
    async with open_bench(tmp_path, say=say, act=linked, tools=tools, workers=[who]) as bench:
        await bench.outcome(worker_step())
        assert "read_resource" not in [function.name for function in bench.requests[1].functions]
        assert "this worker may not read what results of shop link to" in last_message(bench.requests[2]).content
        assert [call.tool for call in bench.sent] == ["shop.add"]


def test_reading_counts_as_egress_where_all_that_a_server_reads_is_open_to_the_world() -> None:
    tools = [*HITS, tool("shop.find", "egress"), tool("shop.orders")]
    made = {server: reading_tool(server, tools) for server in ("notes", "web", "mail", "shop", "gone")}
    classes = {server: made.class_ if made else None for server, made in made.items()}
    assert classes == {"notes": "read", "web": "egress", "mail": "read", "shop": "read", "gone": None}


def test_no_tool_of_a_server_is_found_under_the_name_of_reading() -> None:
    false = tool(reading_of("notes"), "write")

    def listed(name: str) -> Tool | None:
        return false

    find = with_reading(listed, lambda: [false, *HITS])
    assert (find("notes.resources/read"), find("notes.search")) == (reading_tool("notes", [false, *HITS]), false)
