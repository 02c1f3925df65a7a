"""What tools are that say nothing of themselves: a person confirms it once, for exactly this definition of the tool."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from downstream.tools import Tool, ToolClass
from journal.actions import wake
from journal.audit import AuditLine, append_audit
from journal.database import Transaction
from journal.errors import SteprelayError
from journal.remembered import Remembered, put_fact
from journal.store import Store

CLASSES: tuple[ToolClass, ...] = get_args(ToolClass)
_KIND = "tool_class"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VERBS: tuple[tuple[ToolClass, re.Pattern[str]], ...] = (
    (
        "destructive",
        re.compile(
            "delete|remove|drop|destroy|purge|wipe|erase|clear|kill|terminate|cancel|revoke|reset|overwrite|truncate"
            "|uninstall|run|exec|execute|eval|shell|command|pay|transfer"
        ),
    ),
    (
        "write",
        re.compile(
            "create|add|write|update|set|put|post|send|edit|insert|append|move|rename|copy|upload|publish|submit|save"
            "|comment|reply|make|merge|assign|schedule|invite|share|start|stop|enable|disable|mark|close|open"
        ),
    ),
    ("egress", re.compile("fetch|browse|crawl|scrape|download|visit|navigate|web|http|url|internet")),
    (
        "read",
        re.compile("get|list|read|find|search|query|show|describe|count|look|lookup|view|check|retrieve|load|status"),
    ),
)
_OPEN_WORLD = re.compile(r"\b(web|internet|online|websites?|urls?|google|bing|duckduckgo)\b", re.IGNORECASE)


class NotToConfirm(SteprelayError):
    """A tool that has no class to be confirmed, or another definition than was shown."""


def proposed(tool: Tool) -> ToolClass:
    """What a tool's name lets expect; of several verbs the most careful counts. Only a person's word makes it so."""
    words = [word.lower() for word in _WORD.findall(tool.name)]
    for class_, verbs in _VERBS:
        if any(map(verbs.fullmatch, words)):
            return "egress" if class_ == "read" and _OPEN_WORLD.search(tool.description) else class_
    return "unknown"


async def confirmed_classes(remembered: Remembered) -> dict[str, ToolClass]:
    """What persons confirmed, by `mark_of` the tool."""
    return await remembered.all(_KIND)


def mark_of(tool: Tool) -> str:
    """What a word is about: this definition at this server, as another server can list an equal one, also under the
    same name in other settings."""
    return f"{tool.server} {tool.entry} {tool.pin}"


def with_confirmed(tools: Sequence[Tool], confirmed: Mapping[str, ToolClass]) -> tuple[Tool, ...]:
    """The tools, those of unknown class with the confirmed one."""
    return tuple(
        replace(tool, class_=confirmed.get(mark_of(tool), "unknown")) if tool.class_ == "unknown" else tool
        for tool in tools
    )


async def confirm(store: Store, tool: Tool, class_: ToolClass, *, client: str) -> list[str]:
    """Note a person's word on what a tool is, in the audit too; the runs that go on, as a call of the tool waits there.

    Raises NotToConfirm.
    """
    if tool.class_ != "unknown":
        raise NotToConfirm(f"{tool.full_name} is {tool.class_} already; `effects` in the settings says otherwise")
    now = store.world.now()

    def change(tx: Transaction) -> list[str]:
        put_fact(tx, (store.owner, _KIND, mark_of(tool)), value=class_, at=now)
        data = {"tool": tool.full_name, "pin": tool.pin, "class": class_, "level": "person", "client": client}
        append_audit(tx, AuditLine("tool.classed", data), owner=store.owner, at=now, outlet=store.outlet)
        waiting = (
            "SELECT DISTINCT run FROM actions WHERE owner = ? AND state = 'waiting' AND kind = 'call' AND tool = ?"
        )
        runs = [str(row["run"]) for row in tx.rows(waiting, (store.owner, tool.full_name))]
        for run in runs:
            wake(tx, run)
        return runs

    runs = await store.database.write("confirm", change)
    for run in runs:
        store.bell.ring(run)
    return runs
