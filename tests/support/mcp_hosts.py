"""Hosts as the product meets them: a real MCP client over stdio or HTTP, of either era, with or without a person."""

import os
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import anyio
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Era = Literal["legacy", "modern"]
STEPRELAY = Path(sys.executable).with_name("steprelay")
_MODES: dict[Era, str] = {"legacy": "legacy", "modern": "auto"}
_MARK = "TEST_HOST_MARK"


@dataclass
class Person:
    """Who answers a host's forms, and what was asked; each form gets the same answer after so many seconds."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    after: float = 0
    asked: list[ElicitRequestParams] = field(default_factory=list[ElicitRequestParams])

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params)
        await anyio.sleep(self.after)
        return ElicitResult(action=self.action, content=self.content)


@dataclass
class Host:
    """One open client: what it called, what progress it saw, and what the server wrote to stderr."""

    client: Client
    era: Era
    pid: int | None = None
    progress: list[str] = field(default_factory=list[str])
    log: IO[str] | None = None

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | None = None, *, within: float = 60
    ) -> CallToolResult:
        """Call a tool, collecting its progress messages; raises TimeoutError when the answer takes longer."""
        with anyio.fail_after(within):
            return await self.client.call_tool(tool, dict(arguments or {}), progress_callback=self._note)

    async def structured(self, tool: str, arguments: Mapping[str, Any] | None = None, *, within: float = 60) -> Any:
        """The structured content of a call that must not be an error."""
        result = await self.call(tool, arguments, within=within)
        assert not result.is_error, text_of(result)
        return result.structured_content

    def stderr(self) -> str:
        """What the server has written to stderr so far."""
        if self.log is None:
            return ""
        self.log.seek(0)
        return self.log.read()

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message or "")


def answers(after: float = 2, **content: Any) -> Person:
    """A person who submits this content after a time that a person would take."""
    return Person("accept", content, after)


def answers_nothing(after: float = 2) -> Person:
    """A host that accepts with `{}`."""
    return Person("accept", {}, after)


def declines(after: float = 2) -> Person:
    """A person who declines the form."""
    return Person("decline", None, after)


def cancels(after: float = 0) -> Person:
    """A host that cancels the form, as a headless one does, unseen."""
    return Person("cancel", None, after)


def text_of(result: CallToolResult) -> str:
    """All text parts of a result."""
    return "\n".join(part.text for part in result.content if part.type == "text")


def serve(config: Path, *options: str) -> list[str]:
    """The product's own command for these settings."""
    return [str(STEPRELAY), "serve", "--config", str(config), *options]


@asynccontextmanager
async def open_host(
    server: Any, *, era: Era = "legacy", on_elicit: ElicitationFnT | None = None, name: str = "test-host"
) -> AsyncGenerator[Host]:
    """Connect to whatever `mcp.Client` takes: a transport, or a server in this process."""
    info = Implementation(name=name, version="1")
    async with Client(server, mode=_MODES[era], elicitation_callback=on_elicit, client_info=info) as client:
        # A server that can't speak the new era must fail the test, not fall back.
        assert (client.protocol_version in MODERN_PROTOCOL_VERSIONS) == (era == "modern"), client.protocol_version
        yield Host(client, era)


@asynccontextmanager
async def open_stdio_host(
    args: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    era: Era = "legacy",
    on_elicit: ElicitationFnT | None = None,
    name: str = "test-host",
) -> AsyncGenerator[Host]:
    """Start the command (`serve(config)` or any other) and connect; `host.pid` is its process."""
    mark = uuid.uuid4().hex
    inherited = {key: value for key, value in os.environ.items() if key.startswith(("XDG_", "COVERAGE_"))}
    parameters = StdioServerParameters(
        command=args[0],
        args=list(args[1:]),
        env={**inherited, **(env or {}), _MARK: mark},
        encoding_error_handler="replace",
    )
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        transport = stdio_client(parameters, errlog=log)
        async with open_host(transport, era=era, on_elicit=on_elicit, name=name) as host:
            host.pid, host.log = _marked(mark), log
            yield host


@asynccontextmanager
async def open_http_host(
    url: str,
    *,
    token: str | None = None,
    era: Era = "legacy",
    on_elicit: ElicitationFnT | None = None,
    name: str = "test-host",
) -> AsyncGenerator[Host]:
    """Connect to a server over streamable HTTP, with its bearer token if it wants one."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with open_host(transport, era=era, on_elicit=on_elicit, name=name) as host:
            yield host


def _marked(mark: str) -> int | None:
    """The process whose environment carries the mark and which this one started."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            parent = (environ.parent / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and f"{_MARK}={mark}".encode() in environ.read_bytes():
                return int(environ.parent.name)
        except OSError:
            continue  # another user's, or ended while we looked
    return None
