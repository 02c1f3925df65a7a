"""What a tool server gets from us, and what is left of it: its own variables, three pipes, and afterwards nothing."""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import toys
from quick_jobs import quick
from tool_connections import stdio

from downstream.servers.connection import Connection
from downstream.servers.failures import ServerUnavailable
from downstream.servers.pool import open_pool
from downstream.servers.windows_command import windows_command
from journal.world import World

LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks into /proc, which Linux alone has")
SAFE = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
BY_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}
CANARY = "canary-value-of-the-parent"

PROBE = """
import json, os, sys
files = {}
for fd in os.listdir("/proc/self/fd"):
    try:
        files[fd] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass  # the one that the folder was read with
variables = [word.partition("=")[::2] for word in open("/proc/self/environ").read().split("\\0") if word]
said = {"variables": dict(variables), "files": files, "session": os.getsid(0)}
json.dump(said, open(sys.argv[1], "w"))
"""

FAMILY = """
import os, signal, subprocess, sys, threading
log, stubborn = sys.argv[2], sys.argv[3] == "stubborn"
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait()"])
open(log + ".family", "w").write(f"{os.getppid()} {os.getpid()} {child.pid}")
sys.argv = [sys.argv[1], log]
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
if stubborn:
    threading.Event().wait()
"""


@pytest.mark.e2e
@LINUX
async def test_a_child_gets_safe_variables_and_configured_ones_and_three_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CANARY_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "NODE_OPTIONS", "STEPRELAY_CONFIG"):
        monkeypatch.setenv(name, CANARY)
    said = await _probed(tmp_path / "said", {"GIVEN": "1", "HOME": "/of/the/server"})
    inherited = {name: value for name, value in os.environ.items() if name in SAFE}
    expected = inherited | {"GIVEN": "1", "HOME": "/of/the/server", "STEPRELAY_DEPTH": "1"}
    assert {name: value for name, value in said["variables"].items() if name not in BY_THE_SHELL} == expected
    assert CANARY not in said["variables"].values()
    ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in range(3)}
    assert sorted(said["files"]) == ["0", "1", "2"]
    assert all(name.startswith(("pipe:", "socket:")) for name in said["files"].values())
    assert ours.isdisjoint(said["files"].values())
    assert said["session"] != os.getsid(0)


async def _probed(said: Path, env: dict[str, str]) -> Any:
    # Even a file of ours that others could inherit stays here.
    leaky = os.open(said.parent, os.O_RDONLY)
    os.set_inheritable(leaky, True)
    try:
        async with open_pool(
            [stdio("probe", [sys.executable, "-I", "-c", PROBE, str(said)], env=env)], World()
        ) as pool:
            with anyio.fail_after(20), pytest.raises(ServerUnavailable):
                await pool.connection("probe").listing()
    finally:
        os.close(leaky)
    return json.loads(await anyio.Path(said).read_text())


@pytest.mark.e2e
@LINUX
@pytest.mark.parametrize(
    ("manners", "victim"),
    [
        ("polite", None),
        ("polite", "server"),
        ("stubborn", "shell"),
        pytest.param("stubborn", None, marks=pytest.mark.slow),
        pytest.param("stubborn", "server", marks=pytest.mark.slow),
    ],
)
async def test_a_server_and_what_it_started_are_gone_within_six_seconds(
    tmp_path: Path, manners: str, victim: str | None
) -> None:
    log = tmp_path / "log"
    _, *rest = quick(log)
    command = [sys.executable, "-I", "-c", FAMILY, rest[1], str(log), manners]
    async with open_pool([stdio("family", command)], World()) as pool:
        with anyio.fail_after(20):
            await pool.connection("family").listing()
        shell, server, grandchild = map(int, (await anyio.Path(f"{log}.family").read_text()).split())
        family = {"shell": shell, "server": server, "grandchild": grandchild}
        assert toys.alive(family.values()) == list(family.values())
        if victim is not None:
            os.kill(family[victim], signal.SIGKILL)
        began = anyio.current_time()
    assert anyio.current_time() - began < 6.5
    assert await toys.wait_until_gone(family.values(), within=1) == []


