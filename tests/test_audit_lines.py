"""The audit's lines: what each says, that none is changed, and that nothing is sent without one."""

import hashlib
import json
import logging
import sqlite3
from functools import cache, partial
from pathlib import Path

import pytest
from audit_chain import broken_at
from gate_case import Runs, Server, call, open_runs, text_result, tool, worker_call
from hypothesis import given, settings
from hypothesis import strategies as st
from journals import change, create, open_own_store, rows, take
from mcp.types import CallToolResult

from downstream.door import Called, Waiting
from downstream.gate.sending import Outgoing
from downstream.policy_settings import PolicySettings
from journal.actions import NewAction
from journal.audit import AuditLine, append_audit, keyed
from journal.canonical import digest
from journal.checkpoints import Checkpoints
from journal.database import Transaction
from journal.errors import StoreError
from journal.migration import migrate
from journal.outlet import Outlet
from journal.run_journal import Ending
from journal.store import Store
from journal.values import JsonObject

SEND = tool("mail.send", "write", ["to", "pin"])
DROP = tool("mail.drop", "write", ["to"])
FETCH = tool("web.fetch", "egress", ["url"])
ASKS: JsonObject = {"rules": [{"ask": "mail.send", "via": "person"}, {"allow": "mail.drop"}]}
WHY = ["a rule of the settings says ask: mail.send"]
ARGUMENTS: JsonObject = {"to": "ana@example.org", "pin": "1234"}
KEY = "step.a@1/attempt.1/call.0"


async def audit(store: Store, type_: str = "%") -> list[JsonObject]:
    """What the lines of a type, or all, say."""
    found = await rows(store, "SELECT type, data FROM audit WHERE type LIKE ? ORDER BY seq", type_)
    return [{"type": type_, **json.loads(data)} for type_, data in found]


async def put(store: Store, line: AuditLine) -> None:
    await store.database.write("x", partial(append_audit, line=line, owner="me", at=1.0, outlet=Outlet()))


async def send_after_a_yes(runs: Runs, there: Server, arguments: JsonObject = ARGUMENTS) -> str:
    """Have a person approve a call that the plan makes; returns the action's id."""
    door = there.door(SEND, policy=ASKS)
    waiting = await door(await runs.drive(), call("mail.send", arguments))
    assert isinstance(waiting, Waiting)
    runs.clock.at += 90.5
    await runs.decide(waiting.action, "approve", note="go on")
    assert isinstance(await door(await runs.drive(), call("mail.send", arguments)), Called)
    return waiting.action


async def test_the_lines_tell_what_was_asked_who_decided_how_and_how_late_and_what_became_of_it(tmp_path: Path) -> None:
    def slowly(out: Outgoing) -> CallToolResult:
        runs.clock.at += 1.5
        return text_result("sent")

    async with open_runs(tmp_path) as runs:
        action = await send_after_a_yes(runs, Server(answer=slowly))
        [(value,)] = await rows(runs.store, "SELECT value FROM memo WHERE name = 'tool'")
        [(action_hash, call_id)] = await rows(runs.store, "SELECT hash, call FROM actions, intents")
        result = hashlib.sha256(value.encode()).hexdigest()
        texts = (action_hash, KEY, digest(ARGUMENTS), result)
        of_action, of_key, of_arguments, of_result = await runs.store.database.read(
            lambda tx: [keyed(tx, text) for text in texts]
        )
        asked, decided, begun, done = await audit(runs.store)
    said = {"action_id": action, "kind": "call", "action_hmac": of_action}
    needs = {"level": "person", "tool": "mail.send", "effect": "write", "step": "a", "reasons": WHY, "edit_of": None}
    assert asked == {"type": "action.asked"} | said | needs
    how = {"choice": "approve", "level": "person", "via": "terminal", "client": None, "note": "go on"}
    assert decided == {"type": "action.decided"} | said | how | {"seconds": 90.5, "edited": False}
    what = {"call": call_id, "tool": "mail.send"}
    hashes = {"key_hmac": of_key, "arguments_hmac": of_arguments, "action_hmac": of_action}
    policy = digest(PolicySettings.model_validate(ASKS, strict=False).model_dump(mode="json"))
    why = {"pin": SEND.pin, "labels": ["plan"], "policy": policy, "rules": ["0: ask mail.send"], "verdict": "ask"}
    by = {"action": action, "grant": None, "level": "person", "via": "terminal", "reasons": WHY}
    assert begun == {"type": "intent.begun", "step": "a", "class": "write"} | what | hashes | why | by
    assert done == {"type": "intent.done", "ms": 1500, "result_hmac": of_result} | what


