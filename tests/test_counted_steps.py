"""How many steps a run has: the same number wherever it is told, also once a revision took some out."""

from pathlib import Path

from run_at_hand import open_run

from journal.lease import open_lease
from journal.steps import StepRow
from server.host.progress import progress_line
from server.installed import Spoken
from server.views.standing import standing_of
from server.views.view import run_view
from server.views.words import steps_done


def row(id_: str) -> StepRow:
    return StepRow(id_, 1, 1, "call", "Do it", None, False, False, "pending", "", {"needs": []}, None, None)


async def test_what_hosts_are_told_and_what_a_person_reads_count_the_plan_as_it_is_now(tmp_path: Path) -> None:
    async with open_run(tmp_path) as run, open_lease(run.store, fingerprint="print", settings_path="settings.yaml"):
        journal = await run.take()
        await journal.put_plan([row("a")], events=())
        await journal.put_step_status("a", "failed")
        await journal.put_plan([row("b"), row("c")], drop=["a"], events=())
        await journal.put_step_status("b", "succeeded")
        view = await run_view(run.store, run.id, spoken=Spoken("steprelay"))
        line, standing = await progress_line(run.store, run.id), await standing_of(run.store, run.id)
        steps = await run.store.steps(run.id)
    assert view.message == f"Run {run.id} is at work: 1 of 2 steps have ended."
    assert line.startswith("1/2 · ")
    assert steps_done(steps) == standing.steps_done == "1 of 2 steps (1 more dropped by revisions)"
