"""Whether a run's record is as it was written: seals, the audit's word on them, files, and rows that tell of others."""

from collections.abc import Iterator

from journal.artifacts import ArtifactLost
from journal.audit import GENESIS, chained, is_keyed
from journal.canonical import digest
from journal.database import Row, Transaction
from journal.errors import SteprelayError
from journal.seals import seal_of, sealed
from journal.store import Store
from journal.values import Json, JsonObject

from .record import Record, Unreadable, data_of

UNSEALED = "recorded by an earlier release, without seals: a changed row shows only where it makes a difference"
_AUDITED = ("seq", "owner", "at", "run", "type", "data")
_UNLIKE = (KeyError, TypeError, AttributeError)
"""What reading a row raises that is not what we write."""
_DECIDED = ("kind", "choice", "via")


async def check_record(store: Store, record: Record) -> tuple[list[str], list[str]]:
    """What was changed since it was written, each named by its key, and what cannot be told."""
    problems, notes = list(_check_seals(record)), list[str]()
    rows = record.tables["memo"]
    if any(row["seal"] is None for row in rows):
        notes.append(UNSEALED)
    if record.redacted:
        notes.append("redacted: its seals were made when it was exported")
    elif record.came is not None:
        notes.append("imported: its audit lines are those of another store, where alone they can be checked in full")
    for check in (_check_actions, _check_events, _check_calls, _check_intents, _check_end):
        try:
            problems.extend(check(record))
        except SteprelayError as error:
            problems.append(str(error))
        except _UNLIKE:
            problems.append(str(Unreadable("a row of its history")))
    problems += await _check_files(store, record)
    if record.came is None:
        problems += await store.database.read(lambda tx: [*_check_audit(tx, record), *_check_keyed(tx, record)])
    return problems, notes


def _check_seals(record: Record) -> Iterator[str]:
    for row in record.tables["memo"]:
        if row["seal"] is None:
            continue
        if row["seal"] != seal_of(row["run"], row["key"], row["name"], row["hash"], row["value"]):
            yield f"{row['key']}: its seal does not fit; the row was changed after it was written"


def _check_audit(tx: Transaction, record: Record) -> Iterator[str]:
    """The run's lines of the chain and their neighbours; and that the seals are those that its end tells of."""
    lines = record.tables["audit"]
    for line in lines:
        seq = line["seq"]
        around = tx.rows("SELECT * FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq", (seq - 1, seq + 1))
        prevs, those = [row["hash"] for row in around], around[1:]
        if seq == 1:
            prevs, those = [GENESIS, *prevs], around
        if not all(map(_follows, prevs, those)):
            yield f"audit line {line['seq']} ({line['type']}): the chain does not hold there"
    ends = [line for line in lines if line["type"] == "run.ended"]
    if record.run.ended_at is None:
        return
    if not ends:
        yield "audit: no line tells of the run's end"
        return
    said: JsonObject = data_of(ends[-1], "data")
    if "sealed" in said and said["sealed"] != (now := sealed(tx, record.run.id)):
        counts = said["sealed"]["rows"], now["rows"]
        how = f"{counts[0]} rows were recorded, {counts[1]} are there" if counts[0] != counts[1] else "one was replaced"
        yield f"memo and artifacts: the audit's digest over them at the run's end does not fit; {how}"


def _follows(prev: str, line: Row) -> bool:
    return bool(line["prev"] == prev and line["hash"] == chained(prev, [line[name] for name in _AUDITED]))


def _check_actions(record: Record) -> Iterator[str]:
    told = {line["action_id"]: line for line in _said_in(record, "action.decided")}
    for row in record.tables["actions"]:
        binding: Json = data_of(row, "binding")
        if not record.redacted and digest(binding) != row["hash"]:
            yield f"action {row['id']}: its hash does not cover what it asks"
        if "arguments" in binding and binding["arguments"] != data_of(row, "arguments"):
            yield f"action {row['id']}: it shows other arguments than it binds"
        line = told.get(row["id"])
        if line is None and row["choice"] is not None:
            yield f"action {row['id']}: no audit line tells of its decision"
        if line is not None and (*(line[name] for name in _DECIDED), line["level"]) != (
            *(row[name] for name in _DECIDED),
            row["decided_level"],
        ):
            yield f"action {row['id']}: the audit tells of another decision"


def _check_keyed(tx: Transaction, record: Record) -> Iterator[str]:
    """Intents and actions against the audit's keyed hashes, as far as they were made with the key that is there."""
    begun = {line["call"]: line for line in _said_in(record, "intent.begun")}
    for row in record.tables["intents"]:
        line = begun.get(row["call"], {})
        hashes = (("key", "key_hmac"), ("arguments_hash", "arguments_hmac"))
        if any(name in line and not is_keyed(tx, row[column], line[name]) for column, name in hashes):
            yield f"intent {row['key']}: the audit tells of other arguments, or of another place in the plan"
    decided = {line["action_id"]: line.get("action_hmac") for line in _said_in(record, "action.decided")}
    for row in record.tables["actions"]:
        told = decided.get(row["id"])
        if told is not None and not is_keyed(tx, row["hash"], told):
            yield f"action {row['id']}: the audit tells of a decision about something else"


