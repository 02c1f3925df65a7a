"""A run as a live tree on a terminal: steps with their calls and times, the cost, and what waits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from downstream.prompt_text import escaped
from journal.steps import StepRow

from .follow import Snapshot
from .words import MARKS, cost, duration, one_line, tokens

_STYLES = {
    "succeeded": "green",
    "partial": "yellow",
    "failed": "red",
    "refused": "red",
    "running": "cyan",
    "waiting": "bold yellow",
}
_SPINNER = "dots"
_EXPLAINED = frozenset({"failed", "partial", "refused"})
"""Statuses whose summary is shown: a person wants to know why."""


@dataclass
class LiveTree:
    """Draws snapshots in place. Use `open_live_tree`."""

    live: Live
    how: Callable[[str], str]
    _calls: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _revision: str = ""
    _spinner: Spinner = field(default_factory=lambda: Spinner(_SPINNER, style="cyan"))

    def show(self, now: Snapshot) -> None:
        """Draw the run as it is now."""
        for event in now.events:
            if event.type == "call.ended" and event.step is not None:
                self._calls[event.step][str(event.data.get("tool"))] += 1
            elif event.type == "revision.made":
                self._revision = str(event.data.get("reason") or "")
        self.live.update(self._drawn(now), refresh=True)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Leave the terminal to a question; the tree goes on below it."""
        self.live.stop()
        try:
            yield
        finally:
            self.live.start(refresh=True)

    def _drawn(self, now: Snapshot) -> RenderableType:
        parts: list[RenderableType] = [_head(now)]
        steps = [step for step in now.steps if not step.dropped or step.status not in ("pending", "waiting")]
        grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(ratio=5, no_wrap=True, overflow="ellipsis")
        grid.add_column(ratio=2, no_wrap=True, overflow="ellipsis", style="dim")
        grid.add_column(ratio=4, no_wrap=True, overflow="ellipsis", style="dim")
        grid.add_column(justify="right", no_wrap=True)
        for step in steps:
            self._add(grid, step, now, last=step is steps[-1])
        if steps:
            parts.append(grid)
        if self._revision:
            parts.append(_note("↻", f"plan revised: {self._revision}", "cyan"))
        for action in now.actions:
            name = action.tool or action.kind
            parts.append(_note("‖", f"{name} waits for you: {self.how(f'approve {action.id}')}", "yellow"))
        return Group(*parts)

    def _add(self, grid: Table, step: StepRow, now: Snapshot, *, last: bool) -> None:
        style = _STYLES.get(step.status, "dim")
        mark = self._spinner if step.status == "running" else Text(MARKS[step.status], style=style)
        title = Text(escaped(one_line(step.title or step.id)), style="dim" if step.dropped else "")
        if step.dropped:
            title.append(" (dropped)")
        calls = self._calls[step.id]
        called = ", ".join(f"{escaped(tool)} ×{count}" for tool, count in calls.items())
        grid.add_row("└─" if last else "├─", mark, title, step.worker or step.kind, called, _time(step, now))
        if step.status in _EXPLAINED and step.summary:
            why = Text(escaped(one_line(step.summary)), style=f"{style} dim")
            grid.add_row("  " if last else "│ ", "", why, "", "", "")


@contextmanager
def open_live_tree(console: Console, *, how: Callable[[str], str]) -> Generator[LiveTree]:
    """A tree that is drawn on the console until the block ends and then stays there; `how` gives a command in full."""
    with Live(console=console, refresh_per_second=8, vertical_overflow="ellipsis") as live:
        yield LiveTree(live, how)


def _head(now: Snapshot) -> Table:
    run, limit = now.run, (now.run.options.get("budget") or {}).get("usd")
    taken = duration((run.ended_at or now.now) - run.created_at)
    bill = f"{cost(now.usage)} of ${limit:.2f}" if limit else cost(now.usage)
    head = Table.grid(padding=(0, 1, 0, 0), expand=True)
    head.add_column(no_wrap=True)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right", no_wrap=True)
    title = Text(escaped(one_line(run.goal)), style="bold")
    state = "planning" if run.status == "planning" else f"{bill} · {tokens(now.usage)} · {taken}"
    mark = MARKS.get(run.status, "●")
    head.add_row(Text(mark, style=_STYLES.get(run.status, "cyan")), title, Text(state, style="dim"))
    return head


def _time(step: StepRow, now: Snapshot) -> Text:
    waiting = next((action for action in now.actions if action.step == step.id), None)
    if waiting is not None:
        return Text(f"waits {duration(now.now - waiting.created_at)}", style="yellow")
    if step.started_at is None:
        return Text("")
    return Text(duration((step.ended_at or now.now) - step.started_at), style="dim")


def _note(mark: str, text: str, style: str) -> Text:
    return Text(f"   {mark} {escaped(one_line(text))}", style=style, overflow="fold")
