"""A waiting call with other arguments, as a person types them where they see it: on the page, or in a panel."""

import json
from dataclasses import dataclass
from typing import cast

from journal.actions import Action
from journal.errors import SteprelayError
from journal.values import Json, JsonObject
from server.host.edits import Editor, edit_action
from server.product import Product


@dataclass(frozen=True)
class Edit:
    """What was typed; `digest` is the hash of the action that was shown there."""

    action_id: str
    digest: str
    text: str


class ArgumentsUnread(SteprelayError):
    """What was typed is no JSON object."""


async def edit_shown(product: Product, action: Action, edit: Edit, *, editor: Editor) -> JsonObject:
    """Have a call wait with other arguments; nothing runs. Raises ArgumentsUnread, DecisionRefused or EditRefused."""
    await edit_action(product, action, _typed(edit.text), decision="approve", editor=editor)
    return {"message": "Nothing has run. The call with your arguments waits now."}


def _typed(text: str) -> JsonObject:
    """Read here, since browsers round large numbers."""
    try:
        data: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentsUnread(f"the arguments are no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ArgumentsUnread("the arguments are no JSON object, {…}")
    return cast("JsonObject", data)
