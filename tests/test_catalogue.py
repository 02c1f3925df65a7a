"""The tools of all servers: remembered, compared with their pins, classed and named."""

import math
import shlex
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from tool_connections import ODD, stdio

from downstream.servers.catalogue import Catalogue, remembered_tools
from downstream.servers.failures import CallFailed
from downstream.servers.listing import Definition, Listing, class_of, compare, fingerprint_of, shown
from downstream.servers.pins import Pins
from downstream.servers.pool import Pool, open_pool
from downstream.settings import ServerOptions, ServerSettings, ToolOptions
from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World

WORLD = World()


@asynccontextmanager
async def open_catalogue(folder: Path, servers: Sequence[ServerSettings]) -> AsyncGenerator[tuple[Catalogue, Pool]]:
    async with open_store(folder / "store.db", WORLD, Outlet(), owner="me") as store, open_pool(servers, WORLD) as pool:
        with anyio.fail_after(60):
            yield Catalogue(pool, store.remembered, servers), pool


def starts(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.e2e
async def test_tools_are_listed_by_full_name_with_their_classes_and_found_by_any_name(tmp_path: Path) -> None:
    servers = [stdio("box", toys.sdk_ledger(tmp_path / "ledger"), private=True), stdio("old", toys.bad("junk"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        tools = await catalogue.tools()
    assert {tool.server for tool in tools if tool.private} == {"box"}
    names = [tool.full_name for tool in tools]
    classes = {tool.full_name: tool.class_ for tool in tools}
    assert (names == sorted(names), len(names)) == (True, 14)
    expected = {"box.read_item": "read", "box.look_up_web": "egress", "box.add_item": "write"}
    expected |= {"box.drop_item": "destructive", "box.unlabelled": "unknown", "old.look_up": "read"}
    assert {name: classes[name] for name in expected} == expected
    for name in ("box.add_item", "box__add_item", "mcp__box__add_item", "box/add_item"):
        assert (found := catalogue.tool(name)) is not None
        assert (found.full_name, found.wire) == ("box.add_item", "box__add_item")
    assert [catalogue.tool(name) for name in ("box.push", "", "box")] == [None, None, None]
    assert catalogue.suggest("old.add_item")[0] == "box.add_item"
    assert catalogue.suggest("box.ad_item")[0] == "box.add_item"
    assert (catalogue.missing(), catalogue.quarantined(), catalogue.warnings()) == ({}, {}, [])


@pytest.mark.e2e
async def test_a_server_seen_before_is_not_started_to_plan_with_it(tmp_path: Path) -> None:
    servers = [stdio("old", toys.bad("reword", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        first = await catalogue.tools()
        assert await catalogue.tools() is first
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert await catalogue.tools() == first
        assert starts(tmp_path / "starts") == 1
        await catalogue.tools(refresh=True)
        assert starts(tmp_path / "starts") == 2


@pytest.mark.e2e
async def test_new_words_are_warned_of_and_models_go_on_seeing_the_pinned_ones(tmp_path: Path) -> None:
    servers = [stdio("old", toys.bad("reword", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        first = await catalogue.tools()
    async with open_catalogue(tmp_path, servers) as (catalogue, pool):
        await catalogue.tools()
        assert catalogue.changed("old") == ()
        # The call itself opens the server again, and that compares its listing.
        assert not (await pool.connection("old").call("look_up", {"key": "k"}, timeout=10)).is_error
        assert await catalogue.tools() == first
        assert (catalogue.changed("old"), catalogue.changed("nobody")) == (("look_up",), ())
        again = "models go on seeing what was accepted (steprelay servers trust old)"
        assert catalogue.warnings() == [f"tool server 'old' describes \"look_up\" differently now; {again}"]
        assert (catalogue.news("old"), catalogue.news("nobody")) == (catalogue.warnings(), ())


@pytest.mark.e2e
async def test_a_changed_tool_and_an_added_one_are_in_quarantine_also_for_a_call_under_way(tmp_path: Path) -> None:
    servers = [stdio("old", toys.bad("change", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert [tool.full_name for tool in await catalogue.tools()] == ["old.look_up"]
    until = "until a person accepts that, it is not used (steprelay servers trust old)"
    expected = {
        "old.added": f"it was added since the server was first listed; {until}",
        "old.look_up": f"its arguments changed since it was first listed; {until}",
    }
    async with open_catalogue(tmp_path, servers) as (catalogue, pool):
        await catalogue.tools()
        with pytest.raises(CallFailed, match="look_up may not be called: its arguments changed") as failed:
            await pool.connection("old").call("look_up", {"key": "k"}, timeout=10)
        assert (failed.value.may_have_run, catalogue.quarantined()) == (False, expected)
        # Models go on seeing it as it was accepted; what is called is looked up otherwise.
        assert [tool.full_name for tool in await catalogue.tools()] == ["old.look_up"]
        assert catalogue.tool("old.look_up") is None
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        [tool] = await catalogue.tools()
        assert ("recipient" in str(tool.input_schema), catalogue.quarantined()) == (False, expected)
        assert catalogue.warnings()[0] == f'tool "old.added" is in quarantine: {expected["old.added"]}'


@pytest.mark.e2e
async def test_what_a_person_accepted_by_one_process_is_used_by_another_also_over_an_open_connection(
    tmp_path: Path,
) -> None:
    servers = [stdio("old", toys.bad("change", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        await catalogue.tools()
    async with open_catalogue(tmp_path, servers) as (one, pool), open_catalogue(tmp_path, servers) as (other, _):
        for catalogue in (one, other):
            await catalogue.tools(refresh=True)
            assert [change.full_name for change in catalogue.changes("old")] == ["old.added", "old.look_up"]
        look_up = other.changes("old")[1]
        added = {"+arguments:   },", '+arguments:   "recipient": {', '+arguments:    "type": "string"'}
        assert {line for line in look_up.lines if line[0] in "+-"} == added
        await other.accept(look_up)
        assert (other.tool("old.look_up") is not None, one.tool("old.look_up")) == (True, None)
        await one.tools()
        assert one.tool("old.look_up") == other.tool("old.look_up")
        assert not (await pool.connection("old").call("look_up", {"key": "k"}, timeout=10)).is_error
        assert (list(one.quarantined()), one.change("old.look_up"), one.change("gone.x")) == (["old.added"], None, None)
        found = one.pins("old")
        assert found is not None
        await one.accept_all("old", found.found)
        assert (one.quarantined(), one.changes("old"), one.changes("gone"), one.pins("gone")) == ({}, [], [], None)


@pytest.mark.e2e
async def test_a_server_that_cannot_be_listed_is_named_with_what_it_said_and_costs_no_other(tmp_path: Path) -> None:
    servers = [
        stdio("box", toys.ledger(tmp_path / "ledger")),
        stdio("gone", ["no-such-command"]),
        stdio("ill", toys.bad("exit", tmp_path / "starts")),
        stdio("mute", toys.bad("hang"), start_timeout=1),
    ]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert len(await catalogue.tools()) == 13
        missing = catalogue.missing()
        warnings = catalogue.warnings()
    assert missing == {
        "gone": "command 'no-such-command' was not found; install it or give its full path",
        "ill": "it ended before it answered; try it on its own to see why; "
        'it said: "bad_server: the database is missing"',
        "mute": "it did not answer within 1 s; try it on its own, or raise server_options.mute.start_timeout",
    }
    assert warnings[1] == f"tool server 'ill' is left out: {missing['ill']}"
    assert starts(tmp_path / "starts") == 1


@pytest.mark.e2e
async def test_a_server_that_could_not_be_listed_is_asked_again_soon_but_not_at_once(tmp_path: Path) -> None:
    command, log = tmp_path / "later", tmp_path / "starts"
    # It fails until the file `well` is there.
    command.write_text(
        f"#!/bin/sh\necho >>{log}\n[ -e {tmp_path}/well ] && exec {shlex.join(toys.bad('junk'))}\nexit 3\n"
    )
    command.chmod(0o755)
    async with open_catalogue(tmp_path, [stdio("box", [str(command)])]) as (catalogue, _):
        began = anyio.current_time()
        assert await catalogue.tools() == await catalogue.tools() == ()
        assert (list(catalogue.missing()), starts(log)) == (["box"], 1)
        (tmp_path / "well").touch()
        while not (tools := await catalogue.tools()):  # noqa: ASYNC110 - it is asked again in its own time
            await anyio.sleep(0.05)
        took = anyio.current_time() - began
    assert ([tool.full_name for tool in tools], catalogue.missing(), starts(log)) == (["box.look_up"], {}, 2)
    assert took > 1


@pytest.mark.e2e
async def test_two_who_want_the_tools_at_once_open_a_server_once_and_a_name_of_none_opens_no_server(
    tmp_path: Path,
) -> None:
    servers = [stdio("old", toys.bad("junk", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        for name in ("gone.look_up", "no name"):
            assert (await catalogue.tools_for(name), starts(tmp_path / "starts")) == ((), 0)
        async with anyio.create_task_group() as group:
            for name in ("old__look_up", "mcp__old__look_up"):
                group.start_soon(catalogue.tools_for, name)
            group.start_soon(catalogue.tools)
        assert ([tool.full_name for tool in catalogue.known], starts(tmp_path / "starts")) == (["old.look_up"], 1)


@pytest.mark.e2e
async def test_a_tool_that_cannot_be_pinned_costs_neither_the_others_nor_any_later_process(tmp_path: Path) -> None:
    servers = [stdio("box", toys.ledger(tmp_path / "ledger")), stdio("odd", [sys.executable, str(ODD), "boundless"])]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        tools = [tool.full_name for tool in await catalogue.tools()]
        (note,) = catalogue.warnings()
    assert ("odd.look" in tools, "odd.wide" in tools, len(tools)) == (True, False, 14)
    why = "what it lists of it holds numbers that no JSON has, such as 1e999"
    assert note == f"tool server 'odd': its tool 'wide' is left out: {why}"
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert ([tool.full_name for tool in await catalogue.tools()], catalogue.warnings()) == (tools, [note])


@pytest.mark.e2e
async def test_what_an_earlier_version_kept_of_such_a_tool_is_not_read_and_the_pins_of_the_others_hold(
    tmp_path: Path,
) -> None:
    server = stdio("old", toys.bad("change", tmp_path / "starts"))
    wide = definition("wide", input_schema={"maximum": math.inf})
    kept = Listing("", (definition("look_up"), wide))
    async with open_store(tmp_path / "store.db", WORLD, Outlet(), owner="me") as store, open_pool([server], WORLD) as p:
        await store.remembered.put("catalogue", fingerprint_of(server), Pins(kept, kept).to_json())
        catalogue = Catalogue(p, store.remembered, [server])
        with anyio.fail_after(30):
            assert [tool.full_name for tool in await catalogue.tools()] == ["old.look_up"]
            await catalogue.tools(refresh=True)
        assert [tool.full_name for tool in await remembered_tools(store.remembered, [server])] == ["old.look_up"]
    assert list(catalogue.quarantined()) == ["old.look_up"]


def definition(name: str = "t", **changes: Any) -> Definition:
    fields: dict[str, Any] = {
        "title": "",
        "description": "",
        "input_schema": {},
        "output_schema": None,
        "annotations": {},
    }
    return Definition(name, **(fields | changes))


@pytest.mark.parametrize(
    ("annotations", "class_"),
    [
        ({}, "unknown"),
        ({"title": "Only a title"}, "unknown"),
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "openWorldHint": False}, "read"),
        ({"readOnlyHint": True, "openWorldHint": True}, "egress"),
        ({"readOnlyHint": False, "destructiveHint": False}, "write"),
        ({"destructiveHint": False}, "write"),
        ({"readOnlyHint": False}, "destructive"),
        ({"idempotentHint": True}, "destructive"),
        ({"destructiveHint": True}, "destructive"),
    ],
)
def test_the_class_comes_from_annotations_and_they_only_raise_it_for_a_server_that_is_not_trusted(
    annotations: dict[str, Any], class_: str
) -> None:
    tool = definition(annotations=annotations)
    assert class_of(tool, ServerOptions()) == class_
    assert class_of(tool, ServerOptions(trust="none")) == ("destructive" if class_ == "destructive" else "unknown")


def test_what_the_user_says_of_a_tool_beats_its_annotations_and_an_exact_name_beats_globs() -> None:
    options = ServerOptions(trust="none", effects={"*": "destructive", "read_*": "read", "read_all": "egress"})
    names = ["read_all", "read_one", "send"]
    assert [class_of(definition(name), options) for name in names] == ["egress", "read", "destructive"]


def test_a_comparison_tells_words_from_what_calls_rely_on() -> None:
    pinned = Listing("be nice", (definition("a"), definition("b"), definition("c"), definition("gone")))
    found = Listing(
        "be quick",
        (
            definition("a", title="A", description="new"),
            definition("b", output_schema={}, annotations={"readOnlyHint": True}),
            definition("c"),
            definition("new"),
        ),
    )
    difference = compare(pinned, found)
    assert difference.quarantined == {
        "b": "its result and annotations changed since it was first listed",
        "new": "it was added since the server was first listed",
    }
    assert (difference.reworded, difference.instructions) == (("a",), True)
    assert [tool.name for tool in shown(pinned, found)] == ["a", "b", "c"]
    assert (Listing.from_json(found.to_json()), pinned.pin == found.pin) == (found, False)


def test_a_server_is_known_by_its_command_and_the_names_of_its_variables_not_by_their_values() -> None:
    server = stdio("a", [sys.executable, "-m", "x"], env={"TOKEN": "one"})
    assert fingerprint_of(server) == fingerprint_of(server.model_copy(update={"name": "b", "env": {"TOKEN": "two"}}))
    changes: list[dict[str, Any]] = [{"env": {}}, {"args": ("-m", "y")}, {"cwd": Path("/")}, {"headers": {"X": "y"}}]
    assert fingerprint_of(server) not in [fingerprint_of(server.model_copy(update=change)) for change in changes]


@pytest.mark.e2e
async def test_options_of_a_tool_and_trusted_hints_are_carried_over(tmp_path: Path) -> None:
    options = {"add_item": ToolOptions(idempotent=True), "read_*": ToolOptions(cache=False)}
    log = tmp_path / "ledger"
    servers = [stdio("a", toys.ledger(log), tools=options), stdio("b", toys.ledger(log), trust="none")]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        tools = {tool.full_name: (tool.idempotent, tool.cache) for tool in await catalogue.tools()}
    assert [tools[f"a.{name}"] for name in ("add_item", "read_item", "drop_item")] == [
        (True, True),
        (True, False),
        (False, True),
    ]
    assert [tools[f"b.{name}"] for name in ("add_item", "read_item")] == [(False, True), (False, True)]
