"""Keeps a RunView within what hosts put before their models: what is least needed goes first."""

import json
from collections.abc import Iterator

from .run_view import RunView, StepView

ANSWER = 6_000
_FULL = 16_000
_SHORT = 1_500
_WARNING = 500
_MESSAGE = 600


def fitted(view: RunView, *, short: bool) -> RunView:
    """The view in at most 16,000 characters besides its actions, or 1,500 for the short form of a run at work."""
    smallest = view
    for smallest in _ever_smaller(view):
        if weight(smallest) <= (_SHORT if short else _FULL):
            break
    return smallest


def weight(view: RunView) -> int:
    """The characters of a view besides its actions."""
    return len(json.dumps(view.model_dump(mode="json", exclude={"actions"}), ensure_ascii=False))


def shortened(text: str, limit: int) -> str:
    """The text, cut with a mark where it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _ever_smaller(view: RunView) -> Iterator[RunView]:
    view = view.model_copy(update={"warnings": [shortened(text, _WARNING) for text in view.warnings]})
    yield view
    view = view.model_copy(update={"step_list": view.step_list and [_short_step(step) for step in view.step_list]})
    yield view
    for count in (20, 10, 0):
        view = view.model_copy(update={"sources": view.sources and view.sources[:count]})
        yield view
    warnings, report = view.warnings, f"run://{view.run_id}/report"
    for count in reversed(range(len(warnings))):
        more = f"{len(warnings) - count} warnings more: {report} has them"
        view = view.model_copy(update={"warnings": [*warnings[:count], more]})
        yield view
    # The last line says how to look again.
    for count in reversed(range(len(view.next_actions) - 1)):
        view = view.model_copy(update={"next_actions": [*view.next_actions[:count], view.next_actions[-1]]})
        yield view
    view = view.model_copy(update={"message": shortened(view.message, _MESSAGE)})
    yield view
    yield view.model_copy(update={"step_list": view.step_list and view.step_list[:20]})


def _short_step(step: StepView) -> StepView:
    return step.model_copy(update={"summary": shortened(step.summary, 40), "title": shortened(step.title, 40)})
