"""An edit of a waiting call: the same call with other arguments, as a new question; nothing runs by it."""

from dataclasses import replace

from downstream.door import Arguments, Refused, ToolCall
from journal.actions import Action, NewAction
from journal.errors import SteprelayError
from journal.runs import Run
from journal.values import WORST, JsonObject

from .approvals import approval_key, new_question
from .stages import Gate, arguments_fit, case_of, definition_is_unchanged, policy_says, secrets_in, taint_raises


class EditRefused(SteprelayError):
    """The new arguments cannot be asked for; the action that was to be edited goes on waiting."""


async def edited_action(gate: Gate, run: Run, action: Action, arguments: JsonObject) -> NewAction:
    """The question about `action`'s call with these arguments, for whoever supersedes `action` with it.

    It asks for no less than `action` did, and counts where the words come from as not known. Raises EditRefused.
    """
    tools = await gate.tools(action.tool or "")
    tool = gate.find(action.tool or "")
    if action.kind != "call" or action.state != "waiting" or tool is None:
        raise EditRefused(f"action {action.id} ({action.kind}) has no arguments to edit; decide it, or cancel the run")
    key = action.key.removesuffix(approval_key(""))
    call = ToolCall(
        key=key,
        step=action.step or "",
        tool=tool.full_name,
        arguments=Arguments(arguments, WORST),
        allowed=frozenset({tool.full_name}),
        origin="plan",
        read=frozenset(),
    )
    case = case_of(gate, run, call, tool)
    if (refused := arguments_fit(gate, case) or definition_is_unchanged(gate, tool.full_name)) is not None:
        raise EditRefused(refused.reason)
    verdict = taint_raises(gate, case, policy_says(gate, case), tools)
    if verdict.verb == "deny":
        raise EditRefused(f"{tool.full_name} may not be called so: {'; '.join(verdict.reasons)}")
    asked = secrets_in(gate, case, verdict.asking(action.level, "its arguments were edited"))
    if isinstance(asked, Refused):
        raise EditRefused(asked.reason)
    new = new_question(gate, case, asked)
    return replace(new, edit_of=action.id)
