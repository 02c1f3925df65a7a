"""`steprelay servers`: what the servers of the settings offer, and logging in and out."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toys
from authorization_server import Protected, open_protected
from command_line import OWN, called

from journal.settings import state_folder

pytestmark = pytest.mark.e2e
LOGIN = "it needs a login; log in with: steprelay servers login vault"


def settings_with(folder: Path, servers: dict[str, Any], **more: Any) -> str:
    path = folder / "steprelay.json"
    whole = {"store": f"sqlite:///{folder / 'store.db'}", "mcpServers": servers, **more}
    path.write_text(json.dumps(whole))
    return str(path)


def browser(folder: Path) -> str:
    """A browser as people set one: it follows the address that it is called with."""
    script = folder / "browser.py"
    script.write_text(
        "import sys, httpx2\nwith httpx2.Client(follow_redirects=True) as browser:\n    browser.get(sys.argv[1])\n"
    )
    return f"{sys.executable} {script} %s"


def three(folder: Path, protected: Protected) -> dict[str, Any]:
    ledger = toys.entry(toys.ledger(folder / "ledger.log"))
    return {
        "vault": protected.entry(),
        "ledger": ledger,
        "gone": {"command": "no-such-command"},
        "off": ledger | {"disabled": True},
    }


def test_each_server_is_listed_with_what_it_speaks_or_why_it_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_protected() as protected:
        config = settings_with(tmp_path, three(tmp_path, protected))
        assert called("servers", "list", "--json", "--config", config) == 0
        found = {each.pop("name"): each for each in json.loads(capsys.readouterr().out)["servers"]}
    closed = {"protocol": None, "era": None, "tools": None}
    assert found["vault"] == {"transport": "http", "state": "needs_login", "why": LOGIN, **closed}
    assert found["off"] == {"transport": None, "state": "off", "why": None, **closed}
    assert found["gone"]["state"] == "unavailable"
    assert "no-such-command" in found["gone"]["why"]
    assert (found["ledger"]["state"], found["ledger"]["era"]) == ("open", "modern")
    assert found["ledger"]["tools"] > 5


def test_tools_are_listed_with_their_class_and_those_in_quarantine_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings_with(tmp_path, {"box": toys.entry(toys.bad("change", tmp_path / "starts"))})
    assert called("servers", "tools", "--config", config, "--json") == 0
    before = json.loads(capsys.readouterr().out)["tools"]
    assert called("servers", "tools", "box", "--config", config) == 0
    after = capsys.readouterr().out
    assert {each["quarantined"] for each in before} == {None}
    assert "quarantined" in after
    assert "until a person accepts that, it is not used" in after


def test_a_list_of_servers_of_which_none_can_be_used_has_the_code_of_a_checkup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = {"command": "no-such-command"}
    config = settings_with(tmp_path, {"gone": gone, "lost": gone, "off": gone | {"disabled": True}})
    assert called("servers", "list", "--config", config) == 3
    printed = capsys.readouterr()
    assert ([line.split()[2] for line in printed.out.splitlines()], printed.err) == (
        ["unavailable", "unavailable", "off"],
        "",
    )
    assert called("servers", "list", "--config", settings_with(tmp_path, {"off": gone | {"disabled": True}})) == 0


def test_a_server_that_cannot_be_opened_fails_a_look_at_its_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings_with(tmp_path, {"gone": {"command": "no-such-command"}})
    assert called("servers", "tools", "gone", "--config", config) == 4
    said = capsys.readouterr()
    assert (said.out, "server gone: command 'no-such-command' was not found" in said.err) == ("No tools.\n", True)
    assert called("servers", "tools", "--config", config) == 0


def test_a_person_logs_in_in_their_browser_and_out_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", browser(tmp_path))
    with open_protected() as protected:
        config = settings_with(tmp_path, {"vault": protected.entry()})
        assert called("servers", "login", "vault", "--config", config) == 0
        said = capsys.readouterr().out
        assert called("servers", "list", "--config", config) == 0
        listed = capsys.readouterr().out
        assert called("servers", "logout", "Vault", "--config", config) == 0
        assert called("servers", "logout", "vault", "--config", config) == 0
        gone = capsys.readouterr().out
        assert called("servers", "list", "--config", config) == 0
        assert capsys.readouterr().out == f"vault  http   needs login  {LOGIN}\n"
    assert len(protected.auth.asked) == 1
    assert f"{protected.auth.url}/authorize?" in said
    assert f"Logged in at vault. The login is kept in {state_folder() / 'logins'}" in said
    assert listed == "vault  http   open         3 tools, protocol 2026-07-28 (modern)\n"
    assert gone == "The login at vault is forgotten.\nThere was no login at vault.\n"
    log = (state_folder() / "steprelay.log").read_text() if (state_folder() / "steprelay.log").exists() else ""
    assert [token for token in protected.auth.issued if token in said + listed + gone + log] == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("login", "valt"), "the settings have no server 'valt'; they have: box"),
        (("logout", "off"), "server 'off' is off in the settings"),
        (("tools", "§"), "§"),
        (("login", "box"), "it is a command, which nobody logs in at"),
    ],
)
def test_a_server_that_nobody_can_log_in_at_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    box = {"command": "no-such-command"}
    config = settings_with(tmp_path, {"box": box, "off": box | {"disabled": True}})
    assert called("servers", *words, "--config", config) == 2
    assert why in capsys.readouterr().err


def test_without_servers_the_lists_are_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = settings_with(tmp_path, {})
    assert called("servers", "list", "--config", config) == 0
    assert called("servers", "tools", "--config", config) == 0
    assert capsys.readouterr().out == "The settings have no tool servers.\nNo tools.\n"


UNSEEN = """
import _thread, threading, anyio
from server.commands.opening import run_async

async def work():
    threading.Timer(0.3, _thread.interrupt_main).start()
    await anyio.sleep_forever()

run_async(work)
"""


def test_an_interrupt_that_wakes_nothing_is_seen_all_the_same() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNSEEN], cwd=Path(__file__).parents[1], capture_output=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stderr[-18:]) == (-signal.SIGINT, b"KeyboardInterrupt\n")


def test_a_login_that_is_interrupted_keeps_nothing(tmp_path: Path) -> None:
    with open_protected() as protected:
        config = settings_with(tmp_path, {"vault": protected.entry()})
        command = [*OWN, "servers", "login", "vault", "--no-browser", "--config", config]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as login:
            assert login.stdout is not None
            assert login.stdout.readline() == "To log in at vault, open:\n"
            login.stdout.readline()
            login.send_signal(signal.SIGINT)
            said = login.communicate(timeout=20)
    assert login.returncode == 130
    assert "Traceback" not in said[1]
    assert list((state_folder() / "logins").glob("*.json")) == []
