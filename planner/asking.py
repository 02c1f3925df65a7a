"""What the planner floor asks models, and the forms of their replies."""

import json
from collections.abc import Mapping, Sequence
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
_TASK: JsonObject = {"description": "all that is to be done, complete in itself"}
_COMMON: dict[str, JsonObject] = {
    "id": {"description": "a lower-case letter, then at most 31 of a-z, 0-9 and _"},
    "title": {"description": "a few words"},
    "needs": {"description": "ids of the steps whose results it uses"},
}
NOBODY = "nobody"
"""What is said where no one worker can do it all."""
_MOST_CHOICES = 30
"""So many tools are named in the form of a plan; where there are more, any name may be written there."""


def _steps(workers: Sequence[str] = (), tools: Sequence[str] = (), most: int | None = None) -> JsonObject:
    """The form of a list of steps, of each kind with what it says and nothing else; without names, any may be said."""
    worker = _TEXT | ({"enum": [*workers]} if workers else {})
    tool = _TEXT | ({"enum": [*tools]} if 0 < len(tools) <= _MOST_CHOICES else {})
    listed = {"type": "array", "items": tool, "description": "the few it needs; if empty all of its worker's"}
    data = {"type": "object", "description": "JSON Schema of its data, where a later step refers to it"}
    review = {"type": "boolean"}
    own = {"worker": worker, "task": _TEXT | _TASK, "tools": listed, "output": data, "review": review}
    arguments = {"type": "object", "description": 'literals, or {"$step": "id.path"} as a whole value'}
    kinds = [
        _step("worker", own, ["worker", "task"], told=_COMMON),
        _step("call", {"tool": tool, "arguments": arguments}, ["tool", "arguments"]),
        _step("compose", {"task": _TEXT}, ["task"]),
    ]
    return {"type": "array", "items": {"anyOf": kinds}} | ({} if most is None else {"maxItems": most})


def _step(
    kind: str, own: JsonObject, required: Sequence[str], *, told: Mapping[str, JsonObject] | None = None
) -> JsonObject:
    """A kind of step; what its fields mean is `told` once for all kinds."""
    common: JsonObject = {"id": _TEXT, "kind": {"type": "string", "enum": [kind]}, "title": _TEXT, "needs": _TEXTS}
    fields = common | own | {"optional": {"type": "boolean"}}
    said = {name: field | (told or {}).get(name, {}) for name, field in fields.items()}
    return {"type": "object", "properties": said, "required": ["id", "kind", *required]}


def _any_step() -> JsonObject:
    """Steps as they may be written: what is meant for another kind of step is there for whoever reads the plan."""
    kinds = _steps()["items"]["anyOf"]
    fields = {name: field for kind in kinds for name, field in kind["properties"].items()}
    kind = {"kind": _TEXT}
    return {"type": "array", "items": {"type": "object", "properties": fields | kind, "required": ["id", "kind"]}}


def _all_of(fields: JsonObject) -> JsonObject:
    return {"type": "object", "properties": fields, "required": [*fields]}


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
    _all_of({"steps": _steps()}),
    _as_it_is,
    "Hand in the plan.",
    instead=SEARCH,
    taken={"type": "object", "properties": {"alone": _TEXT, "steps": _any_step()}},
)
_REVISED: JsonObject = {
    "decision": {"type": "string", "enum": ["continue", "revise", "finish"]},
    "reason": _TEXT | {"description": "one sentence"},
    "drop": _TEXTS | {"description": "ids of steps to take out"},
}
REVISION = Form(
    "revise_plan",
    {"type": "object", "properties": _REVISED | {"add": _steps()}, "required": ["decision"]},
    _flat,
    "Say how the plan goes on.",
    taken={"type": "object", "properties": _REVISED | {"add": _any_step()}, "required": ["decision"]},
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


def plan_form(
    workers: Sequence[str], tools: Sequence[str], *, most: int, alone: Sequence[str] = ()
) -> Form[JsonObject]:
    """The form of a plan of at most so many steps, which name one of these workers, and of these tools if any is given:
    what holds a model to a schema holds it to them. A worker of those `alone` may be named in place of steps.
    """
    steps = {"steps": _steps(workers, tools, most)}
    one: JsonObject = {"type": "string", "enum": [*alone], "description": "who can do it all by reading"}
    none: JsonObject = {"type": "string", "enum": [NOBODY]}
    ways = [{"alone": one}, {"alone": none} | steps] if alone else [steps]
    return replace(PLAN, schema={"anyOf": [_all_of(way) for way in ways]})


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
