"""The policy: which rule decides on a call. Deny beats ask beats allow, whatever the order; else the class decides."""

from dataclasses import dataclass, replace

from downstream.policy_settings import Effect, PolicyRule, PolicySettings, Verb
from downstream.tool_names import matches
from downstream.tools import Tool
from journal.actions import LEVELS, Level
from journal.values import JsonObject

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
_STRICTEST_FIRST: tuple[Verb, ...] = ("deny", "ask", "allow")
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


def decide(policy: PolicySettings, tool: Tool, arguments: JsonObject) -> Verdict:
    """What the settings say about this call, before it is known where its arguments came from."""
    fitting = [rule for rule in policy.rules if matches(rule.tool, tool.full_name) and _fits(rule, arguments)]
    least = LEAST_LEVEL[tool.class_]
    for verb in _STRICTEST_FIRST:
        if rules := [rule for rule in fitting if rule.verb == verb]:
            return _by_rules(rules, tool, least=least)
    verb = policy.defaults.get(tool.class_, DEFAULTS[tool.class_])
    return Verdict(verb, least, () if verb == "allow" else (f"class {tool.class_}: {_WHAT_IT_DOES[tool.class_]}",))


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


def _fits(rule: PolicyRule, arguments: JsonObject) -> bool:
    found = [(matcher, at_pointer(arguments, pointer)) for pointer, matcher in rule.when.items()]
    # What cannot be told lets nothing through: it fits a deny or an ask, and no allow.
    if rule.verb == "allow":
        return all(holds(matcher, value, of="all") for matcher, value in found)
    return all(holds(matcher, value, of="any") is not False for matcher, value in found)
