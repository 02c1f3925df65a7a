"""What a tool server asks a person, as an action of the run: shown in our words, answered once, for that server."""

import json
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from downstream.json_shape import is_object
from downstream.questions import FormAsked, Question, Reply, UrlAsked
from downstream.servers.listing import fingerprint_of
from downstream.servers.names import clean_text
from downstream.tools import Tool
from journal.actions import Action, NewAction
from journal.canonical import digest
from journal.run_journal import RunJournal
from journal.values import Json, JsonObject

from .form_fields import BadForm, ContentUnfit, Field, fields_of, fitted
from .prompt_text import escaped, quoted
from .stages import Gate

OPEN_SECONDS = 600.0
"""A server of the older protocol holds its call open while it asks, and a person has so long to answer."""

_MESSAGE = 1_000
_WORDS = 200
_URL = 2_000
_OPEN_KEY = "/open."


@dataclass(frozen=True)
class Asking:
    """The call in which a server asks, and how this question of it is told from others."""

    tool: Tool
    step: str
    key: str
    expires_in: float


def open_key(call_key: str, number: int) -> str:
    """The key of the question that is the so-and-so-manieth asked while a call is open."""
    return f"{call_key}{_OPEN_KEY}{number}"


def holds_its_call(action: Action) -> bool:
    """Whether a call is kept open for the answer, which so has to come soon."""
    return action.kind == "form" and _OPEN_KEY in action.key


def form_question(gate: Gate, journal: RunJournal, question: Question, *, of: Asking) -> NewAction:
    """The action that hands a question to a person. Raises BadForm for what cannot be shown as it is."""
    server = of.tool.server
    shown = _shown_form(question, of) if isinstance(question, FormAsked) else _shown_address(question, of)
    arguments: JsonObject = {
        "server": server,
        "tool": of.tool.full_name,
        "message": _cut(question.message, _MESSAGE),
        **shown.arguments,
    }
    urgent = f"{server} keeps the call open meanwhile: unanswered in time, it is broken off"
    settings = gate.servers.get(server)
    binding: JsonObject = {
        "v": 1,
        "owner": journal.run.owner,
        "run": journal.run.id,
        "step": of.step,
        "key": of.key,
        "server": fingerprint_of(settings),
        "pin": of.tool.pin,
        "arguments": arguments,
    }
    return NewAction(
        key=of.key,
        kind="form",
        level="host",
        question=journal.outlet.text(f"{shown.asks}\n{server} writes: {_quoted(question.message, _MESSAGE)}"),
        arguments=arguments,
        binding=binding,
        subject=digest(["form", of.key]),
        step=of.step,
        reasons=(*shown.reasons, *([urgent] if _OPEN_KEY in of.key else [])),
        expires_in=of.expires_in,
    )


@dataclass(frozen=True)
class _Shown:
    asks: str
    arguments: JsonObject
    reasons: tuple[str, ...]


def _shown_form(question: FormAsked, of: Asking) -> _Shown:
    fields = fields_of(question.schema)
    name, server = of.tool.full_name, of.tool.server
    asks = f"{server} asks for input before it goes on with {name}. What is filled in goes to it alone."
    secret = "looks like a secret, which a form must not ask for"
    reasons = [f"field {quoted(field.name)} {secret}" for field in fields if field.looks_secret]
    return _Shown(asks, {"schema": _schema(fields)}, tuple(reasons))


def _shown_address(question: UrlAsked, of: Asking) -> _Shown:
    host, odd = _address(question.url)
    asks = (
        f"{of.tool.server} asks you to open an address yourself before it goes on with {of.tool.full_name}. steprelay "
        f"does not open it. Submit once you have done what it asks for there.\n{escaped(question.url)}\n"
        f"Its host is {host}."
    )
    return _Shown(asks, {"url": question.url, "host": host}, tuple(odd))


@dataclass(frozen=True)
class Form:
    """A form as an action has it; `fields` is empty where an address is to be opened."""

    action: Action

    @cached_property
    def fields(self) -> list[Field]:
        return fields_of(self.action.arguments["schema"]) if "schema" in self.action.arguments else []

    def fitted(self, content: Json) -> Json:
        """The content as it goes to the server. Raises ContentUnfit."""
        if "schema" in self.action.arguments:
            return fitted(self.fields, content)
        if content:
            raise ContentUnfit(["an address has nothing to fill in; leave `content` out"])
        return None


def checked_content(action: Action, choice: str, content: Json) -> Json:
    """What may be recorded as the content of a decision. Raises ContentUnfit where it does not fit the form."""
    return Form(action).fitted(content) if action.kind == "form" and choice == "submit" else None


def reply_of(action: Action) -> Reply:
    """What a server is told by a decided action. Raises ContentUnfit."""
    if action.choice != "submit" or action.state not in ("decided", "consumed"):
        return Reply("decline")
    content = Form(action).fitted(action.content)
    return Reply("accept", content if is_object(content) else None)


def field_line(field: Field) -> str:
    """A field as a person at a terminal reads it: what is ours first, what the server wrote in quotes."""
    about = "; ".join(text for text in (shown_text(field.title) if field.title else "", field_words(field)) if text)
    need = "required" if field.required else "may be left open"
    return f"{field.name} ({need}): {field.takes}{f'. It writes: {about}' if about else ''}"


def field_words(field: Field) -> str:
    """What the server wrote about a field and its choices, in quotes."""
    said = [shown_text(field.description)] if field.description else []
    named = zip(field.options, field.titles, strict=True)
    said += [f"{quoted(value)} is {shown_text(title)}" for value, title in named if title and title != value]
    return "; ".join(said)


def shown_text(text: str) -> str:
    """Some words of a server: cut, escaped and in quotes."""
    return _quoted(text, _WORDS)


def _schema(fields: list[Field]) -> JsonObject:
    """The form in one plain shape, with what the server wrote cut short and without what nobody sees."""
    properties: JsonObject = {}
    for field in fields:
        words = {"title": _seen(field.title), "description": _seen(field.description)}
        properties[field.name] = field.to_schema() | {name: text for name, text in words.items() if text}
        if any(title and title != value for value, title in zip(field.options, field.titles, strict=True)):
            properties[field.name]["enumNames"] = [_seen(title) for title in field.titles]
    return {"type": "object", "properties": properties, "required": [field.name for field in fields if field.required]}


def _address(url: str) -> tuple[str, list[str]]:
    """The host as it is looked up, and what is odd about the address. Raises BadForm."""
    try:
        split = urlsplit(url)
        host = (split.hostname or "").encode("idna").decode()
    except ValueError as error:
        raise BadForm("its address cannot be read") from error
    if split.scheme not in ("http", "https") or not host or len(url) > _URL:
        raise BadForm(f"its address {quoted(url)} is none that a browser opens on the web")
    odd = [f"its host is written in other letters; it is looked up as {host}"] if "xn--" in host else []
    odd += ["its address is not encrypted (http)"] if split.scheme == "http" else []
    odd += ["its address holds a name or password before the host"] if "@" in split.netloc else []
    return host, odd


def _quoted(text: str, most: int) -> str:
    return escaped(json.dumps(_cut(text, most), ensure_ascii=False))


def _seen(text: str) -> str:
    return _cut(clean_text(text), _WORDS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
