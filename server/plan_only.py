"""Planning without running: the plan of a goal, and whether a plan that a person wrote would be taken."""

from dataclasses import dataclass
from typing import cast

import anyio

from journal.errors import SteprelayError
from journal.runs import Run
from journal.values import JsonObject

from .product import Product, Request

_PLANNED = "planned only"
_LAST_SECONDS = 5.0
"""An interrupted command has so long to say that its run is over."""


class NoPlan(SteprelayError):
    """The planner gave no plan; the run that asked for it says why."""


@dataclass(frozen=True)
class PlannedOnly:
    """A plan as {"steps": […]}, and what the run that made it warned of."""

    plan: JsonObject
    warnings: tuple[str, ...]


async def make_plan(product: Product, goal: str, context: str) -> PlannedOnly:
    """The planner's plan for a goal; nothing of it is run. Raises NoPlan.

    Planning is a run like any other, with its cost in the books; it stops for review and is ended there, or where it
    is interrupted.
    """
    request = Request(
        goal, context, review_plan=True, goal_label="user", idempotency_key=product.store.world.new_id("k")
    )
    run_id = await product.start(request)
    try:
        run = await product.until(run_id, lambda run: run.ended or run.status == "awaiting_approval")
        plan = await _waiting_plan(product, run)
    finally:
        # Interrupted, too: left as it is, whoever adopts it would pay for the plan and, after a yes, carry it out.
        with anyio.move_on_after(_LAST_SECONDS, shield=True):
            await product.store.request_cancel(await product.store.run(run_id), _PLANNED)
    await product.cancel(run_id, _PLANNED)
    warnings = (await product.store.run(run_id)).warnings
    if plan is None:
        raise NoPlan(f"{run.message or 'there is no plan'} {'; '.join(warnings)}".strip())
    # It goes to a terminal or a file; the server that a secret in it is for gets it back from the placeholder.
    return PlannedOnly(cast("JsonObject", product.store.outlet.foreign(plan)), warnings)


async def _waiting_plan(product: Product, run: Run) -> JsonObject | None:
    actions = await product.store.actions(run.id)
    return next((action.arguments for action in actions if action.kind == "plan" and action.state == "waiting"), None)
