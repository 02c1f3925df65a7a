"""Which living processes count as those that go on with a run: not those that stay for a run of their own."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from command_line import open_terminal, steprelay
from journals import LIMITS, Clock, change, create, open_own_store, rows, take, until

from journal.lease import DEAD_SECONDS, open_lease
from journal.local_engine import EngineOptions, open_local_engine
from journal.locks import held
from journal.run_journal import RunJournal
from journal.store import Store
from journal.world import World
from server.opened_store import open_settings_store
from server.settings import Found, load_settings
from server.views.view import needed_settings, run_lines

SETTINGS = "/home/me/settings.yaml"


async def leave(journal: RunJournal) -> None:
    """A drive that gets to a question, as it were."""
    await journal.park(wake_at=None)


def options(*, adopts: bool) -> EngineOptions:
    return EngineOptions("print", SETTINGS, 16, lambda run: LIMITS, adopts=adopts)


async def needed(store: Store, run_id: str) -> str | None:
    return await needed_settings(store, await store.run(run_id))


@pytest.mark.parametrize(("adopts", "needs"), [(True, None), (False, SETTINGS)], ids=["serve", "a run of its own"])
async def test_a_process_that_adopts_nothing_does_not_go_on_with_the_runs_of_others(
    tmp_path: Path, adopts: bool, needs: str | None
) -> None:
    async with open_own_store(tmp_path) as store, open_local_engine(store, leave, options(adopts=adopts)):
        run_id = await create(store, driver="nobody")
        assert await needed(store, run_id) == needs
        [line] = await run_lines(store, await store.runs())
        assert line.needs == (needs and f"settings: {needs}")


async def test_a_process_that_adopts_nothing_goes_on_with_the_run_that_it_was_begun_for(tmp_path: Path) -> None:
    async def parked() -> bool:
        return (await store.run(run_id)).status == "awaiting_approval"

    async with open_own_store(tmp_path) as store, open_local_engine(store, leave, options(adopts=False)) as engine:
        run_id, other = await create(store), await create(store, goal="another")
        await engine.wake(run_id)
        await until(parked)
        assert (await store.run(run_id)).driver is None
        assert (await needed(store, run_id), await needed(store, other)) == (None, SETTINGS)


async def test_a_process_that_drives_a_run_goes_on_with_it(tmp_path: Path) -> None:
    async with open_own_store(tmp_path) as store, open_lease(store, fingerprint="", settings_path=SETTINGS) as lease:
        run_id = await create(store)
        assert await needed(store, run_id) == SETTINGS
        await take(store, run_id, driver=lease.id)
        assert await needed(store, run_id) is None


@pytest.mark.parametrize("host", [socket.gethostname(), "renamed"], ids=["stopped", "killed, then the machine renamed"])
async def test_a_process_without_a_sign_for_30_s_goes_on_with_nothing_also_at_the_first_look(
    tmp_path: Path, host: str
) -> None:
    clock = Clock()
    async with open_own_store(tmp_path, clock.world) as store:
        with held(tmp_path / "leases" / "l_gone"):
            sql = "INSERT INTO leases VALUES ('l_gone', 'me', 7, ?, 'print', 's', ?, ?)"
            await change(store, sql, host, clock.at, clock.at)
            run_id = await create(store, driver="l_gone")
            assert await needed(store, run_id) is None
            clock.at += DEAD_SECONDS + 1
            assert await needed(store, run_id) == SETTINGS
            await change(store, "UPDATE runs SET ended_at = 1")
            async with open_local_engine(store, leave, options(adopts=True)) as engine:
                assert await rows(store, "SELECT id FROM leases") == [(engine.lease.id,)]


def settings(folder: Path, *, delay: float) -> list[str]:
    script: dict[str, Any] = {
        "plan": [{"id": "write", "kind": "compose", "title": "Write it", "task": "Write."}],
        "steps": {"write": {"text": "hello", "delay": delay}},
        "answer": "Done.",
    }
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "settings.json").write_text('{"model": "scripted:script.json"}')
    return ["--config", "settings.json"]


@pytest.mark.e2e
@pytest.mark.untraced
async def test_a_detached_run_is_driven_also_while_another_terminal_drives_one(tmp_path: Path) -> None:
    async def has_ended() -> bool:
        return (await store.run(run_id)).ended

    option = settings(tmp_path, delay=120)
    with open_terminal("run", "first", *option, cwd=tmp_path) as terminal:
        terminal.expect("Write it")
        settings(tmp_path, delay=0)
        run_id = steprelay("run", "second", "--detach", *option, cwd=tmp_path).stdout.strip()
        loaded = load_settings(Found(tmp_path / "settings.json", "option"), environ={}, lenient=True)
        async with open_settings_store(loaded, world=World()) as store:
            await until(has_ended, within=60)
            assert (await store.run(run_id)).status == "succeeded"
