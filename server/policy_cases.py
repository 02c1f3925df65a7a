"""A table of calls and what the policy is expected to make of each, and what it does."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from downstream.door import Arguments
from downstream.gate.explain import Explanation, explain
from downstream.gate.stages import private_servers
from downstream.gate.taint import Flow, described_in, words_of_tools
from downstream.policy_settings import Effect, Pointer, Verb
from journal.actions import Level
from journal.settings import SETTINGS
from journal.values import Json, JsonObject, Label

from .known_tools import Known, KnownTools
from .settings import Settings
from .settings_file.document import Problem, SettingsError, meant, read_document
from .settings_file.located import is_list
from .settings_file.shape import in_our_words

PLAN: Label = frozenset({"plan"})
_ORIGINS = ("user", "host", "config", "plan", "model")


def _origin(text: str) -> str:
    kind, _, server = text.partition(":")
    if text not in _ORIGINS and not (kind in ("open", "private") and server):
        raise ValueError(f"no origin {text!r}; write one of {', '.join(_ORIGINS)}, open:SERVER, private:SERVER")
    return text


Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], Field(min_length=1)]


class PolicyCase(BaseModel):
    """One call and what is expected. Without `labels` its arguments are literals of a plan; a map gives those of parts.

    `rule` is the number of one that decides, as in policy.rules[0]; `default` is that none does.
    """

    model_config = SETTINGS

    tool: str
    arguments: JsonObject = Field(default={})
    class_: Effect | None = Field(default=None, alias="class")
    labels: Origins | dict[Pointer, Origins] = Field(default=())
    goal: str = ""
    expect: Verb
    level: Level | None = None
    rule: int | Literal["default"] | None = None

    @model_validator(mode="after")
    def _level_of_a_question(self) -> "PolicyCase":
        if self.level is not None and self.expect != "ask":
            raise ValueError(f"level belongs to expect: ask; nobody is asked where it is {self.expect}")
        return self

    @property
    def flow(self) -> tuple[Arguments, Label]:
        """The arguments with their labels, and what the model that made the call has read."""
        if isinstance(self.labels, dict):
            parts = {pointer: frozenset(origins) for pointer, origins in self.labels.items()}
            return Arguments(self.arguments, PLAN, parts), PLAN
        label = frozenset(self.labels) or PLAN
        return Arguments(self.arguments, label), label


@dataclass(frozen=True)
class Tested:
    """A case by its place in the table, and how it differs from what is expected: not at all, if it passed."""

    number: int
    case: PolicyCase
    explanation: Explanation
    differs: tuple[str, ...]


def read_cases(path: Path) -> list[PolicyCase]:
    """The table in a file, `cases: […]` in YAML or JSON. Raises SettingsError with all that is wrong."""
    told = "a table of cases is a map with a list, `cases: [{tool: …, arguments: {…}, expect: …}]`"
    located = read_document(path, otherwise=told)
    problems = [Problem(f"{place[-1]!r} stands twice; keep one", path, line) for place, line in located.repeated]
    data: JsonObject = located.data
    rows: Json = data.get("cases")
    if not is_list(rows) or not rows or len(data) > 1:
        raise SettingsError([*problems, Problem(told, path, 1)])
    cases: list[PolicyCase] = []
    for number, row in enumerate(rows):
        try:
            cases.append(PolicyCase.model_validate_json(json.dumps(row)))
        except ValidationError as error:
            line = located.lines.get(("cases", number))
            problems += [Problem(_sentence(number, each), path, line) for each in error.errors(include_url=False)]
    if problems:
        raise SettingsError(problems)
    return cases


async def run_cases(cases: Sequence[PolicyCase], settings: Settings, known: KnownTools) -> list[Tested]:
    """What the policy makes of each. Raises NoSuchTool for a tool of which no class is known."""
    tested: list[Tested] = []
    for number, case in enumerate(cases):
        found = await known.find(case.tool, class_=case.class_)
        told = explain(settings.policy, await flow_of(case, found, settings, known))
        tested.append(Tested(number, case, told, tuple(_differences(case, told))))
    return tested


async def flow_of(case: PolicyCase, found: Known, settings: Settings, known: KnownTools) -> Flow:
    """What flows into the call of a case, of the class that it says, else of the tool's own."""
    tool = found.tool if case.class_ is None else replace(found.tool, class_=case.class_)
    arguments, read = case.flow
    return Flow(
        tool=tool,
        arguments=arguments,
        read=read,
        goal=case.goal,
        described=described_in(words_of_tools(await known.listed())),
        private=private_servers(settings.servers),
    )


def _differences(case: PolicyCase, told: Explanation) -> Iterator[str]:
    decided = told.decided
    if decided.verb != case.expect:
        yield f"it is {_verdict(decided.verb, decided.level)}, not {_verdict(case.expect, case.level)}"
    elif case.level is not None and decided.level != case.level:
        yield f"it needs a yes of level {decided.level}, not {case.level}"
    fits = not told.deciders if case.rule == "default" else case.rule in told.deciders
    if case.rule is not None and not fits:
        expected = "the default of its class" if case.rule == "default" else f"policy.rules[{case.rule}]"
        yield f"{expected} does not decide"


def _verdict(verb: Verb, level: Level | None) -> str:
    return f"{verb} (level {level})" if level else verb


def _sentence(number: int, error: ErrorDetails) -> str:
    parts = [str(part) for part in error["loc"] if str(part) in PolicyCase.model_fields or str(part) == "class"]
    place = ".".join([f"cases[{number}]", *parts])
    if error["type"] == "extra_forbidden":
        names = [field.alias or name for name, field in PolicyCase.model_fields.items()]
        return f"{place}: unknown key {str(error['loc'][-1])!r}{meant(str(error['loc'][-1]), names)}"
    return f"{place}: {'is missing' if error['type'] == 'missing' else in_our_words(error['msg'])}"
