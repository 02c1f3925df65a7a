"""Worker files in the format of Claude Code's subagents."""

from pathlib import Path

import pytest

from server.settings import Found, Settings, SettingsError, load_settings


def load(folder: Path, settings: str = "", /, **files: str) -> Settings:
    path = folder / "steprelay.yaml"
    path.write_text(settings)
    (folder / "workers").mkdir()
    for name, text in files.items():
        (folder / "workers" / f"{name}.md").write_text(text, encoding="utf-8")
    return load_settings(Found(path, "option"), environ={})


def test_a_worker_file_is_read_unchanged(tmp_path: Path) -> None:
    text = """---
name: code-reviewer
description: Expert reviewer. Use proactively: after changes #1, "always".
tools: mcp__fs__read_file, git/log, fs.search_*
disallowedTools: [fs.search_secret]
model: inherit  # the main one
maxTurns: 7
color: blue
x-own: {a: 1}
---

You review code.

---
Be brief.
"""
    settings = load(tmp_path, "mcpServers: {fs: {command: x}, git: {command: y}}", a=text)
    worker = settings.workers[0]
    assert (worker.name, worker.model, worker.limits.turns) == ("code-reviewer", None, 7)
    assert worker.description == 'Expert reviewer. Use proactively: after changes #1, "always".'
    assert worker.instructions == "You review code.\n\n---\nBe brief."
    assert worker.tools == ("fs.read_file", "git.log", "fs.search_*")
    assert worker.disallowed_tools == ("fs.search_secret",)
    assert settings.warnings == ()
    assert (settings.workers[0].name, settings.workers[-1].name) == ("code-reviewer", "reviewer")


def test_no_tools_key_means_all_tools_and_an_empty_one_none(tmp_path: Path) -> None:
    head = "---\nname: {}\ndescription: d\n{}---\n"
    settings = load(tmp_path, a=head.format("a", ""), b=head.format("b", "tools: []\n"), c=head.format("c", "tools:\n"))
    assert [worker.tools for worker in settings.workers[:3]] == [None, (), None]


def test_tools_of_a_host_are_a_warning_and_never_all_tools(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: d\ntools: Read, Bash(git diff, git log), , mcp__fs\nmodel: sonnet\n---\n"
    settings = load(
        tmp_path, "mcpServers: {fs: {command: x}}", a=text, b=text.replace("a\n", "b\n").replace(", mcp__fs", "")
    )
    assert [worker.tools for worker in settings.workers[:2]] == [("fs.*",), ()]
    assert settings.warnings[:2] == (
        "a.md: model 'sonnet' is a host's short name; the settings' own model is used",
        "a.md: tools Read, Bash(git diff, git log): tools of a host, which workers here do not have",
    )


def test_keys_without_effect_are_warnings(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: d\nhooks: {x: [y]}\ntool: z\n---\n"
    assert load(tmp_path, a=text).warnings == (
        "a.md: key 'hooks' is for hosts and has no effect here",
        "a.md: key 'tool' is not known; did you mean 'tools'?",
    )


@pytest.mark.parametrize("name", ["12", "true", "no"])
def test_a_bare_number_or_boolean_is_a_name(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, a=f"---\nname: {name}\ndescription: d\n---\nx").workers[0].name == name


def test_a_byte_order_mark_and_windows_line_ends_hide_nothing(tmp_path: Path) -> None:
    text = "\ufeff---\r\nname: a\r\ndescription: one: two\r\n---\r\nDo it.\r\n"
    path = tmp_path / "steprelay.yaml"
    path.write_text("")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.md").write_bytes(text.encode())
    worker = load_settings(Found(path, "option"), environ={}).workers[0]
    assert (worker.name, worker.description, worker.instructions) == ("a", "one: two", "Do it.")


def test_a_description_may_go_on_over_lines(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: one\n  two\nmaxTurns: 3\n---\n"
    assert load(tmp_path, a=text).workers[0].description == "one two"
    (tmp_path / "b").mkdir()
    text = "---\nname: a\ndescription: >\n  one\n  two: three\n---\n"
    assert load(tmp_path / "b", a=text).workers[0].description == "one two: three\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You review.", "1: a worker file begins with --- and its keys, then ---, then the instructions"),
        ("---\nname: a\n", "1: a worker file begins with --- and its keys, then ---, then the instructions"),
        ("---\n- a\n---\n", "1: between the --- lines stand keys, as in `name: helper`"),
        ("---\nname: a\ndescription: d\ntools: [x\n---\n", "5: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("---\nname: a\nname: b\ndescription: d\n---\n", "3: key 'name' stands twice"),
        ("---\ndescription: d\n---\n", "1: name is missing"),
        ("---\nname: Big One\ndescription: d\n---\n", "2: name: must match pattern '^[a-z0-9][a-z0-9_-]{0,63}$'"),
        ("---\nname: a\ndescription: d\nmaxTurns: many\n---\n", "4: maxTurns: must be a valid integer"),
        ("---\nname: a\ndescription: d\ntools: [5]\n---\n", "4: tools: must be a valid string"),
    ],
    ids=lambda value: value[:40],
)
def test_a_broken_file_is_named_and_never_skipped(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, a=text)
    assert str(caught.value) == f"{tmp_path}/workers/a.md:{expected}"


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "steprelay.yaml").write_text("")
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "a.md").write_bytes(b"---\n\xff")
    with pytest.raises(SettingsError, match=r"a.md:2: not UTF-8"):
        load_settings(Found(tmp_path / "steprelay.yaml", "option"), environ={})


def test_a_name_in_file_and_settings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="worker 'a' is there 2 times, worker files counted"):
        load(tmp_path, "workers: [{name: a}]", x="---\nname: a\ndescription: d\n---\n")
