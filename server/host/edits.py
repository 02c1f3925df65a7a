"""Changing a waiting action: nothing runs, the old one ends and a new one with the changed arguments waits."""

from dataclasses import dataclass

from downstream.gate.prompt_text import quoted
from journal.actions import Action, NewAction, create_action, supersede
from journal.audit import append_audit
from journal.audit_actions import edited_line
from journal.database import Transaction
from journal.errors import DecisionRefused
from journal.values import JsonObject
from server.product import Product


@dataclass(frozen=True)
class _Edit:
    old: Action
    new: NewAction


@dataclass(frozen=True)
class Editor:
    """Who wants other arguments, for the record: by which way, and who vouches for it."""

    via: str
    client: str | None


async def edit_action(
    product: Product, action: Action, arguments: JsonObject, *, decision: str, editor: Editor
) -> None:
    """Replace a waiting `call` action by one with these arguments. Raises DecisionRefused or EditRefused."""
    await product.store.check_writable(action.run)
    if decision != "approve":
        raise DecisionRefused(f"edited_arguments go with decision 'approve', not {quoted(decision)}; leave one out")
    if action.kind != "call" or action.state != "waiting":
        raise DecisionRefused(
            f"action {action.id} ({action.kind}, {action.state}) cannot be edited: only calls that wait can be; "
            "decide it as it is, or leave it waiting"
        )
    if action.expires_at is not None and product.store.world.now() > action.expires_at:
        raise DecisionRefused(
            f"action {action.id} has expired; an edit would have it wait anew, so ask for the goal again"
        )
    edit = _Edit(action, await product.edited(action, arguments))

    def change(tx: Transaction) -> None:
        if not supersede(tx, edit.old):
            raise DecisionRefused(f"action {action.id} has been decided in the meantime; get_run shows it")
        world, outlet = product.store.world, product.store.outlet
        made = create_action(tx, action.run, edit.new, world=world, outlet=outlet)
        line = edited_line(made, via=editor.via, client=editor.client)
        append_audit(tx, line, owner=made.owner, at=made.created_at, outlet=outlet)

    await product.store.database.write("edit", change)
    product.store.bell.ring(action.run)
