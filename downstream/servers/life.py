"""How long an open connection is good for."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio


@dataclass
class Life:
    """Of one open connection: `lost` ends it at once, `worn` as soon as no call is on its way any more."""

    lost: anyio.Event = field(default_factory=anyio.Event)
    why: str | None = None
    worn: bool = False
    _calls: int = 0

    @property
    def is_good(self) -> bool:
        """Whether calls may still begin."""
        return not self.worn and not self.lost.is_set()

    def end(self, why: str | None = None) -> None:
        """Nothing comes any more; the first reason stays."""
        if not self.lost.is_set():
            self.why = why
            self.lost.set()

    def wear_out(self) -> None:
        """The server is to be opened anew, without harm to the calls on their way."""
        self.worn = True
        self._end_if_idle()

    @contextmanager
    def one_call(self) -> Generator[None]:
        """A call is on its way."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self.worn and not self._calls:
            self.end()
