"""What needs a passkey, everywhere but on the page: told truly, taken nowhere, and not lowered by a lost answer."""

from pathlib import Path

import anyio
import pytest
from command_line import called, open_terminal
from gate_case import PLAN, Runs, Server, call, failing, open_runs, tool
from stored_runs import action_now, settings_now, stored_action, stored_run
from typed_lines import typed

from downstream.door import Waiting
from journal.actions import Action, Decision, LevelTooLow
from journal.database import Transaction
from journal.values import JsonObject
from journal.world import World
from server.installed import Spoken
from server.opened_store import open_settings_store
from server.page.passkey_file import Passkey, change_passkeys
from server.terminal.asking import ask_decision
from server.views.action_view import how_to_decide, yes_by_passkey

SEND = tool("mail.send", "write", ["to"])
RULE: JsonObject = {"rules": [{"ask": "mail.send", "via": "passkey"}]}
TO_ANA: JsonObject = {"to": "ana@example.org"}
HAVE = Passkey("id", "key", "laptop", 0, 0.0)


async def asked_for_a_passkey() -> Action:
    """An action of the store that needs one."""
    action = await stored_action(await stored_run())

    def raised(tx: Transaction) -> None:
        tx.change("UPDATE actions SET level = 'passkey' WHERE id = ?", (action.id,))

    async with open_settings_store(settings_now(), world=World()) as store:
        await store.database.write("test", raised)
    return await action_now(action.id)


async def test_a_call_without_an_answer_is_sent_again_only_by_what_let_it_go_out(tmp_path: Path) -> None:
    there = Server()
    async with open_runs(tmp_path) as runs:
        first = await send(runs, there)
        with pytest.raises(LevelTooLow, match="only the page can take it, with a passkey"):
            await runs.decide(first.action, "approve")
        await runs.decide(first.action, "approve", level="passkey", via="passkey")
        there.answer = failing("ran?")
        lost = await send(runs, there)
        for choice in ("retry", "done", "not_done"):
            with pytest.raises(LevelTooLow):
                await runs.decide(lost.action, choice)
        action = await runs.decide(lost.action, "give_up")
    assert (action.kind, action.level, action.choice) == ("unknown", "passkey", "give_up")
    assert there.sent == [("mail.send", TO_ANA)]


async def send(runs: Runs, there: Server) -> Waiting:
    end = await there.door(SEND, policy=RULE)(await runs.drive(), call("mail.send", TO_ANA, label=PLAN))
    assert isinstance(end, Waiting)
    return end


@pytest.mark.parametrize(("words", "choice"), [(["approve", "a", "deny"], "deny"), (["later"], None)])
async def test_at_a_terminal_only_a_no_is_offered(
    capsys: pytest.CaptureFixture[str], words: list[str], choice: str | None
) -> None:
    action = await asked_for_a_passkey()
    with typed(*words):
        decision = await ask_decision(action, now=action.created_at)
    said = capsys.readouterr().out
    assert decision == (Decision(choice, "person", "terminal") if choice else None)
    assert "A yes takes a passkey, on the page; here you can only say no." in said
    assert said.count("deny or later? ") == len(words)


def test_what_waits_is_listed_with_the_command_that_opens_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    action = anyio.run(asked_for_a_passkey)
    assert called("approvals") == 0
    listed = capsys.readouterr().out.splitlines()[-1].split()
    assert called("runs", "show", action.run) == 0
    shown = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")][-2:]
    assert (listed[-1], shown) == ("ui", [["ui"], ["deny", action.id]])


@pytest.mark.e2e
def test_the_command_for_a_yes_says_where_it_can_be_said_and_takes_a_no(tmp_path: Path) -> None:
    action = anyio.run(asked_for_a_passkey)
    with open_terminal("approve", action.id, cwd=tmp_path) as terminal:
        assert terminal.end() == 2
    told = " ".join(terminal.seen.split())
    assert f"a terminal cannot take a yes to action {action.id}. With a passkey only: `" in told
    assert called("deny", action.id) == 0
    assert anyio.run(action_now, action.id).choice == "deny"


async def test_the_way_names_what_is_missing_until_nothing_is() -> None:
    action, spoken = await asked_for_a_passkey(), Spoken("steprelay")
    assert yes_by_passkey(spoken).startswith("With a passkey only: `steprelay ui` opens the page, signed in; but ")
    assert how_to_decide(action, spoken).endswith(f" (no: steprelay deny {action.id})")


@pytest.mark.parametrize("command", ["test", "explain"])
def test_the_policy_commands_warn_of_rules_that_nobody_can_meet_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    config, table = tmp_path / "steprelay.yaml", tmp_path / "cases.yaml"
    config.write_text(
        f"store: sqlite:///{tmp_path / 'store.db'}\n"
        "mcpServers: {mail: {command: no-such-command}}\n"
        "server_options: {mail: {effects: {send: write}}}\n"
        "policy: {rules: [{allow: mail.find}, {ask: mail.send, via: passkey}]}\n"
    )
    table.write_text("cases: [{tool: mail.send, arguments: {}, expect: ask, level: passkey}]\n")
    words = {"test": ["test", str(table)], "explain": ["explain", "mail.send"]}[command]
    assert called("policy", *words, "--config", str(config)) == 0
    assert "steprelay: policy.rules[1]: via: passkey, but " in capsys.readouterr().err
    config.write_text(config.read_text().replace(", {ask: mail.send, via: passkey}", ""))
    table.write_text("cases: [{tool: mail.send, arguments: {}, expect: ask}]\n")
    assert called("policy", *words, "--config", str(config)) == 0
    assert "via: passkey" not in capsys.readouterr().err


async def test_passkeys_are_changed_one_after_the_other() -> None:
    def add(now: tuple[Passkey, ...]) -> list[Passkey]:
        return [*now, HAVE]

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(change_passkeys, add)
    kept: list[Passkey] = []

    def see(now: tuple[Passkey, ...]) -> list[Passkey]:
        kept.extend(now)
        return []

    await change_passkeys(see)
    assert kept == [HAVE] * 5
