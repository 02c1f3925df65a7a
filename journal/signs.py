"""How far the calls at work in this process say they are; kept in memory only, for whoever waits for their run."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Sign:
    run: str
    tool: str
    far: str = ""


class Signs:
    """One for each process; calls enter themselves."""

    def __init__(self) -> None:
        self._signs: list[_Sign] = []

    @contextmanager
    def call(self, run: str, tool: str) -> Generator[Callable[[float, float | None], None]]:
        """A call of a run is at work within; gives what to call with its progress."""
        sign = _Sign(run, tool)

        def hear(done: float, total: float | None) -> None:
            sign.far = f"{done:g}" if total is None else f"{done:g}/{total:g}"

        self._signs.append(sign)
        try:
            yield hear
        finally:
            self._signs = [each for each in self._signs if each is not sign]

    def of(self, run: str) -> list[str]:
        """Such as `files.index 40/100`, for each call of the run that told of progress."""
        return [f"{sign.tool} {sign.far}" for sign in self._signs if sign.run == run and sign.far]
