"""Processes that drive runs of one store are killed at random; every run ends, and no effect happens twice."""

import os
import sys
from pathlib import Path

import anyio
import pytest

pytestmark = pytest.mark.untraced

SUPPORT = Path(__file__).parent / "support"


@pytest.mark.e2e
async def test_runs_survive_kills_at_random(tmp_path: Path) -> None:
    bounds = ("--seed", "1", "--kills", "6", "--runs", "4", "--processes", "2")
    paths = os.environ | {"PYTHONPATH": f"{SUPPORT.parent.parent}:{SUPPORT}"}
    with anyio.fail_after(200):
        ended = await anyio.run_process(
            [sys.executable, str(SUPPORT / "chaos.py"), str(tmp_path), *bounds], env=paths, stderr=None, check=False
        )
    sys.stdout.write(ended.stdout.decode())
    assert ended.returncode == 0