async def test_a_call_that_a_rule_allows_is_told_with_that_rule_and_where_its_arguments_came_from(
    tmp_path: Path,
) -> None:
    to: JsonObject = {"to": "ana@example.org"}
    door = Server().door(DROP, policy=ASKS)
    async with open_runs(tmp_path, goal="drop ana@example.org") as runs:
        made = await door(await runs.drive(), worker_call("mail.drop", to, label=frozenset({"open:web"})))
        assert isinstance(made, Called)
        [begun] = await audit(runs.store, "intent.begun")
    assert (begun["rules"], begun["verdict"], begun["reasons"]) == (["1: allow mail.drop"], "allow", [])
    assert begun["labels"] == ["model", "open:web"]
    assert (begun["action"], begun["action_hmac"]) == (None, None)
    assert "level" not in begun


async def test_a_yes_without_an_intent_and_a_question_that_nobody_answered_are_told_too(tmp_path: Path) -> None:
    door = Server().door(FETCH, policy={"rules": [{"ask": "web.fetch"}]})
    async with open_runs(tmp_path) as runs:
        for key, choice in (("k.1", "approve"), ("k.2", "deny"), ("k.3", None)):
            fetch = call("web.fetch", {"url": f"https://example.org/{key}"}, key=key)
            waiting = await door(await runs.drive(), fetch)
            assert isinstance(waiting, Waiting)
            if choice is not None:
                await runs.decide(waiting.action, choice)
            else:
                runs.clock.at += 25 * 3600
            for _ in range(2):
                await door(await runs.drive(), fetch)
        used, expired = await audit(runs.store, "action.used"), await audit(runs.store, "action.expired")
    assert [(line["kind"], line["choice"]) for line in used] == [("call", "approve")]
    assert [line["kind"] for line in expired] == ["call"]


async def test_nothing_is_sent_and_no_approval_used_up_where_the_audit_cannot_be_written(tmp_path: Path) -> None:
    there = Server()
    door = there.door(SEND, policy=ASKS)
    async with open_runs(tmp_path) as runs:
        waiting = await door(await runs.drive(), call("mail.send", ARGUMENTS))
        assert isinstance(waiting, Waiting)
        await runs.decide(waiting.action, "approve")
        full = "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room for the audit'); END"
        await change(runs.store, full)
        with pytest.raises(StoreError, match="no room for the audit"):
            await door(await runs.drive(), call("mail.send", ARGUMENTS))
        assert there.sent == []
        assert (await runs.store.action(waiting.action)).state == "decided"
        assert await rows(runs.store, "SELECT COUNT(*) FROM intents") == [(0,)]
        await change(runs.store, "DROP TRIGGER full")
        assert isinstance(await door(await runs.drive(), call("mail.send", ARGUMENTS)), Called)
    assert there.sent == [("mail.send", ARGUMENTS)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE audit SET data = '{}' WHERE seq = 1",
        "UPDATE audit SET at = at",
        "DELETE FROM audit WHERE seq = 2",
        "INSERT OR REPLACE INTO audit SELECT 1, owner, at, run, type, data, prev, hash FROM audit WHERE seq = 2",
        "INSERT INTO audit SELECT 9, owner, at, run, type, data, prev, hash FROM audit WHERE seq = 2",
        "INSERT INTO audit SELECT NULL, owner, at, run, type, data, prev, hash FROM audit WHERE seq = 2",
    ],
    ids=["changed", "touched", "removed", "replaced", "after a gap", "without a number"],
)
async def test_the_store_itself_lets_lines_only_be_added_at_the_end(tmp_path: Path, sql: str) -> None:
    async with open_own_store(tmp_path) as store:
        journal = await take(store, await create(store))
        await journal.ask(NewAction("k", "call", "host", "Send?", {}, {}, "subject"))
        await journal.finish(Ending("failed", "error", "", "", {}))
        before = await rows(store, "SELECT * FROM audit")
        assert len(before) == 2
        with pytest.raises(StoreError, match=r"lines of the audit are (never changed|never removed|only added)"):
            await change(store, sql)
        assert await rows(store, "SELECT * FROM audit") == before


async def test_keyed_hashes_are_equal_for_equal_arguments_in_one_store_and_in_no_other(tmp_path: Path) -> None:
    found: list[str] = []
    for folder, pin in (("one", "1234"), ("one", "1234"), ("one", "1235"), ("two", "1234")):
        async with open_runs(tmp_path / folder) as runs:
            line = AuditLine("test", {}, keyed={"arguments_hmac": digest({"pin": pin})})
            await put(runs.store, line)
            found.append((await audit(runs.store, "test"))[-1]["arguments_hmac"])
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert (tmp_path / "one" / "audit.key").stat().st_mode & 0o777 == 0o600


async def test_no_line_holds_a_hash_on_which_short_arguments_could_be_tried_out(tmp_path: Path) -> None:
    async with open_runs(tmp_path) as runs:
        await send_after_a_yes(runs, Server())
        tables = await rows(runs.store, "SELECT hash, arguments_hash, intents.key FROM actions, intents")
        memo = await rows(runs.store, "SELECT hash, seal, key FROM memo")
        whole = json.dumps(await audit(runs.store))
    plain = {text for row in (*tables, *memo) for text in row}
    assert [text for text in plain if text in whole or digest(text) in whole] == []


