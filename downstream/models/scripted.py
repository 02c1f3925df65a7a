"""Models that say what a file says (`scripted:FILE`), by where in the run a request stands and never by counting."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from downstream.json_shape import is_array, is_object
from downstream.model_port import FailureKind, Finish, FunctionUse, Message, ModelFailed, ModelReply, ModelRequest
from downstream.settings import SCRIPTED
from journal.ledger import Spent
from journal.values import Json, JsonObject

from .script_file import Attempt, Entry, Fault, Said, Script, ScriptedCall, ScriptError, read_script

E = TypeVar("E", bound=Entry)

_RETRY_AFTER = 0.05
_FAILURES: dict[str, tuple[FailureKind, str]] = {
    "429": ("rate", "its server asks to slow down (scripted)"),
    "500": ("overload", "its server failed (scripted)"),
    "timeout": ("timeout", "it gave no answer in time (scripted)"),
    "empty": ("malformed", "its reply is empty (scripted)"),
}
"""Faults after which the same request is made again; the others are replies and stand for a turn."""
_NAMES = {"planner": "submit_plan", "reviser": "revise_plan", "reviewer": "submit_review", "answer": "submit_answer"}
_REPORT = "submit_report"
_SEARCH = "search_tools"
_PROSE = "I would rather tell you about it in my own words."
_REFUSAL = "I can't help with that."
_CALL_ID = re.compile(r"^\[(c_[a-z0-9]+)\]", re.MULTILINE)


class _Unforeseen(Exception):
    """The script has nothing for a request; the text names the place."""


@dataclass(frozen=True)
class _Slot(Generic[E]):
    """One place of a list: the faults that come first, then what is said; nothing where the list has ended."""

    faults: tuple[Fault, ...]
    entry: E | None

    def fault(self, retry: int, *, stays: bool) -> Fault | None:
        """What goes wrong at this retry; a last fault `stays` where nothing comes after it."""
        if retry < len(self.faults):
            return self.faults[retry]
        return self.faults[-1] if stays and self.faults else None


@dataclass(frozen=True)
class _Picked:
    """What the script has for a request: data under a name, calls, or text."""

    entry: Entry
    fault: Fault | None
    text: str = ""
    name: str | None = None
    data: Json = None
    calls: tuple[ScriptedCall, ...] = ()


class ScriptedModels:
    """Implements `Complete` for every `scripted:FILE`; a file is read once."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}

    async def complete(self, model: str, request: ModelRequest) -> ModelReply:
        """The scripted reply. Raises ModelFailed: a fault, or kind `script` for what the file lacks or gets wrong."""
        path = model.removeprefix(SCRIPTED)
        try:
            script = self._scripts.get(path) or await load_script(path)
            self._scripts[path] = script
            picked = _pick(script, request)
        except (ScriptError, _Unforeseen) as error:
            raise ModelFailed(model, "script", str(error)) from error
        await anyio.sleep(picked.entry.delay)
        if picked.fault in _FAILURES:
            kind, text = _FAILURES[picked.fault]
            raise ModelFailed(model, kind, text, retry_after=_RETRY_AFTER)
        return _reply(model, request, picked)


