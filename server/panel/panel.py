"""What the panel may ask for: the run it was opened for, and decisions on what it shows of that."""

import base64
import hashlib
import hmac
import json

from mcp.server.apps import client_supports_apps
from mcp_types import CallToolResult

from downstream.gate.forms import checked_content
from journal.actions import SAYS_NO, Action, Decision, Level
from journal.errors import DecisionRefused, SteprelayError
from journal.values import JsonObject
from server.host.attach import Host
from server.page.approver import kept_approver
from server.page.cards import Background, action_card, run_card
from server.page.desk import Asked
from server.page.seen import Seen
from server.page.sessions import check_code
from server.product import Product
from server.views.action_view import a_host_decides

META = "steprelay/panel"
"""Where the view key stands in the `_meta` of a result: hosts hand that to the view and keep it from the model."""


class NotThePanel(SteprelayError):
    """A call of the panel's tools that the panel did not make, or made through a host that shows none."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"only steprelay's own panel may call this, and {why}. A person decides in the panel, on the page or in a "
            "terminal; get_run shows how"
        )


class Panel:
    """The panels of all hosts of one server; `secret` is what their view keys are made with."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._seen = Seen()

    def keyed(self, result: CallToolResult, host: Host) -> CallToolResult:
        """The result of a run's tool with the view key, for a host that shows the panel; where models never look."""
        run: JsonObject = result.structured_content or {}
        if "run_id" not in run or not client_supports_apps(host.context):
            return result
        meta = {META: {"key": self._key(run["run_id"], host)}}
        return result.model_copy(update={"meta": (result.meta or {}) | meta})

    def check(self, host: Host, *, run_id: str, view_key: str) -> None:
        """Raises NotThePanel."""
        if not client_supports_apps(host.context):
            raise NotThePanel("this client has not declared that it shows one")
        if not hmac.compare_digest(view_key.encode(), self._key(run_id, host).encode()):
            raise NotThePanel("the view key is not that of this run and client")

    async def state(self, product: Product, host: Host, *, run_id: str) -> JsonObject:
        """The run with its plan and all that waits in it; what waits counts as shown from now on. Raises UnknownId."""
        store = product.store
        run, steps = await store.run(run_id), await store.steps(run_id)
        waiting = [action for action in await store.actions(run_id) if action.state == "waiting" and not run.imported]
        self._seen.note(waiting, self._key(run_id, host), now=store.world.monotonic())
        view = await product.view(run_id)
        elsewhere = {action.action_id: action.how for action in view.actions}
        cards: list[JsonObject] = []
        for action in waiting:
            before = None if action.edit_of is None else await store.action(action.edit_of)
            card = action_card(action, Background(store.outlet, steps, before))
            if not _may_approve(action, product, host):
                told = [*card["told"], f"A yes counts only elsewhere. {elsewhere.get(action.id, '')}"]
                card |= {"told": told, "choices": [choice for choice in card["choices"] if choice["no"]]}
            cards.append(card)
        approver = kept_approver()
        return {
            "run": run_card(run, steps, await store.usage(run), outlet=store.outlet) | {"actions": cards},
            "message": view.message,
            "min_seconds": product.settings.approvals.min_answer_seconds,
            "asks_codes": approver is not None and approver.seed is not None,
        }

    async def decide(self, product: Product, host: Host, *, run_id: str, asked: Asked, code: str) -> JsonObject:
        """Record what a person pressed. Raises UnknownId, DecisionRefused, SignInRefused or ContentUnfit."""
        store = product.store
        action = await store.action(asked.action_id)
        if (action.run, action.hash) != (run_id, asked.digest):
            raise DecisionRefused(f"action {action.id} is not what was shown in this panel; look again, then decide")
        if asked.choice not in SAYS_NO:
            await self._check_yes(product, host, action=action, code=code)
        content = checked_content(action, asked.choice, asked.content)
        level = _level(product, host)
        await product.decide(action, Decision(asked.choice, level, "panel", asked.note, content, host.name))
        return {"message": f"Recorded: {asked.choice}."}

    async def _check_yes(self, product: Product, host: Host, *, action: Action, code: str) -> None:
        if not _may_approve(action, product, host):
            is_trusted = _level(product, host) == "person"
            weak = "" if is_trusted else ": approvals.trusted_hosts in the settings does not name this client"
            raise DecisionRefused(
                f"action {action.id} (level {action.level}) cannot be approved in this panel{weak}; "
                "get_run shows how a person decides it"
            )
        store = product.store
        least = product.settings.approvals.min_answer_seconds
        self._seen.check(action, self._key(action.run, host), now=store.world.monotonic(), least=least)
        approver = kept_approver()
        if approver is not None and approver.seed is not None:
            await check_code(store, approver, code)

    def _key(self, run_id: str, host: Host) -> str:
        """One key for each run and client, so that one that got about opens nothing else."""
        mac = hmac.new(self._secret, json.dumps(["panel", run_id, host.name]).encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")


def _level(product: Product, host: Host) -> Level:
    """What pressing a button is worth: a person's word where the settings trust the client to let only them press."""
    return "person" if host.name in product.settings.approvals.trusted_hosts else "host"


def _may_approve(action: Action, product: Product, host: Host) -> bool:
    if _level(product, host) == "person":
        return action.level != "passkey"
    # Such a client may let its model press, so the panel is worth there what approve_action is.
    return a_host_decides(action) and product.settings.approvals.approve_action == "host"
