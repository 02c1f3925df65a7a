"""The main job as the tests know it: one settings file, one scripted model, real tool servers, one folder for all."""

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model_server as m
import pytest
import third_party
import toys

GOAL = "Say what the budget note says and what the hours are, and send it to ada@example.org."
MARKER = "marker-7f3a-only-for-readers"
MAIN = [sys.executable, "-c", "from server.app import main; main()"]


@dataclass
class Job:
    """A settings file with all that it names; `log` is the ledger server's, `outbox` where mails lie."""

    folder: Path
    config: Path
    model: m.ModelServer
    log: Path
    outbox: Path

    def sent(self) -> list[Any]:
        """The mails that were sent."""
        return [json.loads(path.read_text()) for path in sorted((self.outbox / "sent").glob("*.json"))]

    def calls(self, *tools: str) -> list[Any]:
        """What the ledger server was called with."""
        return toys.calls(self.log, *tools)


@dataclass(frozen=True)
class ThirdParty:
    """A real tool server that others wrote, under the name `third`: what starts it, and one read call of it."""

    command: list[str]
    tool: str
    arguments: dict[str, Any]


def third_party_server() -> ThirdParty:
    """The file server where Node is, else the time server; skips where neither can be had."""
    files = third_party.install("mcp-server-filesystem")
    if isinstance(files, third_party.Ready):
        folder = Path(__file__).parent / "shelf"
        return ThirdParty([*files.command, str(folder)], "third.read_text_file", {"path": str(folder / "hours.txt")})
    time = third_party.install("mcp-server-time")
    if isinstance(time, third_party.Ready):
        return ThirdParty(time.command, "third.get_current_time", {"timezone": "Europe/Oslo"})
    pytest.skip(f"no third-party tool server can be had: {time.reason}")  # no registry here: the reason says which


def main_plan(*, to: Any = "ada@example.org") -> list[Any]:
    """Two calls that wait for each other, a worker beside them, a text, and a mail that holds it."""
    meet = {"name": "both", "parties": 2, "timeout": 20}
    return [
        {"id": "left", "kind": "call", "title": "Meet from the left", "tool": "ledger.meet", "arguments": meet},
        {"id": "right", "kind": "call", "title": "Meet from the right", "tool": "ledger.meet", "arguments": meet},
        {
            "id": "study",
            "kind": "worker",
            "title": "Study the budget",
            "worker": "researcher",
            "task": "Find out what the budget note says.",
            "tools": ["ledger.read_item", third_party_server().tool],
        },
        {
            "id": "draft",
            "kind": "compose",
            "title": "Draft the mail",
            "needs": ["study", "left", "right"],
            "task": "Write the mail in one sentence.",
        },
        {
            "id": "post",
            "kind": "call",
            "title": "Send the mail",
            "tool": "outbox.send",
            "arguments": {"to": to, "subject": "Budget", "body": {"$step": "draft"}},
        },
    ]


def study_rules(step: str = "study") -> list[m.Rule]:
    """A worker that reads the note and asks the third-party server in one turn, then reports what both said."""
    third = third_party_server()
    turn = [m.call("ledger.read_item", key="budget"), m.call(third.tool, third.arguments)]
    claims: dict[str, Sequence[int | str]] = {"The budget is 40,000.": [0], "The hours are known.": [1]}
    return m.worker(step, [turn], m.report("The budget is 40,000 and the hours are known.", claims))


def main_rules(plan: list[Any] | None = None) -> list[m.Rule]:
    """What the scripted model server says in the main job."""
    return (
        m.planner(plan or main_plan())
        + study_rules()
        + m.compose("draft", "The budget is 40,000.")
        + m.answer("The budget is 40,000; the mail is out.")
    )


def main_script(plan: list[Any] | None = None) -> dict[str, Any]:
    """The same words for a scripted model, which needs no litellm."""
    third = third_party_server()
    turn = {
        "calls": [
            {"tool": "ledger.read_item", "arguments": {"key": "budget"}},
            {"tool": third.tool, "arguments": third.arguments},
        ]
    }
    findings = [{"claim": "The budget is 40,000.", "evidence": [0]}, {"claim": "The hours are known.", "evidence": [1]}]
    report = {"status": "done", "summary": "The budget is 40,000 and the hours are known.", "findings": findings}
    return {
        "plan": plan or main_plan(),
        "steps": {
            "study": {"attempts": [{"turns": [turn], "report": report}]},
            "draft": {"text": "The budget is 40,000."},
        },
        "answer": "The budget is 40,000; the mail is out.",
    }


@contextmanager
def scripted_job(
    folder: Path,
    script: dict[str, Any] | None = None,
    *,
    servers: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> Generator[Job]:
    """The main job with a scripted model instead of a model server: quicker, since nothing loads litellm."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script.json"
    path.write_text(json.dumps(script or main_script()))
    with main_job(folder, [], servers=servers, settings={"model": f"scripted:{path}", **(settings or {})}) as job:
        yield job


@contextmanager
def main_job(
    folder: Path,
    rules: list[m.Rule],
    *,
    servers: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
) -> Generator[Job]:
    """Write the settings and serve the model until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    log, outbox = folder / "ledger.log", folder / "outbox"
    with m.serve_model(rules) as model:
        written = {
            "model": "openai/scripted",
            "model_options": {"api_base": f"{model.url}/v1", "api_key": "not-a-secret-1"},
            "store": f"sqlite:///{folder}/store/steprelay.db",
            "mcpServers": {
                "ledger": toys.entry(toys.ledger(log, budget=f"The budget is 40,000. {MARKER}")),
                "outbox": toys.entry([*MAIN, "tool-server", "outbox", str(outbox)]),
                "third": toys.entry(third_party_server().command),
                **(servers or {}),
            },
            **(settings or {}),
        }
        config = folder / "steprelay.json"
        config.write_text(json.dumps(written, indent=2))
        yield Job(folder, config, model, log, outbox)
