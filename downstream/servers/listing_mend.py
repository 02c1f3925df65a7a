"""Listings with a malformed tool: the SDK would refuse all of it, so they are mended on their way in."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import PROTOCOL_VERSION_META_KEY, JSONRPCRequest, JSONRPCResponse, RequestId
from mcp_types.methods import parse_server_result
from pydantic import ValidationError

from downstream.json_shape import is_array, is_object
from journal.values import Json, JsonObject

from .bulk import parts_of
from .names import clean_text

log = logging.getLogger(__name__)

_LIST = "tools/list"
_OLDER = "2025-11-25"
"""All versions before the newer era are read by this one."""
_OPTIONAL = ("outputSchema", "annotations", "icons", "execution", "title", "_meta")
_WANTED = ("resultType", "ttlMs", "cacheScope")
_NAMED, _TOLD = 80, 160
_MOST_NOTES = 20
_MANY_ERRORS = 1_000
"""To tell only the first of so many would take long."""
_MOST_TOOLS, _MOST_PARTS = 5_000, 200_000
"""Of one page; to the SDK, each part that does not fit is an error."""
_CUT = f"a page of its list of tools has more than {_MOST_TOOLS:,} tools or {_MOST_PARTS:,} parts; the rest is left out"


class Mender:
    """One for each connection; `notes` are sentences on what was mended or left out of the latest listing."""

    def __init__(self) -> None:
        self._asked: dict[RequestId, str] = {}
        self._left_out: list[str] = []
        self._mended: list[str] = []
        self._cut = False

    @property
    def notes(self) -> tuple[str, ...]:
        more = len(self._left_out) - _MOST_NOTES
        left_out = [*self._left_out[:_MOST_NOTES], *([f"and {more} more are left out"] if more > 0 else [])]
        left_out += [_CUT] if self._cut else []
        if not self._mended:
            return tuple(left_out)
        names = f"{', '.join(self._mended[:3])}{' and others' if len(self._mended) > 3 else ''}"
        return (*left_out, f"what it lists of {names} does not fit the protocol and was mended")

    def note(self, sent: SessionMessage) -> None:
        """A message on its way out: which answers are listings."""
        asked = sent.message
        if isinstance(asked, JSONRPCRequest) and asked.method == _LIST:
            params: JsonObject = asked.params or {}
            if params.get("cursor") is None:
                self._left_out, self._mended, self._cut = [], [], False
            meta: JsonObject = params.get("_meta") or {}
            self._asked[asked.id] = meta.get(PROTOCOL_VERSION_META_KEY, _OLDER)

    def mended(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """The message as it came, save a listing with tools that cannot be read."""
        if isinstance(item, Exception) or not isinstance(item.message, JSONRPCResponse):
            return item
        version = self._asked.pop(item.message.id, None)
        result: JsonObject = item.message.result
        tools = result.get("tools")
        if version is None or not is_array(tools):
            return item
        few = _first(tools)
        self._cut = self._cut or len(few) < len(tools)
        result = result | {"tools": few}
        if _problem(result, version) is not None and _problem(result | {"tools": []}, version) is None:
            result["tools"] = [*self._read(result, version)]
        return replace(item, message=item.message.model_copy(update={"result": result}))

    def _read(self, result: JsonObject, version: str) -> Iterator[Json]:
        # Only what the protocol wants beside the tools: a copy of all the rest for each tool could take for ever.
        hull = {name: result[name] for name in _WANTED if name in result}
        tools: list[Json] = result["tools"]
        for tool in tools:
            if _problem(hull | {"tools": [tool]}, version) is None:
                yield tool
                continue
            name = _shown(tool)
            ways = [_typed(tool), _bare(_typed(tool))] if is_object(tool) else []
            fitting = [way for way in ways if _problem(hull | {"tools": [way]}, version) is None]
            if fitting:
                self._mended.append(name)
                yield fitting[0]
            else:
                problem = _problem(hull | {"tools": [tool]}, version)
                self._left_out.append(f"its tool {name} is left out: what it lists of it cannot be read ({problem})")
                log.debug("tool_left_out", extra={"tool": name, "problem": problem})


def _first(tools: list[Json]) -> list[Json]:
    """As many as are to be read of one page."""
    few, left = list[Json](), _MOST_PARTS
    for tool in tools[:_MOST_TOOLS]:
        left -= parts_of(tool, at_most=left)
        if left < 0:
            break
        few.append(tool)
    return few


def _problem(result: Mapping[str, Any], version: str) -> str | None:
    """What the protocol has against a listing, in short."""
    try:
        parse_server_result(_LIST, version, result)
    except ValidationError as error:
        if (count := error.error_count()) > _MANY_ERRORS:
            return f"{count:,} errors"
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][2:])
        return clean_text(f"{place}: {first['msg']}".removeprefix(": "))[:_TOLD]
    return None


def _typed(tool: JsonObject) -> JsonObject:
    """The tool with schemas of objects where they do not say of what."""
    output: JsonObject = {"outputSchema": _of_object(tool["outputSchema"])} if "outputSchema" in tool else {}
    return tool | {"inputSchema": _of_object(tool.get("inputSchema"))} | output


def _of_object(schema: Json) -> Json:
    if schema is None:
        return {"type": "object"}
    if is_object(schema) and schema.get("type") is None:
        return schema | {"type": "object"}
    return schema


def _bare(tool: JsonObject) -> JsonObject:
    """The tool without what it need not have; without annotations nobody knows what it does, so it is asked about."""
    return {key: part for key, part in tool.items() if key not in _OPTIONAL}


def _shown(tool: Json) -> str:
    name: Json = tool.get("name") if is_object(tool) else None
    return repr(clean_text(name)[:_NAMED]) if isinstance(name, str) else "without a name"
