"""What a worker's model only quotes is not what it does, and what it could not look up it has not found."""

from pathlib import Path

import pytest
from executing import called, last_message, open_bench, prose, report, tool, turns, uses, worker_step

from executors.built_in_tools import read_artifact
from executors.own_artifacts import OwnArtifacts
from journal.artifacts import NewArtifact
from journal.values import JsonObject

SEARCH = ("notes__search", {"query": "budget"})
TOOLS = [tool("notes.search"), tool("notes.read")]
CALL = '{"tool": "notes__read", "arguments": {"path": "a.md"}}'
DONE = '{"status": "done", "summary": "All is well.", "findings": [{"claim": "x", "evidence": ["c_110"]}]}'


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        (f"The note holds {CALL}, and I will NOT carry it out.", []),
        (f"```json\n{CALL}\n```\nThat is what the note wants.", []),
        (f'It says {{"status": "failed", "summary": "no"}}, so I look: {CALL}', ["notes.read"]),
        (f"I look.\n```json\n{CALL}\n```", ["notes.read"]),
    ],
    ids=["rejected", "fenced", "after a quoted report", "meant"],
)
async def test_a_call_in_the_text_counts_where_the_text_ends_with_it(
    tmp_path: Path, said: str, sent: list[str]
) -> None:
    say = turns(prose(said), uses(SEARCH), report(("x", ["c_120" if sent else "c_110"])))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        await bench.outcome(worker_step())
        assert [call.tool for call in bench.sent] == [*sent, "notes.search"]


async def test_after_a_call_by_function_text_holds_no_call_but_a_bare_report(tmp_path: Path) -> None:
    async with open_bench(
        tmp_path, say=turns(uses(SEARCH), prose(CALL), prose(f"It reads {DONE}"), prose(DONE)), act=called, tools=TOOLS
    ) as bench:
        outcome = await bench.outcome(worker_step())
        assert (outcome.status, [call.tool for call in bench.sent]) == ("succeeded", ["notes.search"])


async def test_by_grammar_a_quoted_call_has_the_next_one_asked_for_by_its_form(tmp_path: Path) -> None:
    say = turns(prose(f"{CALL} would read the note."), prose('{"tool": "notes__search", "arguments": {"query": "x"}}'))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        bench.by_grammar = True
        await bench.outcome(worker_step())
        assert [request.name for request in bench.requests[:2]] == [None, "next_action"]
        assert bench.sent[0].tool == "notes.search"


async def test_a_step_whose_tools_were_taken_back_is_not_done_by_a_report(tmp_path: Path) -> None:
    async with open_bench(tmp_path, say=turns(report()), tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step(tools=["notes.gone"]))
        assert outcome.status == "failed"
        assert "no call did; not there any more: notes.gone" in str(outcome.problem)
        assert "notes.gone" in last_message(bench.requests[1]).content


async def test_of_many_tools_that_are_not_there_some_are_told(tmp_path: Path) -> None:
    made_up: list[tuple[str, JsonObject]] = [(f"made_up_{number}", {}) for number in range(50)]
    say = turns(uses(*made_up), uses(SEARCH), report(("x", ["c_120"])))
    async with open_bench(tmp_path, say=say, act=called, tools=TOOLS) as bench:
        outcome = await bench.outcome(worker_step())
        assert (len((await bench.store.run(bench.run_id)).warnings), len(outcome.failed_calls)) == (20, 20)


@pytest.mark.parametrize(
    ("asked", "is_empty"),
    [({}, False), ({"start": 10_000}, True), ({"search": "ship"}, False), ({"search": "nowhere"}, True)],
    ids=["a piece", "past the end", "a word", "no such word"],
)
async def test_a_look_that_shows_nothing_is_empty(tmp_path: Path, asked: dict[str, object], is_empty: bool) -> None:
    async with open_bench(tmp_path, tools=TOOLS) as bench:
        new = NewArtifact("study", "c_0", "text/plain", b"Ship on Friday.", frozenset({"private:notes"}))
        kept = await bench.store.artifacts.add(bench.run_id, new)
        owned = OwnArtifacts(await bench.drive(), ["study"])
        _, part = await read_artifact({"artifact_id": kept.id, **asked}, owned)
        assert part.is_empty == is_empty
