"""What became of the runs of a soak, held against what the servers wrote down."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from soak_servers import Servers

from journal.actions import Action
from journal.intents import Intent
from journal.store import Store

EFFECTS = ("add", "stuck")
MOST_FILES = 8
"""So many more may be open in the last third than in the first: a connection over HTTP more or less."""
MOST_KIB = 8 * 1024
NEAR = 2.0
"""Seconds between a death and a call that it broke off."""


@dataclass(frozen=True)
class Sample:
    """What the process had in use at some moment."""

    files: int
    threads: int
    kib: int


@dataclass(frozen=True)
class Verdict:
    """Everything that is not as it must be, in words, and what there was to count."""

    wrong: Sequence[str]
    twice: int
    lost: int
    asked: Counter[str]
    ends: Counter[str]


@dataclass(frozen=True)
class _Write:
    """A write as the journal has it, with the question about it, if there was one."""

    intent: Intent
    asked: Action | None

    @property
    def call(self) -> tuple[str, str]:
        return self.intent.tool, str(self.intent.arguments["key"])


async def judge(store: Store, runs: Sequence[str], servers: Servers) -> Verdict:
    """Look at all runs once they have ended."""
    ends: Counter[str] = Counter()
    writes: list[_Write] = []
    wrong: list[str] = []
    for run_id in runs:
        run, actions = await store.run(run_id), await store.actions(run_id)
        ends[run.status] += 1
        questions = {one.key.removesuffix("/unknown"): one for one in actions if one.kind == "unknown"}
        writes += [_Write(intent, questions.get(intent.key)) for intent in await store.intents(run_id)]
        wrong += [
            f"{one.kind} {one.key} of {run_id} waits, or nobody acted on it" for one in actions if not one.handled
        ]
    effects = Counter((f"{name}.{call['tool']}", call["arguments"]["key"]) for name, call in servers.calls(*EFFECTS))
    wrong += [f"the effect {call} was made {times} times" for call, times in effects.items() if times > 1]
    wrong += [f"intent {one.intent.key} is left begun" for one in writes if one.intent.state == "begun"]
    wrong += [f"asked about {one.call}, which no death had broken off" for one in writes if _needlessly(one, servers)]
    lost = _lost(writes, effects)
    asked = Counter(str(one.asked.choice) for one in writes if one.asked is not None)
    return Verdict([*wrong, *lost], sum(times - 1 for times in effects.values()), len(lost), asked, ends)


def _lost(writes: Sequence[_Write], effects: Counter[tuple[str, str]]) -> list[str]:
    told = {one.call for one in writes if one.intent.state == "done" or one.asked is not None}
    done = {one.call for one in writes if one.intent.state == "done"}
    lost = [f"{call} was made, is not known to be done and nobody was asked" for call in effects.keys() - told]
    return [*lost, *(f"{call} counts as done and was never made" for call in done - effects.keys())]


def _needlessly(write: _Write, servers: Servers) -> bool:
    if write.asked is None:
        return False
    # One that was sent again keeps the time of the last sending only.
    since = write.intent.begun_at - NEAR if write.intent.sends == 1 else 0.0
    name, until = write.intent.tool.partition(".")[0], write.asked.created_at
    return not any(kill.server == name and since <= kill.at <= until for kill in servers.kills)


def grown(samples: Sequence[Sample]) -> list[str]:
    """What the process had more of in the last third of the time than in the first, beyond what may be."""
    first, last = thirds(samples)
    bounds = {"files": MOST_FILES, "threads": MOST_FILES, "kib": MOST_KIB}
    more = {name: getattr(last, name) - getattr(first, name) for name in bounds}
    return [f"{name} grew by {more[name]}" for name, most in bounds.items() if more[name] > most]


def thirds(samples: Sequence[Sample]) -> tuple[Sample, Sample]:
    """The middle of the first third and that of the last."""
    third = max(1, len(samples) // 3)
    return _middle(samples[:third]), _middle(samples[-third:])


def _middle(samples: Sequence[Sample]) -> Sample:
    files, threads, kib = zip(*((one.files, one.threads, one.kib) for one in samples), strict=True)
    return Sample(int(median(files)), int(median(threads)), int(median(kib)))
