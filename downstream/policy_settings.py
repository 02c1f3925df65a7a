"""Settings of the policy: rules with typed matchers, defaults by class, and which arguments are targets."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, StringConstraints, model_validator

from journal.settings import SETTINGS, placed
from journal.values import Json

from .tool_names import has_glob, read_tool_name

Effect = Literal["read", "egress", "write", "destructive", "unknown"]
Verb = Literal["deny", "ask", "allow"]


def _pointer(text: str) -> str:
    if not re.fullmatch(r"(/([^~/]|~[01])*)+", text):
        raise ValueError(f"{text!r} is no JSON Pointer; write /argument, as in /to or /items/0")
    return text


ToolPattern = Annotated[str, AfterValidator(read_tool_name)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Host = Annotated[str, StringConstraints(pattern=r"^(\*\.)?[A-Za-z0-9.:\[\]_-]+$", to_lower=True)]


class Matcher(BaseModel):
    """A condition on one argument; all that is set must hold. Nothing is coerced: a text is never a number.

    A missing argument or one of another type fits no allow rule, and every deny and ask rule.
    """

    model_config = SETTINGS

    equals: Json = None
    one_of: tuple[Json, ...] = Field(default=(), min_length=1)
    prefix: str | None = Field(default=None, min_length=1)
    glob: str | None = Field(default=None, min_length=1)
    host_in: tuple[Host, ...] = Field(default=(), min_length=1)
    path_under: Annotated[str, Field(min_length=1), AfterValidator(placed)] | None = None
    gt: FiniteFloat | None = None
    lt: FiniteFloat | None = None
    max_len: int | None = Field(default=None, ge=0)
    absent: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "Matcher":
        if not self.model_fields_set:
            raise ValueError(f"holds no condition; write one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def conditions(self) -> dict[str, Json]:
        """What was written, by name; `equals: null` counts, what was left out does not."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class PolicyRule(BaseModel):
    """One verb for the tools that a pattern names, under conditions on their arguments."""

    model_config = SETTINGS

    deny: ToolPattern | None = None
    ask: ToolPattern | None = None
    allow: ToolPattern | None = None
    via: Literal["host", "person", "passkey"] | None = None
    when: dict[Pointer, Matcher] = Field(default={})
    tainted: Literal["allow"] | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> "PolicyRule":
        verbs = [verb for verb in (self.deny, self.ask, self.allow) if verb is not None]
        if len(verbs) != 1:
            raise ValueError(f"a rule has one of deny, ask and allow; this one has {len(verbs)}")
        if self.allow and has_glob(self.allow.partition(".")[0]):
            raise ValueError(f"allow: {self.allow} holds for servers yet unknown; name the server, as in fs.read_*")
        if self.via and not self.ask:
            raise ValueError("via belongs to ask; take it out or write ask")
        if self.tainted and not self.allow:
            raise ValueError("tainted: allow belongs to allow; take it out or write allow")
        return self

    @property
    def verb(self) -> Verb:
        if self.deny:
            return "deny"
        return "ask" if self.ask else "allow"

    @property
    def tool(self) -> str:
        """The pattern, `server.tool` with globs."""
        return self.deny or self.ask or self.allow or ""


class PolicySettings(BaseModel):
    """Deny beats ask beats allow, whatever the order; where no rule fits, the class decides."""

    model_config = SETTINGS

    rules: tuple[PolicyRule, ...] = ()
    defaults: dict[Effect, Verb] = Field(default={})
    sinks: dict[ToolPattern, tuple[Pointer, ...]] = Field(default={})

    @model_validator(mode="after")
    def _no_rule_twice(self) -> "PolicySettings":
        for number, rule in enumerate(self.rules):
            first = self.rules.index(rule)
            if first < number:
                raise ValueError(f"rules[{number}] says the same as rules[{first}]; take one out")
        return self
