"""A real host: Claude Code, headless, hands a goal to steprelay. Only the models are scripted, the host's and ours."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model_server as m
import pytest
import third_party
from command_line import open_terminal
from mcp_hosts import STEPRELAY, Era, serve
from tap import said_by_host, said_by_server, tapped

from server.demo.settings import GOAL, Demo, prepare_demo

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

_NEGOTIATION: dict[Era, str] = {"legacy": "legacy", "modern": "auto"}


@dataclass(frozen=True)
class Desk:
    """A person's desk: Claude Code with steprelay as its one tool server, and steprelay with the demo's three."""

    claude: list[str]
    demo: Demo
    folder: Path
    era: Era

    def delegate(self, tool: str, /, **arguments: Any) -> "Session":
        """One headless session in which Claude Code's model calls this tool of steprelay, which the user allowed."""
        name = f"mcp__steprelay__{tool}"
        search = m.call("ToolSearch", query=f"select:{name}", max_results=1)
        rules = m.host([search], [m.call(name, arguments)], "steprelay says: {{last_tool}}")
        log = self.folder / f"{tool}.wire"
        config = self.folder / "mcp.json"
        command, *rest = tapped(serve(self.demo.settings), log)
        config.write_text(json.dumps({"mcpServers": {"steprelay": {"command": command, "args": rest}}}))
        words = ["-p", "Use steprelay.", "--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", name]
        with m.serve_model(rules) as model:
            done = subprocess.run(
                [*self.claude, *words, "--model", "claude-sonnet-4-6"],
                cwd=self.folder,
                env=self._environ(model.url),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=150,
                check=False,
            )
            assert (done.returncode, model.unmatched) == (0, []), done.stdout + done.stderr
            return Session(done.stdout, model.requests[-1].last("tool"), log)

    def sent(self) -> list[Any]:
        """The mails that lie in the outbox."""
        return [json.loads(path.read_text()) for path in (self.demo.outbox / "sent").glob("*.json")]

    def _environ(self, model_url: str) -> dict[str, str]:
        """Nothing of the environment that the tests run in but its paths, and no way to other machines."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME") or name[:4] == "XDG_"}
        return kept | {
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
            "MCP_PROTOCOL_NEGOTIATION": _NEGOTIATION[self.era],
        }


@dataclass(frozen=True)
class Session:
    """What a session printed, what its model was shown of the tool's result, and where the wire's log lies."""

    printed: str
    shown: str
    log: Path

    def view(self) -> Any:
        """The RunView that the model was shown."""
        return json.JSONDecoder().raw_decode(self.shown, self.shown.index('{"version"'))[0]


@pytest.fixture
def claude() -> list[str]:
    found = third_party.install("claude")
    if isinstance(found, third_party.Missing):
        pytest.skip(found.reason)  # no npm, or the package cannot be had: the reason says which
    return found.command


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_claude_code_delegates_a_goal_whose_mail_waits_for_the_terminal(
    claude: list[str], tmp_path: Path, era: Era
) -> None:
    demo = prepare_demo(tmp_path / "demo", [str(STEPRELAY)])
    desk = Desk(claude, demo, tmp_path, era)

    began = desk.delegate("plan_and_execute", goal=GOAL)
    view = began.view()
    (action,) = view["actions"]
    assert (view["status"], action["tool"], action["level"]) == ("awaiting_approval", "outbox.send", "host")
    assert view["run_id"] in began.printed
    check_what_the_host_did(began.log, era)
    # The model is shown the structured content and the link, and nothing of the text part.
    assert began.shown.startswith(f"[Resource link: {view['run_id']}] run://{view['run_id']}")
    assert "WAITS" not in began.shown

    # Claude Code asks its user before this tool, even where they always allow it, and headless there is no user.
    word = {"decision": "approve", "tool": action["tool"], "arguments": action["arguments"]}
    refused = desk.delegate("approve_action", action_id=action["action_id"], **word)
    assert "requires permission" in refused.shown
    assert desk.sent() == []

    with open_terminal("approve", action["action_id"], "--config", str(demo.settings), cwd=tmp_path) as terminal:
        terminal.expect("approve, deny or later? ")
        terminal.send("approve\n")
        terminal.expect("Drive it here? [Y/n] ")
        terminal.send("\n")
        code = terminal.end(60)
    assert (code, [mail["to"] for mail in desk.sent()]) == (0, ["team@harbour.example"])

    ended = desk.delegate("get_run", run_id=view["run_id"])
    assert (ended.view()["status"], ended.view()["stop_reason"]) == ("succeeded", "done")
    assert "**2,320 EUR are left**" in ended.printed
    assert len(desk.sent()) == 1


def check_what_the_host_did(log: Path, era: Era) -> None:
    """The name we know it by, the form that it cancels unseen, and the progress that it asks for."""
    by_host, by_server = "\n".join(said_by_host(log)), said_by_server(log)
    assert set(re.findall(r'clientInfo":\{"name":"([^"]+)"', by_host)) == {"claude-code"}
    assert by_host.count('{"action":"cancel"}') == 1
    assert ('"inputResponses"' in by_host) == (era == "modern")
    assert len([line for line in by_server if '"notifications/progress"' in line]) > 3
