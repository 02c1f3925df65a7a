"""`steprelay init`: tool servers out of every host's files, without a secret, once each, never steprelay itself."""

import json
import os
import stat
from pathlib import Path

import pytest
from command_line import called
from host_homes import MARK, expected, furnish, put_servers, written

from journal.values import Json, JsonObject
from server.hosts_import.places import HOSTS
from server.settings import find_settings, load_settings
from server.settings_file.found import user_settings_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home, worked in at `shop`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_MCP_SETTINGS_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path


def reported(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> JsonObject:
    """What `init --json` printed, nothing else being on stdout."""
    assert called("init", "--json", *words) == code
    report: JsonObject = json.loads(capsys.readouterr().out)
    return report


@pytest.mark.parametrize("host", HOSTS)
def test_the_servers_of_a_host_come_without_its_secrets(
    host: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(home)
    wanted = expected(host, home)
    assert called("init", "--from", host, "--dry-run") == 0
    assert not user_settings_path().exists()
    dry = capsys.readouterr()
    assert called("init", "--from", host) == 0
    told = capsys.readouterr()
    report = reported(capsys, "--from", host, "-o", str(home / "again.json"))
    content = user_settings_path().read_text(encoding="utf-8")

    assert written() == written(home / "again.json") == wanted["servers"]
    assert dry.out.endswith(content)
    assert [each["name"] for each in report["left_out"]] == wanted["left_out"]
    assert sorted(each["name"] for each in report["variables"]) == wanted["needed"]
    assert MARK not in "".join([dry.out, dry.err, told.out, told.err, content, json.dumps(report)])


def test_all_hosts_together_make_settings_that_load(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    furnish(home)
    assert called("init") == 0
    told = capsys.readouterr()
    path = user_settings_path()
    assert MARK not in told.out + told.err + path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    report = reported(capsys, "--dry-run", "-o", str(home / "other.yaml"))
    environ = {each["name"]: f"value of {each['name']}" for each in report["variables"]}
    settings = load_settings(find_settings(path, environ={}, cwd=None), environ=environ)
    assert settings.warnings == ()
    assert len(settings.servers) + len(settings.off) == len(written()) == 33
    assert sorted(settings.off) == ["excluded", "inline", "notion", "off", "rejected", "remote-goose", "stream"]


def test_merging_again_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    furnish(home)
    path = user_settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "# mine\nmodel: scripted:x.yaml   # why\n\nmcpServers:\n  # the first\n  own: {command: own}\n"
        "\n# money\nbudget:\n  usd: 1.0\nworkers:\n  - name: w\n    tools:\n      - own.*\n"
    )
    os.chmod(path, 0o644)
    assert called("init", "--merge") == 0
    first = path.read_text(encoding="utf-8")
    assert list(written())[-1] == "own"
    kept = "# mine\nmodel: scripted:x.yaml   # why\n\nmcpServers:\n"
    rest = "  own: {command: own}\n\n# money\nbudget:\n  usd: 1.0\nworkers:\n  - name: w\n    tools:\n      - own.*\n"
    assert first.startswith(kept)
    assert first.endswith(rest)
    assert "# the first" in first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    capsys.readouterr()
    assert called("init", "--merge") == 0
    assert path.read_text(encoding="utf-8") == first
    assert f"Nothing to add; {path} is as it was." in capsys.readouterr().out.splitlines()


def test_what_is_there_is_never_overwritten(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    path = home / "mine.yaml"
    path.write_text("budget: {usd: 1.0}\n")
    assert called("init", "-o", str(path)) == 2
    assert capsys.readouterr().err == (
        f"steprelay: {path} is there already; add to it with --merge, or name another file with -o\n"
    )
    assert path.read_text() == "budget: {usd: 1.0}\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("# nothing yet\n", "# nothing yet\nmcpServers:\n  a:\n    command: a\n"),
        ("servers:\n", "servers:\n  a:\n    command: a\n"),
        ("budget: {usd: 1.0}", "budget: {usd: 1.0}\nmcpServers:\n  a:\n    command: a\n"),
    ],
    ids=["comments alone", "under servers", "no servers"],
)
def test_a_file_without_servers_gets_them(home: Path, text: str, after: str) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    (home / "mine.yaml").write_text(text)
    assert called("init", "--merge", "--config", str(home / "mine.yaml")) == 0
    assert (home / "mine.yaml").read_text() == after


def test_json_is_merged_where_it_holds_no_comments(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    path = home / "mine.json"
    path.write_text('{"servers": {"b": {"command": "b"}}, "revise": "never"}')
    assert called("init", "--merge", "-o", str(path)) == 0
    merged = {"servers": {"a": {"command": "a"}, "b": {"command": "b"}}, "revise": "never"}
    assert json.loads(path.read_text()) == merged
    path.write_text('{"servers": {} // none\n}')
    capsys.readouterr()
    assert called("init", "--merge", "-o", str(path)) == 3
    assert "mine.json: holds comments, which would be lost; write to another file" in capsys.readouterr().err


def test_broken_settings_are_told_before_anything_is_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    path = home / "mine.yaml"
    path.write_text("mcpServers: [1]\n")
    assert called("init", "--merge", "-o", str(path)) == 3
    assert capsys.readouterr().err == f"steprelay: {path}: mcpServers must be a map of names to servers\n"
    assert called("init", "-o", str(path / "below" / "it.yaml")) == 3
    assert "cannot be written: Not a directory; name another file with -o" in capsys.readouterr().err


def test_a_linked_settings_file_stays_a_link(home: Path) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "real.yaml").write_text("revise: never\n")
    link = home / "linked.yaml"
    link.symlink_to(home / "dotfiles" / "real.yaml")
    assert called("init", "--merge", "-o", str(link)) == 0
    assert link.is_symlink()
    assert written(link) == {"a": {"command": "a"}}


def test_the_same_server_of_two_hosts_is_taken_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desktop, cursor = home / ".config/Claude/claude_desktop_config.json", home / ".cursor" / "mcp.json"
    github: JsonObject = {"command": "npx", "args": ["-y", "gh"]}
    put_servers(
        desktop,
        {
            "github": {**github, "env": {"GH_TOKEN": "an-old-token-1"}},
            "docs": {"url": "https://docs.example/mcp?key=first-key"},
            "fs": {"command": "fs", "args": ["/a"]},
            "sleeping": {"command": "sleeping", "disabled": True},
        },
    )
    put_servers(
        cursor,
        {
            "gh": {**github, "env": {"GH_TOKEN": "a-new-token-22"}},
            "docs": {"url": "https://docs.example/mcp?key=other-key"},
            "fs": {"command": "fs", "args": ["/b"]},
            "awake": {"command": "sleeping"},
        },
    )
    report = reported(capsys)
    assert written() == {
        "github": {**github, "env": {"GH_TOKEN": "${GH_TOKEN}"}},
        "docs": {"type": "http", "url": "https://docs.example/mcp?key=${DOCS_KEY}"},
        "fs": {"command": "fs", "args": ["/a"]},
        "sleeping": {"command": "sleeping"},
        "fs-cursor": {"command": "fs", "args": ["/b"]},
    }
    assert report["taken_once"] == [
        f"gh (cursor, {cursor}) is github (claude-desktop, {desktop}): taken once; "
        "GH_TOKEN differs there and is not taken",
        f"docs (cursor, {cursor}) is docs (claude-desktop, {desktop}): taken once",
        f"fs (cursor, {cursor}) is now fs-cursor: another server has that name",
        f"awake (cursor, {cursor}) is sleeping (claude-desktop, {desktop}): taken once",
    ]


def test_two_accounts_in_one_file_stay_two(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accounts: JsonObject = {
        f"slack-{name}": {"command": "slack", "args": ["--team", name[0]], "env": {"SLACK_TOKEN": f"xoxb-{name}-12345"}}
        for name in ("work", "home")
    }
    for entry in accounts.values():
        del entry["args"]
    put_servers(home / ".cursor" / "mcp.json", accounts)
    put_servers(home / ".codeium" / "mcp_config.json", accounts)
    report = reported(capsys)
    assert written() == {
        "slack-work": {"command": "slack", "env": {"SLACK_TOKEN": "${SLACK_TOKEN}"}},
        "slack-home": {"command": "slack", "env": {"SLACK_TOKEN": "${SLACK_HOME_SLACK_TOKEN}"}},
    }
    assert len(report["taken_once"]) == 2
    content = user_settings_path().read_text()
    assert called("init", "--merge") == 0
    assert user_settings_path().read_text() == content


def test_names_that_are_taken_get_an_end(home: Path) -> None:
    for number, host in enumerate(
        (".cursor/mcp.json", ".codeium/mcp_config.json", ".codeium/windsurf/mcp_config.json")
    ):
        put_servers(home / host, {"A b": {"command": "x", "args": [f"{number}"]}})
    assert called("init") == 0
    assert list(written()) == ["A b", "A b-windsurf", "A b-windsurf-2"]


def test_what_is_started_by_a_relative_path_is_another_program_in_another_folder(home: Path) -> None:
    for name in ("one", "two"):
        (home / name).mkdir()
    entry: Json = {"mcpServers": {"srv": {"command": "python", "args": ["server.py"]}, "same": {"command": "uvx"}}}
    projects: JsonObject = {str(home / "one"): entry, str(home / "two"): entry, "odd": 5}
    put_servers(home / ".claude.json", {}, projects=projects)
    assert called("init") == 0
    assert {name: each["cwd"] for name, each in written().items()} == {
        "srv": str(home / "one"),
        "same": str(home / "one"),
        "srv-two": str(home / "two"),
    }


ITSELF: list[tuple[str, JsonObject]] = [
    ("a", {"command": "steprelay", "args": ["serve"]}),
    ("b", {"command": "/home/me/.local/bin/steprelay", "args": ["serve", "--config", "x.yaml"]}),
    ("c", {"command": "uvx", "args": ["steprelay", "serve"]}),
    ("d", {"command": "uvx", "args": ["steprelay@0.1.0"]}),
    ("e", {"command": "uv", "args": ["tool", "run", "steprelay", "serve"]}),
    ("f", {"command": "uvx", "args": ["--from", "git+https://x.example/steprelay", "steprelay", "serve"]}),
    ("g", {"command": "sh", "args": ["-c", "STEPRELAY_CONFIG=x exec steprelay serve"]}),
    ("h", {"command": "C:\\tools\\steprelay.exe", "args": ["serve"]}),
    ("i", {"command": "steprelay"}),
    ("steprelay", {"url": "http://127.0.0.1:8765/mcp"}),
]


@pytest.mark.parametrize(("name", "entry"), ITSELF, ids=[name for name, _ in ITSELF])
def test_steprelay_is_never_added_to_itself(
    name: str, entry: JsonObject, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_servers(home / ".cursor" / "mcp.json", {name: entry})
    report = reported(capsys)
    assert [each["why"] for each in report["left_out"]] == ["it is steprelay itself, which never calls itself"]
    assert not user_settings_path().exists()


def test_what_only_names_steprelay_is_taken(home: Path) -> None:
    servers: JsonObject = {
        "notes": {"command": "steprelay", "args": ["tool-server", "notes", "/home/me"]},
        "fs": {"command": "npx", "args": ["-y", "server-filesystem", "/home/me/steprelay"]},
        "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "steprelay"]},
    }
    put_servers(home / ".cursor" / "mcp.json", servers)
    assert called("init") == 0
    assert written() == servers


BROKEN = {
    ".cursor/mcp.json": ('{"mcpServers": {\n  "a": {"command": "x" "LEAK"}\n}}', ':2: a comma or "}" must stand here'),
    ".config/Claude/claude_desktop_config.json": (
        '{"mcpServers":\n{"LEAK-LEAK" 1}}',
        ":2: a colon must follow the key '…'",
    ),
    ".codex/config.toml": ('[mcp_servers.a]\ncommand = "x\nLEAK', ":2: not TOML: Illegal character '…'"),
    ".config/goose/config.yaml": ("extensions:\n  a: [LEAK\n", ":3: not YAML: expected '…'"),
    ".gemini/settings.json": ("[1]", ":1: holds no map of keys, as files of hosts do"),
}


def test_broken_files_are_told_with_their_line_and_the_others_are_read(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, (text, _) in BROKEN.items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text(text)
    (home / ".codeium").mkdir()
    (home / ".codeium" / "mcp_config.json").write_bytes("{}\n{".encode("utf-16"))
    (home / ".claude.json").symlink_to(home / "gone")
    (home / ".codeium" / "windsurf").mkdir()
    with (home / ".codeium" / "windsurf" / "mcp_config.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    put_servers(home / "shop" / ".mcp.json", {"good": {"command": "good"}})
    assert called("init") == 3
    told = capsys.readouterr()
    assert list(written()) == ["good"]
    assert MARK not in told.out + told.err
    for place, (_, text) in BROKEN.items():
        assert f"steprelay: {home / place}{text}" in told.err
    assert f"{home / '.codeium/mcp_config.json'}:1: not UTF-8; save it as UTF-8" in told.err
    assert f"{home / '.claude.json'}: cannot be read: No such file or directory" in told.err
    assert f"{home / '.codeium/windsurf/mcp_config.json'}: larger than 64 MiB" in told.err


def test_settings_written_by_hand_may_hold_anything(home: Path) -> None:
    path = home / "mine.yaml"
    servers = "  a: {command: 5, args: [1], env: {PORT: 80}}\n  b: {args: 5, env: x}\n  c: 5\n  —: {}\n"
    path.write_text("mcpServers:\n" + servers)
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}, "C": {"command": "c"}})
    assert called("init", "--merge", "-o", str(path)) == 0
    assert list(written(path)) == ["a-cursor", "C-cursor", "a", "b", "c", "—"]


@pytest.mark.parametrize(
    ("name", "text", "host"),
    [
        ("a.toml", "[mcp_servers.a]\ncommand='a'", "codex"),
        ("a.yaml", "extensions: {a: {type: stdio, cmd: a}}", "goose"),
        (".vscode/mcp.json", '{"servers": {"a": {"command": "a"}}}', "vscode"),
        ("settings.json", '{"mcp": {"servers": {"a": {"command": "a"}}}}', "vscode"),
        (
            "devcontainer.json",
            '{"customizations": {"vscode": {"mcp": {"servers": {"a": {"command": "a"}}}}}}',
            "vscode",
        ),
        ("x.json", '{"mcpServers": {"a": {"command": "a"}}}', "mcp-json"),
        ("x.json", '{"mcpServers": {"a": {"httpUrl": "http://a/mcp"}}}', "gemini-cli"),
        ("x.json", '{"mcpServers": {"a": {"serverUrl": "http://a/mcp"}}}', "windsurf"),
        ("x.json", '{"mcpServers": {"a": {"command": "a", "autoApprove": []}}}', "cline"),
        ("x.json", '{"projects": {}, "mcpServers": {"a": {"command": "a"}}}', "claude-code"),
        ("backup/.cursor/mcp.json", '{"mcpServers": {"a": {"command": "a"}}}', "cursor"),
        ("claude_desktop_config.json", '{"mcpServers": {"a": {"command": "a"}}}', "claude-desktop"),
    ],
)
def test_a_file_is_recognised_by_what_it_holds(
    name: str, text: str, host: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / "shop" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    report = reported(capsys, "--from", name)
    assert [(each["host"], each["servers"]) for each in report["files"]] == [(host, 1)]


def test_a_file_of_no_host_is_an_error_and_the_others_are_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_servers(home / ".cursor" / "mcp.json", {"a": {"command": "a"}})
    (home / "shop" / "x.json").write_text('{"no": 1}')
    assert called("init", "--from", "x.json", "--from", "~/.cursor/mcp.json") == 3
    assert f"{home / 'shop' / 'x.json'}: holds no tool servers; mcpServers, servers," in capsys.readouterr().err
    # The user's own file, not that of a project in the home folder.
    assert written() == {"a": {"command": "a"}}
    assert called("init", "--from", "claude-dekstop", "-o", "new.yaml") == 2
    assert capsys.readouterr().err == (
        "steprelay: --from claude-dekstop is neither a host nor a file; did you mean 'claude-desktop'?\n"
    )


def test_with_no_host_at_all_it_says_where_it_looked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("init") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "No file of a host is here; looked for:"
    assert f"  {home / '.codex' / 'config.toml'} (codex)" in lines
    assert lines[-1] == "Nothing to write."
    assert not user_settings_path().exists()


def test_it_says_what_it_takes_and_what_to_do_next(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = home / ".cursor" / "mcp.json"
    put_servers(
        source,
        {
            "web": {"url": "https://w.example/mcp", "headers": {"X-Api-Key": "a-secret-value"}, "auth": {"a": "b"}},
            "odd\x1b[2J": {"command": "x", "description": "what it is", "disabled": True},
        },
    )
    assert called("init", "-o", "mine.yaml") == 0
    path = home / "shop" / "mine.yaml"
    *lines, plan, entry = capsys.readouterr().out.splitlines()
    assert lines == [
        f"cursor, {source}: 2 servers",
        "+ web: connects to https://w.example/mcp",
        f"    from cursor, {source}",
        "    not taken, since settings have no such key: auth",
        "+ odd\\x1b[2J (disabled, as it was): runs x",
        f"    from cursor, {source}",
        "    not taken, since only hosts read it: description",
        "! web: what is, or looks, secret in headers X-Api-Key is not copied; set WEB_API_KEY",
        f"Wrote 2 servers to {path}.",
        "Set where steprelay is started, as in `export NAME=VALUE`:",
        "  WEB_API_KEY  (web headers)",
        "Next:",
    ]
    assert plan.endswith(f'plan "…" --config {path}')
    assert entry.startswith("  claude mcp add --scope user steprelay -- ")
    assert entry.endswith(f"serve --config {path}")
