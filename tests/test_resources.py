"""What hosts read about runs: the view in full, the report, the events and the artifacts."""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError
from mcp_hosts import Era, Host, open_host
from mcp_types import TextResourceContents
from products import open_test_product, script

from journal.artifacts import NewArtifact
from journal.events import NewEvent
from journal.ledger import Limits
from journal.run_journal import Ending, RunJournal
from journal.runs import NewRun
from journal.steps import StepRow
from journal.store import Store
from journal.values import WORST
from server.views.run_view import RunView

LIMITS = Limits(model_calls=50, tool_calls=50, tokens=100_000, usd=10.0, usd_day=20.0, seconds=600.0)
GOAL = "Say <b>what</b> it is"


@asynccontextmanager
async def open_read_run(
    folder: Path, *, era: Era = "modern", **settings: Any
) -> AsyncGenerator[tuple[Host, RunJournal]]:
    """A host, and a run of other settings whose journal the test writes."""
    async with (
        open_test_product(folder, script=script(), servers={}, settings=settings) as (product, server),
        open_host(server, era=era) as host,
    ):
        yield host, await new_run(product.store)


async def new_run(store: Store, goal: str = GOAL) -> RunJournal:
    new = NewRun(store.owner, "other", "other.yaml", goal, "host", "", {"budget": {"steps": 20}})
    run_id, _ = await store.create_or_attach(new, driver="test")
    journal = await store.take(await store.run(run_id), driver="test", limits=lambda run: LIMITS)
    assert journal is not None
    return journal


async def read(host: Host, uri: str) -> tuple[str, str]:
    """Media type and text."""
    (content,) = (await host.client.read_resource(uri)).contents
    return str(content.mime_type), content.text if isinstance(content, TextResourceContents) else content.blob


def row(id_: str, position: int, needs: list[str]) -> StepRow:
    return StepRow(
        id=id_,
        position=position,
        version=1,
        kind="call",
        title=f'Do "{id_}" | now]',
        worker="researcher",
        optional=False,
        dropped=False,
        status="pending",
        summary="",
        definition={"needs": needs},
        started_at=None,
        ended_at=None,
    )


async def finished(journal: RunJournal) -> None:
    await journal.put_plan([row("look", 1, []), row("end", 2, ["look", "gone"])], events=())
    await journal.put_step_status("look", "succeeded", summary="Found <i>it</i>.")
    await journal.put_step_status("end", "failed", summary="Broke.")
    await journal.warn("Something is odd.")
    result: dict[str, Any] = {
        "findings": [
            {"step": "look", "claim": "It is 4.", "evidence": ["c_1"], "supported": True},
            {"step": "look", "claim": "It is 5.", "evidence": [], "supported": False},
        ],
        "sources": [{"step": "look", "tool": "toy.read", "call": "c_1"}],
    }
    await journal.finish(Ending("partial", "error", "It ended.", "# Four\n" + "It is four. " * 600, result))


