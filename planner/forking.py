"""What a fork keeps of a run: the record up to a step's end, and of other steps all that was paid for."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from executors.contract import Outcome
from executors.job import Job
from executors.step import step_key
from journal.archive.fork import Fork, Kept, NotForked
from journal.events import NewEvent
from journal.intents import Intent
from journal.run_journal import Meaning
from journal.runs import Run
from journal.steps import StepRow
from journal.values import WORST, Json, JsonObject, Value

from .chronicle import Ended, Entry, Raised, Reopened, Widened, read_entry, summary_of
from .plan import AnyStep, Plan, listed
from .planning import read_steps
from .progress import Change, Halt, Progress
from .triggers import Trigger

_LABELLED = {"order": "outcome", "attempt": "outcome", "tool": "called"}
"""By the name of a record, under what in it stands what has a labelled value; an `outcome` has one itself."""
_NAMED = 10
Memo = Mapping[str, Kept]


def fork_of(run: Run, step: str, memo: Memo, *, steps: Sequence[StepRow], intents: Sequence[Intent]) -> Fork:
    """What goes on from `step`, which is done anew with all that needs it and all that was decided after it.

    Raises NotForked where there is no such step, or it never ran.
    """
    began = {row.id for row in steps if row.started_at is not None}
    whole, _ = _replayed(run, memo, until=lambda entry: False)
    ran = [id_ for id_ in whole.every if id_ in began or id_ in whole.outcomes]
    if step not in ran:
        there = f"those that ran: {', '.join(ran)}" if ran else "none of its steps ran"
        raise NotForked(f"run {run.id} cannot go on from step {step[:80]!r}; {there}")
    anew = _needing(whole.every, step)
    kept, entries = _replayed(run, memo, until=lambda entry: _is_the_end(entry, anew))
    added = kept.pending[1].add if kept.pending is not None else ()
    stay = {id_: found for id_, found in {**kept.every, **{each.id: each for each in added}}.items() if id_ not in anew}
    again = kept.reopened + (1 if kept.halt is not None else 0)
    return Fork(
        of=run,
        step=step,
        memo=tuple(_records(memo, stay, entries=entries, asks=kept.asks, hashes=_new_hashes(stay, whole))),
        steps=frozenset(stay),
        options=run.options | {"reopened": again},
        events=_events(run, step, memo, kept),
        warning=_warning(run, step, intents),
    )


def _replayed(run: Run, memo: Memo, *, until: Callable[[Entry], bool]) -> tuple[Progress, int]:
    """How the run stood before the first entry of its order that `until` names, and how many there were."""
    if "plan" not in memo:
        raise NotForked(f"run {run.id} never had a plan; ask for its goal again")
    progress, entries = Progress(Plan(read_steps(memo["plan"].value["steps"]))), 0
    while (found := memo.get(f"order.{entries + 1}")) is not None and not until(entry := read_entry(found.value)):
        entries += 1
        _take(progress, memo, entries, entry)
    return progress, entries


def _take(progress: Progress, memo: Memo, number: int, entry: Entry) -> None:
    match entry:
        case Ended(outcome, limit):
            progress.take(outcome, limit=limit)
        case Widened(approved, drop):
            progress.release(approved=approved, drop=drop)
        case Raised():
            progress.raise_limit()
        case Reopened(generation):
            progress.reopen(generation)
        case _:
            assert_never(entry)
    looked = memo.get(f"trigger.{number}")
    then = "go_on" if looked is None else Trigger.from_json(looked.value).then
    decided = memo.get(f"revise.{progress.asks + 1}/decision") if then == "ask" else None
    if decided is not None:
        change = Change.from_json(decided.value)
        if change.decision == "widen":
            progress.hold(change)
        else:
            progress.apply(change)
    elif then in ("no_progress", "refused"):
        progress.halt = Halt(then)


def _is_the_end(entry: Entry, anew: Collection[str]) -> bool:
    """Whether nothing from this entry on is kept; what a person allowed has to be allowed again."""
    match entry:
        case Ended(outcome):
            return outcome.step in anew
        case Widened(approved):
            return approved
        case _:
            return False


def _needing(steps: Mapping[str, AnyStep], first: str) -> set[str]:
    """A step and all that need it, by whatever way."""
    found = {first}
    while more := {id_ for id_, step in steps.items() if id_ not in found and found & set(step.needs)}:
        found |= more
    return found


def _records(
    memo: Memo, stay: Mapping[str, AnyStep], *, entries: int, asks: int, hashes: Mapping[str, str]
) -> Iterator[Kept]:
    roots = {step_key(step) for step in stay.values()}
    for kept in memo.values():
        root, _, below = kept.key.partition("/")
        kind, _, number = root.partition(".")
        if kind == "step":
            # What a budget refused may have room in the new one.
            stays = root in roots and "/limits." not in kept.key
        elif kind == "plan":
            # That a person let the plan run is an approval.
            stays = below != "reviewed"
        else:
            most = {"order": entries, "trigger": entries, "revise": asks}.get(kind, -1)
            stays = int(number) <= most
        if stays:
            yield replace(kept, hash=hashes.get(kept.hash, kept.hash), value=_doubted(kept.name, kept.value))


def _doubted(name: str, value: Json) -> Json:
    """A record's value with the worst label on what it holds, and no more budget than the new run has."""
    if name == "order" and "raise" in value:
        return value | {"amount": 0.0}
    if name == "outcome":
        return _worst(value)
    under = _LABELLED.get(name)
    return value | {under: _worst(value[under])} if under is not None and under in value else value


