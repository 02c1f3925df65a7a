"""Records what public tool servers list, as facts for tests: `python record_tools.py [PACKAGE …]` writes public_tools/.

Each server is installed in the given version (or the newest) into a folder of its own, and started without its
service: keys are dummies. Long descriptions are cut, as their words are their authors'.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from downstream.json_shape import is_array, is_object
from journal.values import Json

FOLDER = Path(__file__).parent / "public_tools"
_LONGEST = 300
_SECONDS = 90
_KEY = "dummy-key-for-listing"


@dataclass(frozen=True)
class Server:
    """A package that has an MCP server, and what it wants to be started with; `runs` is the name of its program."""

    registry: Literal["npm", "pypi"]
    package: str
    runs: str
    licence: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    beside: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.package.lstrip('@').replace('/', '__')}.json"


def _reference(name: str, *arguments: str, licence: str = "MIT", **environment: str) -> Server:
    package, runs = f"@modelcontextprotocol/server-{name}", f"mcp-server-{name}"
    return Server("npm", package, runs, licence, arguments, environment)


_NEWER = "SEE LICENSE IN LICENSE"
SERVERS = (
    _reference("filesystem", ".", licence=_NEWER),
    _reference("memory", licence=_NEWER),
    _reference("everything", licence=_NEWER),
    _reference("sequential-thinking", licence=_NEWER),
    _reference("github", GITHUB_PERSONAL_ACCESS_TOKEN=_KEY),
    _reference("slack", SLACK_BOT_TOKEN=_KEY, SLACK_TEAM_ID="T0"),
    _reference("postgres", "postgresql://127.0.0.1:1/none"),
    _reference("brave-search", BRAVE_API_KEY=_KEY),
    _reference("google-maps", GOOGLE_MAPS_API_KEY=_KEY),
    _reference("puppeteer"),
    Server("npm", "@playwright/mcp", "playwright-mcp", "Apache-2.0", ("--headless",)),
    Server("npm", "chrome-devtools-mcp", "chrome-devtools-mcp", "Apache-2.0", ("--headless",)),
    Server("npm", "@upstash/context7-mcp", "context7-mcp", "MIT"),
    Server("npm", "@notionhq/notion-mcp-server", "notion-mcp-server", "MIT", (), {"NOTION_TOKEN": _KEY}),
    Server("npm", "firecrawl-mcp", "firecrawl-mcp", "MIT", (), {"FIRECRAWL_API_KEY": _KEY}),
    Server("npm", "tavily-mcp", "tavily-mcp", "MIT", (), {"TAVILY_API_KEY": _KEY}),
    Server("npm", "mcp-server-kubernetes", "mcp-server-kubernetes", "MIT"),
    Server("npm", "figma-developer-mcp", "figma-developer-mcp", "MIT", ("--stdio", "--figma-api-key", _KEY)),
    Server("pypi", "mcp-server-git", "mcp-server-git", "MIT"),
    Server("pypi", "mcp-server-time", "mcp-server-time", "MIT"),
    Server("pypi", "mcp-server-fetch", "mcp-server-fetch", "MIT"),
    Server("pypi", "mcp-server-sqlite", "mcp-server-sqlite", "MIT", ("--db-path", "notes.db"), beside=("mcp<2",)),
    Server("pypi", "duckduckgo-mcp-server", "duckduckgo-mcp-server", "MIT"),
    Server("pypi", "arxiv-mcp-server", "arxiv-mcp-server", "Apache-2.0"),
    Server(
        "pypi",
        "mcp-atlassian",
        "mcp-atlassian",
        "MIT",
        (),
        {
            "JIRA_URL": "https://jira.example",
            "JIRA_PERSONAL_TOKEN": _KEY,
            "CONFLUENCE_URL": "https://wiki.example",
            "CONFLUENCE_PERSONAL_TOKEN": _KEY,
        },
    ),
)


def install(server: Server, folder: Path, version: str | None = None) -> tuple[Path, str]:
    """Install the server into the folder; returns its program and the version that it has now."""
    if server.registry == "npm":
        package = f"{server.package}@{version or 'latest'}"
        _run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), package)
        about: Json = json.loads((folder / "node_modules" / server.package / "package.json").read_text())
        return folder / "node_modules" / ".bin" / server.runs, about["version"]
    python = str(folder / "bin" / "python")
    _run(sys.executable, "-m", "venv", str(folder))
    _run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        f"{server.package}{f'=={version}' if version else ''}",
        *server.beside,
    )
    asked = f"from importlib.metadata import version; print(version({server.package!r}))"
    return folder / "bin" / server.runs, _run(python, "-c", asked).strip()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


async def listed(server: Server, program: Path, folder: Path) -> list[Json]:
    """The tools that the server lists when started in this folder, by name."""
    start = StdioServerParameters(
        command=str(program), args=[*server.arguments], env=dict(os.environ) | dict(server.environment), cwd=folder
    )
    with anyio.fail_after(_SECONDS):
        async with Client(stdio_client(start)) as client:
            tools = (await client.list_tools()).tools
    said = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    kept = ("name", "description", "inputSchema")
    return sorted(
        ({key: _cut(tool[key]) for key in kept if key in tool} for tool in said), key=lambda tool: tool["name"]
    )


def _cut(data: Json) -> Json:
    if is_object(data):
        return {key: _cut(item) for key, item in data.items()}
    if is_array(data):
        return [_cut(item) for item in data]
    return data if not isinstance(data, str) or len(data) <= _LONGEST else f"{data[: _LONGEST - 1]}…"


async def record(server: Server) -> int:
    """Write down what the newest version of the server lists; returns how many tools."""
    with tempfile.TemporaryDirectory() as place:
        program, version = install(server, Path(place))
        tools = await listed(server, program, Path(place))
    about = {"package": server.package, "registry": server.registry, "version": version, "licence": server.licence}
    lines = ",\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    server.file.write_text(f'{json.dumps(about)[:-1]}, "tools": [\n{lines}\n]}}\n', encoding="utf-8")
    return len(tools)


async def main(wanted: list[str]) -> None:
    """Record the servers named, or all of them; one that cannot be had is told and left out."""
    FOLDER.mkdir(exist_ok=True)
    for server in SERVERS:
        if not wanted or server.package in wanted:
            try:
                sys.stdout.write(f"{server.package}: {await record(server)} tools\n")
            except (OSError, subprocess.SubprocessError, TimeoutError, ExceptionGroup) as error:
                sys.stdout.write(f"{server.package}: not recorded: {error!r}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
