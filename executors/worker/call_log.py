"""The calls of one attempt, in the order in which they were asked for, and what they add up to."""

import json
from collections import Counter
from dataclasses import dataclass, field

from downstream.door import Called, Refused
from executors.built_in_tools import SEARCH_TOOLS
from executors.contract import Source
from executors.wording import quoted
from journal.values import JsonObject, Label

REPEATS = 3
"""The same call with the same result so often in one attempt stops its loop."""


def server_of(tool: str) -> str:
    """The server in the full name of a tool."""
    return tool.partition(".")[0]


@dataclass
class CallLog:
    """Grows with the attempt. `read` is the label of everything that its model has read."""

    read: Label
    made: int = 0
    """How many calls went to the gate or a built-in tool."""
    denied: int = 0
    """How many were not made because the worker's limit was reached."""
    ends: list[Called] = field(default_factory=list[Called])
    refusals: list[Refused] = field(default_factory=list[Refused])
    outside: dict[str, None] = field(default_factory=dict[str, None])
    """The tools that were asked for and that the step does not list, each once."""
    is_again: bool = False
    """Whether the last call was made before, with the same result."""
    _seen: Counter[str] = field(default_factory=Counter[str])

    def note(self, tool: str, arguments: JsonObject, end: Called | Refused) -> None:
        """A call that ended, with the name and the arguments that the model wrote."""
        if isinstance(end, Called):
            self.ends.append(end)
            self.read |= end.value.label
        else:
            self.refusals.append(end)
        said = [end.ok, end.text] if isinstance(end, Called) else [end.reason]
        key = json.dumps([tool, arguments, *said], sort_keys=True)
        self._seen[key] += 1
        self.is_again = self._seen[key] > 1

    @property
    def repeats(self) -> bool:
        return any(count >= REPEATS for count in self._seen.values())

    @property
    def sessions(self) -> dict[str, str]:
        """By server, what names the session in which it was last called."""
        return {server_of(end.tool): end.session for end in self.ends if end.session is not None}

    @property
    def links(self) -> dict[str, list[str]]:
        """By address, the servers whose results named it as something to be read."""
        found: dict[str, list[str]] = {}
        for end in self.ends:
            for uri in end.links:
                if (server := server_of(end.tool)) not in found.setdefault(uri, []):
                    found[uri].append(server)
        return found

    @property
    def citable(self) -> dict[str, Called]:
        """By id, the calls that a finding may rest on: ended ok and not empty."""
        good = (end for end in self.ends if end.ok and not end.empty and end.tool != SEARCH_TOOLS.name)
        return {end.call: end for end in good}

    @property
    def failed(self) -> tuple[str, ...]:
        """The calls that failed, and those that were not made because the step does not list their tool."""
        failed = [f"{end.tool} {end.call}" for end in self.ends if not end.ok]
        return (*failed, *(f"{tool} (not listed, not called)" for tool in self.outside))

    @property
    def errors(self) -> tuple[str, ...]:
        """What the calls that failed said."""
        return tuple(end.text for end in self.ends if not end.ok)

    @property
    def effects(self) -> tuple[str, ...]:
        """The calls that changed something or may have."""
        return tuple(f"{end.tool} {end.call}" for end in self.ends if end.effect or end.changed)

    @property
    def lasting(self) -> bool:
        """Whether one of them may not be made again: then neither may the attempt."""
        return any(end.effect for end in self.ends)

    @property
    def lapsed(self) -> bool:
        """Whether a call was not made because nobody decided about it in time."""
        return any(end.lapsed for end in self.ends)

    @property
    def refused(self) -> Refused | None:
        """The first refusal that was no mistake of the worker's; it makes the step refused."""
        return next((refusal for refusal in self.refusals if not refusal.correctable), None)

    def sources(self, step: str, cited: list[str]) -> tuple[Source, ...]:
        """The calls that findings cite, else all that gave something."""
        citable = self.citable
        wanted = dict.fromkeys(cited) or citable
        return tuple(Source(step, citable[call].tool, call) for call in wanted if call in citable)

    @property
    def in_words(self) -> str:
        return f"{len(self.citable)} of {self.made} calls gave a result"

    @property
    def last_failure(self) -> str | None:
        last = next((end for end in reversed(self.ends) if not end.ok), None)
        return None if last is None else f"the last call that failed was {last.tool}: {quoted(last.text, 120)}"
