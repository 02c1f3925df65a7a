"""The toy tool servers and the hosts that other tests use, in short."""

import signal
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
import third_party
import toys
from mcp import MCPError
from mcp.client.sse import sse_client
from mcp_hosts import Era, Host, Person, answers, cancels, open_host, open_http_host, open_stdio_host, text_of

pytestmark = pytest.mark.e2e
ERAS: tuple[Era, ...] = ("legacy", "modern")

ASKING = """
import sys
from typing import Annotated, Literal
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from pydantic import BaseModel

class Form(BaseModel):
    decision: Literal["approve", "deny"]

async def ask() -> Form | Elicit[Form]:
    return Elicit("Really?", Form)

server = MCPServer("asking")

@server.tool()
async def decide(form: Annotated[Form, Resolve(ask)], ctx: Context) -> str:
    await ctx.report_progress(1, None, "deciding")
    print("noise", file=sys.stderr, flush=True)
    return form.decision

server.run()
"""


ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("read_item", {"key": "seeded"}),
    ("read_item", {"key": "unknown"}),
    ("add_item", {"key": "k", "value": "v"}),
    ("drop_item", {"key": "k"}),
    ("unlabelled", {"x": "1"}),
    ("meet", {"name": "alone", "parties": 1}),
    ("slow", {"seconds": 0}),
    ("fail", {"text": "out of order"}),
    ("image", {}),
    ("empty", {}),
    ("echo", {"text": "as it is"}),
    ("look_up_web", {"query": "news"}),
    ("big", {"kilobytes": 1}),
]


async def call(host: Host, tool: str, **arguments: Any) -> tuple[bool, str]:
    result = await host.call(tool, arguments, within=20)
    return bool(result.is_error), text_of(result)