async def test_without_a_place_for_its_key_no_store_is_opened(tmp_path: Path) -> None:
    (tmp_path / "audit.key").mkdir()
    with pytest.raises(StoreError, match=r"audit\.key cannot be kept .* nothing is done without an audit"):
        async with open_own_store(tmp_path):
            pytest.fail("opened")


@cache
def in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    migrate(Path("store.db"), connection, now=0.0)
    return connection


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FACTS = st.lists(
    st.tuples(st.none() | st.just("r_1"), st.sampled_from(["a", "b"]), st.dictionaries(st.text(), JSON, max_size=3)),
    min_size=2,
    max_size=6,
)


def written(facts: list[tuple[str | None, str, JsonObject]]) -> list[JsonObject]:
    tx = Transaction(in_memory())
    in_memory().execute("BEGIN")
    for number, (run, type_, data) in enumerate(facts):
        append_audit(tx, AuditLine(type_, data, run), owner="me", at=float(number), outlet=Outlet())
    lines = [dict(row) for row in tx.rows("SELECT * FROM audit ORDER BY seq")]
    in_memory().execute("ROLLBACK")
    return lines


def broken_among(lines: list[JsonObject]) -> int | None:
    """Where an audit of these lines breaks first."""
    connection = in_memory()
    connection.execute("BEGIN")
    try:
        # As anybody can who may write the file.
        connection.execute("DROP TRIGGER audit_is_appended_to")
        for line in lines:
            marks = ", ".join("?" * len(line))
            connection.execute(f"INSERT INTO audit ({', '.join(line)}) VALUES ({marks})", tuple(line.values()))
        return broken_at(connection)
    finally:
        connection.execute("ROLLBACK")


@settings(max_examples=40)
@given(facts=FACTS, pick=st.data())
def test_whatever_the_lines_say_they_hold_together_and_one_that_differs_is_found(
    facts: list[tuple[str | None, str, JsonObject]], pick: st.DataObject
) -> None:
    lines = written(facts)
    assert broken_among(lines) is None
    place = pick.draw(st.integers(0, len(lines) - 1))
    column = pick.draw(st.sampled_from(["owner", "at", "run", "type", "data", "prev", "hash"]))
    was = lines[place][column]
    value = pick.draw(st.floats(0, 9) if column == "at" else st.text(st.characters(exclude_categories=["Cs"])))
    changed = [line | ({column: value} if number == place else {}) for number, line in enumerate(lines)]
    assert broken_among(changed) == (None if value == was else place + 1)


@settings(max_examples=40)
@given(facts=FACTS, pick=st.data())
def test_only_the_lines_themselves_in_their_order_from_the_first_on_hold_together(
    facts: list[tuple[str | None, str, JsonObject]], pick: st.DataObject
) -> None:
    lines = written(facts)
    places = pick.draw(st.lists(st.integers(0, len(lines) - 1), max_size=8))
    kept = [lines[place] for place in sorted(set(places))]
    renumbered = [lines[place] | {"seq": number} for number, place in enumerate(places, start=1)]
    assert (broken_among(kept) is None) == (sorted(set(places)) == list(range(len(kept))))
    assert (broken_among(renumbered) is None) == (places == list(range(len(places))))


async def test_checkpoints_come_after_so_many_lines_and_at_the_end_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    async with open_own_store(tmp_path) as store:
        await put(store, AuditLine("a", {}))
        await put(store, AuditLine("run.ended", {}))
        for _ in range(2):
            checkpoints = Checkpoints(path, every=3, now=lambda: 0.0)
            await store.database.read(checkpoints.begin)
            store.database.after_commit = checkpoints.look
            await create(store, goal=str(checkpoints))
            for type_ in ("a", "a", "a", "a", "run.ended", "a"):
                await put(store, AuditLine(type_, {}))
        heads = await rows(store, "SELECT seq, hash FROM audit WHERE seq IN (5, 7, 11, 13)")
    noted = [json.loads(line) for line in path.read_text().splitlines()]
    assert noted == [{"seq": seq, "head": head, "at": "1970-01-01T00:00:00+00:00"} for seq, head in heads]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_checkpoint_that_cannot_be_written_is_logged_and_made_up_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "there" / "anchor.jsonl"
    checkpoints = Checkpoints(path, every=1, now=lambda: 0.0)
    async with open_own_store(tmp_path) as store:
        store.database.after_commit = checkpoints.look
        with caplog.at_level(logging.WARNING):
            await put(store, AuditLine("a", {}))
            assert await rows(store, "SELECT COUNT(*) FROM audit") == [(1,)]
            path.parent.mkdir()
            await put(store, AuditLine("a", {}))
    assert [record.message for record in caplog.records] == ["checkpoint_failed"]
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [2]
