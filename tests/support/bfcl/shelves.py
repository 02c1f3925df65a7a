"""BFCL's items on tool servers: which tool stands on which server, and what reached it."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from downstream.models.parameters import original_names
from downstream.servers.look_alikes import tool_troubles
from downstream.servers.names import wire_names

from .reading import Call, Item, Json, JsonObject

_SERVER = Path(__file__).parents[1] / "toy_servers" / "shelf_server.py"


@dataclass(frozen=True)
class Arrival:
    """A call as a tool server got it; equal to another one only if 1, 1.0, true and "1" are told apart."""

    tool: str
    arguments: str

    @classmethod
    def of(cls, tool: str, arguments: Json) -> "Arrival":
        return cls(tool, json.dumps(arguments, sort_keys=True, ensure_ascii=False))

    def __str__(self) -> str:
        return f"{self.tool}({self.arguments})"


@dataclass(frozen=True)
class Placed:
    """A call of an item, with the tool as it stands in the catalogue."""

    item: str
    tool: str
    schema: JsonObject
    arguments: JsonObject
    fits: bool

    @property
    def server(self) -> str:
        return self.tool.partition(".")[0]

    @property
    def arrival(self) -> Arrival:
        return Arrival.of(self.tool, self.arguments)

    @property
    def named(self) -> JsonObject:
        """The arguments under the names that models are shown."""
        shown = {own: name for name, own in original_names(self.schema).items()}
        return {shown.get(name, name): value for name, value in self.arguments.items()}


@dataclass
class Shelves:
    """Items on as few servers as hold them, since a server has one tool of a name, and none that looks like another."""

    servers: dict[str, dict[str, JsonObject]] = field(default_factory=dict[str, dict[str, JsonObject]])
    calls: list[Placed] = field(default_factory=list[Placed])
    tools_of: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The tools of each item, by full name."""

    @classmethod
    def of(cls, items: Iterable[Item]) -> "Shelves":
        shelves = cls()
        for item in items:
            shelves._put(item)
        return shelves

    def _put(self, item: Item) -> None:
        server = next((name for name, tools in self.servers.items() if _has_room(tools, item)), None)
        if server is None:
            server = f"shelf{len(self.servers)}"
        self.servers.setdefault(server, {}).update(item.tools)
        self.tools_of[item.id] = [f"{server}.{tool}" for tool in item.tools]
        self.calls += (self._placed(item, server, call) for call in item.calls)

    @staticmethod
    def _placed(item: Item, server: str, call: Call) -> Placed:
        schema = item.tools[call.tool]["inputSchema"]
        return Placed(item.id, f"{server}.{call.tool}", schema, call.arguments, not item.misfits(call))

    @cached_property
    def wires(self) -> dict[str, str]:
        """By full name, the names by which models call the tools."""
        return wire_names(f"{server}.{tool}" for server, tools in self.servers.items() for tool in tools)

    def entries(self, folder: Path) -> dict[str, JsonObject]:
        """The servers as `mcpServers` of settings; what they list and what reaches them is kept in the folder."""
        entries: dict[str, JsonObject] = {}
        for server, tools in self.servers.items():
            (folder / f"{server}.json").write_text(json.dumps(list(tools.values())))
            files = [str(folder / f"{server}.{end}") for end in ("json", "log")]
            entries[server] = {"command": sys.executable, "args": ["-I", "-S", str(_SERVER), *files]}
        return entries

    def arrived(self, folder: Path) -> Counter[Arrival]:
        """What has reached the servers."""
        return Counter(
            Arrival.of(f"{server}.{call['tool']}", call["arguments"])
            for server in self.servers
            for call in _lines(folder / f"{server}.log")
        )


def _has_room(tools: JsonObject, item: Item) -> bool:
    same = all(tools.get(name, definition) == definition for name, definition in item.tools.items())
    return same and not tool_troubles({*tools, *item.tools}, ())


def _lines(path: Path) -> Sequence[Json]:
    return list(map(json.loads, path.read_text(encoding="utf-8").splitlines())) if path.exists() else []
