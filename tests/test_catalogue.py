"""The tools of all servers: remembered, compared with their pins, classed and named."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import toys
from tool_connections import stdio

from downstream.servers.catalogue import Catalogue
from downstream.servers.failures import CallFailed
from downstream.servers.listing import Definition, Listing, class_of, compare, fingerprint_of, usable
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
    servers = [stdio("box", toys.ledger(tmp_path / "ledger")), stdio("old", toys.bad("junk"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        tools = await catalogue.tools()
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
        again = "models go on seeing the text of the first listing"
        assert catalogue.warnings() == [f"tool server 'old' describes 'look_up' differently now; {again}"]


@pytest.mark.e2e
async def test_a_changed_tool_and_an_added_one_are_in_quarantine_also_for_a_call_under_way(tmp_path: Path) -> None:
    servers = [stdio("old", toys.bad("change", tmp_path / "starts"))]
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert [tool.full_name for tool in await catalogue.tools()] == ["old.look_up"]
    expected = {
        "old.added": "it was added since the server was first listed; until a person accepts that, it is not used",
        "old.look_up": "its arguments changed since it was first listed; until a person accepts that, it is not used",
    }
    async with open_catalogue(tmp_path, servers) as (catalogue, pool):
        await catalogue.tools()
        with pytest.raises(CallFailed, match="look_up may not be called: its arguments changed") as failed:
            await pool.connection("old").call("look_up", {"key": "k"}, timeout=10)
        assert (failed.value.may_have_run, catalogue.quarantined()) == (False, expected)
        assert (await catalogue.tools(), catalogue.tool("old.look_up")) == ((), None)
    async with open_catalogue(tmp_path, servers) as (catalogue, _):
        assert (await catalogue.tools(), catalogue.quarantined()) == ((), expected)
        assert catalogue.warnings()[0] == f"tool 'old.added' is left out: {expected['old.added']}"


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
        await catalogue.tools()
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
    assert [tool.name for tool in usable(pinned, found)] == ["a", "c"]
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
