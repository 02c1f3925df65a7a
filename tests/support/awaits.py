"""Counts how often tasks of an event loop suspend, and does something at the n-th time."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any


class Awaits:
    """Every suspension of a task that is made after `watch` counts from `arm` on; at number `at`, `strike` is called
    before the task lets go of the loop."""

    def __init__(self, at: int | None, strike: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._strike = strike
        self._armed = False

    def watch(self) -> None:
        asyncio.get_running_loop().set_task_factory(self._task)

    def arm(self) -> None:
        self._armed = True

    @property
    def struck(self) -> bool:
        return self._at is not None and self.count >= self._at

    def _task(
        self, loop: asyncio.AbstractEventLoop, made: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **more: Any
    ) -> asyncio.Task[Any]:
        assert asyncio.iscoroutine(made)
        return asyncio.Task(self._counted(made), loop=loop, **more)

    async def _counted(self, made: Coroutine[Any, Any, Any]) -> Any:
        return await _Steps(made, self._suspends)

    def _suspends(self) -> None:
        if self._armed:
            self.count += 1
            if self.count == self._at:
                self._strike()


class _Steps:
    """A coroutine whose suspensions are told."""

    def __init__(self, made: Coroutine[Any, Any, Any], suspends: Callable[[], None]) -> None:
        self._made = made
        self._suspends = suspends

    def __await__(self) -> Generator[Any, Any, Any]:
        go_on = partial(self._made.send, None)
        while True:
            try:
                waited = go_on()
            except StopIteration as end:
                return end.value
            self._suspends()
            try:
                answer = yield waited
            except BaseException as error:  # noqa: BLE001 - goes on into the coroutine
                go_on = partial(self._made.throw, error)
            else:
                go_on = partial(self._made.send, answer)
