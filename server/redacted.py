"""An exported run without anything that it says: fit to be attached to a report, and still to be replayed."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import get_args

from pydantic import TypeAdapter

from downstream.json_shape import is_array, is_object
from downstream.model_port import FailureKind, Finish, Role
from downstream.resources import reading_of
from downstream.settings import SCRIPTED
from downstream.tools import ToolClass
from executors.built_in_tools import BUILT_IN, READ_RESOURCE
from executors.contract import OutcomeStatus
from executors.settings import built_in_workers
from executors.step import Step, step_key
from journal.actions import CHOICES, ActionKind, ActionState, Level
from journal.archive.redaction import Mask
from journal.archive.transfer import Content
from journal.canonical import digest
from journal.events import EventType
from journal.intents import IntentState
from journal.ledger import Limits
from journal.runs import RunStatus, StopReason
from journal.seals import seal_of
from journal.steps import StepStatus
from journal.values import Json, JsonObject
from planner.alone import WHOLE_GOAL, task_of
from planner.plan import AnyStep
from planner.settings import BudgetSettings


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SETS = (RunStatus, StopReason, StepStatus, OutcomeStatus, ActionKind, ActionState, Level, IntentState, EventType)
_WORDS = frozenset(word for each in (*_SETS, Role, Finish, FailureKind, ToolClass) for word in get_args(each)) | _set(
    "call worker compose planner given fallback gate person host user model plan config revise continue finish widen"
    " done blocked go_on ask no_progress functions schema text function approve_action form terminal page panel flag"
    " submit_plan submit_report submit_review revise_plan submit_answer work answer tool"
)
_FIELDS = _set(
    "steps id kind title needs optional review tool tools arguments arguments_json worker task output output_json"
    " decision reason drop add status summary findings claim evidence supported data data_json confidence suggestions"
    " plan_holds accepted problems answer caveats artifact_id start length search query limit path name parameters"
    " input"
)
"""Names of members that the contract knows; of others that a model or a tool wrote, any may tell something."""
_OPAQUE = _set("data arguments content")
"""Members that hold what a person, a model or a tool said in a form of its own."""
_AS_TEXT = {"arguments_json": "arguments", "data_json": "data", "output_json": "output"}
_NUMBERS = _set(
    "confidence attempts attempt version turn at asks amount allowed used input_tokens output_tokens cached_tokens"
    " reasoning_tokens cost_usd requests retries ms reopened depth model_calls tool_calls tokens usd usd_day seconds"
    " limit add"
)
_HASHES = _set("arguments_hash action_hash hash pin sealed")
_MEMO_KEY = re.compile(r"step\.([a-z0-9_]+)@[0-9a-f]{8}")
_BUILT_IN_WORKERS = [worker.model_dump(mode="json", exclude_none=True) for worker in built_in_workers()]
_STEPS: TypeAdapter[AnyStep] = TypeAdapter(Step)


class Redacted:
    """The document of a run (`journal.transfer.collected`) without what it says; `document` is the result."""

    def __init__(self, document: JsonObject) -> None:
        self._mask = Mask(_WORDS | {WHOLE_GOAL} | set(_names(document)), _FIELDS | set(_schema_names(document)))
        goal, context = document["run"]["goal"], document["run"]["context"]
        again = task_of(self._mask.text(goal), self._mask.text(context))
        self._mask.put_together(task_of(goal, context), masked=again)
        self._steps = {row["id"]: self._structure(row["definition"]) for row in document["steps"]}
        self._keys = {id_: step_key(_STEPS.validate_python(step)) for id_, step in self._steps.items()}
        self.document = self._whole(document)

    def artifacts(self, content: Content) -> Content:
        """How artifacts are read for this document."""

        async def masked(row: JsonObject) -> bytes | None:
            whole = await content(row)
            return None if whole is None else self._content(whole, row["media_type"])

        return masked

    def _content(self, whole: bytes, media_type: str) -> bytes:
        try:
            text = whole.decode()
        except UnicodeDecodeError:
            return bytes(len(whole))
        if media_type.endswith("json") and (data := _parsed(text)) is not None:
            return json.dumps(self._mask.data(data), ensure_ascii=False).encode()
        return self._mask.text(text).encode()

    def _whole(self, document: JsonObject) -> JsonObject:
        rows = {
            name: [getattr(self, f"_{name}_row")(row) for row in document[name]]
            for name in ("memo", "intents", "ledger", "actions", "events", "audit")
        }
        steps = [row | self._shown_step(row) for row in document["steps"]]
        tools = [self._tool(tool) for tool in document["tools"]]
        settings = self._settings(document["settings"])
        made = {"run": self._run(document["run"]), "steps": steps, "tools": tools, "settings": settings}
        return document | rows | made | {"redacted": True}

    def _run(self, row: JsonObject) -> JsonObject:
        options: JsonObject = dict(row["options"])
        options["warnings"] = [self._mask.text(text) for text in options.get("warnings", ())]
        if "plan" in options:
            options["plan"] = self._written(options["plan"])
        names = ("goal", "context", "settings_path", "message", "answer", "cancel_reason")
        texts = {name: self._maybe(row[name]) for name in names}
        gone = {"fingerprint": "", "request_hash": "", "idempotency_key": None, "driver": None}
        warnings = [self._mask.text(text) for text in row["warnings"]]
        result = None if row["result"] is None else self._structure(row["result"])
        return row | texts | gone | {"options": _only_known(options), "warnings": warnings, "result": result}

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self._mask.text(text)

    def _shown_step(self, row: JsonObject) -> JsonObject:
        texts = {name: self._mask.text(row[name]) for name in ("title", "summary")}
        worker = None if row["worker"] is None else self._mask.word(row["worker"])
        return texts | {"worker": worker, "definition": self._steps[row["id"]]}

    def _memo_row(self, row: JsonObject) -> JsonObject:
        key, value = self._key(row["key"]), self._value(row["name"], row["value"])
        seal = seal_of(row["run"], key, row["name"], "", json.dumps(value))
        return row | {"key": key, "hash": "", "value": value, "seal": seal}

    def _key(self, key: str) -> str:
        """A memo key, with the hash of its step's definition as it is now."""
        return _MEMO_KEY.sub(lambda found: self._keys.get(found[1], found[0]), key)

    def _value(self, name: str, value: Json) -> Json:
        if is_object(value) and is_object(reply := value.get("reply")):
            return {"reply": self._reply(name, reply)}
        if name in ("begin", "stop", "rung", "input", "review"):
            return value
        if name == "check":
            return [self._mask.text(error) for error in value]
        if name == "search_tools":
            return value | {"text": self._mask.text(value["text"])}
        return self._structure(value)

    def _reply(self, name: str, reply: JsonObject) -> JsonObject:
        uses = [use | {"arguments": self._arguments(use)} for use in reply["uses"]]
        text = self._mask.text(reply["text"]) if name == "compose" else self._said(reply["text"])
        return reply | {"model": self._model(reply["model"]), "text": text, "uses": uses, "raw": {}}

    def _arguments(self, use: JsonObject) -> str:
        data = _parsed(use["arguments"])
        if data is None:
            return self._mask.text(use["arguments"])
        return json.dumps(self._written(data) if _is_ours(use["name"]) else self._mask.data(data), ensure_ascii=False)

    def _said(self, text: str) -> str:
        """What a model wrote: JSON in it by its fields, prose around it by its shape."""
        decoder, made, place = json.JSONDecoder(), list[str](), 0
        while (start := text.find("{", place)) >= 0:
            try:
                data, end = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                start, end, data = start, start + 1, None
            made.append(self._mask.text(text[place:start]))
            made.append("{" if data is None else json.dumps(self._written(data), ensure_ascii=False))
            place = end
        return "".join([*made, self._mask.text(text[place:])])

    def _written(self, data: Json) -> Json:
        """What a model or a person wrote in a form of ours: members that we do not know are masked too."""
        return self._structure(data, self._mask.key)

    def _structure(self, data: Json, name_of: Callable[[str], str] = str) -> Json:
        """Data in a form of ours: words of ours stay, what others said is masked."""
        if is_array(data):
            return [self._structure(item, name_of) for item in data]
        if is_object(data):
            return {name_of(name): self._member(data, name, name_of) for name in data}
        if isinstance(data, str):
            return self._mask.word(data)
        return self._mask.number(data) if isinstance(data, int | float) else data

    def _member(self, data: JsonObject, name: str, name_of: Callable[[str], str]) -> Json:
        item: Json = data[name]
        if name in _HASHES:
            return ""
        if name in _NUMBERS and isinstance(item, int | float):
            return item
        if name in _AS_TEXT and isinstance(item, str) and (inner := _parsed(item)) is not None:
            meant = _AS_TEXT[name]
            return json.dumps(self._member({meant: inner}, meant, name_of), ensure_ascii=False)
        if name == "output" and is_object(item):
            return self._schema(item)
        ours = name == "arguments" and _is_ours(str(data.get("tool") or data.get("name")))
        if name in _OPAQUE and not ours:
            return self._mask.data(item)
        if name == "key" and isinstance(item, str):
            return self._key(item)
        if name == "model" and isinstance(item, str):
            return self._model(item)
        if name in ("effects", "failed_calls") and is_array(item):
            return [" ".join(map(self._mask.word, str(each).split(" "))) for each in item]
        if name in ("spent", "label", "labels"):
            return item
        return self._structure(item, name_of)

    def _schema(self, schema: JsonObject) -> JsonObject:
        """A schema of values, without what a masked value would not fit."""
        made: JsonObject = {}
        for name, part in schema.items():
            if name == "properties" and is_object(part):
                made[name] = {self._mask.key(key): self._schema(each) for key, each in part.items() if is_object(each)}
            elif name == "required" and is_array(part):
                made[name] = [self._mask.key(str(key)) for key in part]
            elif name in ("items", "additionalProperties") and is_object(part):
                made[name] = self._schema(part)
            elif name in ("anyOf", "oneOf", "allOf") and is_array(part):
                made["anyOf" if name == "oneOf" else name] = [self._schema(each) for each in part if is_object(each)]
            elif name in ("type", "additionalProperties", "minItems", "maxItems"):
                made[name] = part
        return made

    def _model(self, name: str) -> str:
        return SCRIPTED + self._mask.text(name.removeprefix(SCRIPTED)) if name.startswith(SCRIPTED) else name

    def _intents_row(self, row: JsonObject) -> JsonObject:
        arguments = self._mask.data(row["arguments"])
        return row | {"key": self._key(row["key"]), "arguments": arguments, "arguments_hash": "", "driver": None}

    def _ledger_row(self, row: JsonObject) -> JsonObject:
        model = None if row["model"] is None else self._model(row["model"])
        return row | {"key": self._key(row["key"]), "model": model}

    def _actions_row(self, row: JsonObject) -> JsonObject:
        arguments = self._structure(row["arguments"]) if row["kind"] in ("plan", "widen", "budget") else None
        if arguments is None:
            arguments = self._mask.data(row["arguments"])
        texts = {name: self._maybe(row[name]) for name in ("question", "note")}
        binding = {"arguments": arguments}
        hashes = {"binding": binding, "hash": digest(binding), "subject": "", "sources": list[Json]()}
        reasons = [self._mask.text(reason) for reason in row["reasons"]]
        key, content = self._key(row["key"]), self._mask.data(row["content"])
        return row | texts | hashes | {"key": key, "arguments": arguments, "reasons": reasons, "content": content}

    def _events_row(self, row: JsonObject) -> JsonObject:
        return row | {"data": self._structure(row["data"])}

    def _audit_row(self, row: JsonObject) -> JsonObject:
        return row | {"data": self._structure(row["data"]), "prev": "", "hash": ""}

    def _tool(self, tool: JsonObject) -> JsonObject:
        texts = {name: self._mask.text(tool[name]) for name in ("title", "description")}
        output = None if tool["output_schema"] is None else self._schema(tool["output_schema"])
        hints = {name: value for name, value in tool["annotations"].items() if isinstance(value, bool)}
        schemas = {"input_schema": self._schema(tool["input_schema"]), "output_schema": output}
        return tool | texts | schemas | {"annotations": hints, "pin": ""}

    def _worker(self, worker: JsonObject) -> JsonObject:
        # What a built-in one says, everybody may read, and the planner knows it by that.
        if worker in _BUILT_IN_WORKERS:
            return worker
        return worker | {name: self._mask.text(worker.get(name, "")) for name in ("description", "instructions")}

    def _settings(self, settings: JsonObject) -> JsonObject:
        if not settings:
            return settings
        workers = [self._worker(worker) for worker in settings["workers"]]
        policy: JsonObject = dict(settings["policy"])
        # That a rule has conditions matters to a replay, and what they are does not.
        policy["rules"] = [
            rule | ({"when": {pointer: {"absent": False} for pointer in rule["when"]}} if rule.get("when") else {})
            for rule in policy.get("rules", ())
        ]
        model: JsonObject = dict(settings["model"])
        if "model" in model:
            model["model"] = self._model(model["model"])
        models = {
            role: self._model(name) if isinstance(name, str) else list(map(self._model, name))
            for role, name in model.get("models", {}).items()
        }
        return settings | {
            "fingerprint": "",
            "workers": workers,
            "policy": policy,
            "model": model | {"models": models},
        }


