"""The tools that a worker may have without a server: `read_artifact`, `read_resource` and `search_tools`."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import anyio.to_thread
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from downstream.model_port import Function
from downstream.tools import Tool
from journal.values import Json, JsonObject

from .own_artifacts import Opened, OwnArtifacts
from .paths import ReferenceMissing
from .tool_search import find_tools
from .wording import quoted, shown

READ_ARTIFACT = Function(
    "read_artifact",
    "Read a result that was too large to show: a range of it, the places where a text stands, or a path of its JSON.",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "artifact_id": {"type": "string", "description": "The handle, f_…"},
            "start": {"type": "integer", "description": "The first character, from 0"},
            "length": {"type": "integer", "description": "How many characters, at most 8000"},
            "search": {"type": "string", "description": "Show where this text stands, whatever its case"},
            "path": {"type": "string", "description": "A path of its JSON, such as items[0].name"},
        },
        "required": ["artifact_id"],
    },
)
READ_RESOURCE = Function(
    "read_resource",
    "Read what a result of yours links to, given there as [link to ADDRESS, not read: …].",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "uri": {"type": "string", "description": "The address, as it stands in the result"},
            "server": {"type": "string", "description": "Whose result it was, where several have that address"},
        },
        "required": ["uri"],
    },
)
SEARCH_TOOLS = Function(
    "search_tools",
    "Find more of your tools by words; those found can be called from then on.",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "query": {"type": "string", "description": "What the tool should do"},
            "limit": {"type": "integer", "description": "How many, 10 unless given"},
        },
        "required": ["query"],
    },
)
BUILT_IN = frozenset({READ_ARTIFACT.name, READ_RESOURCE.name, SEARCH_TOOLS.name})

_PIECE = 8_000
_HITS = 20
_COUNTED = 1_000
_AROUND = 120
_NAMED = 10
_AT_ONCE = 1 << 20
"""Bytes of an artifact that are read on the event loop; more would hold up all else."""
_STRETCH = 1 << 18
"""Characters that are gone through in one go: in between, the loop gets its turn."""


Model = TypeVar("Model", bound=BaseModel)


class WrongArguments(ReferenceMissing):
    """Arguments of a built-in tool that do not fit; the text says which."""


def _or_default(default: int) -> BeforeValidator:
    return BeforeValidator(lambda value: default if value is None else value)


class _Reading(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    artifact_id: str
    start: Annotated[int, Field(ge=0), _or_default(0)] = 0
    length: Annotated[int, Field(ge=1), _or_default(_PIECE)] = _PIECE
    search: str | None = None
    path: str | None = None


class _Following(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    uri: str = Field(min_length=1)
    server: str | None = None


class _Searching(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    query: str = Field(min_length=1)
    limit: Annotated[int, Field(ge=1, le=50), _or_default(10)] = 10


@dataclass(frozen=True)
class Part:
    """What was asked for of an artifact, as a model is shown it; `is_empty` where nothing stands there."""

    text: str
    is_empty: bool


async def read_artifact(arguments: JsonObject, artifacts: OwnArtifacts) -> tuple[Opened, Part]:
    """The artifact and the part of it that was asked for. Raises ReferenceMissing."""
    reading = _parsed(_Reading, arguments)
    opened = await artifacts.open(reading.artifact_id.strip().strip("[]"))
    if opened.artifact.size <= _AT_ONCE:
        return opened, _part(opened, reading)
    return opened, await anyio.to_thread.run_sync(_part, opened, reading)


def _part(opened: Opened, reading: _Reading) -> Part:
    if reading.path:
        text = _shown(opened, reading.path)
    elif opened.text is None:
        size, kind = opened.artifact.size, opened.artifact.media_type
        raise ReferenceMissing(
            f"{opened.artifact.id} is {kind} of {size} bytes, no text; pass it to a tool by reference"
        )
    else:
        text = _cleaned(opened.text)
    return _hits(text, reading.search) if reading.search else _piece(text, reading.start, reading.length)


def _shown(opened: Opened, path: str) -> str:
    try:
        return shown(opened.at(path))
    except RecursionError:
        problem = f"{path} of {opened.artifact.id} is nested too deeply to be shown; give a path further down"
        raise ReferenceMissing(problem) from None


def _cleaned(text: str) -> str:
    # A terminal sequence may lie across any border.
    stretch = len(text) + 1 if "\x1b" in text else _STRETCH
    return "".join(shown(text[at : at + stretch]) for at in range(0, len(text), stretch))


@dataclass(frozen=True)
class Link:
    """An address that a result of this server named."""

    server: str
    uri: str


def link_to_read(arguments: JsonObject, links: Mapping[str, Sequence[str]], servers: Collection[str]) -> Link:
    """The one of `links` (servers by address) that `read_resource` is to read, of these servers only.

    Raises WrongArguments, also for an address that no result named.
    """
    following = _parsed(_Following, arguments)
    uri = following.uri.strip()
    if uri not in links:
        there = ", ".join(quoted(each) for each in list(links)[:_NAMED]) or "none"
        raise WrongArguments(f"no result of this attempt links to {quoted(uri)}, so it is not read; linked to: {there}")
    named = [server for server in links[uri] if following.server in (None, "", server)]
    if len(named) != 1:
        there = ", ".join(links[uri])
        raise WrongArguments(f"{quoted(uri)} was named by {there}; give one of them as server")
    if named[0] not in servers:
        raise WrongArguments(f"this worker may not read what results of {named[0]} link to")
    return Link(named[0], uri)


def search_tools(arguments: JsonObject, tools: Sequence[Tool]) -> tuple[list[Tool], str]:
    """The tools found, and the text that tells of them. Raises WrongArguments."""
    searching = _parsed(_Searching, arguments)
    found = find_tools(searching.query, tools, limit=searching.limit)
    lines = [f"{tool.wire}: {first_sentence(tool.description)}" for tool in found]
    return found, "\n".join(lines) or "No tool fits these words; try others."


def first_sentence(description: str) -> str:
    """The first sentence of a tool's description, on one line."""
    return re.split(r"(?<=[.!?])\s|\n\n", " ".join(description.split(" ")).strip(), maxsplit=1)[0].replace("\n", " ")[
        :200
    ]


def _parsed(model: type[Model], arguments: Json) -> Model:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise WrongArguments(f"the arguments do not fit: {wrong}") from None


def _piece(text: str, start: int, length: int) -> Part:
    piece = text[start : start + min(length, _PIECE)]
    told = f"characters {start} to {start + len(piece)} of {len(text)}\n{piece}"
    return Part(told, is_empty=not piece.strip())


def _hits(text: str, wanted: str) -> Part:
    places = _places(text, wanted)
    lines = [f"at {at}: …{_line(text, at, len(wanted))}…" for at in places[:_HITS]]
    more = "" if len(places) < _COUNTED else " or more"
    told = "\n".join([f"{len(places)} places{more}, {len(lines)} shown", *lines])
    return Part(told, is_empty=not places)


def _places(text: str, wanted: str) -> list[int]:
    """Where the text stands, whatever its case; no more than are counted."""
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    places: list[int] = []
    at = 0
    while at < len(text) and len(places) < _COUNTED:
        found = pattern.search(text, at, at + _STRETCH + len(wanted))
        if found is not None:
            places.append(found.start())
        at = at + _STRETCH if found is None else found.end()
    return places


def _line(text: str, at: int, length: int) -> str:
    return text[max(0, at - _AROUND) : at + length + _AROUND].replace("\n", " ")
