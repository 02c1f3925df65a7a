"""Marks, amounts and times in the words of the command line."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from journal.ledger import Usage

if TYPE_CHECKING:
    from journal.actions import Action
    from journal.steps import StepRow

    from .run_view import ActionView

MARKS = {
    "succeeded": "✔",
    "partial": "◐",
    "failed": "✘",
    "refused": "⊘",
    "skipped": "–",
    "cancelled": "–",
    "running": "▶",
    "waiting": "‖",
    "awaiting_approval": "‖",
    "pending": "·",
}
"""One character for each status of a step, and for a run that waits."""


def one_line(text: str) -> str:
    return " ".join(text.split())


def duration(seconds: float) -> str:
    """`0:07`, `12:40`, `3:05:00`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def tokens(usage: Usage) -> str:
    """`840 tok`, `3.6k tok`."""
    count = usage.input_tokens + usage.output_tokens
    return f"{count} tok" if count < 1000 else f"{count / 1000:.1f}k tok"


def cost(usage: Usage) -> str:
    """US dollars, as a lower bound where a price is not known."""
    text = f"${usage.cost_usd:.2f}" if usage.cost_usd == 0 or usage.cost_usd >= 1 else f"${usage.cost_usd:.4f}"
    return text if usage.cost_known else f"≥ {text}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def steps_done(steps: "Iterable[StepRow]") -> str:
    """`3 of 4 steps`: of the plan as it is now; how many a revision took out of it comes after."""
    every = list(steps)
    own = [step for step in every if not step.dropped]
    dropped = len(every) - len(own)
    done = sum(step.status == "succeeded" for step in own)
    return f"{done} of {counted(len(own), 'step')}{f' ({dropped} more dropped by revisions)' if dropped else ''}"


def ended_as(status: str, reason: str | None) -> str:
    """The status, and why the run ended so where that says more."""
    return status if reason in (None, "done", status) else f"{status} ({reason})"


def is_about_servers(warning: str) -> bool:
    """Whether a warning of a run says that a tool server is missing, which explains much of what comes after."""
    return warning.startswith("tool server ") and " is left out: " in warning


def go_ahead(action: "Action | ActionView", action_id: str) -> str:
    """The words of the command by which a waiting action goes on; what needs a passkey does on the page."""
    if action.level == "passkey":
        return "ui"
    return (
        f"servers login {(action.tool or '').partition('.')[0]}" if action.kind == "login" else f"approve {action_id}"
    )
