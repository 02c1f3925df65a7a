"""What people are shown of runs and actions, as JSON that `view.js` draws: on the page, and in a panel of a host.

All text is without secrets, and what would not be seen in it, or reorders it, is escaped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from downstream.gate.form_fields import Field
from downstream.gate.forms import Form, field_words, shown_text
from downstream.gate.prompt_text import argument_lines, escaped
from downstream.servers.confirmed import proposed
from downstream.tools import Tool
from journal.actions import SAYS_NO, Action
from journal.ledger import Usage
from journal.outlet import Outlet
from journal.runs import Run
from journal.steps import StepRow
from journal.values import CLEAN, Json, JsonObject
from server.granting import NotOffered, Offer
from server.views.action_view import time_text, without_secrets
from server.views.words import cost, counted, one_line, tokens

_ORIGINS = {
    "user": "typed by a person",
    "host": "from the host's model",
    "config": "from the settings",
    "plan": "written by the planner",
    "model": "written by a model",
    "open:*": "from an unknown place",
    "private:*": "from an unknown place",
}
_LABELS = {"not_done": "It did not happen", "done": "It happened", "retry": "Send it again", "give_up": "Give up"}


@dataclass(frozen=True)
class Background:
    """What an action is shown against: its run's steps, the action that it is an edit of, and for a plan its calls
    that a person may grant."""

    outlet: Outlet
    steps: Sequence[StepRow] = ()
    before: Action | None = None
    editable: bool = False
    offers: Sequence[Offer | NotOffered] = ()


def run_card(run: Run, steps: Sequence[StepRow], usage: Usage, *, outlet: Outlet) -> JsonObject:
    """A run with its plan as a graph: steps with what they need."""
    shown = [step for step in steps if not step.dropped or step.ended_at is not None]
    taken = f"{counted(usage.tool_calls, 'tool call')} · {tokens(usage)} · {cost(usage)}"
    card: JsonObject = {
        "run_id": run.id,
        "goal": _shown(run.goal),
        "status": run.status,
        "stop_reason": run.stop_reason,
        "usage": f"{counted(usage.model_calls, 'model call')} · {taken}",
        "steps": [_step_card(step) for step in shown],
    }
    return cast("JsonObject", outlet.json(card))


def action_card(action: Action, behind: Background) -> JsonObject:
    """An action in full: what is unusual, every argument with where it came from, and how it can be decided."""
    plain = without_secrets(action, behind.outlet)
    title, told, names = _question(plain)
    step = next((step for step in behind.steps if step.id == action.step), None)
    before = None if behind.before is None else without_secrets(behind.before, behind.outlet).arguments
    editable = behind.editable and action.kind == "call" and plain.arguments == action.arguments
    card: JsonObject = {
        "action_id": action.id,
        "kind": action.kind,
        "title": title,
        "told": told,
        "effect": action.effect,
        "level": action.level,
        "reasons": [escaped(one_line(reason)) for reason in action.reasons],
        "step": None if action.step is None else f"{action.step}: {_shown(step.title)}" if step else action.step,
        "arguments": [] if action.kind == "form" else _arguments(plain, names, before),
        "fields": [_field(field) for field in Form(plain).fields] if action.kind == "form" else [],
        "choices": [{"name": name, "label": _label(name, action), "no": name in SAYS_NO} for name in action.choices],
        "grants": [_offer(offer) for offer in behind.offers],
        "digest": action.hash,
        "expires_at": None if action.expires_at is None else time_text(action.expires_at),
        "editable": json.dumps(plain.arguments, ensure_ascii=True, indent=2) if editable else None,
    }
    return cast("JsonObject", behind.outlet.json(card))


def tool_card(tool: Tool, *, outlet: Outlet) -> JsonObject:
    """A tool that says nothing of itself, with the class that its name proposes; its own words stand in quotes."""
    card: JsonObject = {
        "tool": tool.full_name,
        "title": escaped(tool.full_name),
        "pin": tool.pin,
        "words": shown_text(tool.description) if tool.description else "",
        "takes": [escaped(name) for name in tool.open_schema.get("properties", {})],
        "proposed": proposed(tool),
    }
    return cast("JsonObject", outlet.json(card))


def _step_card(step: StepRow) -> JsonObject:
    return {
        "id": step.id,
        "title": _shown(step.title),
        "kind": step.kind,
        "worker": step.worker,
        "status": step.status,
        "needs": list(step.definition.get("needs", ())),
        "summary": _shown(step.summary),
    }


def _question(action: Action) -> tuple[str, list[str], list[str]]:
    """The question's first line, its other words, and the arguments' names in the order to be shown."""
    title, *rest = action.question.splitlines() or [""]
    arguments = _members(action.arguments)
    whole = {line: name for name in arguments for line in argument_lines({name: arguments[name]})}
    told = [] if action.kind == "call" else [escaped(line) for line in rest if line not in whole]
    first = [entry["name"] for entry in action.sources] + [whole[line] for line in rest if line in whole]
    return escaped(title), told, list(dict.fromkeys(name for name in (*first, *arguments) if name in arguments))


def _arguments(action: Action, names: Sequence[str], before: Json) -> list[JsonObject]:
    given, old = _members(action.arguments), _members(before)
    sources = {entry["name"]: entry for entry in action.sources}
    gone = [] if before is None else [name for name in old if name not in given]
    return [
        {
            "name": escaped(name),
            "value": _value(given[name]) if name in given else None,
            "target": bool(sources.get(name, {}).get("target")),
            "from": _origins(sources.get(name), edited=action.edit_of is not None),
            "before": _value(old[name]) if name in old and (name in gone or old[name] != given[name]) else None,
            "changed": before is not None and (name in gone or name not in old or old[name] != given[name]),
        }
        for name in (*names, *gone)
    ]


def _members(arguments: Json) -> JsonObject:
    """An action that decides something else than named arguments has one without a name."""
    if isinstance(arguments, dict):
        return cast("JsonObject", arguments)
    return {} if arguments is None else {"": arguments}


def _value(data: Json) -> str:
    """A text with its lines, anything else as JSON; escaped, so that what is seen is what is there."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    if isinstance(data, str) and "\n" in data:
        return "\n".join(escaped(line) for line in data.split("\n"))
    return "\n".join(escaped(line) for line in text.split("\n"))


