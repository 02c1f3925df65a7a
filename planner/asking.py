"""What the planner floor asks models, and the forms of their replies."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from downstream.model_port import Message, ModelRequest, Place, Role
from downstream.models.door import Account
from downstream.models.replies import ReplyErrors
from downstream.models.structured import Form, Instead, Question
from downstream.nesting import TOO_DEEP, too_deep
from executors.built_in_tools import SEARCH_TOOLS
from executors.wording import cut, prompt_file
from journal.run_journal import Meaning, RunJournal
from journal.values import Json, JsonObject

_FOLDER = Path(__file__).parent / "prompts"
_QUOTED = 8_000
_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}
_STEP: JsonObject = {
    "type": "object",
    "properties": {
        "id": _TEXT | {"description": "a lower-case letter, then at most 31 of a-z, 0-9 and _"},
        "kind": {"type": "string", "enum": ["call", "worker", "compose"]},
        "title": _TEXT | {"description": "a few words for people"},
        "needs": _TEXTS | {"description": "ids of the steps whose results this step uses"},
        "optional": {"type": "boolean"},
        "review": {"type": "boolean"},
        "tool": _TEXT | {"description": "call: server.tool"},
        "arguments": {"type": "object", "description": 'call: literals, or {"$step": "id.path"} as a whole value'},
        "worker": _TEXT | {"description": "worker: its name"},
        "task": _TEXT | {"description": "worker, compose: all that is to be done, complete in itself"},
        "tools": _TEXTS | {"description": "worker: the few tools that it needs; all of its worker's if left empty"},
        "output": {"type": "object", "description": "worker: JSON Schema of its data, where a later step refers to it"},
    },
    "required": ["id", "kind"],
}
_STEPS: JsonObject = {"type": "array", "items": _STEP}


def _as_it_is(data: JsonObject) -> JsonObject:
    return data


def _flat(data: JsonObject) -> JsonObject:
    if too_deep(data):
        raise ReplyErrors([TOO_DEEP])
    return data


SEARCH = Instead(
    "search",
    replace(SEARCH_TOOLS, description="Find more tools by what they should do, before you hand in the plan."),
)
PLAN = Form(
    "submit_plan",
    {"type": "object", "properties": {"steps": _STEPS}, "required": ["steps"]},
    _as_it_is,
    "Hand in the plan.",
    instead=SEARCH,
)
REVISION = Form(
    "revise_plan",
    {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": ["continue", "revise", "finish"]},
            "reason": _TEXT | {"description": "one sentence"},
            "drop": _TEXTS | {"description": "ids of steps to take out"},
            "add": _STEPS,
        },
        "required": ["decision"],
    },
    _flat,
    "Say how the plan goes on.",
)
ANSWER = Form(
    "submit_answer",
    {
        "type": "object",
        "properties": {"answer": _TEXT | {"description": "Markdown"}, "caveats": _TEXTS},
        "required": ["answer"],
    },
    _flat,
    "Hand in the answer.",
    from_text=lambda text: {"answer": text},
)


def plan_form(workers: Sequence[str]) -> Form[JsonObject]:
    """The form of a plan whose steps name one of these workers: what holds a model to a schema holds it to them."""
    # A field with a choice can't be left empty where all are required.
    worker = _TEXT | {"enum": [*workers], "description": "worker: its name; other kinds: any, it does not count"}
    step = _STEP | {"properties": _STEP["properties"] | {"worker": worker}}
    return replace(PLAN, schema=PLAN.schema | {"properties": {"steps": _STEPS | {"items": step}}})


class Ask(Protocol):
    """Ask a model for a reply of a form, answered from the memo where it was asked before.

    Raises BudgetReached, Fenced, MemoMismatch, NoReply, NoModel and ModelFailed. `ask_structured` with its door is one.
    """

    async def __call__(self, journal: RunJournal, key: str, question: Question[JsonObject]) -> JsonObject: ...


def question(
    role: Role, form: Form[JsonObject], texts: tuple[str, ...], *, meaning: Json, place: Place
) -> Question[JsonObject]:
    """A question of this floor. `texts` are the user's messages, each but the first after one of the assistant.

    `meaning` is what the question means (never its wording).
    """
    file = prompt_file(_FOLDER, role)
    messages = (Message("system", file.text), Message("user", texts[0]))
    request = ModelRequest(role, place, messages, _LONGEST[form.name], stream=role == "planner", prompt=file.version)
    account = Account(purpose="answer") if role == "answer" else Account()
    said = (Message("user" if number % 2 else "assistant", text) for number, text in enumerate(texts[1:]))
    return Question(request, Meaning(form.name, meaning), form, account, tuple(said))


def as_said(reply: JsonObject) -> str:
    """A reply as it is shown to the model that gave it."""
    return cut("(left out)" if too_deep(reply) else json.dumps(reply, ensure_ascii=False), _QUOTED)


_LONGEST = {"submit_plan": 6_000, "revise_plan": 4_000, "submit_answer": 3_000}
"""Tokens that a reply may have; the worst case that is reserved for it."""
