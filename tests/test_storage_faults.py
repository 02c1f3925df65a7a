"""Faults of the disk and of the store's file: each ends well, and what was committed stays."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from broken_stores import GOAL, ONE_STEP, READ, refusals, store_of, with_store
from command_line import OWN
from failing_disk import FailingDisk, build, lacking
from faulty_runs import ANSWER, EFFECTS, SECONDS
from journals import until
from mcp_hosts import open_stdio_host, serve, text_of
from quick_jobs import made, reached, settings

pytestmark = pytest.mark.untraced

SUPPORT = Path(__file__).parent / "support"
PARTS = 4
SAID = ("refused", "unopened", "unread", "undecided")
"""How a process that could not go on says so, beside runs that are held up."""

needs_failing_disk = pytest.mark.skipif(lacking() is not None, reason=str(lacking()))  # no Linux or no C compiler


def faulty_runs(folder: Path, part: int, parts: int, samples: int) -> list[Any]:
    """What became of this part of the histories; the first is the one without a fault."""
    disk = FailingDisk(build(folder), folder / "disk", folder / "control")
    (folder / "disk").mkdir()
    paths = {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    command = [sys.executable, str(SUPPORT / "faulty_runs.py"), str(folder), str(part), str(parts), str(samples)]
    with subprocess.Popen(command, env=os.environ | disk.environ | paths, start_new_session=True) as process:
        try:
            assert process.wait(280) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return [json.loads(line) for out in (folder, *folder.glob("*/")) for line in lines_of(out / "out")]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def check(history: Any) -> None:
    """The faulty process ended well, what it committed is there, and the next one finished the run."""
    fault, first, left, second = (history[part] for part in ("fault", "first", "left", "second"))
    for process in (first, second):
        assert (process["code"], process["stdout"]) == (0, ""), (fault, process["stderr"])
        assert "Traceback" not in process["stderr"], fault
        assert process["s"] < SECONDS
    says = [first[how] for how in SAID if how in first] + first.get("held", [])
    assert says or first["ended"] == "succeeded", (fault, first)
    assert all("/disk/" in text and "; " in text for text in says), says
    assert (left["whole"], left["chain"]) == ("ok", None)
    assert left["runs"] == 1 or "refused" in first or "unopened" in first
    assert (second["ended"], second["answer"], second["held"]) == ("succeeded", ANSWER, []), (fault, second)
    assert sorted(call for call in history["made"] if call[0] in ("add", "drop")) == EFFECTS, fault
    asked_again = set(second["asked"]) - set(first.get("asked", []))
    assert asked_again <= {f"{key}/unknown" for key in left["open"]}, fault
    assert (history["after"]["whole"], history["after"]["chain"], history["after"]["open"]) == ("ok", None, [])


def end_of(first: Any) -> str:
    """How the faulty process came to its end, and whether it said something of the fault."""
    how = next(how for how in ("ended", *SAID, "held") if how in first)
    return f"ended, {'said so' if first['held'] else 'nothing to say'}" if how == "ended" else how


@needs_failing_disk
@pytest.mark.parametrize(
    ("part", "parts", "samples"),
    [
        pytest.param(0, 1, 8, marks=pytest.mark.e2e, id="some"),
        *(pytest.param(part, PARTS, 0, marks=pytest.mark.slow, id=f"part {part}") for part in range(PARTS)),
    ],
)
def test_a_run_survives_a_disk_that_fails_at_any_call(tmp_path: Path, part: int, parts: int, samples: int) -> None:
    whole, *histories = faulty_runs(tmp_path, part, parts, samples)
    calls = whole["first"]["calls"]
    for history in (whole, *histories):
        check(history)
    assert len(histories) == samples or len(histories) >= 2 * calls // parts
    ends = Counter(end_of(history["first"]) for history in histories)
    struck = sum(history["first"]["failed"] > 0 or bool(history["first"].get("held")) for history in histories)
    asked = sum(bool(history["second"]["asked"]) for history in histories)
    sys.stdout.write(
        f"calls {calls}, histories {len(histories)}, faults that struck {struck}, the faulty process {dict(ends)}, "
        f"not said clearly 0, effects twice 0, silently lost 0, a person was asked in {asked}\n"
    )


@pytest.fixture
def disk(tmp_path: Path) -> FailingDisk:
    """A disk that holds `store`."""
    return FailingDisk(build(tmp_path), tmp_path / "store", tmp_path / "control")


@needs_failing_disk
@pytest.mark.e2e
async def test_serve_on_a_full_disk_says_so_and_goes_on_by_itself_when_there_is_space(
    tmp_path: Path, disk: FailingDisk
) -> None:
    config = settings(tmp_path, ONE_STEP)
    disk.fail("ENOSPC")
    async with open_stdio_host(serve(config), disk.environ) as host:
        said = await refusals(host)
        assert len(said) == 5
        for text in said.values():
            assert text.startswith(str(tmp_path))
            assert "; set `store` to a folder you own" in text
        disk.heal()
        # Nothing tells a host that it may try again.
        with anyio.fail_after(30):
            while (result := await host.call("plan_and_execute", {"goal": GOAL})).is_error:  # noqa: ASYNC110
                await anyio.sleep(0.2)
    assert result.structured_content is not None
    assert result.structured_content["status"] == "succeeded"


GATED: dict[str, Any] = {
    "plan": [
        READ | {"id": "hold", "tool": "quick.wait", "arguments": {"gate": "go"}},
        READ | {"id": "post", "tool": "quick.add", "arguments": {"key": "posted"}},
        READ | {"id": "last", "needs": ["hold"]},
    ],
    "answer": "Done.",
}


@needs_failing_disk
@pytest.mark.e2e
async def test_a_run_whose_disk_fills_up_says_so_and_ends_when_there_is_space(
    tmp_path: Path, disk: FailingDisk
) -> None:
    config = settings(tmp_path, GATED, policy={"rules": [{"ask": "quick.add"}]})
    async with open_stdio_host(serve(config), disk.environ) as host:
        run_id = (await host.structured("plan_and_execute", {"goal": GOAL, "wait_seconds": 0}))["run_id"]
        with anyio.fail_after(60):
            while not (view := await host.structured("get_run", {"run_id": run_id, "wait_seconds": 5}))["actions"]:
                pass
        action = view["actions"][0]
        disk.fail("ENOSPC")
        full = f"{store_of(tmp_path)}: database or disk is full; free some space or make it writable"
        yes = {"action_id": action["action_id"], "decision": "approve"}
        yes |= {"tool": action["tool"], "arguments": action["arguments"]}
        for tool, arguments in (
            ("plan_and_execute", {"goal": "another"}),
            ("approve_action", yes),
            ("cancel_run", {"run_id": run_id}),
        ):
            refused = await host.call(tool, arguments, within=20)
            assert refused.is_error
            assert text_of(refused).startswith(full)
        listed = await host.structured("list_runs", within=20)
        assert [line["run_id"] for line in listed["runs"]] == [run_id]
        (tmp_path / "go").touch()

        async def is_held() -> bool:
            return "held up" in (await host.structured("get_run", {"run_id": run_id}))["message"]

        await until(is_held)
        held = f"Run {run_id} is held up and tried again by itself: {full}; what was committed is kept."
        ways: dict[str, dict[str, Any]] = {"get_run": {"run_id": run_id}, "plan_and_execute": {"goal": GOAL}}
        for tool, asked in ways.items():
            told = await host.structured(tool, asked | {"wait_seconds": 45}, within=20)
            assert told["message"] == held
        disk.heal()
        assert not (await host.call("approve_action", yes)).is_error
        end = await reached(host, run_id, "succeeded")
        assert end["answer"] == "Done."
    assert made(tmp_path, "add") == [("add", "posted")]


@needs_failing_disk
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("read-only folder", marks=pytest.mark.e2e),
        *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("read-only file", "disk full", "disk broken")),
    ],
)
def test_commands_on_a_disk_that_takes_nothing_say_so(tmp_path: Path, disk: FailingDisk, fault: str) -> None:
    config = with_store(tmp_path)
    environ = dict(disk.environ)
    match fault:
        case "disk full":
            disk.fail("ENOSPC")
        case "disk broken":
            disk.fail("EIO")
        case _:
            disk.lock()
    if fault == "read-only file":
        environ["FAILING_DISK_UNDER"] = str(store_of(tmp_path))
    for words in (("runs", "list"), ("run", GOAL)):
        command = [*OWN, *words, "--config", str(config)]
        ended = subprocess.run(
            command, cwd=tmp_path, env=os.environ | environ, capture_output=True, text=True, timeout=60, check=False
        )
        if fault == "read-only file" and words[0] == "runs":
            # All that was committed can be read.
            assert (ended.returncode, ended.stderr) == (0, "")
            continue
        assert (ended.returncode, ended.stdout) == (3, ""), ended
        last = ended.stderr.splitlines()[-1]
        assert last.startswith(f"steprelay: {tmp_path}")
        assert "set `store` to" in last or "make it writable; what was committed is kept" in last
        assert "Traceback" not in ended.stderr
        sys.stdout.write(f"{fault} -> {last.replace(str(tmp_path), '')}\n")
