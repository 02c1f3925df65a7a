"""What became of runs whose processes were killed, and whether that is as it must be."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit_chain import broken_line
from chaos_jobs import EFFECTS, SHAPES, tag
from journals import rows
from quick_jobs import made

from journal.actions import Action
from journal.events import Event
from journal.intents import Intent
from journal.store import Store

Call = tuple[str, str]


@dataclass(frozen=True)
class Ending:
    """How a run ended, with JOB in place of its tag: status and reason, its answer, its steps, its finished calls."""

    status: tuple[str, str | None]
    answer: str | None
    steps: Mapping[str, str]
    calls: Counter[str]


@dataclass(frozen=True)
class Verdict:
    """Everything that is not as it must be, in words; and by number how the runs ended of which nobody asked what
    became of a call."""

    wrong: Sequence[str]
    twice: int
    lost: int
    asked: Counter[str]
    endings: Mapping[int, Ending]

    def unlike(self, undisturbed: "Verdict") -> list[str]:
        """The runs that did not end as the one of their shape that nobody disturbed."""
        pairs = [(number, ending, undisturbed.endings[number % len(SHAPES)]) for number, ending in self.endings.items()]
        return [f"run {number} ended as {had} and not as {due}" for number, had, due in pairs if had != due]


@dataclass(frozen=True)
class _Past:
    """One run with all that was written about it."""

    run: str
    number: int
    ending: Ending
    events: Sequence[Event]
    intents: Sequence[Intent]
    actions: Sequence[Action]

    @property
    def unknown(self) -> set[str]:
        """The keys of the calls of which a person was asked what became of them."""
        return {one.key.removesuffix("/unknown") for one in self.actions if one.kind == "unknown"}


async def judge(
    store: Store, folder: Path, runs: Sequence[str], *, open_at_death: Collection[tuple[str, str]]
) -> Verdict:
    """Look at all runs of a store, in the order in which they were made, once they have ended."""
    pasts = [await _past(store, number, run_id) for number, run_id in enumerate(runs)]
    effects = Counter(call for call in made(folder) if call[0] in EFFECTS)
    wrong = await _store_is_sound(store)
    wrong += [f"the effect {call} was made {times} times" for call, times in effects.items() if times > 1]
    lost = [f"{call} was made and no call of it is known to be done" for call in effects.keys() - _told(pasts)]
    for past in pasts:
        wrong += [f"run {past.number}: {text}" for text in _history_is_whole(past)]
        wrong += [
            f"run {past.number}: a person was asked about {key}, which no death had left open"
            for key in past.unknown
            if (past.run, key) not in open_at_death
        ]
        lost += [f"run {past.number}: {text}" for text in _not_made(past, effects)]
    endings = {past.number: past.ending for past in pasts if not past.unknown}
    asked = Counter(str(action.choice) for past in pasts for action in past.actions if action.kind == "unknown")
    twice = sum(times - 1 for times in effects.values())
    return Verdict([*wrong, *lost], twice, len(lost), asked, endings)


def _told(pasts: Sequence[_Past]) -> set[Call]:
    """The effects of which the journal knows that they were made, or that nobody knew and a person was asked."""
    return {_call(one) for past in pasts for one in past.intents if one.state == "done" or one.key in past.unknown}


def _not_made(past: _Past, effects: Counter[Call]) -> list[str]:
    done = [_call(intent) for intent in past.intents if intent.state == "done"]
    return [f"{call} counts as done and was never made" for call in done if call not in effects]


def _call(intent: Intent) -> Call:
    return intent.tool.removeprefix("quick."), str(intent.arguments["key"])


def _history_is_whole(past: _Past) -> list[str]:
    wrong = [f"intent {one.key} is left begun" for one in past.intents if one.state == "begun"]
    wrong += [f"action {one.key} waits, or nobody acted on it" for one in past.actions if not one.handled]
    if [event.seq for event in past.events] != list(range(1, len(past.events) + 1)):
        wrong.append("its events have a gap")
    types = Counter(event.type for event in past.events)
    if (types["run.created"], types["run.ended"]) != (1, 1):
        wrong.append("it began or ended more than once")
    return wrong


async def _store_is_sound(store: Store) -> list[str]:
    wrong: list[str] = []
    if broken := await broken_line(store):
        wrong.append(f"the audit's chain breaks at {broken}")
    if reserved := await rows(store, "SELECT run, key FROM ledger WHERE state = 'reserved'"):
        wrong.append(f"reservations are left: {reserved}")
    if (sound := await rows(store, "PRAGMA integrity_check")) != [("ok",)]:
        wrong.append(f"the store is damaged: {sound}")
    return wrong


async def _past(store: Store, number: int, run_id: str) -> _Past:
    run, events = await store.run(run_id), await store.events(run_id)
    begun = {event.call: event.data for event in events if event.type == "call.started"}
    ends = [begun[event.call] for event in events if event.type == "call.ended"]
    calls = Counter(_plain(number, json.dumps([data["tool"], data["arguments"]])) for data in ends)
    steps = {_plain(number, row.id): row.status for row in await store.steps(run_id)}
    ending = Ending((run.status, run.stop_reason), run.answer, steps, calls)
    return _Past(run_id, number, ending, events, await store.intents(run_id), await store.actions(run_id))


def _plain(number: int, text: str) -> str:
    return text.replace(tag(number), "JOB")
