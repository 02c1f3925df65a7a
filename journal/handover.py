"""Work for a thread of the database, and its result on the way back to the event loop that waits for it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Job(Generic[T]):
    """A function to run on the thread; `point` names the boundary for crash tests, `waiter` is of the asking loop."""

    point: str
    work: Callable[[Any], T]
    waiter: "asyncio.Future[T]"


@dataclass(frozen=True)
class Result(Generic[T]):
    """What came of a job: its value, or the error to raise."""

    job: Job[T]
    value: T | None = None
    problem: Exception | None = None


@dataclass(frozen=True)
class End(Generic[T]):
    """How work ended: with its value, or with what it raised."""

    value: T | None = None
    problem: Exception | None = None


def end_of(work: Callable[[], T]) -> End[T]:
    """What comes of work, which may raise whatever it wants: it goes to whoever waits."""
    try:
        return End(work())
    except Exception as error:  # noqa: BLE001
        return End(problem=error)


def deliver(results: Sequence[Result[Any]]) -> None:
    """Wake those who wait, from the thread: each loop once for all of its jobs.

    A concurrent future for each job would do the same at several times the cost.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[Result[Any]]] = {}
    for result in results:
        by_loop.setdefault(result.job.waiter.get_loop(), []).append(result)
    for loop, own in by_loop.items():
        # A loop that has ended has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_wake, own)


def _wake(results: Sequence[Result[Any]]) -> None:
    for result in results:
        waiter = result.job.waiter
        if waiter.done():
            continue
        if isinstance(result.problem, StopIteration):
            waiter.set_exception(RuntimeError("no future can hold a StopIteration"))
        elif result.problem is not None:
            waiter.set_exception(result.problem)
        else:
            waiter.set_result(result.value)
