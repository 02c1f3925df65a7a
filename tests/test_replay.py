"""A recorded run, driven once more from its record: the same comes out, and a record that was changed is named."""

import json
import sqlite3
import sys
from pathlib import Path

import anyio
import pytest
import stored_job
from command_line import called
from journals import change, rows
from recorded_runs import KINDS, open_recorded, recorded_once

from journal.archive.bundle import read_bundle
from journal.archive.record import Unreadable
from journal.archive.record_check import UNSEALED
from journal.archive.transfer import collected, content_of, import_bundle, pieces
from journal.outlet import Outlet
from journal.store import open_store
from journal.world import World
from server.exported import about_run
from server.opened_store import open_settings_store
from server.product import Product
from server.redacted import Redacted
from server.replaying import Replayed, replay_run
from server.settings import Settings

SAID = ("anzibar", "ZANZIBAR", "47110815", "Kurt", "kurt", "secret-corp", "Marzipan", "8150042", "hurry")
"""Words and numbers of goals, arguments, results, findings, answers and notes; a redacted file may hold none."""
PARTLY = frozenset({"waiting", "plan waits"})
LATER = frozenset({"success", "commented", "raised", "asked first", "reviewed", "deadline", "plan waits"})
"""Kinds that differ from others in little; they are gone through in the long tests."""


async def exported(product: Product, run_id: str, *, redact: bool) -> str:
    about = await about_run(product.store, product.settings, run_id)
    document, content = await collected(product.store, run_id, about=about), content_of(product.store, run_id)
    if redact:
        kept = Redacted(document)
        document, content = kept.document, kept.artifacts(content)
    return "".join([piece async for piece in pieces(document, content)])


async def replayed_elsewhere(folder: Path, text: str, settings: Settings) -> Replayed:
    """The exported run, taken into another store and replayed there."""
    async with open_store(folder / "steprelay.db", World(), Outlet(), owner="local") as other:
        return await replay_run(other, settings, await import_bundle(other, read_bundle(text)))


@pytest.mark.e2e
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LATER else ()) for name in KINDS]
)
async def test_a_recorded_run_replays_to_the_same_here_imported_and_redacted(tmp_path: Path, name: str) -> None:
    async with open_recorded(tmp_path, KINDS[name]) as (product, run_id):
        sent = (tmp_path / "quick.log").read_bytes()
        before = await rows(product.store, "SELECT * FROM memo")
        here = await replay_run(product.store, product.settings, run_id)
        whole, masked = [await exported(product, run_id, redact=redact) for redact in (False, True)]
        assert (await rows(product.store, "SELECT * FROM memo"), (tmp_path / "quick.log").read_bytes()) == (
            before,
            sent,
        )
    imported = await replayed_elsewhere(tmp_path / "other", whole, product.settings)
    redacted = await replayed_elsewhere(tmp_path / "masked", masked, product.settings)
    for how, each in {"here": here, "imported": imported, "redacted": redacted}.items():
        told = f"{each.steps} steps, {each.records} records, differences: {list(each.differences)}"
        sys.stdout.write(f"{name}, {how}: {told}\n")
        assert (each.differences, each.whole, each.steps) == ((), name not in PARTLY, here.steps)
    assert [word for word in SAID if word in masked] == []


@pytest.mark.e2e
def test_the_command_says_equal_or_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, run_id = anyio.run(recorded_once, tmp_path)
    here = ("--config", str(settings.path))
    assert called("runs", "replay", run_id, *here) == 0
    counted = "(4 steps, 29 records; no model and no server was asked)."
    assert capsys.readouterr().out == f"Run {run_id} replayed: equal {counted}\n"
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("UPDATE runs SET answer = 'Paul wins.', fingerprint = 'other'")
    database.close()
    assert called("runs", "replay", run_id, *here) == 4
    assert capsys.readouterr().out.splitlines() == [
        f"Run {run_id} replayed: different {counted}",
        "  different: answer: was 'Paul wins.', and is 'Kurt wins.'",
        "  note: the run was made under other settings than the present ones; differences may come from that",
    ]
    assert called("runs", "replay", run_id, "--json", *here) == 4
    told = json.loads(capsys.readouterr().out)
    assert (told["equal"], told["whole"], told["steps"], len(told["differences"])) == (False, True, 4, 1)
    assert called("runs", "replay", "r_nothing", *here) == 2


@pytest.mark.e2e
def test_a_redacted_file_goes_round_by_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, run_id = anyio.run(recorded_once, tmp_path)
    file, other = tmp_path / "report.json", tmp_path / "other.json"
    other.write_text(json.dumps({"model": "scripted:/nowhere.json", "store": f"sqlite:///{tmp_path}/other/s.db"}))
    assert called("runs", "export", run_id, "--redact", "-o", str(file), "--config", str(settings.path)) == 0
    assert called("runs", "import", str(file), "--config", str(other)) == 0
    capsys.readouterr()
    assert called("runs", "replay", run_id, "--config", str(other)) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith(f"Run {run_id} replayed: equal (4 steps")
    assert [word for word in SAID if word in file.read_text()] == []


async def test_a_run_of_an_earlier_release_replays_and_says_that_it_has_no_seals(tmp_path: Path) -> None:
    settings = stored_job.lay(tmp_path, 1)
    async with open_settings_store(settings, world=World()) as store:
        for run in await store.runs():
            replayed = await replay_run(store, settings, run.id)
            assert (replayed.differences, UNSEALED in replayed.notes) == ((), True)
            assert replayed.whole == (run.goal == stored_job.FINISHED)


async def test_settings_of_an_import_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    settings = stored_job.lay(tmp_path, 1)
    async with open_settings_store(settings, world=World()) as store:
        run = (await store.runs())[0]
        data = json.dumps({"was": {"ended_at": None}, "audit": [], "tools": [], "settings": {}})
        await change(store, "INSERT INTO imports VALUES (?, 'local', ?, 1.0)", run.id, data)
        with pytest.raises(Unreadable, match="what the run was imported with"):
            await replay_run(store, settings, run.id)
