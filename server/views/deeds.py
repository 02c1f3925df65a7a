"""What was asked in a run, who decided it and how, and each call with an effect: for a person who looks back."""

import json
from dataclasses import dataclass

from downstream.gate.prompt_text import argument_lines, escaped
from downstream.json_shape import is_object
from journal.actions import Action
from journal.audit_lines import lines_about
from journal.intents import Intent
from journal.store import Store
from journal.values import Json, JsonObject

from .action_view import time_text
from .words import one_line

_STATES = {
    "waiting": "nobody has decided yet",
    "expired": "nobody decided in time",
    "superseded": "another question took its place",
    "withdrawn": "withdrawn when the run ended",
}
_WAYS = {
    "approve_action": "by the host's word",
    "form": "in a form of the host",
    "terminal": "by a person at a terminal",
    "page": "by a person on the page",
    "passkey": "by passkey on the page",
    "panel": "in the panel",
    "flag": "by a flag of the command",
    "login": "by the login itself",
}
_BECAME = {
    "begun": "no answer yet",
    "done": "done",
    "failed": "failed, as the server said",
    "unknown": "nobody knows whether it ran",
    "not_done": "it did not run",
}


@dataclass(frozen=True)
class Deeds:
    """All actions and all calls with an effect of a run, each oldest first, as JSON without secrets."""

    run_id: str
    actions: tuple[JsonObject, ...]
    effects: tuple[JsonObject, ...]


async def deeds_of(store: Store, run_id: str) -> Deeds:
    """Raises UnknownId."""
    actions, intents = await store.actions(run_id), await store.intents(run_id)
    lines = await store.database.read(lambda tx: lines_about(tx, run_id))
    decided = {line["data"]["action_id"]: line["data"] for line in lines if line["type"] == "action.decided"}
    edited = {line["data"]["action_id"]: line["data"] for line in lines if line["type"] == "action.edited"}
    begun = {line["data"]["call"]: line["data"] for line in lines if line["type"] == "intent.begun"}
    return Deeds(
        run_id,
        tuple(
            store.outlet.foreign(_action(action, decided.get(action.id, {}), edited.get(action.id)))
            for action in actions
        ),
        tuple(store.outlet.foreign(_effect(intent, begun.get(intent.call, {}))) for intent in intents),
    )


def deed_lines(deeds: Deeds) -> list[str]:
    """In the order of time; a call stands below the action that let it go out."""
    by_action: dict[str | None, list[JsonObject]] = {}
    for effect in deeds.effects:
        by_action.setdefault(effect["action_id"], []).append(effect)
    found: list[tuple[str, list[str]]] = []
    for action in deeds.actions:
        below = [line for effect in by_action.pop(action["action_id"], []) for line in _became(effect)]
        found.append((action["asked_at"], [*_asked(action), *below]))
    for effects in by_action.values():
        found += [(effect["begun_at"], [*_unasked(effect), *_became(effect)]) for effect in effects]
    if not found:
        return ["Nothing was asked in this run, and no call with an effect was made."]
    return [escaped(line) for _, lines in sorted(found, key=lambda each: each[0]) for line in (*lines, "")][:-1]


def _action(action: Action, told: JsonObject, edited: JsonObject | None) -> JsonObject:
    decision: JsonObject | None = None
    if action.choice is not None and action.decided_at is not None:
        decision = {
            "choice": action.choice,
            "level": action.decided_level,
            "via": action.via,
            "client": told.get("client"),
            "at": time_text(action.decided_at),
            "seconds": round(action.decided_at - action.created_at, 3),
            "note": action.note,
        }
    return {
        "action_id": action.id,
        "kind": action.kind,
        "step": action.step,
        "tool": action.tool,
        "effect": action.effect,
        "arguments": action.arguments,
        "level": action.level,
        "reasons": list(action.reasons),
        "digest": action.hash[:8],
        "edit_of": action.edit_of,
        "edited_by": None if edited is None else {name: edited[name] for name in ("via", "client")},
        "asked_at": time_text(action.created_at),
        "state": action.state,
        "decision": decision,
    }


def _effect(intent: Intent, told: JsonObject) -> JsonObject:
    ended = intent.ended_at
    return {
        "call": intent.call,
        "step": intent.step,
        "tool": intent.tool,
        "class": intent.class_,
        "arguments": intent.arguments,
        "action_id": intent.action,
        "grant": told.get("grant"),
        "rules": told.get("rules", []),
        "reasons": told.get("reasons", []),
        "begun_at": time_text(intent.begun_at),
        "ended_at": None if ended is None else time_text(ended),
        "ms": None if ended is None else round(1000 * (ended - intent.begun_at)),
        "state": intent.state,
        "sends": intent.sends,
        "past": intent.past,
    }


def _asked(action: JsonObject) -> list[str]:
    what = f"call {action['tool']} ({action['effect']})" if action["kind"] == "call" else action["kind"]
    edited = f", an edit of {action['edit_of']}{_by(action['edited_by'])}" if action["edit_of"] else ""
    lines = [
        f"{action['action_id']}  {what}{_of_step(action)}{edited}",
        f"  asked     {action['asked_at']}, needs a yes of level {action['level']}",
        *(f"  because   {one_line(reason)}" for reason in action["reasons"]),
        *_arguments(action["arguments"]),
    ]
    return [*lines, f"  decided   {_decided(action)}"]


def _decided(action: JsonObject) -> str:
    decision: JsonObject | None = action["decision"]
    if decision is None:
        return _STATES[action["state"]]
    note = f", saying {json.dumps(decision['note'], ensure_ascii=False)}" if decision["note"] else ""
    void = "; it was not used, since another question took its place" if action["state"] == "superseded" else ""
    return (
        f"{decision['choice']},{_by(decision)}, level {decision['level']}, "
        f"{decision['at']}, after {decision['seconds']:g} s{note}{void}"
    )


def _by(said: JsonObject | None) -> str:
    """By which way it came, and who vouches for it, behind a space; nothing where that was not written down."""
    if said is None:
        return ""
    client = f" of {said['client']}" if said["client"] else ""
    return f" {_WAYS.get(said['via'], said['via'])}{client}"


def _unasked(effect: JsonObject) -> list[str]:
    rules = ", ".join(f"rule {rule}" for rule in effect["rules"]) or f"class {effect['class']}"
    allowed = f"by a person's grant {effect['grant']}" if effect["grant"] else f"by the settings: {rules}"
    return [
        f"{effect['call']}  call {effect['tool']} ({effect['class']}){_of_step(effect)}",
        f"  allowed   {'in the run that this one continues' if effect['past'] else allowed}",
        *_arguments(effect["arguments"]),
    ]


def _became(effect: JsonObject) -> list[str]:
    took = "" if effect["ms"] is None else f" after {effect['ms']} ms"
    times = f", begun {effect['sends']} times" if effect["sends"] > 1 else ""
    return [f"  sent      {effect['begun_at']}{times}: {_BECAME[effect['state']]}{took} ({effect['call']})"]


def _of_step(deed: JsonObject) -> str:
    return f" of step {deed['step']}" if deed["step"] else ""


def _arguments(arguments: Json) -> list[str]:
    if is_object(arguments):
        return [f"    {line}" for line in argument_lines(arguments)]
    return [f"    {json.dumps(arguments, ensure_ascii=False)}"]
