"""What a replay made, held against what is recorded: rows, steps, history, and how the run ended."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from downstream.json_shape import is_array, is_object
from journal.archive.record import Record, Rows, Unreadable, data_of
from journal.archive.rehearsal import Rehearsal, is_made_anew
from journal.canonical import NotCanonical, canonical
from journal.database import Transaction
from journal.values import Json, JsonObject

Sameness: TypeAlias = Callable[[Json], Json]
"""What of a text or number counts when it is compared: all of it, or of a redacted record its mask."""

_TOLD_AGAIN = frozenset({"plan.accepted", "plan.rejected", "step.ended", "revision.made", "run.ended"})
"""Events that follow from what is decided anew; others tell of calls, and of time."""
_OF_STEP = re.compile(r"^step\.([a-z0-9_]+)@")
_STEP_COLUMNS = ("position", "version", "kind", "title", "worker", "optional", "dropped", "status", "summary")
_SHORT = 120


@dataclass
class Findings:
    """What a replay has to tell: where it differs, and what had to be taken from the record.

    `whole`: it came to the run's end. `taken` are steps whose end was taken from the record, `kept` those that the run
    was given when it was forked.
    """

    differences: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    steps: int = 0
    whole: bool = True
    taken: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])

    def differs(self, text: str) -> None:
        if text not in self.differences:
            self.differences.append(text)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


async def compare(rehearsal: Rehearsal, found: Findings, same: Sameness, *, unended: Collection[str]) -> None:
    """Enter every difference. For `unended` steps the record may have less, or more, than the replay."""
    record, run_id = rehearsal.record, rehearsal.record.run.id

    def read(tx: Transaction) -> Mapping[str, list[JsonObject]]:
        return {
            table: [dict(row) for row in tx.rows(f"SELECT * FROM {table} WHERE {column} = ?", (run_id,))]
            for table, column in (("memo", "run"), ("steps", "run"), ("events", "run"), ("runs", "id"))
        }

    made = await rehearsal.store.database.read(read)
    try:
        _compare_memo(record, made["memo"], found, same, unended={*unended, *found.taken, *found.kept})
        if found.whole:
            _compare_steps(record, made["steps"], found, same)
            _compare_events(record, made["events"], found, same)
            _compare_end(record, made["runs"][0], found, same)
    except Unreadable as error:
        found.differs(str(error))


def first_difference(recorded: Json, made: Json, same: Sameness, place: str = "") -> str | None:
    """Where two pieces of data first differ, in words; None if they do not."""
    if is_object(recorded) and is_object(made):
        for key in sorted(recorded.keys() | made.keys()):
            if key not in recorded or key not in made:
                return f"{place}{key} is {'new' if key not in recorded else 'gone'}"
            if (told := first_difference(recorded[key], made[key], same, f"{place}{key}.")) is not None:
                return told
        return None
    if is_array(recorded) and is_array(made) and len(recorded) == len(made):
        each = enumerate(zip(recorded, made, strict=True))
        return next((told for n, (a, b) in each if (told := first_difference(a, b, same, f"{place}{n}."))), None)
    if same(recorded) == same(made) and isinstance(recorded, bool) == isinstance(made, bool):
        return None
    return f"{place.rstrip('.') or 'it'} was {_short(recorded)}, and is {_short(made)}"


def _short(data: Json) -> str:
    text = repr(data)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _compare_memo(
    record: Record, made: list[JsonObject], found: Findings, same: Sameness, *, unended: Collection[str]
) -> None:
    recorded = {key: row for key, row in record.memo().items() if is_made_anew(record, row)}
    again = {str(row["key"]): row for row in made if row["key"] in recorded or row["key"] not in record.memo()}
    for key, row in recorded.items():
        if key in again:
            if (told := _row_difference(record, row, again[key], same)) is not None:
                found.differs(f"{key}: {told}")
        elif found.whole and "/limits." not in key and _step_of(key) not in unended:
            found.differs(f"{key}: it is recorded, and the replay did not come to it")
    for key in again.keys() - recorded.keys():
        if found.whole and _step_of(key) not in unended and not _is_beyond(record, key):
            found.differs(f"{key}: the replay made it, and the record lacks it")


def _row_difference(record: Record, row: JsonObject, again: JsonObject, same: Sameness) -> str | None:
    told = first_difference(data_of(row, "value"), data_of(again, "value"), same)
    if told is None and not record.redacted and row["hash"] != again["hash"]:
        return "it was recorded of something else"
    return told


def _is_beyond(record: Record, key: str) -> bool:
    """Whether this follows only after where a run was cut short."""
    return record.run.stop_reason in ("cancelled", "deadline") and key.startswith(("plan.", "trigger.", "revise."))


def _step_of(key: str) -> str | None:
    found = _OF_STEP.match(key)
    return None if found is None else found[1]


def _compare_steps(record: Record, made: list[JsonObject], found: Findings, same: Sameness) -> None:
    recorded = {row["id"]: row for row in record.tables["steps"]}
    again = {row["id"]: row for row in made}
    for id_ in recorded.keys() ^ again.keys():
        found.differs(f"step {id_}: {'only the record' if id_ in recorded else 'only the replay'} has it")
    for id_ in recorded.keys() & again.keys():
        was, now = _shown(recorded[id_]), _shown(again[id_])
        if (told := first_difference(was, now, same)) is not None:
            found.differs(f"step {id_}, as it is shown: {told}")


def _shown(row: JsonObject) -> JsonObject:
    return {name: row[name] for name in _STEP_COLUMNS} | {"definition": data_of(row, "definition")}


def _compare_events(record: Record, made: list[JsonObject], found: Findings, same: Sameness) -> None:
    types = _TOLD_AGAIN - {"plan.rejected"} if record.redacted else _TOLD_AGAIN
    recorded, again = (_lines(rows, types, same) for rows in (record.tables["events"], made))
    is_last = not record.run.options.get("reopened") and not found.kept
    for line in again - recorded:
        if line[1] in found.kept:
            continue
        found.differs(f"events: none says {line[0]} {line[1] or ''} as the replay does: {_short(line[2])}")
    for line in recorded - again:
        # A run that was opened again, or forked, tells of what was before too.
        if is_last:
            found.differs(f"events: {line[0]} {line[1] or ''} says what the replay does not: {_short(line[2])}")


def _lines(rows: Rows, types: Collection[str], same: Sameness) -> Counter[tuple[str, str | None, str]]:
    told = [row for row in rows if row["type"] in types]
    return Counter((row["type"], row["step"], _text(every(data_of(row, "data"), same))) for row in told)


def every(data: Json, same: Sameness) -> Json:
    """The data with each text and number replaced by what of it counts."""
    if is_object(data):
        return {key: every(item, same) for key, item in data.items()}
    if is_array(data):
        return [every(item, same) for item in data]
    return same(data)


def _text(data: Json) -> str:
    try:
        return canonical(data).decode()
    except NotCanonical:
        return repr(data)


def _compare_end(record: Record, made: JsonObject, found: Findings, same: Sameness) -> None:
    for name in ("status", "stop_reason", "message", "answer"):
        if (told := first_difference(record.row[name], made[name], same)) is not None:
            found.differs(f"{name}: {told.removeprefix('it ')}")
    if (told := first_difference(data_of(record.row, "result"), data_of(made, "result"), same)) is not None:
        found.differs(f"result: {told}")
    recorded, again = (Counter(map(_text, map(same, data_of(row, "warnings")))) for row in (record.row, made))
    for text in again - recorded:
        found.differs(f"warnings: the record has none that says {text[:_SHORT]}")
    for text in recorded - again:
        found.note(f"warnings: of the moment, taken from the record: {text[:_SHORT]}")
