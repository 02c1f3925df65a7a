"""What nobody sees in texts of servers: taken out for models, shown escaped to people, wherever it comes out."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gate_case import call, gate_of, open_runs, tool
from journals import open_own_store
from mcp import MCPError
from mcp.types import CallToolResult, TextContent
from tool_connections import stdio

from downstream.gate.argument_check import argument_errors
from downstream.gate.call_record import no_such_tool
from downstream.gate.forms import Asking, form_question
from downstream.gate.prompt_text import call_question, quoted, trust_question, unknown_question
from downstream.questions import FormAsked, UrlAsked
from downstream.servers.catalogue import remembered_tools
from downstream.servers.exchange import Exchange
from downstream.servers.failures import explain, why_not_open
from downstream.servers.listing import Definition, Listing, fingerprint_of
from downstream.servers.look_alikes import server_troubles, tool_troubles
from downstream.servers.pins import Change, Pins
from downstream.servers.results import normalise
from executors.wording import shown
from executors.worker.conversation import function_of
from journal.values import JsonObject
from planner.cards import tool_line
from planner.markdown import cleaned, plain_line
from server.settings import what_it_runs
from server.terminal.asking import question_lines

BAD = "a\x1b[31mb\u202ec\u200bd\x07e\U000e0041f\u2066g\x9bh"
CLEAN = "abcdefgh"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
SCHEMA: JsonObject = {
    "type": "object",
    "description": BAD,
    "properties": {
        "p": {"type": "string", "title": BAD, "description": BAD, "enum": [BAD, "b"]},
        BAD: {"type": "string"},
    },
}
HELD = Definition("put", BAD, f"{BAD}\n{BAD}", SCHEMA, {"title": BAD}, {"title": BAD})
BROKEN = MCPError(-32000, BAD)


def result(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content={text: [text]})


FOR_MODELS: dict[str, Callable[[], str]] = {
    "a result and its data": lambda: normalise(result(BAD)).text,
    "an error": lambda: normalise(result(BAD).model_copy(update={"is_error": True})).text,
    "a value of another step": lambda: shown({BAD: [BAD]}),
    "why a call failed": lambda: str(explain("box", BROKEN, Exchange(lambda: True, lambda name: None))),
    "why a server is not there": lambda: why_not_open(BROKEN, said=BAD),
    "an answer": lambda: cleaned(f"{BAD}\n`{BAD}`\n```\n{BAD}\n```"),
    "a summary": lambda: plain_line(BAD),
}


@pytest.mark.parametrize("made", FOR_MODELS.values(), ids=FOR_MODELS.keys())
def test_models_and_hosts_get_a_text_without_what_nobody_sees(made: Callable[[], str]) -> None:
    text = made()
    assert (UNSEEN.findall(text), CLEAN in text) == ([], True)


async def test_models_get_a_tool_without_what_nobody_sees(tmp_path: Path) -> None:
    server, listing = stdio("box", ["x"]), Listing(BAD, (HELD,))
    async with open_own_store(tmp_path) as store:
        await store.remembered.put("catalogue", fingerprint_of(server), Pins(listing, listing).to_json())
        [found] = await remembered_tools(store.remembered, [server])
    function = function_of(found)
    for text in (function.description, str(function.parameters), tool_line(found), found.title, found.description):
        assert (UNSEEN.findall(text), CLEAN[1:] in text or BAD[-1] in text) == ([], True)
    properties: JsonObject = function.parameters["properties"]
    assert [part.get("title", CLEAN) for part in properties.values()] == [CLEAN, CLEAN]


async def test_what_a_server_asks_is_shown_escaped_and_reaches_hosts_without_what_nobody_sees(tmp_path: Path) -> None:
    text, choice = {"type": "string", "title": BAD, "description": BAD}, {"oneOf": [{"const": "c", "title": BAD}]}
    schema: JsonObject = {"type": "object", "properties": {"p": text, "q": choice | {"type": "string"}}}
    of = Asking(tool("box.put", "write"), "a", "k", 60.0)
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        form = form_question(gate_of(), journal, FormAsked(BAD, schema), of=of)
        address = form_question(gate_of(), journal, UrlAsked(BAD, f"https://e.example/{BAD}"), of=of)
        asked = await journal.ask(form)
    assert (UNSEEN.findall(str(form.arguments["schema"])), str(form.arguments["schema"]).count(CLEAN)) == ([], 3)
    for question in (form.question, address.question, *question_lines(asked, now=0.0)):
        assert UNSEEN.findall(question) == []
    assert "\\u202e" in form.question


FOR_PEOPLE: dict[str, Callable[[], str]] = {
    "a call": lambda: call_question(tool(f"box.{BAD}", "write", [BAD]), {BAD: BAD, "list": [BAD]}),
    "a call that may have run": lambda: unknown_question(f"box.{BAD}", {BAD: BAD}),
    "a tool that changed": lambda: trust_question(f"box.{BAD}", f"its name can be taken for {quoted(BAD)}"),
    "a difference": lambda: "\n".join(Change("box", "", None, HELD).lines),
    "a tool that is not there": lambda: no_such_tool(call(BAD, allowed=frozenset({"box.put"})), gate_of()).reason,
    "arguments that do not fit": lambda: str(argument_errors({"properties": {"p": {"enum": [BAD]}}}, {"p": BAD + "x"})),
    "names alike": lambda: " ".join(tool_troubles([BAD, CLEAN], [BAD]).values()),
    "servers alike": lambda: " ".join(server_troubles([BAD, CLEAN]).values()),
}


@pytest.mark.parametrize("made", FOR_PEOPLE.values(), ids=FOR_PEOPLE.keys())
def test_people_see_escaped_what_they_would_not_see(made: Callable[[], str]) -> None:
    text = made()
    assert (UNSEEN.findall(text), "\\u202e" in text) == ([], True)


async def test_a_difference_is_shown_at_a_terminal_line_by_line_and_escaped(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        journal = await runs.drive()
        new = form_question(gate_of(), journal, FormAsked("m", {}), of=Asking(tool("box.put", "write"), "a", "k", 60.0))
        asked = await journal.ask(new)
    difference = {"difference": "\n".join(Change("box", "", None, HELD).lines)}
    shown_lines = question_lines(replace(asked, kind="trust", arguments=difference), now=0.0)
    assert [line for line in shown_lines if "+description" in line] != []
    assert [UNSEEN.findall(line) for line in shown_lines] == [[]] * len(shown_lines)


def test_a_project_file_shows_them_escaped(tmp_path: Path) -> None:
    path = tmp_path / "steprelay.json"
    path.write_text('{"mcpServers": {"a\\u202e": {"command": "x\\u001b[31m", "env": {"A": "\\u200b"}}}}')
    assert [UNSEEN.findall(line) for line in what_it_runs(path)] == [[]] * 2