def _is_ours(name: str) -> bool:
    return name.startswith(("submit_", "revise_plan", READ_RESOURCE.name))


def _parsed(text: str) -> Json:
    """What a text is as JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _only_known(options: JsonObject) -> JsonObject:
    known = ("budget", "review_plan", "interactive", "depth", "warnings", "plan", "reopened")
    return {name: value for name, value in options.items() if name in known}


def _names(document: JsonObject) -> Iterator[str]:
    """The names that stay: of tools, servers, workers, steps and limits."""
    for tool in document["tools"]:
        yield from (tool["server"], tool["wire"], tool["name"], f"{tool['server']}.{tool['name']}")
        yield reading_of(tool["server"])
    yield from (worker["name"] for worker in document["settings"].get("workers", ()))
    yield from (row["id"] for row in document["steps"])
    yield from chain(Limits.__dataclass_fields__, BudgetSettings.model_fields, chain.from_iterable(CHOICES.values()))
    yield from BUILT_IN


def _schema_names(document: JsonObject) -> Iterator[str]:
    """The names of arguments and results that the tools' own schemas tell of."""
    for tool in document["tools"]:
        yield from _properties(tool["input_schema"])
        yield from _properties(tool["output_schema"])
    yield from _properties(READ_RESOURCE.parameters)


def _properties(schema: Json) -> Iterator[str]:
    if is_object(schema):
        if is_object(properties := schema.get("properties")):
            yield from properties
        yield from chain.from_iterable(map(_properties, schema.values()))
    elif is_array(schema):
        yield from chain.from_iterable(map(_properties, schema))
