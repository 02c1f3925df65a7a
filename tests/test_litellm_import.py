"""litellm takes seconds to import, so that is done aside, and only where a model is to be asked."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e

LAZY = """
import anyio, sys
from downstream.model import open_models
from downstream.settings import ModelSettings
from journal.outlet import Outlet

async def main():
    async with open_models(ModelSettings(model="scripted:x"), Outlet()) as models:
        await models.warm_up()
        assert "litellm" not in sys.modules
    async with open_models(ModelSettings(model="openai/m"), Outlet()) as models:
        assert "litellm" not in sys.modules
        await models.warm_up()
        assert "litellm" in sys.modules

anyio.run(main)
"""


def test_litellm_is_imported_by_the_warm_up_and_only_where_it_is_needed() -> None:
    ran = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
