"""What of a recorded run can be reckoned: the same without artifacts or tool search, and with a provider's cache."""

import re
from collections.abc import Mapping, Sequence

from model_wire import Json

from .counting import Counted, Part, parts_of, tokens_of
from .runs import Ran

READ, WRITE = 0.1, 1.25
"""Prices for tokens read from a cache, and written to Anthropic's, in parts of those for plain input."""
_SHOWN = re.compile(r"(<data [^>]*>\n).*?(\n</data>)", re.DOTALL)
_TOOL_LINE = re.compile(r"^catalogue\..*\n?", re.MULTILINE)


def asked_of(ran: Ran, role: str) -> list[Counted]:
    return [request for request in ran.requests if request.role == role]


def with_whole_results(ran: Ran, documents: Sequence[str]) -> dict[str, int]:
    """Input tokens by role if the worker of `documents_by_worker` had been shown each document whole.

    It would then have reported in its second turn, so the third, in which it read on, is left out.
    """
    first, second, *_ = asked_of(ran, "worker")
    left = list(documents)
    messages = [_whole(message, left) if message["role"] == "tool" else message for message in second.body["messages"]]
    return ran.by_role | {"worker": first.tokens + tokens_of(parts_of(second.body | {"messages": messages}))}


def _whole(message: Json, left: list[str]) -> Json:
    text = left.pop(0)
    return message | {"content": _SHOWN.sub(lambda found: f"{found[1]}{text}{found[2]}", message["content"])}


def with_all_tools(listed: Ran, halves: Sequence[Ran]) -> dict[str, int]:
    """Input tokens by role if `tools_listed` had shown the planner and the worker the whole catalogue.

    The definitions are those that workers of the halves were shown; the lines, those that their planners were.
    """
    requests = [request for half in halves for request in asked_of(half, "worker")]
    every: dict[str, Json] = {tool["function"]["name"]: tool for each in requests for tool in each.body["tools"]}
    catalogue = [tool for name, tool in every.items() if name.startswith("catalogue__")]
    workers = [_with_tools(request.body, catalogue) for request in asked_of(listed, "worker")]
    lines = "".join(line for half in halves for line in _TOOL_LINE.findall(_asked(half)))
    (planner,) = asked_of(listed, "planner")
    begun = planner.body["messages"]
    shown = _TOOL_LINE.sub("", begun[1]["content"]).replace(_BLOCK, f"{_BLOCK}{lines}")
    whole = planner.body | {"messages": [begun[0], begun[1] | {"content": shown}, *begun[2:]]}
    return listed.by_role | {"planner": tokens_of(parts_of(whole)), "worker": sum(map(tokens_of, workers))}


_BLOCK = '<data from="tool servers">\n'


def _asked(ran: Ran) -> str:
    text: str = asked_of(ran, "planner")[0].body["messages"][1]["content"]
    return text


def _with_tools(body: Mapping[str, Json], catalogue: Sequence[Json]) -> tuple[Part, ...]:
    own = [tool for tool in body["tools"] if not tool["function"]["name"].startswith("catalogue__")]
    return parts_of({**body, "tools": [*catalogue, *own]})


def priced(ran: Ran) -> float:
    """All input tokens in those that would cost the same without a cache."""
    return ran.tokens - ran.cached - ran.written + READ * ran.cached + WRITE * ran.written
