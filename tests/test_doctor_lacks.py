"""What a checkup makes of what is not there: variables of the settings, and the keys of providers."""

from pathlib import Path

import pytest

from downstream.settings import ModelOptions
from journal.world import World
from server.checkup import tool_servers
from server.checkup.finding import Finding
from server.checkup.keys import missing_key
from server.checkup.settings_found import Surroundings, look_at_settings


async def test_a_variable_that_is_not_set_costs_only_what_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    servers = "{a: {command: x, env: {T: '${NO_T}'}}, b: {url: '${NO_B}'}, c: {command: no-such-command}}"
    text = f"model_options: {{api_key: '${{NO_KEY}}'}}\nmcpServers: {servers}\nsecrets: [NO_KEY, NO_MORE]\n"
    path.write_text(f"store: sqlite:///{tmp_path / 'store.db'}\n{text}")
    found: list[Finding] = []
    settings = look_at_settings(Surroundings({}, tmp_path, path), found.append)
    assert settings is not None
    assert [finding.text.partition(": variable ")[2].partition(" is not set")[0] for finding in found[:3]] == [
        "NO_KEY",
        "NO_T",
        "NO_B",
    ]
    assert (found[3].check, found[3].text, len(found)) == ("variables", "not set: NO_MORE", 4)
    looked = {finding.check: finding for finding in await tool_servers.tool_servers(settings, World())}
    for name, variable in (("a", "NO_T"), ("b", "NO_B")):
        assert (looked[f"server {name}"].state, variable in looked[f"server {name}"].text) == ("warning", True)
    assert (looked["server c"].state, len(looked)) == ("problem", 3)


@pytest.mark.parametrize(
    ("model", "options", "environ", "variable"),
    [
        ("anthropic/claude-sonnet-4-6", {}, {}, "ANTHROPIC_API_KEY"),
        ("anthropic/claude-sonnet-4-6", {}, {"ANTHROPIC_API_KEY": "k"}, None),
        ("anthropic/claude-sonnet-4-6", {}, {"ANTHROPIC_AUTH_TOKEN": "k"}, None),
        ("gemini/gemini-3.8-flash", {}, {"GOOGLE_API_KEY": "k"}, None),
        ("claude-sonnet-4-6", {}, {}, "ANTHROPIC_API_KEY"),
        ("gpt-5.4-mini", {}, {"OPENAI_API_KEY": ""}, "OPENAI_API_KEY"),
        ("openai/m", {"api_key": "k"}, {}, None),
        ("openai/m", {"api_base": "http://127.0.0.1:8080/v1"}, {}, None),
        ("openai/m", {}, {"OPENAI_BASE_URL": "http://127.0.0.1:8080/v1"}, None),
        ("ollama_chat/q", {}, {}, None),
        ("bedrock/x", {}, {}, None),
        ("nobody-knows", {}, {}, None),
    ],
)
def test_a_key_is_missing_where_its_provider_wants_one_and_none_is_there(
    model: str, options: dict[str, str], environ: dict[str, str], variable: str | None
) -> None:
    assert missing_key(model, ModelOptions.model_validate(options), environ) == variable
