"""A run as a live tree on a terminal: steps with their calls and times, the cost, and what waits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from downstream.gate.prompt_text import escaped
from journal.steps import StepRow
from journal.values import Json, JsonObject
from server.views.words import MARKS, cost, duration, go_ahead, is_about_servers, one_line, tokens

from .follow import Snapshot

_STYLES = {
    "succeeded": "green",
    "partial": "yellow",
    "failed": "red",
    "refused": "red",
    "running": "cyan",
    "waiting": "bold yellow",
    "awaiting_approval": "bold yellow",
}
_EXPLAINED = frozenset({"failed", "partial", "refused"})
"""Statuses whose summary is shown: a person wants to know why."""
_NEVER_RAN = frozenset({"pending", "waiting", "skipped", "cancelled"})
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WHO, _TIME = 12, 12
How = Callable[[str], str]


@dataclass
class LiveTree:
    """Draws snapshots in place. Use `open_live_tree`."""

    console: Console
    how: How | None
    live: Live
    _calls: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter[str]))
    _revision: str = ""

    def show(self, now: Snapshot) -> None:
        """Draw the run as it is now."""
        for event in now.events:
            if event.type == "call.ended" and event.step is not None:
                self._calls[event.step][str(event.data.get("tool"))] += 1
            elif event.type == "revision.made":
                self._revision = str(event.data.get("reason") or "")
        self.live.update(Drawing(self, now), refresh=True)

    @contextmanager
    def aside(self) -> Generator[None]:
        """Leave the terminal to a question; the tree goes on below it."""
        self.live.stop()
        try:
            yield
        finally:
            # Another one: this one would draw over the question, where it had stood before.
            self.live = _begun(self.console)

    def lines(self, now: Snapshot, *, width: int, spinner: Text) -> Iterator[Text]:
        """The tree, line by line; `spinner` marks what runs."""
        yield _head(now, width)
        for warning in filter(is_about_servers, now.run.warnings):
            yield Text(f"   ! {escaped(one_line(warning))}", style="yellow")
        steps = [step for step in now.steps if not (step.dropped and step.status in _NEVER_RAN)]
        for step in steps:
            last = step is steps[-1]
            yield self._step(step, now, width=width, branch="└─ " if last else "├─ ", spinner=spinner)
            if step.status in _EXPLAINED and step.summary:
                why = escaped(one_line(step.summary))
                yield Text(f"{'   ' if last else '│  '}  {why}", style=f"{_STYLES[step.status]} dim")
        if self._revision:
            yield Text(f"   ↻ plan revised: {escaped(one_line(self._revision))}", style="cyan")
        for action in now.actions if self.how else ():
            yield Text(
                f"   ‖ {escaped(action.tool or action.kind)} waits for a decision of level {action.level}:",
                style="yellow",
            )
            words = go_ahead(action, action.id)
            yield Text(f"     {self.how(words) if self.how else ''}", style="yellow", overflow="fold")

    def _step(self, step: StepRow, now: Snapshot, *, width: int, branch: str, spinner: Text) -> Text:
        style = _STYLES.get(step.status, "dim")
        mark = spinner if step.status == "running" else Text(MARKS[step.status], style=style)
        title = Text(escaped(one_line(step.title or step.id)), style="dim" if step.dropped else "")
        title.append(" (dropped)" if step.dropped else "")
        called = ", ".join(f"{escaped(tool)} ×{count}" for tool, count in self._calls[step.id].items())
        room = max(20, width - len(branch) - 2 - _WHO - _TIME)
        columns = [
            _cell(title, room * 6 // 11),
            _cell(Text(step.worker or step.kind, style="dim"), _WHO),
            _cell(Text(called, style="dim"), room - room * 6 // 11),
        ]
        return Text.assemble(branch, mark, " ", *columns, _right(_time(step, now), _TIME))


@dataclass(frozen=True)
class Drawing:
    """The tree as rich draws it, in the width that there is."""

    tree: LiveTree
    now: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.tree.lines(self.now, width=options.max_width, spinner=spinner(console.get_time())):
            if line.overflow is None:
                line.truncate(options.max_width, overflow="ellipsis")
            yield line


def spinner(at: float) -> Text:
    """What turns while a step runs, at this time in seconds."""
    return Text(_FRAMES[int(at * 10) % len(_FRAMES)], style="cyan")


@contextmanager
def open_live_tree(console: Console, *, how: How | None = None) -> Generator[LiveTree]:
    """A tree that is drawn on the console until the block ends and then stays there.

    `how` gives a command in full, to tell how an action is decided; not given where the person is asked at once.
    """
    tree = LiveTree(console, how, _begun(console))
    try:
        yield tree
    finally:
        tree.live.stop()


def _begun(console: Console) -> Live:
    live = Live(console=console, refresh_per_second=8, vertical_overflow="ellipsis")
    live.start()
    return live


def _head(now: Snapshot, width: int) -> Text:
    run = now.run
    budget: JsonObject = run.options.get("budget") or {}
    limit: Json = budget.get("usd")
    taken = duration((run.ended_at or now.now) - run.created_at)
    bill = f"{cost(now.usage)} of ${limit:.2f}" if limit else cost(now.usage)
    state = "planning" if run.status == "planning" else f"{bill} · {tokens(now.usage)} · {taken}"
    mark = Text(MARKS.get(run.status, "●"), style=_STYLES.get(run.status, "cyan"))
    title = Text(escaped(one_line(run.goal)), style="bold")
    return Text.assemble(mark, " ", _cell(title, max(10, width - len(state) - 2)), Text(state, style="dim"))


def _cell(text: Text, width: int) -> Text:
    """The text in so many columns, with one free at its end."""
    text.truncate(max(1, width - 1), overflow="ellipsis", pad=True)
    return Text.assemble(text, " ")


def _right(text: Text, width: int) -> Text:
    text.pad_left(max(0, width - len(text.plain)))
    return text


def _time(step: StepRow, now: Snapshot) -> Text:
    waiting = next((action for action in now.actions if action.step == step.id), None)
    if waiting is not None:
        return Text(f"waits {duration(now.now - waiting.created_at)}", style="yellow")
    if step.started_at is None:
        return Text("")
    return Text(duration((step.ended_at or now.now) - step.started_at), style="dim")
