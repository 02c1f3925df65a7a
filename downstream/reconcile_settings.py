"""Settings of the read tool that tells whether a call took place of which no answer came."""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Discriminator, Field, Tag, model_validator

from journal.settings import SETTINGS
from journal.values import Json

from .json_shape import is_object
from .policy_settings import Matcher
from .tool_names import has_glob, read_tool_name

_POINTER = re.compile(r"(/([^~/]|~[01])*)*")
LITERAL = "$literal"
"""`{"$literal": X}` is X itself, for texts that would be read as a JSON Pointer."""


def _one_tool(text: str) -> str:
    if has_glob(name := read_tool_name(text)):
        raise ValueError(f"{name} stands for many tools; write the one that tells, as in mail.find")
    return name


def _place_in_result(text: str) -> str:
    if not _POINTER.fullmatch(text):
        raise ValueError(
            f"{text!r} is no JSON Pointer; write /field, as in /id or /items/0, or '' for the whole result"
        )
    return text


def _readable(value: Json) -> Json:
    if isinstance(value, str) and value.startswith("/") and not _POINTER.fullmatch(value):
        raise ValueError(f"{value!r} is no JSON Pointer; write {{{LITERAL}: {value}}} for the text itself")
    return value


ToolName: TypeAlias = Annotated[str, AfterValidator(_one_tool)]
Conditions: TypeAlias = dict[Annotated[str, AfterValidator(_place_in_result)], Matcher]


class Reconcile(BaseModel):
    """How to ask a read tool, and how to read its result.

    `arguments` are its own by name, each a JSON Pointer into the arguments of the call in doubt, or a literal; without
    them it gets those arguments of the call that its schema takes. Of `done` and `not_done`, all conditions must hold;
    without both, a result that holds every argument of the call means done, and an empty one not done.
    """

    model_config = SETTINGS

    tool: ToolName
    arguments: dict[str, Annotated[Json, AfterValidator(_readable)]] | None = None
    done: Conditions | None = Field(default=None, min_length=1)
    not_done: Conditions | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _tells_something(self) -> "Reconcile":
        if self.done is not None and self.done == self.not_done:
            raise ValueError("done and not_done say the same, so neither ever counts; change one")
        return self


def _kind(written: object) -> Literal["name", "map"]:
    return "name" if isinstance(written, str) else "map"


NameOrMore: TypeAlias = Annotated[
    Annotated[Reconcile, Tag("map")] | Annotated[ToolName, Tag("name")], Discriminator(_kind)
]
"""The tool's name alone, or a Reconcile."""


def literal_of(value: Json) -> tuple[bool, Json]:
    """Whether the value of an argument is a literal, and it, else the JSON Pointer that it is."""
    if isinstance(value, str) and value.startswith("/"):
        return False, value
    if is_object(value) and set(value) == {LITERAL}:
        return True, value[LITERAL]
    return True, value
