"""A home and a project in which MCP hosts have left their files; every secret in those has LEAK in it."""

import json
from pathlib import Path

from journal.values import Json, JsonObject
from server.hosts_import.places import Machine
from server.settings_file.document import read_document
from server.settings_file.found import user_settings_path

SAMPLES = Path(__file__).parent / "host_files"
MARK = "LEAK"

_PLACES = {
    "claude_desktop_config.json": ".config/Claude/claude_desktop_config.json",
    "claude.json": ".claude.json",
    "project_mcp.json": "shop/.mcp.json",
    "vscode_mcp.json": "shop/.vscode/mcp.json",
    "cursor_mcp.json": "shop/.cursor/mcp.json",
    "windsurf_mcp_config.json": ".codeium/windsurf/mcp_config.json",
    "cline_mcp_settings.json": ".cline/data/settings/cline_mcp_settings.json",
    "gemini_settings.json": ".gemini/settings.json",
    "codex_config.toml": ".codex/config.toml",
    "goose_config.yaml": ".config/goose/config.yaml",
}


def furnish(home: Path) -> Machine:
    """Put the sample file of every host where it belongs; the project is `shop` in the home folder."""
    for sample, place in _PLACES.items():
        text = (SAMPLES / sample).read_text(encoding="utf-8")
        path = home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@PROJECT@", str(home / "shop")), encoding="utf-8")
    return Machine("linux", home, {}, home / "shop")


def put_servers(path: Path, servers: Json, **more: Json) -> None:
    """Write a file with `mcpServers`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers, **more}), encoding="utf-8")


def written(path: Path | None = None) -> dict[str, JsonObject]:
    """The servers of the settings file that `init` wrote."""
    servers: dict[str, JsonObject] = read_document(path or user_settings_path()).data["mcpServers"]
    return servers


def expected(host: str, home: Path) -> JsonObject:
    """What the sample of this host should become."""
    text = (SAMPLES / "expected.yaml").read_text(encoding="utf-8")
    path = home / "expected.yaml"
    path.write_text(text.replace("@PROJECT@", str(home / "shop")).replace("@HOME@", str(home)), encoding="utf-8")
    wanted: JsonObject = read_document(path).data[host]
    return wanted