@pytest.mark.parametrize("era", ERAS)
async def test_the_ledger_writes_down_every_call_and_keeps_items(tmp_path: Path, era: Era) -> None:
    log = tmp_path / "ledger"
    async with open_stdio_host(toys.ledger(log, seeded="from the start"), era=era) as host:
        assert await host.structured("read_item", {"key": "seeded"}) == {"key": "seeded", "value": "from the start"}
        assert await call(host, "add_item", key="k", value="v") == (False, "kept k")
        assert await host.structured("read_item", {"key": "k"}) == {"key": "k", "value": "v"}
        assert await call(host, "drop_item", key="k") == (False, "dropped k")
        assert await call(host, "read_item", key="k") == (
            True,
            "Error executing tool read_item: nothing is kept under 'k'",
        )
        assert await call(host, "fail", text="out of order") == (True, "Error executing tool fail: out of order")
        assert {line["pid"] for line in toys.calls(log)} == {host.pid}
    tools = [line["tool"] for line in toys.calls(log)]
    assert tools == ["read_item", "add_item", "read_item", "drop_item", "read_item", "fail"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_quick_ledger_lists_and_answers_as_the_one_that_is_made_with_the_sdk(
    tmp_path: Path, era: Era
) -> None:
    said: list[tuple[Any, ...]] = []
    for made in (toys.ledger, toys.sdk_ledger):
        async with open_stdio_host(made(tmp_path / made.__name__, seeded="yes"), era=era) as host:
            tools = (await host.client.list_tools()).tools
            results = [await host.call(tool, arguments, within=20) for tool, arguments in ANSWERS]
            kept = [(result.content, result.structured_content, result.is_error) for result in results]
            said.append((host.client.instructions, tools, kept, host.client.protocol_version))
    assert said[0] == said[1]
    assert {tool.name for tool in said[0][1]} == {tool for tool, _ in ANSWERS} | {"crash"}


async def test_the_ledger_shows_one_tool_of_each_class_and_results_of_each_kind(tmp_path: Path) -> None:
    async with open_stdio_host(toys.ledger(tmp_path / "ledger")) as host:
        tools = {tool.name: tool.annotations for tool in (await host.client.list_tools()).tools}
        hints = {name: [a.read_only_hint, a.destructive_hint, a.open_world_hint] for name, a in tools.items() if a}
        assert tools["unlabelled"] is None
        assert hints["read_item"] == [True, False, False]
        assert hints["look_up_web"] == [True, False, True]
        assert hints["add_item"] == [False, False, False]
        assert hints["drop_item"] == [False, True, False]
        assert [part.type for part in (await host.call("image")).content] == ["image"]
        assert (await host.call("empty")).content == []
        echoed = await host.call("echo", {"text": "as it is"})
        assert (text_of(echoed), echoed.structured_content) == ("as it is", None)
        assert len(text_of(await host.call("big", {"kilobytes": 64}))) == 64 * 1024


async def test_calls_meet_across_processes_or_say_who_was_missing(tmp_path: Path) -> None:
    command = toys.ledger(tmp_path / "ledger")
    results: list[tuple[bool, str]] = []
    async with open_stdio_host(command) as one, open_stdio_host(command) as other:

        async def meet(host: Host) -> None:
            results.append(await call(host, "meet", name="noon", parties=2, timeout=10))

        for host in (one, other):
            async with anyio.create_task_group() as group:
                group.start_soon(meet, one)
                group.start_soon(meet, host)
        missed = await call(one, "meet", name="later", parties=2, timeout=0.1)
        toys.open_gate(tmp_path / "ledger", "later")
        let_go = await call(one, "meet", name="later", parties=2, timeout=10)
    assert results == [(False, "2 met at noon")] * 4
    assert missed == (True, "Error executing tool meet: only 1 of 2 came to later within 0.1 s")
    assert let_go == (False, "2 met at later")


async def test_a_crash_and_a_cancelled_call_leave_their_line(tmp_path: Path) -> None:
    log = tmp_path / "ledger"
    async with open_stdio_host(toys.ledger(log)) as host:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(host.call, "slow", {"seconds": 60})
                await toys.wait_for_calls(log, "slow")
                group.cancel_scope.cancel()
            await toys.wait_for_calls(log, "slow.cancelled")
        with pytest.raises(MCPError):
            await host.call("crash")
    assert [line["tool"] for line in toys.calls(log)] == ["slow", "slow.cancelled", "crash"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_ledger_speaks_http_and_can_come_back_on_its_port(tmp_path: Path, era: Era) -> None:
    log = tmp_path / "ledger"
    async with toys.open_http_ledger(log) as toy:
        async with open_http_host(toy.url, era=era) as host:
            assert await call(host, "echo", text="over http") == (False, "over http")
        port = int(toy.url.split(":")[2].split("/")[0])
    async with toys.open_http_ledger(log, port=port) as again:
        assert again.url == toy.url
    assert len(toys.calls(log, "echo")) == 1


async def test_the_ledger_speaks_http_with_sse(tmp_path: Path) -> None:
    ledger = toys.open_http_ledger(tmp_path / "ledger", transport="--legacy-sse")
    async with ledger as toy, open_host(sse_client(toy.url)) as host:
        assert await call(host, "echo", text="over sse") == (False, "over sse")


async def test_a_bad_server_that_exits_says_why_on_stderr() -> None:
    with pytest.raises(ExceptionGroup), anyio.fail_after(20):
        async with open_stdio_host(toys.bad("exit")):
            pass
    ended = await anyio.run_process(toys.bad("exit"), check=False)
    assert (ended.returncode, ended.stderr) == (1, b"bad_server: the database is missing\n")


async def test_a_bad_server_that_hangs_never_answers() -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(1):
        async with open_stdio_host(toys.bad("hang")):
            pass


@pytest.mark.parametrize("mode", ["junk", "print"])
async def test_a_bad_server_writes_lines_that_are_no_protocol(mode: Literal["junk", "print"]) -> None:
    words = b'{"method": "tools/call", "id": 1, "params": {}}'
    ran = await anyio.run_process(toys.bad(mode), input=words)
    assert ran.stdout.splitlines()[0] == b"Listening on port 8080 ..."
    async with open_stdio_host(toys.bad(mode)) as host:
        assert await call(host, "look_up", key="k") == (False, 'looked up {"key": "k"}')


async def test_a_bad_server_that_ignores_the_end_lives_until_it_is_killed(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    async with await anyio.open_process(toys.bad("ignore_eof", starts)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(b'{"id": 1, "method": "ping"}\n')
        assert await process.stdout.receive()
        await process.stdin.aclose()
        process.send_signal(signal.SIGTERM)
        assert await toys.wait_until_gone([process.pid], within=0.3) == [process.pid]
        await process.wait()
    assert process.returncode == -signal.SIGKILL
    assert starts.read_text() == f"{process.pid}\n"


@pytest.mark.parametrize("mode", ["change", "reword"])
async def test_a_bad_server_offers_something_else_on_its_second_start(
    tmp_path: Path, mode: Literal["change", "reword"]
) -> None:
    shown: list[list[tuple[str, str | None, list[str]]]] = []
    for _ in range(2):
        async with open_stdio_host(toys.bad(mode, tmp_path / "starts")) as host:
            listed = (await host.client.list_tools()).tools
        shown.append([(tool.name, tool.description, list(tool.input_schema["properties"])) for tool in listed])
    before, after = shown
    assert before == [("look_up", "Look something up.", ["key"])]
    assert [name for name, _, _ in after] == (["look_up", "added"] if mode == "change" else ["look_up"])
    assert after[0] != before[0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_host_answers_forms_collects_progress_and_keeps_stderr(tmp_path: Path, era: Era) -> None:
    person = answers(after=0.1, decision="approve")
    async with open_stdio_host(asking(tmp_path), era=era, on_elicit=person) as host:
        assert await call(host, "decide") == (False, "approve")
        assert host.progress == ["deciding"]
        assert "noise" in host.stderr()
        assert host.pid is not None
        assert toys.alive([host.pid]) == [host.pid]
    assert [form.message for form in person.asked] == ["Really?"]
    assert toys.children_of(host.pid) == []


@pytest.mark.parametrize(
    "person", [cancels(), Person("decline"), Person("accept", {})], ids=["cancel", "decline", "{}"]
)
async def test_a_host_can_leave_a_form_unanswered(tmp_path: Path, person: Person) -> None:
    async with open_stdio_host(asking(tmp_path), on_elicit=person) as host:
        is_error, _ = await call(host, "decide")
    assert (is_error, len(person.asked)) == (True, 1)


def asking(folder: Path) -> list[str]:
    script = folder / "asking.py"
    script.write_text(ASKING)
    return [toys.bad("junk")[0], str(script)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "arguments", "tool"),
    [
        ("mcp-server-time", [], "get_current_time"),
        ("mcp-server-git", [], "git_status"),
        ("mcp-server-sqlite", ["--db-path", "db"], "read_query"),
        ("mcp-server-filesystem", ["."], "read_text_file"),
        ("mcp-server-memory", [], "read_graph"),
        ("mcp-server-everything", [], "echo"),
    ],
)
async def test_a_third_party_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: third_party.Program, arguments: list[str], tool: str
) -> None:
    monkeypatch.chdir(tmp_path)
    installed = await anyio.to_thread.run_sync(third_party.install, server)
    if isinstance(installed, third_party.Missing):
        pytest.skip(installed.reason)  # no npm or registry here: the reason says which
    async with open_stdio_host([*installed.command, *arguments]) as host:
        with anyio.fail_after(30):
            tools = (await host.client.list_tools()).tools
    assert tool in {each.name for each in tools}
