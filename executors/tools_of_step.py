"""Which tools a worker and a step may use, fixed for an attempt when it begins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from downstream.resources import reading_tool
from downstream.tool_names import ToolNameError, matches, reaches, read_tool_name
from downstream.tools import Tool
from journal.values import Json

from .settings import WorkerSettings


class Catalogue(Protocol):
    """Every tool that is known and usable now."""

    def tools(self) -> Sequence[Tool]: ...


@dataclass(frozen=True)
class StepTools:
    """The tools of one attempt: `names` maps wire names to full ones as they were when the attempt began.

    `definitions` are those of them that the catalogue has now; a server that is gone takes no name away.
    """

    names: Mapping[str, str]
    definitions: tuple[Tool, ...]

    @property
    def full_names(self) -> frozenset[str]:
        return frozenset(self.names.values())

    def full_name(self, written: str) -> str | None:
        """The full name of a tool of the step that a model named by wire or full name."""
        if written in self.names:
            return self.names[written]
        return written if written in self.full_names else None

    def lacking(self, listed: Sequence[str] | None) -> list[str]:
        """What a step lists of which there was no tool as it began."""
        own = self.names.items()
        return [each for each in listed or () if not any(_names(each, full, wire) for wire, full in own)]

    def to_json(self) -> Json:
        return dict(self.names)

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "StepTools":
        """Sorted by wire name, so that requests keep their prefix."""
        ordered = sorted(tools, key=lambda tool: tool.wire)
        return cls({tool.wire: tool.full_name for tool in ordered}, tuple(ordered))

    @classmethod
    def from_json(cls, names: Json, tools: Iterable[Tool]) -> "StepTools":
        known = set(names.values())
        return cls(
            names, tuple(sorted((tool for tool in tools if tool.full_name in known), key=lambda tool: tool.wire))
        )


def find_tool(written: str, tools: Iterable[Tool]) -> Tool | None:
    """The tool that a plan names, as `server.tool`, `server__tool` or by its name for models."""
    known = list(tools)
    for tool in known:
        if written in (tool.full_name, tool.wire):
            return tool
    full = _full_name(written)
    return next((tool for tool in known if tool.full_name == full), None)


def tools_of_worker(worker: WorkerSettings, tools: Iterable[Tool]) -> list[Tool]:
    """What a worker's settings let it use: its patterns, less the disallowed ones, within its classes."""
    return [
        tool
        for tool in tools
        if (worker.tools is None or any(matches(glob, tool.full_name) for glob in worker.tools))
        and not any(reaches(glob, tool.full_name) for glob in worker.disallowed_tools)
        and (worker.classes is None or tool.class_ in worker.classes)
    ]


def tools_of_step(listed: Sequence[str] | None, worker: WorkerSettings, tools: Iterable[Tool]) -> list[Tool]:
    """The step's list within its worker's; without a list, all of its worker's."""
    own = tools_of_worker(worker, tools)
    if listed is None:
        return own
    return [tool for tool in own if any(_names(written, tool.full_name, tool.wire) for written in listed)]


def servers_to_read(worker: WorkerSettings, tools: Iterable[Tool], known: Sequence[Tool]) -> list[str]:
    """The servers of these tools of which the worker may read what their results link to.

    That is no tool of its list, but one that it may be disallowed, by name or by class.
    """
    readings = (reading_tool(server, known) for server in sorted({tool.server for tool in tools}))
    free = worker.model_copy(update={"tools": None})
    return [tool.server for tool in tools_of_worker(free, filter(None, readings))]


def _names(written: str, full_name: str, wire: str) -> bool:
    return written in (full_name, wire) or matches(_full_name(written), full_name)


def _full_name(written: str) -> str:
    try:
        return read_tool_name(written)
    except ToolNameError:
        return written
