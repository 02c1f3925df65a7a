"""Runs over several tool servers, one of which is killed every second: all end, nothing is done twice or forgotten."""

import os
import sys
from pathlib import Path

import anyio
import pytest

SUPPORT = Path(__file__).parent / "support"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it looks into /proc, which Linux alone has")
@pytest.mark.parametrize(("runs", "servers"), [(15, 3), (200, 8)], ids=["short", "long"])
async def test_runs_survive_the_deaths_of_their_servers(tmp_path: Path, runs: int, servers: int) -> None:
    bounds = ("--runs", str(runs), "--servers", str(servers))
    paths = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    with anyio.fail_after(900):
        ended = await anyio.run_process(
            [sys.executable, str(SUPPORT / "soak.py"), str(tmp_path), *bounds], env=paths, stderr=None, check=False
        )
    sys.stdout.write(ended.stdout.decode())
    assert ended.returncode == 0