def _worst(holder: JsonObject) -> JsonObject:
    held = holder["value"]
    # An outcome without any label has the worst.
    doubted = {name: item for name, item in holder.items() if name != "label"}
    return doubted if held is None else doubted | {"value": held | {"label": sorted(WORST)}}


def _new_hashes(stay: Mapping[str, AnyStep], whole: Progress) -> dict[str, str]:
    """By their old ones the hashes of what records of these steps mean: labels of what a step was given are in them."""
    hashes: dict[str, str] = {}
    for step in stay.values():
        ended = ((need, whole.outcomes.get(need)) for need in step.needs)
        inputs = {need: outcome.value for need, outcome in ended if outcome is not None and outcome.value is not None}
        worst = {need: Value(value.data, WORST) for need, value in inputs.items()}
        hashes[_hash(step, inputs)] = _hash(step, worst)
    return hashes


def _hash(step: AnyStep, inputs: Mapping[str, Value]) -> str:
    return Meaning("step", Job(step, inputs, "plan", WORST).meaning).hash


def _events(run: Run, step: str, memo: Memo, kept: Progress) -> tuple[NewEvent, ...]:
    """What the new run's history begins with: where it comes from, its plan, and which steps ended before."""
    created: JsonObject = {"goal": run.goal, "fork": {"run": run.id, "from": step}}
    plan = read_steps(memo["plan"].value["steps"])
    accepted = {"version": 1, "steps": listed(plan), "by": memo["plan"].value["by"]}
    ended = [_ended(outcome) for outcome in kept.outcomes.values()]
    return (NewEvent("run.created", created), NewEvent("plan.accepted", accepted), *ended)


def _ended(outcome: Outcome) -> NewEvent:
    said: JsonObject = {"status": outcome.status, "summary": summary_of(outcome), "kept": True}
    return NewEvent("step.ended", said, step=outcome.step)


def _warning(run: Run, step: str, intents: Sequence[Intent]) -> str:
    done = _named([intent for intent in intents if intent.state == "done"])
    lost = _named([intent for intent in intents if intent.state in ("begun", "unknown")])
    parts = [f"already done there: {done}" if done else "", f"may have been done there: {lost}" if lost else ""]
    told = "; ".join(filter(None, parts)) or "nothing was changed there"
    return f"this run continues {run.id} from step {step}; {told}"


def _named(intents: Sequence[Intent]) -> str:
    names = list(dict.fromkeys(f"{intent.tool[:120]} (step {intent.step})" for intent in intents))
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])
