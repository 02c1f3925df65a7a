"""What a tool server asks a person before it goes on with a call, and what it is told."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from journal.values import JsonObject


@dataclass(frozen=True)
class FormAsked:
    """A form; `schema` is as the server sent it."""

    message: str
    schema: JsonObject


@dataclass(frozen=True)
class UrlAsked:
    """An address that a person is to open by themselves."""

    message: str
    url: str


Question: TypeAlias = FormAsked | UrlAsked


@dataclass(frozen=True)
class Reply:
    """What the server is told; `content` goes with an accepted form only."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None
