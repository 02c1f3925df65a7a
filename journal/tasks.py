"""Tasks that work beside a block and end with it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[TaskGroup]:
    """A task group that is cancelled where the block ends; an error that is alone comes out bare, not in a group."""
    try:
        async with anyio.create_task_group() as group:
            yield group
            group.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        first, *others = errors.exceptions
        if others:
            raise
        raise first from first.__cause__
