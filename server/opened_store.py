"""The store that settings name, opened without anything that drives: enough to look, to decide and to cancel."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from journal.artifacts import ArtifactLimits
from journal.checkpoints import Checkpoints
from journal.settings import sqlite_path
from journal.store import Store, open_store
from journal.world import World

from .settings import Settings

OWNER = "local"
"""Stdio, the command line and the local bearer token are one owner."""


@asynccontextmanager
async def open_settings_store(settings: Settings, *, world: World) -> AsyncGenerator[Store]:
    """Imports neither mcp nor litellm. Raises StoreError or NotBuiltYet."""
    kept = settings.retention
    limits = ArtifactLimits(kept.run_artifacts_mib, kept.store_artifacts_mib)
    path, outlet = sqlite_path(settings.store), settings.outlet
    async with open_store(path, world, outlet, owner=OWNER, limits=limits) as store:
        if settings.audit.checkpoints is not None:
            checkpoints = Checkpoints(Path(settings.audit.checkpoints), every=settings.audit.every, now=world.now)
            await store.database.read(checkpoints.begin)
            store.database.after_commit = checkpoints.look
        yield store