def _origins(source: Mapping[str, Json] | None, *, edited: bool) -> list[JsonObject]:
    if source is None:
        return []
    if source["goal"]:
        return [{"text": "stands in the goal", "usual": True}]
    if edited:
        return [{"text": "written by hand", "usual": False}]
    found = {_origin(label): label in CLEAN for label in source["from"]}
    return [{"text": text, "usual": usual} for text, usual in sorted(found.items(), key=lambda each: each[1])]


def _origin(label: str) -> str:
    kind, _, server = label.partition(":")
    word = "read by" if kind == "private" else "from the open world through"
    return _ORIGINS.get(label) or f"{word} {escaped(server)}"


def _field(field: Field) -> JsonObject:
    return {
        "name": field.name,
        "kind": field.kind,
        "label": shown_text(field.title) if field.title else field.name,
        "words": field_words(field),
        "takes": escaped(field.takes),
        "required": field.required,
        "options": list(field.options),
        "secret": field.looks_secret,
    }


def _offer(offer: Offer | NotOffered) -> JsonObject:
    """A call of a plan; without arguments, and with the reason, where it will be asked about anyhow."""
    if isinstance(offer, NotOffered):
        return {"step": offer.step, "tool": escaped(offer.tool), "why": offer.why, "arguments": []}
    why = "what another step fills in is not known yet" if offer.filled else None
    return {
        "step": offer.step,
        "tool": f"{escaped(offer.tool.full_name)} ({offer.tool.class_})",
        "why": why,
        "arguments": argument_lines(offer.arguments, offer.first),
    }


def _label(choice: str, action: Action) -> str:
    label = _LABELS.get(choice, choice.capitalize())
    return f"{label} with passkey" if action.level == "passkey" and choice not in SAYS_NO else label


def _shown(text: str) -> str:
    return escaped(one_line(text))
