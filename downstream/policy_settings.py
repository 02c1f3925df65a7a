"""Settings of the policy: rules with typed matchers, defaults by class, and which arguments are targets."""

import re
from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, StringConstraints, model_validator

from journal.settings import SETTINGS, placed
from journal.values import Json

from .tool_names import covers, has_glob, matches, reaches, read_tool_name

Effect = Literal["read", "egress", "write", "destructive", "unknown"]
Verb = Literal["deny", "ask", "allow"]
Via = Literal["host", "person", "passkey"]
STRICTEST_FIRST: tuple[Verb, ...] = ("deny", "ask", "allow")
_LEVELS: tuple[Via | None, ...] = (None, "host", "person", "passkey")


def _pointer(text: str) -> str:
    if not re.fullmatch(r"(/([^~/]|~[01])*)+", text):
        raise ValueError(f"{text!r} is no JSON Pointer; write /argument, as in /to or /items/0")
    return text


def split_port(host: str) -> tuple[str, int | None]:
    """A host in the form of `Host` without its port and without brackets, and the port where there is one."""
    found = re.fullmatch(r"(\[.*\]|[^:]*):(\d{1,5})", host)
    name, port = (found[1], int(found[2])) if found else (host, None)
    return name.removeprefix("[").removesuffix("]"), port


def _host(text: str) -> str:
    """In the one form in which hosts are compared. Raises ValueError for what no address can lead to."""
    name, port = split_port(text)
    try:
        name = str(ip_address(name))
    except ValueError as error:
        name = name.rstrip(".")
        if not re.fullmatch(r"(\*\.)?(?!(.*\.)?(\d*|0x[0-9a-f]*)$)[a-z0-9._-]+", name):
            raise ValueError(f"{text!r} is no host; write example.org, *.example.org, 192.0.2.1 or [::1]:80") from error
    if port is None:
        return name
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


ToolPattern = Annotated[str, AfterValidator(read_tool_name)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Host = Annotated[str, StringConstraints(pattern=r"^(\*\.)?[A-Za-z0-9.:\[\]_-]+$", to_lower=True), AfterValidator(_host)]
"""As `host`, `*.host` for all below it, or `host:port`."""


class Matcher(BaseModel):
    """A condition on one argument; all that is set must hold. Nothing is coerced: a text is never a number.

    A missing argument, null or one of another type fits no allow rule, and every deny and ask rule.
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
        if self.absent is not None and len(self.model_fields_set) > 1:
            raise ValueError("absent stands alone: what is missing has no value, and what has one is not missing")
        if self.gt is not None and self.lt is not None and self.gt >= self.lt:
            raise ValueError(f"no number is above {self.gt:g} and below {self.lt:g}; turn them round, or take one out")
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
    via: Via | None = None
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

    @property
    def text(self) -> str:
        """The verb and the pattern, as they were written."""
        return f"{self.verb} {self.tool}"

    def names(self, tool: str) -> bool:
        """Whether it is about the tool `server.tool`; what forbids reaches further than what allows."""
        return matches(self.tool, tool) if self.verb == "allow" else reaches(self.tool, tool)

    def always_beats(self, other: "PolicyRule") -> bool:
        """Whether this rule fits every call that the other fits, and beats it."""
        stricter = STRICTEST_FIRST.index(self.verb) < STRICTEST_FIRST.index(other.verb)
        return stricter and self._covers(other)

    def makes_idle(self, other: "PolicyRule") -> bool:
        """Whether this rule says of more calls what the other says under conditions."""
        as_strong = self.verb == other.verb and _LEVELS.index(self.via) >= _LEVELS.index(other.via)
        waives = self.tainted == other.tainted or self.tainted is not None
        return as_strong and waives and len(self.when) < len(other.when) and self._covers(other)

    def _covers(self, other: "PolicyRule") -> bool:
        return covers(self.tool, other.tool) and all(other.when.get(place) == each for place, each in self.when.items())


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

    @model_validator(mode="after")
    def _no_dead_rule(self) -> "PolicySettings":
        if dead := [said for number in range(len(self.rules)) if (said := self._why_dead(number)) is not None]:
            raise ValueError("; ".join(dead))
        return self

    def _why_dead(self, number: int) -> str | None:
        rule = self.rules[number]
        here = f"rules[{number}] ({rule.text})"
        for place, other in enumerate(self.rules):
            there = f"rules[{place}] ({other.text})"
            if other.always_beats(rule):
                way = f"narrow rules[{place}], or take rules[{number}] out"
                return f"{here} can never decide: {there} beats it on every call that it fits; {way}"
            if other.makes_idle(rule):
                way = f"narrow rules[{place}], or take rules[{number}] out"
                return f"{here} can never decide: {there} says the same without its conditions; {way}"
        return None
