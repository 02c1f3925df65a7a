"""What the planner is shown of workers and tools: cards and lines, never a tool's output."""

import json
import re
from collections.abc import Sequence

from downstream.json_shape import is_array, is_object
from downstream.tools import Tool
from executors.settings import WorkerSettings
from executors.tool_search import find_tools
from executors.tools_of_step import tools_of_worker
from executors.wording import cut
from journal.values import Json, JsonObject

SHOWN_CHARACTERS = 16_000
"""About 4,000 tokens of tool lines; beyond that only those that fit the goal best are shown."""
_CHOICES = 8
_SENTENCE = re.compile(r"(.+?[.!?])(\s|$)")


def tool_line(tool: Tool) -> str:
    """`server.tool(path: string, limit?: integer): First sentence.`, on one line."""
    properties: JsonObject = tool.open_schema.get("properties") or {}
    required: list[str] = tool.open_schema.get("required") or []
    arguments = [f"{name}{'' if name in required else '?'}: {_type(schema)}" for name, schema in properties.items()]
    text = " ".join((tool.description or tool.title).split())
    first = _SENTENCE.match(text)
    line = f"{tool.full_name}({', '.join(arguments)}): {cut(first[1] if first else text, 160)}"
    return "".join(character for character in line if character.isprintable())


def worker_card(worker: WorkerSettings, tools: Sequence[Tool], shown: Sequence[Tool]) -> str:
    """`name: what it is for. Tools: …`, with the names of those shown tools that it may use."""
    own = tools_of_worker(worker, tools)
    if len(own) == len(tools):
        listed = "all" if own else "none"
    else:
        listed = ", ".join(tool.full_name for tool in shown if tool in own) or (
            "others than those below" if own else "none"
        )
    return f"{worker.name}: {' '.join(worker.description.split())} Tools: {listed}."


def tools_to_show(tools: Sequence[Tool], goal: str, *, characters: int = SHOWN_CHARACTERS) -> list[Tool]:
    """All tools by name if their lines fit, else as many as fit of those that share words with the goal."""
    every = sorted(tools, key=lambda tool: tool.full_name)
    if sum(len(tool_line(tool)) for tool in every) <= characters:
        return every
    best: list[Tool] = []
    for tool in find_tools(goal, every, limit=len(every)) or every:
        characters -= len(tool_line(tool))
        if characters < 0:
            break
        best.append(tool)
    return sorted(best, key=lambda tool: tool.full_name)


def _type(schema: Json) -> str:
    if not is_object(schema):
        return "any"
    choices: Json = schema.get("enum")
    if is_array(choices) and len(choices) <= _CHOICES:
        return "|".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    kind: Json = schema.get("type", "any")
    return "|".join(map(str, kind)) if is_array(kind) else str(kind)