def _check_events(record: Record) -> Iterator[str]:
    """That no line is missing, and that what lines tell of rows is so."""
    events = record.tables["events"]
    if [row["seq"] for row in events] != list(range(1, record.run.last_seq + 1)):
        yield f"events: lines are missing or too many; {record.run.last_seq} were written"
    actions = {row["id"]: row for row in record.tables["actions"]}
    warned = [data_of(row, "data").get("text") for row in events if row["type"] == "warning"]
    for text in record.run.warnings:
        if text not in warned:
            yield f"warnings: no event tells of {text[:80]!r}"
    for row in events:
        data: JsonObject = data_of(row, "data")
        if row["type"] in ("action.waiting", "action.decided"):
            action = actions.get(data.get("action_id", ""))
            names = ("kind", "level", "tool", "question") if row["type"] == "action.waiting" else _DECIDED
            if action is None or any(data.get(name) != action[name] for name in names if name != "question"):
                yield f"event {row['seq']} ({row['type']}): the action that it tells of says otherwise"
        if row["type"] == "run.created" and data.get("goal") != record.run.goal and "[secret:" not in str(data):
            yield f"event {row['seq']} (run.created): it tells of another goal"


def _check_calls(record: Record) -> Iterator[str]:
    """Events of calls and model calls, against the rows that they tell of."""
    memo = record.memo()
    called = {row["call"]: row for row in map(_called, memo.values()) if row is not None}
    for row in record.tables["events"]:
        data: JsonObject = data_of(row, "data")
        wrong = False
        if row["type"] == "call.started":
            wrong = row["call"] in called and called[row["call"]]["tool"] != data.get("tool")
        elif row["type"] == "call.ended":
            end = called.get(row["call"])
            wrong = end is None or any(end[name] != data.get(name) for name in ("tool", "ok", "empty"))
        elif row["type"] == "model.called" and "error" not in data and not data.get("retries"):
            reply = _reply(memo.get(data.get("key", "")))
            wrong = reply is not None and (
                reply["finish"] != data.get("finish") or reply["spent"]["output_tokens"] != data.get("output_tokens")
            )
        if wrong:
            yield f"event {row['seq']} ({row['type']}): the record of that call says otherwise"


def _called(row: JsonObject) -> JsonObject | None:
    return _inside(row, "called") if row["name"] == "tool" else None


def _reply(row: JsonObject | None) -> JsonObject | None:
    return None if row is None else _inside(row, "reply")


def _inside(row: JsonObject, name: str) -> JsonObject | None:
    try:
        found: JsonObject | None = data_of(row, "value").get(name)
    except AttributeError:
        raise Unreadable(row["key"]) from None
    return found


def _check_intents(record: Record) -> Iterator[str]:
    begun = {line["call"]: line for line in _said_in(record, "intent.begun")}
    for row in record.tables["intents"]:
        if row["epoch"] == 0:
            # Of the run that this one was forked from, whose audit tells of it.
            continue
        line = begun.get(row["call"])
        names = ("step", "tool", "class", "action")
        if line is None or any(line[name] != row[name] for name in names):
            yield f"intent {row['key']}: the audit tells of another call"
        elif not record.redacted and not _is_hash(data_of(row, "arguments"), row["arguments_hash"], row["run"]):
            yield f"intent {row['key']}: its arguments are not those that were sent"


def _is_hash(arguments: JsonObject, hash_: str, run_id: str) -> bool:
    """Whether this is the hash of the arguments, our own idempotency key left out."""
    own = [name for name, value in arguments.items() if str(value).startswith(f"{run_id}:")]
    plain = {name: value for name, value in arguments.items() if name not in own}
    return hash_ in (digest(arguments), digest(plain))


def _check_end(record: Record) -> Iterator[str]:
    ends = _said_in(record, "run.ended")
    if record.ended_at is None or not ends:
        return
    for name in ("status", "stop_reason", "message"):
        if ends[-1][name] != record.row[name] and "[secret:" not in str(ends[-1][name]):
            yield f"{name}: it is {str(record.row[name])[:80]!r}, and the audit says {str(ends[-1][name])[:80]!r}"


def _said_in(record: Record, type_: str) -> list[JsonObject]:
    """What the run's audit lines of a type say, in order."""
    if record.came is not None:
        return [line["data"] for line in record.came["audit"] if line["type"] == type_]
    return [data_of(line, "data") for line in record.tables["audit"] if line["type"] == type_]


async def _check_files(store: Store, record: Record) -> list[str]:
    problems: list[str] = []
    for artifact in await store.artifacts.of_run(record.run.id):
        try:
            await store.artifacts.content(artifact)
        except ArtifactLost as error:
            problems.append(str(error).partition(";")[0])
    return problems
