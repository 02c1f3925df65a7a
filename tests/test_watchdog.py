"""No child of ours outlives us, also when we are killed with -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
import toys

from downstream.servers.watchdog import Watchdog, open_watchdog

STUBBORN = """
import signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "grandchild"])
sys.stdin.read()
threading.Event().wait()
"""

OWNER = """
import sys, anyio
from downstream.servers.pool import open_pool
from journal.world import World
from tool_connections import stdio
import toys

async def main():
    servers = [stdio("deaf", toys.bad("ignore_eof")), stdio("family", [sys.executable, sys.argv[1]], start_timeout=60)]
    async with open_pool(servers, World()) as pool, anyio.create_task_group() as group:
        await pool.connection("deaf").listing()
        group.start_soon(pool.connection("family").listing)
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.e2e
async def test_killing_us_ends_servers_and_their_children_that_ignore_everything(tmp_path: Path) -> None:
    family = tmp_path / "family.py"
    family.write_text(STUBBORN)
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(toys.__file__).parent)])
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER, str(family)]
    async with await anyio.open_process(command, env=env, stdin=subprocess.PIPE, stderr=None) as owner:
        assert owner.stdout is not None
        with anyio.fail_after(30):
            assert (await owner.stdout.receive()).startswith(b"open")
            # Two shells, two watchers, two servers and one grandchild.
            while len(children := toys.children_of(owner.pid)) < 7:  # noqa: ASYNC110 - other processes start them
                await anyio.sleep(0.02)
        os.kill(owner.pid, signal.SIGKILL)
        assert await toys.wait_until_gone(children) == []
    assert [name for name in os.listdir(tmp_path) if name.startswith("steprelay-")] == []


@pytest.mark.e2e
@pytest.mark.parametrize("code", [0, 3])
async def test_a_server_that_ends_takes_what_it_started_along_and_its_code_is_told(code: int) -> None:
    script = f"sleep 60 >/dev/null 2>&1 & echo $!; exit {code}"
    with open_watchdog() as watchdog:
        command = watchdog.guarded("/bin/sh", ["-c", script])
        ran = await anyio.run_process(command, start_new_session=True, check=False)
    # Killed before the shell, it may still be ending after it.
    assert await toys.wait_until_gone([int(ran.stdout)]) == []
    assert ran.stderr.decode() == (f"exit code {code}\n" if code else "")


@pytest.mark.e2e
def test_a_server_started_after_someone_tidied_up_runs_unwatched() -> None:
    with open_watchdog() as watchdog:
        assert watchdog.alive is not None
        watchdog.alive.unlink()
        command = watchdog.guarded("/bin/sh", ["-c", "sleep 0.2; echo done"])
        ran = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=10, check=False)
    assert ran.stdout == "done\n"


def test_where_there_is_no_shell_commands_are_started_as_they_are(tmp_path: Path) -> None:
    with open_watchdog(tmp_path / "no-shell") as watchdog:
        assert watchdog == Watchdog(None)
        assert watchdog.guarded("node", ["server.js"]) == ["node", "server.js"]


WATCHING = """
import sys
from downstream.servers.watchdog import open_watchdog

with open_watchdog() as watchdog:
    print(watchdog.alive, flush=True)
    sys.stdin.read()
"""


def left_folder(folder: Path, name: str, *, age: float = 120, pipe: bool = True) -> Path:
    """What a process leaves that is killed right after it began."""
    left = folder / f"steprelay-{name}"
    left.mkdir()
    os.mkfifo(left / "alive") if pipe else (left / "alive").touch()
    made = time.time() - age
    os.utime(left / "alive", (made, made))
    return left


def test_what_dead_processes_left_behind_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = [left_folder(tmp_path, f"dead{number}") for number in range(3)]
    kept = [
        left_folder(tmp_path, "young", age=10),
        left_folder(tmp_path, "file", pipe=False),
        left_folder(tmp_path, "held"),
        left_folder(tmp_path, "full"),
        tmp_path / "steprelay-other",
        tmp_path / "steprelay-link",
    ]
    (kept[3] / "more").touch()
    kept[4].mkdir()
    kept[5].symlink_to(left_folder(tmp_path, "linked", age=10))
    held = os.open(kept[2] / "alive", os.O_RDWR)
    try:
        with open_watchdog(temporary=tmp_path) as watchdog:
            assert watchdog.alive is not None
            assert watchdog.alive.parents[1] == tmp_path
            assert [left.exists() for left in dead] == [False] * 3
            assert [left.exists() for left in kept] == [True] * 6
            assert (kept[2] / "alive").exists()
            with open_watchdog(temporary=tmp_path):
                # The pipe of one at work is held, however old it is.
                os.utime(watchdog.alive, (1, 1))
            with open_watchdog(temporary=tmp_path):
                assert watchdog.alive.exists()
    finally:
        os.close(held)


@pytest.mark.e2e
def test_a_process_killed_before_it_started_anything_leaves_nothing_for_long(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(tmp_path)}
    places: list[Path] = []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WATCHING], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as owner:
            assert owner.stdout is not None
            places.append(Path(owner.stdout.readline().strip()))
            assert [place.exists() for place in places] == [*[False] * (len(places) - 1), True]
            owner.kill()
        os.utime(places[-1], (1, 1))
