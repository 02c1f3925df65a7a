"""The policy: which rule decides on a call. Deny beats ask beats allow, whatever the order; else the class decides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from downstream.policy_settings import STRICTEST_FIRST, Effect, Matcher, PolicyRule, PolicySettings, Verb
from downstream.tools import Tool
from journal.actions import LEVELS, Level
from journal.values import Json, JsonObject

from .matchers import at_pointer, holds

DEFAULTS: dict[Effect, Verb] = {
    "read": "allow",
    "egress": "allow",
    "write": "ask",
    "destructive": "ask",
    "unknown": "ask",
}
LEAST_LEVEL: dict[Effect, Level] = {
    "read": "host",
    "egress": "host",
    "write": "host",
    "destructive": "person",
    "unknown": "person",
}
_WHAT_IT_DOES: dict[Effect, str] = {
    "read": "it reads",
    "egress": "it sends its arguments out",
    "write": "it changes something",
    "destructive": "it may destroy something",
    "unknown": "nobody has said what it does",
}


@dataclass(frozen=True)
class Verdict:
    """What is to become of a call, with why; `level` is the least level of a yes, should one be needed.

    `waived`: a rule lets private data leave by this call without a question.
    """

    verb: Verb
    level: Level
    reasons: tuple[str, ...]
    waived: bool = False

    def asking(self, level: Level, *reasons: str) -> "Verdict":
        """The same, asked for at no less than `level`; a denial stays one."""
        verb: Verb = "deny" if self.verb == "deny" else "ask"
        return replace(self, verb=verb, level=higher(self.level, level), reasons=(*self.reasons, *reasons))

    def noting(self, *reasons: str) -> "Verdict":
        return replace(self, reasons=(*self.reasons, *reasons))


@dataclass(frozen=True)
class Tried:
    """One condition of a rule and what stands at its pointer; `holds` is None where that cannot be told."""

    pointer: str
    matcher: Matcher
    value: Json
    holds: bool | None


@dataclass(frozen=True)
class Reading:
    """A rule that names the tool of a call, with its place among the rules and its conditions tried."""

    number: int
    rule: PolicyRule
    tried: tuple[Tried, ...]

    @property
    def fits(self) -> bool:
        # What cannot be told lets nothing through: it fits a deny or an ask, and no allow.
        return all(each.holds or (each.holds is None and self.rule.verb != "allow") for each in self.tried)


def read_rules(policy: PolicySettings, tool: str, arguments: JsonObject) -> list[Reading]:
    """The rules that name this tool, as they are read for these arguments."""
    named = [(number, rule) for number, rule in enumerate(policy.rules) if rule.names(tool)]
    return [Reading(number, rule, tuple(_tried(rule, arguments))) for number, rule in named]


def deciding(readings: Iterable[Reading]) -> list[Reading]:
    """Those of the rules that decide: the strictest that fit. None: the class decides."""
    fitting = [reading for reading in readings if reading.fits]
    strictest = next((verb for verb in STRICTEST_FIRST if any(each.rule.verb == verb for each in fitting)), None)
    return [reading for reading in fitting if reading.rule.verb == strictest]


def default_of(policy: PolicySettings, class_: Effect) -> Verb:
    """What becomes of a call of this class that no rule fits."""
    return policy.defaults.get(class_, DEFAULTS[class_])


def decide(policy: PolicySettings, tool: Tool, arguments: JsonObject) -> Verdict:
    """What the settings say about this call, before it is known where its arguments came from."""
    least = LEAST_LEVEL[tool.class_]
    if found := deciding(read_rules(policy, tool.full_name, arguments)):
        return _by_rules([reading.rule for reading in found], tool, least=least)
    verb = default_of(policy, tool.class_)
    return Verdict(verb, least, () if verb == "allow" else (f"class {tool.class_}: {_WHAT_IT_DOES[tool.class_]}",))


def idle_waivers(policy: PolicySettings, tools: Iterable[Tool]) -> list[str]:
    """A warning for each `tainted: allow` whose rule names only tools that read no open world: it waives nothing."""
    known, said = list(tools), list[str]()
    for number, rule in enumerate(policy.rules):
        classes = {tool.class_ for tool in known if rule.tainted and rule.names(tool.full_name)}
        if classes and "egress" not in classes:
            named = " or ".join(sorted(classes))
            said.append(
                f"policy.rules[{number}]: tainted: allow is for class egress, and {rule.tool} is {named}; take it out, "
                "or mend the tool's class in server_options.*.effects"
            )
    return said


def higher(one: Level, other: Level) -> Level:
    return one if LEVELS.index(one) >= LEVELS.index(other) else other


def _by_rules(rules: list[PolicyRule], tool: Tool, *, least: Level) -> Verdict:
    level = least
    for rule in rules:
        level = higher(level, rule.via or least)
    verb = rules[0].verb
    said = () if verb == "allow" else tuple(f"a rule of the settings says {verb}: {rule.tool}" for rule in rules)
    waived = tool.class_ == "egress" and any(rule.tainted == "allow" for rule in rules)
    return Verdict(verb, level, said, waived)


def _tried(rule: PolicyRule, arguments: JsonObject) -> Iterator[Tried]:
    for pointer, matcher in rule.when.items():
        value = at_pointer(arguments, pointer)
        yield Tried(pointer, matcher, value, holds(matcher, value, of="all" if rule.verb == "allow" else "any"))
