"""The planner's search for tools that it was not shown: what it asks for, and what it is told."""

from collections.abc import Sequence
from dataclasses import dataclass

from downstream.json_shape import is_object
from downstream.models.replies import ReplyErrors
from downstream.tools import Tool
from executors.tool_search import find_tools
from executors.tools_of_step import tools_of_worker
from executors.wording import wrapped
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

from .asking import SEARCH
from .cards import tool_line, tools_to_show
from .checker import Bounds

SEARCHES = 4
"""So many searches an attempt at a plan may make; then the plan has to come."""
_FOUND, _MOST = 10, 20
_CHARACTERS = 8_000
"""About 2,000 tokens of tool lines for each search."""


@dataclass(frozen=True)
class Search:
    """What a planner searches for, and how many tools it wants to see."""

    query: str
    limit: int = _FOUND


def search_in(reply: JsonObject) -> Search | None:
    """The search that a reply of the planner asks for; None where it is a plan, or nothing."""
    asked: Json = reply.get(SEARCH.field)
    if reply.get("steps"):
        return None
    arguments: JsonObject = asked if is_object(asked) else {"query": asked}
    query, limit = arguments.get("query"), arguments.get("limit")
    if not isinstance(query, str) or not query.strip():
        return None
    return Search(query.strip(), min(limit, _MOST) if isinstance(limit, int) and limit > 0 else _FOUND)


def only_a_plan(reply: JsonObject) -> JsonObject:
    """The reply where no search is left. Raises ReplyErrors for one more."""
    if search_in(reply) is not None:
        raise ReplyErrors([f"no search is left after {SEARCHES}: hand in `steps`, with the tools that are listed"])
    return reply


@dataclass(frozen=True)
class Listed:
    """The tools of a goal with those that its planner knows, which are shown first or found since."""

    bounds: Bounds
    known: frozenset[str]

    @property
    def left_out(self) -> list[Tool]:
        """The tools that the planner does not know yet."""
        return [tool for tool in self.bounds.offered if tool.full_name not in self.known]

    def found(self, search: Search, *, left: int) -> JsonObject:
        """What a search comes to, as it is recorded: the names of the tools, and the text that tells of them."""
        tools = _fitting(find_tools(search.query, self.left_out, limit=search.limit))
        told = "\n".join(map(tool_line, tools)) or "(no tool besides those listed fits these words)"
        parts = [
            f"Tools found:\n{wrapped(told, origin='tool servers')}",
            *_whose(tools, self.bounds),
            f"{left} more searches, or the plan." if left > 1 else "One more search, or the plan.",
        ]
        if left == 0:
            parts[-1] = "That was the last search. Hand in the plan now."
        return {"found": [tool.full_name for tool in tools], "text": "\n".join(parts)}


async def searched(journal: RunJournal, key: str, search: Search, *, listed: Listed, left: int) -> tuple[Listed, str]:
    """What the planner knows after the search, and what it is told: as recorded, where it was made before."""

    async def find() -> Json:
        return listed.found(search, left=left)

    meaning = Meaning(SEARCH.function.name, {"query": search.query, "limit": search.limit})
    found = await journal.memo(key, meaning, find)
    return Listed(listed.bounds, listed.known | set(found["found"])), str(found["text"])


async def tools_known(journal: RunJournal, tools: Sequence[Tool]) -> list[Tool]:
    """The tools that the run's planner was shown or has found."""
    rows = await journal.records(SEARCH.function.name)
    # A worker's searches stand under its step.
    found = {name for key, row in rows.items() if key.startswith("plan.") for name in row["found"]}
    shown = {tool.full_name for tool in tools_to_show(tools, journal.run.goal)}
    return sorted((tool for tool in tools if tool.full_name in shown | found), key=lambda tool: tool.full_name)


def _fitting(tools: Sequence[Tool]) -> list[Tool]:
    """As many of them as there is room for."""
    left, fitting = _CHARACTERS, list[Tool]()
    for tool in tools:
        left -= len(tool_line(tool))
        if left < 0:
            break
        fitting.append(tool)
    return fitting


def _whose(tools: Sequence[Tool], bounds: Bounds) -> list[str]:
    """Which of the tools found those workers may use whose cards do not say all."""
    lines: list[str] = []
    for worker in bounds.workers.values():
        own = tools_of_worker(worker, bounds.offered)
        if tools and worker.name != "reviewer" and len(own) < len(bounds.offered):
            names = ", ".join(tool.full_name for tool in tools if tool in own) or "none of them"
            lines.append(f"Worker {worker.name} may use: {names}.")
    return lines
