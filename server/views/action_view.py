"""Waiting actions as hosts see them, and what hosts and people can do about each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate

from downstream.gate.prompt_text import SHOWN_CHARACTERS
from journal.actions import Action
from journal.canonical import canonical
from journal.outlet import Outlet
from server.installed import Spoken
from server.page.passkey_file import passkeys_missing

from .run_view import ActionView
from .words import go_ahead

_TOGETHER = 8_000
"""Characters of arguments shown in one view; the arguments of later actions come once earlier ones are decided."""


def without_secrets(action: Action, outlet: Outlet) -> Action:
    """The action as it may be shown: terminals are logged, and a pipe is no person."""
    return replace(action, question=outlet.text(action.question), arguments=outlet.foreign(action.arguments))


@dataclass(frozen=True)
class ShownAction:
    """An action with its place in the view; `complete` if its arguments are in it."""

    action: Action
    place: int
    complete: bool


def shown_actions(actions: Sequence[Action]) -> list[ShownAction]:
    """The actions in order, the arguments of the first ones complete, as far as they fit."""
    sizes = [_size(action) for action in actions]
    sums = accumulate(size if size <= SHOWN_CHARACTERS else 0 for size in sizes)
    fits = [size <= SHOWN_CHARACTERS and total <= _TOGETHER for size, total in zip(sizes, sums, strict=True)]
    return [ShownAction(action, place, fit) for place, (action, fit) in enumerate(zip(actions, fits, strict=True))]


def fits_a_host(action: Action) -> bool:
    """Whether its arguments are short enough to be shown, and so decided, by a host."""
    return _size(action) <= SHOWN_CHARACTERS


def a_host_decides(action: Action) -> bool:
    """Whether a yes may come from this client's user, by a form at least; a no may come from anybody."""
    return action.level == "host" and fits_a_host(action)


def action_view(shown: ShownAction, spoken: Spoken) -> ActionView:
    action = shown.action
    return ActionView(
        action_id=action.id,
        kind=action.kind,
        choices=list(action.choices),
        question=action.question,
        step=action.step,
        tool=action.tool,
        arguments=action.arguments if shown.complete else None,
        effect=action.effect,
        level=action.level,
        reasons=list(action.reasons),
        digest=action.hash[:8],
        expires_at=None if action.expires_at is None else time_text(action.expires_at),
        how=how_to_decide(action, spoken),
    )


def how_to_decide(action: Action, spoken: Spoken) -> str:
    """What a person types to decide."""
    if action.level == "passkey":
        return f"{yes_by_passkey(spoken)} (no: {spoken(f'deny {action.id}')})"
    yes = go_ahead(action, action.id)
    return f"In a terminal: {spoken(yes)} (or: {spoken(f'deny {action.id}')})"


def yes_by_passkey(spoken: Spoken) -> str:
    """How a person says yes to what takes a passkey; with what is missing, where nobody can yet."""
    why = passkeys_missing()
    return f"With a passkey only: `{spoken('ui')}` opens the page, signed in{f'; but {why}' if why else ''}"


def with_page(action: ActionView, address: str | None) -> ActionView:
    """The action with its address on the page before the rest, where the page is served and can decide it."""
    if address is None or action.kind == "login":
        return action
    other = "" if action.level == "passkey" else "or "
    return action.model_copy(update={"how": f"On the page: {address} {other}{action.how[0].lower()}{action.how[1:]}"})


def next_for(shown: ShownAction, *, vouched: bool) -> str:
    """What a host's model is to do about an action; `vouched` where its `approve_action` may say yes."""
    action, place = shown.action, shown.place
    if not a_host_decides(action):
        return f"Tell the user that only a person can decide {action.id}, as actions[{place}].how says; you cannot."
    if not shown.complete:
        return f"Have the earlier actions decided first; then get_run shows the arguments of {action.id}."
    if not vouched:
        return (
            f"Tell the user that they decide {action.id}: in a form, which "
            f'approve_action(action_id="{action.id}", decision="{action.choices[0]}") shows again if this client has '
            f"forms, else as actions[{place}].how says. It decides nothing by itself."
        )
    repeat = "tool and arguments" if action.tool else "arguments"
    if action.kind == "form":
        repeat = f"{'content as they filled it in' if 'schema' in action.arguments else 'no content'}, and arguments"
    asked = (
        f'approve_action(action_id="{action.id}", decision="{action.choices[0]}", and {repeat} as in actions[{place}])'
    )
    return f"Ask the user; then {asked}"


def time_text(at: float) -> str:
    """RFC 3339, UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(action: Action) -> int:
    return len(canonical(action.arguments).decode())
