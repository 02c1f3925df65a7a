"""Driving a run from the command line: shown while it goes on, its actions decided, its end told."""

import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
import typer

from journal.actions import Action, Decision
from journal.errors import DecisionRefused, StoreError
from journal.grants import Grant
from server.terminal.asking import ask_decision, no_of, nobody_here, question_lines
from server.terminal.event_lines import show_events
from server.terminal.exit_codes import ExitCode, code_of_run
from server.terminal.follow import Decide, Show, follow, look
from server.terminal.plain_lines import show_lines
from server.views.action_view import without_secrets

from .ending import tell_end
from .opening import typed
from .options import ApproveMode

if TYPE_CHECKING:
    from server.product import Product

_LOOK_SECONDS = 0.25
"""How often it is looked whether a question was answered elsewhere."""


@dataclass(frozen=True)
class Manner:
    """How a run is followed: who decides, what is printed, and the `--config` that commands told to people need.

    Events up to number `told` were shown before.
    """

    approve: ApproveMode = "ask"
    as_json: bool = False
    config: Path | None = None
    told: int = 0

    @property
    def asks(self) -> bool:
        """Whether there is a person to ask. With `--json` stdout is for events, so there is none."""
        return not self.as_json and nobody_here(os.environ) is None

    def typed(self, words: str) -> str:
        return typed(words, self.config)


class Display(Protocol):
    """Shows a run, and makes room for a question."""

    @property
    def show(self) -> Show: ...
    def aside(self) -> AbstractContextManager[None]: ...


async def drive_here(product: "Product", run_id: str, manner: Manner) -> ExitCode:
    """Follow a run that this process may drive, deciding its actions, until it ends or waits.

    Interrupted, it says how to go on.
    """
    await product.engine.wake(run_id)
    try:
        async with _page_for(product, manner):
            with open_display(manner, asks=manner.asks) as display:
                decide = _decider(product, manner, display)
                await follow(product.store, run_id, show=display.show, decide=decide, after=manner.told)
    except anyio.get_cancelled_exc_class():
        typer.echo(f"\nInterrupted. The run is kept; go on with: {manner.typed(f'runs resume {run_id}')}", err=True)
        raise
    end = await look(product.store, run_id)
    if not manner.as_json:
        tell_end(end, how=manner.typed)
    if end.run.ended:
        # It has been told, whether or not that can be noted.
        with suppress(StoreError):
            await product.store.mark_delivered(run_id)
    return code_of_run(end.run)


@asynccontextmanager
async def _page_for(product: "Product", manner: Manner) -> AsyncGenerator[None]:
    """The page beside the terminal, so that a person may decide there instead; none where nobody is at either."""
    if not manner.asks:
        yield
        return
    from server.page.serving import open_page

    async with open_page(product):
        yield


@dataclass(frozen=True)
class _Lines:
    """Lines, for people or programs: a question needs no room."""

    show: Show

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def open_display(manner: Manner, *, asks: bool = False) -> Generator[Display]:
    """Events for programs, a live tree on a terminal, plain lines elsewhere; `asks` where actions are decided here."""
    if manner.as_json:
        yield _Lines(show_events)
        return
    from rich.console import Console

    console = Console()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(show_lines)
        return
    from server.terminal.live_tree import open_live_tree

    with open_live_tree(console, how=None if asks else manner.typed) as tree:
        yield tree


def _decider(product: "Product", manner: Manner, display: Display) -> Decide:
    async def decide(action: Action) -> None:
        decision, shown = _by_flag(action, manner.approve), without_secrets(action, product.store.outlet)
        grants: Sequence[Grant] = ()
        if decision is None and manner.asks:
            with display.aside():
                decision = await _ask(product, shown)
                if decision is not None:
                    from server.terminal.granting import with_grants

                    decision, grants = await with_grants(product.settings, product.store, action, decision)
        elif decision is None and not manner.as_json:
            _say_what_waits(shown, product.store.world.now())
        if decision is not None:
            await _record(product, action, decision, grants=grants)

    return decide


async def _ask(product: "Product", action: Action) -> Decision | None:
    """Ask at the terminal; None also where the action was decided elsewhere before anybody answered here."""
    decisions: list[Decision | None] = []

    async def ask(scope: anyio.CancelScope) -> None:
        decisions.append(await ask_decision(action, now=product.store.world.now(), grants=True))
        scope.cancel()

    if (address := product.page.of(action.id)) is not None:
        typer.echo(f"\nTo decide on the page instead: {address}")
    async with anyio.create_task_group() as group:
        group.start_soon(ask, group.cancel_scope)
        await _decided(product, action)
        group.cancel_scope.cancel()
    if not decisions:
        typer.echo("\nIt was decided elsewhere.")
    return decisions[0] if decisions else None


async def _decided(product: "Product", action: Action) -> None:
    while True:
        changed = product.store.bell.listen(action.run)
        if (await product.store.action(action.id)).state != "waiting":
            return
        # Another process rings no bell here.
        with anyio.move_on_after(_LOOK_SECONDS):
            await changed.wait()


def _by_flag(action: Action, mode: ApproveMode) -> Decision | None:
    """What `--approve` decides by itself. `all` is no person's word, so it covers only what a host could approve."""
    if mode == "deny":
        return Decision(no_of(action), "person", "flag")
    if mode == "all" and action.kind == "call" and action.effect == "write" and action.level == "host":
        return Decision("approve", "host", "flag")
    return None


def _say_what_waits(action: Action, now: float) -> None:
    for line in question_lines(action, now=now):
        typer.echo(line)


async def _record(product: "Product", action: Action, decision: Decision, *, grants: Sequence[Grant]) -> None:
    try:
        await product.decide(action, decision, grants=grants)
    except DecisionRefused as error:
        typer.echo(product.store.outlet.text(str(error)), err=True)