async def load_script(path: str) -> Script:
    """The script in the file. Raises ScriptError."""
    try:
        return read_script(await anyio.Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise ScriptError(path, 1, f"the file can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScriptError(path, 1, "the file is not UTF-8") from error


def _pick(script: Script, request: ModelRequest) -> _Picked:
    if request.role == "worker":
        return _pick_turn(_attempt(script, request), request)
    place, role = request.place, request.role
    if role == "planner" and place.number == 1 and not place.repair and place.turn <= len(script.searches):
        return _pick_search(script.searches[place.turn - 1], request)
    if role == "planner" and script.plan is not None:
        return _pick_said([script.plan], 0, request)
    if role == "planner":
        return _pick_said(script.plans, place.number - 1 + place.repair, request)
    if role == "reviser":
        return _pick_said(script.revise, place.number - 1, request)
    if role == "reviewer":
        reviews = script.review.get(place.step or "", ()) if isinstance(script.review, dict) else script.review
        return _pick_said(reviews, 0 if len(reviews) == 1 else place.number - 1, request)
    if role == "answer":
        return _pick_said([script.answer] if script.answer else [], 0, request)
    step = script.steps.get(place.step or "")
    return _pick_said([step] if step else [], 0, request)


def _pick_said(entries: Sequence[Said], index: int, request: ModelRequest) -> _Picked:
    slots = list(_slots(entries))
    # Behind the list only the faults at its end are left.
    slot = slots[min(index, len(slots) - 1)]
    fault = slot.fault(request.place.retry, stays=slot.entry is None)
    if slot.entry is None and fault is None:
        raise _Unforeseen(f"it has nothing for {_where(request)}")
    entry = slot.entry or entries[-1]
    text, data = entry.text or "", entry.data
    if request.role == "answer" and data is None:
        none: list[Json] = []
        text, data = "", {"answer": text, "caveats": none}
    return _Picked(entry, fault or _reply_fault(entry), text, _NAMES.get(request.role), data)


def _pick_search(query: str, request: ModelRequest) -> _Picked:
    """A search for tools, by the function where it is offered, else in place of the plan."""
    if any(function.name == _SEARCH for function in request.functions):
        return _Picked(Entry(), None, name=_SEARCH, data={"query": query})
    return _Picked(Entry(), None, name=_NAMES["planner"], data={"search": query})


def _attempt(script: Script, request: ModelRequest) -> Attempt:
    step = script.steps.get(request.place.step or "")
    if step is None or not step.attempts:
        raise _Unforeseen(f"it has no attempts for {_where(request)}")
    index = 0 if len(step.attempts) == 1 else request.place.attempt - 1
    if index >= len(step.attempts):
        raise _Unforeseen(f"it has {len(step.attempts)} attempts, none for {_where(request)}")
    return step.attempts[index]


def _pick_turn(attempt: Attempt, request: ModelRequest) -> _Picked:
    """The turn, or the report: after the turns, in repair turns, and where nothing else is taken."""
    slots = list(_slots(attempt.turns))
    over = request.place.repair > 0 or _only_report(request)
    index = len(slots) - 1 if over else min(request.place.turn - 1, len(slots) - 1)
    slot, stays = slots[index], index == len(slots) - 1 and attempt.report is None
    fault = slot.fault(request.place.retry, stays=stays) if stays or index == request.place.turn - 1 else None
    if slot.entry is not None:
        return _Picked(slot.entry, fault or _reply_fault(slot.entry), slot.entry.text or "", calls=slot.entry.calls)
    if attempt.report is None and fault is None:
        raise _Unforeseen(f"it has no report, and {len(slots) - 1} turns, none for {_where(request)}")
    return _Picked(Entry(), fault, name=_REPORT, data=_cited(attempt.report, request.messages))


def _slots(entries: Sequence[E]) -> Iterator[_Slot[E]]:
    """The places of a list, and one behind it. A fault alone that has the request made again is no place of its own."""
    faults: list[Fault] = []
    for entry in entries:
        if entry.fault in _FAILURES:
            faults.append(entry.fault)
        if entry.says_something or (entry.fault is not None and entry.fault not in _FAILURES):
            yield _Slot(tuple(faults), entry)
            faults = []
    yield _Slot(tuple(faults), None)


def _reply_fault(entry: Entry) -> Fault | None:
    return None if entry.fault in _FAILURES else entry.fault


def _reply(model: str, request: ModelRequest, picked: _Picked) -> ModelReply:
    text, uses = _words(request, picked)
    finish: Finish = "stop"
    match picked.fault:
        case "not_json":
            text, uses = _PROSE, ()
        case "refusal":
            text, uses, finish = _REFUSAL, (), "refusal"
        case "truncated":
            text, uses, finish = text[: len(text) // 2], tuple(_cut(use) for use in uses), "length"
        case _:
            pass
    usage = picked.entry.usage
    output = (len(text) + sum(len(use.arguments) for use in uses)) // 4
    spent = Spent(usage.input, usage.output) if usage else Spent(request.prompt_characters() // 4, output)
    return ModelReply(model, text, uses, finish, spent)


def _words(request: ModelRequest, picked: _Picked) -> tuple[str, tuple[FunctionUse, ...]]:
    """Text and function uses, in the form that the request offers."""
    calls = [(_wire_name(call.tool, request), call.arguments) for call in picked.calls]
    if picked.data is not None and picked.name is not None:
        calls.append((picked.name, picked.data))
    if calls and request.name == "next_action":
        name, arguments = calls[0]
        return _json({"tool": name, "arguments": arguments}), ()
    if picked.data is not None and all(function.name != picked.name for function in request.functions):
        return _json(picked.data), ()
    return picked.text, _uses(request, calls)


def _uses(request: ModelRequest, calls: list[tuple[str, Json]]) -> tuple[FunctionUse, ...]:
    place = request.place
    stem = f"call_{place.step or request.role}_{place.attempt}_{place.turn}_{place.repair}"
    return tuple(FunctionUse(f"{stem}_{index}", name, _json(data)) for index, (name, data) in enumerate(calls))


def _cut(use: FunctionUse) -> FunctionUse:
    return FunctionUse(use.id, use.name, use.arguments[: len(use.arguments) // 2])


def _wire_name(tool: str, request: ModelRequest) -> str:
    """The name by which `server.tool` is offered: as it stands, as `server__tool`, or shortened with a hash."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", tool.replace(".", "__", 1))
    names = [function.name for function in request.functions] + _actions(request)
    shortened = [name for name in names if len(name) >= 60 and plain.startswith(name[:48])]
    return next((name for name in (tool, plain, *shortened) if name in names), plain)


def _actions(request: ModelRequest) -> list[str]:
    """The tools that a `next_action` may name."""
    schema: Json = request.schema if request.name == "next_action" else None
    tool: Json = schema.get("properties", {}).get("tool", {}) if is_object(schema) else {}
    names: list[str] = tool.get("enum", []) if is_object(tool) else []
    return names


def _only_report(request: ModelRequest) -> bool:
    offered = [function.name for function in request.functions] + _actions(request)
    return request.force == _REPORT or offered == [_REPORT]


def _cited(report: JsonObject | None, messages: Sequence[Message]) -> JsonObject | None:
    """The report with the numbers in its evidence replaced by the ids of those calls of the attempt."""
    if report is None or not is_array(findings := report.get("findings")):
        return report
    ids = _call_ids(messages)

    def cite(item: Json) -> Json:
        if not isinstance(item, int):
            return item
        known = ids[item] if 0 <= item < len(ids) else None
        return known or f"c_missing_{item}"

    cited: list[Json] = []
    for finding in findings:
        evidence: Json = finding.get("evidence") if is_object(finding) else None
        cited.append(finding | {"evidence": [cite(item) for item in evidence]} if is_array(evidence) else finding)
    return report | {"findings": cited}


def _call_ids(messages: Sequence[Message]) -> list[str | None]:
    """The id of each call made so far, in order; None for one that was not let out."""
    answers = {message.answers: _CALL_ID.search(message.content) for message in messages if message.answers is not None}
    uses = [use.id for message in messages for use in message.uses]
    if uses:
        return [found[1] if (found := answers.get(use)) else None for use in uses]
    first = next((n for n, message in enumerate(messages) if message.role == "assistant"), len(messages))
    return [id_ for message in messages[first:] if message.role == "user" for id_ in _CALL_ID.findall(message.content)]


def _where(request: ModelRequest) -> str:
    place = request.place
    named = f"step {place.step}, " if place.step is not None else ""
    numbers = {"worker": f"attempt {place.attempt}, turn {place.turn}", "reviewer": f"review {place.number}"}
    plans = {"planner": f"plan {place.number + place.repair}", "reviser": f"revision {place.number}"}
    return f"{request.role}: {named}{(numbers | plans).get(request.role, 'its reply')}"


def _json(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False)