@pytest.mark.e2e
@LINUX
@pytest.mark.parametrize("restarts", [15, pytest.param(1000, marks=pytest.mark.slow)])
async def test_restarts_leave_no_zombie_and_take_nothing_more(tmp_path: Path, restarts: int) -> None:
    taken: list[dict[str, int]] = []
    async with open_pool([stdio("box", quick(tmp_path / "log"))], World()) as pool:
        for number in range(restarts):
            taken.append(await _live_and_die(pool.connection("box"), tmp_path / "log", by_kill=number % 3 > 0))
    early, late = taken[restarts // 3], taken[-1]
    sys.stdout.write(f"{restarts} restarts: after a third {early}, at the end {late}\n")
    for name in ("zombies", "children", "files", "threads"):
        # One thread may still read the last words of the process before.
        assert late[name] <= early[name] + 1, name
    assert late["KiB"] - early["KiB"] < 4096
    assert (len({line["pid"] for line in toys.calls(tmp_path / "log")}), toys.children_of(os.getpid())) == (
        restarts,
        [],
    )
    assert _zombies() == 0


async def _live_and_die(box: Connection, log: Path, *, by_kill: bool) -> dict[str, int]:
    """What is in use after one call; then the process ends, from outside or because nobody wants it any more."""
    with anyio.fail_after(30):
        await box.call("read", {"key": "k"}, timeout=20)
        in_use = _in_use()
        if by_kill:
            os.kill(toys.calls(log)[-1]["pid"], signal.SIGKILL)
        else:
            box.let_go()
        while box.is_open:
            await anyio.lowlevel.checkpoint()
    return in_use


def _in_use() -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "zombies": _zombies(),
        "children": len(toys.children_of(os.getpid())),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "KiB": int(status["VmRSS"].split()[0]),
    }


def _zombies() -> int:
    """Children of ours that have ended and that nobody waited for."""
    stats = [_stat(path) for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(stat[:2] == ["Z", str(os.getpid())] for stat in stats)


def _stat(path: Path) -> list[str]:
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _nodejs(folder: Path, *, with_npm: bool) -> Path:
    """A folder as the installer of Node.js for Windows makes it."""
    scripts = folder / "node_modules" / "npm" / "bin"
    scripts.mkdir(parents=True)
    for path in (folder / "npx.CMD", folder / "node.exe", scripts / "npx-cli.js" if with_npm else folder / "other"):
        path.touch()
    return folder / "npx.CMD"


def test_on_windows_npx_is_started_as_node_so_that_no_argument_passes_through_cmd(tmp_path: Path) -> None:
    npx = _nodejs(tmp_path, with_npm=True)
    words = ["-y", "mcp-remote", "https://there/?a=1&b=2", "%PATH%"]
    script = tmp_path / "node_modules" / "npm" / "bin" / "npx-cli.js"
    assert windows_command(str(npx), words) == [str(tmp_path / "node.exe"), str(script), *words]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("C:/tools/uvx.exe", ["--from", "a&b", '"', "%PATH%"]),
        ("C:/tools/cmd.exe", ["/c", "npx", "-y", "package"]),
        ("C:/tools/server.cmd", ["--root", "C:/my files", "user:p%40ss@host", "plain"]),
    ],
    ids=["a program", "cmd by hand", "a batch file"],
)
def test_on_windows_other_commands_are_started_as_they_are(found: str, words: list[str]) -> None:
    assert windows_command(found, words) == [found, *words]


@pytest.mark.parametrize("word", ["https://there/?a=1&b=2", 'say "this"', "%PATH%", "a>b", "a\nb", "^1.0"])
def test_on_windows_a_word_that_a_batch_file_would_not_get_as_it_is_is_refused(tmp_path: Path, word: str) -> None:
    npx = _nodejs(tmp_path, with_npm=False)
    with pytest.raises(ValueError, match=r"npx\.CMD is a batch file, and argument 2 has a character") as refused:
        windows_command(str(npx), ["-y", word])
    assert word not in str(refused.value)
