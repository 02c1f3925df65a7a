"""What a worker can read of results that were kept whole: parts of any size, and a reason where there is none."""

from pathlib import Path
from typing import Any

import pytest
from executing import Bench, called, last_message, open_bench, report, tool, turns, uses, worker, worker_step

from executors.built_in_tools import read_artifact
from executors.own_artifacts import OwnArtifacts
from executors.paths import ReferenceMissing
from journal.artifacts import NewArtifact
from journal.values import JsonObject

NOTES = frozenset({"private:notes"})
DEEP = b'{"rows": [1], "deep": ' + b"[" * 900 + b"7" + b"]" * 900 + b"}"
DEEPER = b"[" * 100_000 + b"]" * 100_000


async def kept(bench: Bench, content: bytes, media_type: str = "application/json") -> str:
    new = NewArtifact("study", "c_0", media_type, content, NOTES)
    return (await bench.store.artifacts.add(bench.run_id, new)).id


async def read(bench: Bench, handle: str, **arguments: Any) -> str:
    owned = OwnArtifacts(await bench.drive(), ["study"])
    return (await read_artifact({"artifact_id": handle} | arguments, owned))[1].text


@pytest.mark.parametrize(
    ("content", "path", "said"),
    [
        (DEEPER, "[0]", "is nested too deeply to be read as JSON"),
        (DEEP, "deep", "is nested too deeply to be shown; give a path further down"),
        (DEEP, f"rows[{'9' * 5_000}]", ".rows is a list of 1"),
        (DEEP, f"rows.{'9' * 5_000}", ".rows is a list of 1"),
    ],
    ids=["deeper than can be parsed", "deeper than can be shown", "a long number", "a long number after a dot"],
)
async def test_a_worker_is_told_what_cannot_be_read_and_its_other_calls_go_on(
    tmp_path: Path, content: bytes, path: str, said: str
) -> None:
    tools = [tool("notes.write", "write")]
    async with open_bench(tmp_path, act=called, tools=tools, workers=[worker(tools=("notes.*",))]) as bench:
        handle = await kept(bench, content)
        both = uses(("notes__write", {"query": "x"}), ("read_artifact", {"artifact_id": handle, "path": path}))
        bench.say = turns(both, report(("x", ["c_110"])))
        outcome = await bench.outcome(worker_step())
        assert said in last_message(bench.requests[1]).content
        assert (outcome.status, [call.tool for call in bench.sent]) == ("succeeded", ["notes.write"])


async def test_a_part_of_what_is_nested_too_deeply_can_still_be_read(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        handle = await kept(bench, DEEP)
        assert (await read(bench, handle, path=f"deep{'[0]' * 900}")).endswith("\n7")
        assert (await read(bench, handle, path="rows")).endswith("\n[1]")
        assert "characters 0 to 22 of 1824" in await read(bench, handle, length=22)
        with pytest.raises(ReferenceMissing, match="nested too deeply to be read as JSON"):
            await OwnArtifacts(await bench.drive(), ["study"]).value(await kept(bench, DEEPER), None)


LONG = "The budget stands. " * 70_000
"""More than is looked through at once."""


@pytest.mark.parametrize(
    ("search", "end", "first"),
    [
        ({"search": "BUDGET"}, "", "1000 places or more, 20 shown"),
        ({"search": "Überschuss"}, "", "2 places, 2 shown"),
        ({"search": "elsewhere"}, "", "0 places, 0 shown"),
        ({"start": 1_330_000}, "\u200bend.\r\n", "characters 1330000 to 1330026 of 1330026"),
        ({"start": 1_330_000}, "\x1b[1mend\x1b[0m.\r\n", "characters 1330000 to 1330026 of 1330026"),
    ],
    ids=["everywhere", "across a border", "nowhere", "the end", "with terminal sequences"],
)
async def test_a_long_text_is_looked_through_as_a_short_one_is(
    tmp_path: Path, search: JsonObject, end: str, first: str
) -> None:
    text = f"{LONG[:262_139]}Überschuss{LONG[262_139:]}ÜBERSCHUSS {end}"
    async with open_bench(tmp_path) as bench:
        handle = await kept(bench, text.encode(), "text/plain")
        assert (await read(bench, handle, **search)).splitlines()[0] == first