async def test_four_resources_are_offered_and_the_reports_of_runs_are_listed(tmp_path: Path) -> None:
    async with open_read_run(tmp_path) as (host, journal):
        templates = (await host.client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [
            "run://{run_id}",
            "run://{run_id}/report",
            "run://{run_id}/events",
            "run://{run_id}/artifacts/{artifact_id}",
        ]
        listed = (await host.client.list_resources()).resources
        assert [(resource.uri, resource.title) for resource in listed] == [(f"run://{journal.run.id}/report", GOAL)]


async def test_a_run_is_read_in_full_while_it_is_at_work(tmp_path: Path) -> None:
    async with open_read_run(tmp_path, era="legacy") as (host, journal):
        await journal.put_plan([row("look", 1, [])], events=())
        media_type, text = await read(host, f"run://{journal.run.id}")
    view = json.loads(text)
    jsonschema.validate(view, RunView.model_json_schema())
    assert (media_type, view["status"], view["budget"]) == ("application/json", "running", {"steps": 20})
    assert [step["id"] for step in view["step_list"]] == ["look"]


async def test_the_report_tells_the_whole_run_as_markdown(tmp_path: Path) -> None:
    async with open_read_run(tmp_path) as (host, journal):
        await finished(journal)
        media_type, text = await read(host, f"run://{journal.run.id}/report")
    assert media_type == "text/markdown"
    lines = text.splitlines()
    assert lines[0] == "# Say &lt;b>what&lt;/b> it is"
    drawing = lines[lines.index("```mermaid") + 1 : lines.index("```", lines.index("```mermaid") + 1)]
    assert drawing == [
        "flowchart LR",
        '  s_look["✔ Do  look    now "]',
        '  s_end["✘ Do  end    now "]',
        "  s_look --> s_end",
    ]
    assert '- ✘ **end** (call by researcher): failed. Do "end" | now]' in lines
    assert "  > Found &lt;i>it&lt;/i>." in lines
    assert text.count("It is four.") == 600
    assert [line for line in lines if line.startswith("- It is")] == [
        "- It is 4. (step look)",
        "- It is 5. (step look, not confirmed)",
    ]
    assert "- toy.read in step look (`c_1`)" in lines
    assert "- Something is odd." in lines


async def test_the_report_of_a_run_without_a_plan_says_where_it_stands(tmp_path: Path) -> None:
    async with open_read_run(tmp_path) as (host, journal):
        _, text = await read(host, f"run://{journal.run.id}/report")
    assert "other.yaml" in text
    assert "mermaid" not in text


async def test_the_events_are_one_json_object_a_line_in_order(tmp_path: Path) -> None:
    async with open_read_run(tmp_path) as (host, journal):
        await journal.say(*(NewEvent("warning", {"text": str(number)}) for number in range(10_050)))
        await finished(journal)
        media_type, text = await read(host, f"run://{journal.run.id}/events")
    events = [json.loads(line) for line in text.splitlines()]
    assert media_type == "application/x-ndjson"
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"], len(events) > 10_050) == ("run.created", "run.ended", True)
    assert set(events[0]) == {"seq", "at", "run", "type", "data"}


async def test_an_artifact_is_read_whole_as_text_or_as_bytes(tmp_path: Path) -> None:
    async with open_read_run(tmp_path) as (host, journal):
        text = await journal.artifacts.add(journal.run.id, NewArtifact("s", "c", "text/plain", "häh".encode(), WORST))
        data = await journal.artifacts.add(journal.run.id, NewArtifact("s", "c", "image/png", b"\x89PNG", WORST))
        assert await read(host, f"run://{journal.run.id}/artifacts/{text.id}") == ("text/plain", "häh")
        media_type, blob = await read(host, f"run://{journal.run.id}/artifacts/{data.id}")
    assert (media_type, base64.b64decode(blob)) == ("image/png", b"\x89PNG")


@pytest.mark.parametrize(
    ("media_type", "content"),
    [("image/png", b"\x89PNG s3cret-value-1"), ("text/plain", "it is s3cret-value-1".encode("utf-16"))],
)
async def test_a_file_with_a_secret_that_cannot_be_taken_out_is_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, media_type: str, content: bytes
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value-1")
    async with open_read_run(tmp_path, secrets=["MY_TOKEN"]) as (host, journal):
        artifact = await journal.artifacts.add(journal.run.id, NewArtifact("s", "c", media_type, content, WORST))
        said = await read(host, f"run://{journal.run.id}/artifacts/{artifact.id}")
    told = "This file holds [secret:MY_TOKEN] and is not handed on. A person finds it in the state folder."
    assert said == ("text/plain", told)


async def test_no_secret_leaves_by_a_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-value-1")
    async with open_read_run(tmp_path, secrets=["MY_TOKEN"]) as (host, journal):
        content = b"it is s3cret-value-1"
        artifact = await journal.artifacts.add(journal.run.id, NewArtifact("s", "c", "text/plain", content, WORST))
        _, text = await read(host, f"run://{journal.run.id}/artifacts/{artifact.id}")
        await journal.finish(Ending("failed", "error", "It ended.", "It is s3cret-value-1.", {}))
        _, report = await read(host, f"run://{journal.run.id}/report")
    assert text == "it is [secret:MY_TOKEN]"
    assert "It is [secret:MY_TOKEN]." in report


async def test_what_is_not_there_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    async with open_test_product(tmp_path, script=script(), servers={}) as (product, server), open_host(server) as host:
        one, other = await new_run(product.store), await new_run(product.store, "Another")
        kept = await one.artifacts.add(one.run.id, NewArtifact("s", "c", "text/plain", b"x", WORST))
        shapes = "there are: run://{run_id}, run://{run_id}/report"
        wrong = {
            "run://r_none": "no run 'r_none' is known here",
            "run://r_none/events": "no run 'r_none' is known here",
            f"run://{one.run.id}/artifacts/f_none": "f_none",
            f"run://{other.run.id}/artifacts/{kept.id}": kept.id,
            f"run://{one.run.id}/else": shapes,
            "file:///etc/passwd": shapes,
        }
        for uri, told in wrong.items():
            with pytest.raises(MCPError) as raised:
                await host.client.read_resource(uri)
            assert told in str(raised.value)
