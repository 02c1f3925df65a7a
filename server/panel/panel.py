"""What the panel may ask for: the run it was opened for, and what a person does about what it shows of that."""

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass

from mcp.server.apps import client_supports_apps
from mcp_types import CallToolResult

from downstream.gate.forms import checked_content
from downstream.tools import Tool
from journal.actions import SAYS_NO, Action, Decision, Level
from journal.errors import DecisionRefused, SteprelayError
from journal.runs import Run
from journal.steps import StepRow
from journal.values import JsonObject
from server.host.attach import Host
from server.host.edits import Editor
from server.installed import Spoken
from server.page.approver import kept_approver
from server.page.cards import Background, action_card, run_card
from server.page.classing import Word, class_tool, shown_tool, tool_cards, unclassed_tools
from server.page.desk import Asked
from server.page.edits import Edit, edit_shown
from server.page.seen import Seen
from server.page.sessions import check_code
from server.product import Product
from server.views.action_view import a_host_decides
from server.views.run_view import RunView

META = "steprelay/panel"
"""Where the view key stands in the `_meta` of a result: hosts hand that to the view and keep it from the model."""


class NotThePanel(SteprelayError):
    """A call of the panel's tools that the panel did not make, or made through a host that shows none."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"only steprelay's own panel may call this, and {why}. A person decides in the panel, on the page or in a "
            "terminal; get_run shows how"
        )


@dataclass(frozen=True)
class Drawn:
    """What the panel draws of a run: its steps, the actions that wait in it, and its view."""

    run: Run
    steps: Sequence[StepRow]
    waiting: Sequence[Action]
    view: RunView


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
        """The run with its plan, all that waits in it, and the tools that are to be classed for it.

        All this counts as shown from now on. Raises UnknownId.
        """
        store = product.store
        run, steps = await store.run(run_id), await store.steps(run_id)
        is_person = _level(product, host, run) == "person"
        waiting = [action for action in await store.actions(run_id) if action.state == "waiting" and not run.imported]
        unclassed = await _unclassed(product, run)
        mine = unclassed if is_person else []
        self._seen.note([*waiting, *mine], self._key(run_id, host), now=store.world.monotonic())
        view = await product.view(run_id)
        cards = await _cards(product, host, Drawn(run, steps, waiting, view))
        approver = kept_approver()
        return tool_cards(product, mine) | {
            "run": run_card(run, steps, await store.usage(run), outlet=store.outlet) | {"actions": cards},
            "message": view.message,
            "elsewhere": None if is_person else _on_the_page(product, waiting, unclassed),
            "min_seconds": product.settings.approvals.min_answer_seconds,
            "asks_codes": approver is not None and approver.seed is not None,
        }

    async def decide(self, product: Product, host: Host, *, run_id: str, asked: Asked, code: str) -> JsonObject:
        """Record what a person pressed. Raises UnknownId, DecisionRefused, SignInRefused or ContentUnfit."""
        action, run = await _as_shown(product, run_id, asked), await product.store.run(run_id)
        if asked.choice not in SAYS_NO:
            await self._check_yes(product, host, run, action=action, code=code)
        content = checked_content(action, asked.choice, asked.content)
        level = _level(product, host, run)
        await product.decide(action, Decision(asked.choice, level, "panel", asked.note, content, host.name))
        return {"message": f"Recorded: {asked.choice}."}

    async def edit(self, product: Product, host: Host, *, run_id: str, edit: Edit) -> JsonObject:
        """Have a call wait with other arguments; nothing runs.

        Raises UnknownId, DecisionRefused, ArgumentsUnread or EditRefused.
        """
        action, run = await _as_shown(product, run_id, edit), await product.store.run(run_id)
        if _level(product, host, run) != "person":
            way = _way(product, product.page.of(action.id))
            raise DecisionRefused(
                f"action {action.id} cannot be edited in this panel{_untrusted(product, run)}; the page can: {way}"
            )
        self._check_seen(product, host, run_id=run_id, shown=action)
        return await edit_shown(product, action, edit, editor=Editor("panel", host.name))

    async def class_tool(self, product: Product, host: Host, *, run_id: str, word: Word, code: str) -> JsonObject:
        """Take a person's word on what a tool is. Raises UnknownId, DecisionRefused, NotToConfirm or SignInRefused."""
        run = await product.store.run(run_id)
        if _level(product, host, run) != "person":
            way = _way(product, product.page.address)
            why = _untrusted(product, run)
            raise DecisionRefused(f"no tool can be classed in this panel{why}; the page can: {way}")
        tool = shown_tool(await _unclassed(product, run), word)
        self._check_seen(product, host, run_id=run_id, shown=tool)
        await _check_code(product, code)
        return await class_tool(product, tool, word, client=str(host.name))

    async def _check_yes(self, product: Product, host: Host, run: Run, *, action: Action, code: str) -> None:
        if not _may_approve(action, product, host, run):
            is_trusted = _level(product, host, run) == "person"
            weak = "" if is_trusted else _untrusted(product, run)
            raise DecisionRefused(
                f"action {action.id} (level {action.level}) cannot be approved in this panel{weak}; "
                "get_run shows how a person decides it"
            )
        self._check_seen(product, host, run_id=action.run, shown=action)
        await _check_code(product, code)

    def _check_seen(self, product: Product, host: Host, *, run_id: str, shown: Action | Tool) -> None:
        now, least = product.store.world.monotonic(), product.settings.approvals.min_answer_seconds
        self._seen.check(shown, self._key(run_id, host), now=now, least=least)

    def _key(self, run_id: str, host: Host) -> str:
        """One key for each run and client, so that one that got about opens nothing else."""
        mac = hmac.new(self._secret, json.dumps(["panel", run_id, host.name]).encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")


async def _cards(product: Product, host: Host, drawn: Drawn) -> list[JsonObject]:
    elsewhere = {action.action_id: action.how for action in drawn.view.actions}
    store, editable = product.store, _level(product, host, drawn.run) == "person"
    cards: list[JsonObject] = []
    for action in drawn.waiting:
        before = None if action.edit_of is None else await store.action(action.edit_of)
        card = action_card(action, Background(store.outlet, drawn.steps, before, editable=editable))
        if not _may_approve(action, product, host, drawn.run):
            told = [*card["told"], f"A yes counts only elsewhere. {elsewhere.get(action.id, '')}"]
            card |= {"told": told, "choices": [choice for choice in card["choices"] if choice["no"]]}
        cards.append(card)
    return cards


def _level(product: Product, host: Host, run: Run) -> Level:
    """What pressing a button is worth: a person's word where the run's settings trust the client to let only them
    press."""
    trusts = product.speaks_for(run) and host.name in product.settings.approvals.trusted_hosts
    return "person" if trusts else "host"


def _untrusted(product: Product, run: Run) -> str:
    """Why a press is not a person's word."""
    if not product.speaks_for(run):
        return f": its run belongs to other settings ({run.settings_path})"
    return ": approvals.trusted_hosts in the settings does not name this client"


def _may_approve(action: Action, product: Product, host: Host, run: Run) -> bool:
    if _level(product, host, run) == "person":
        return action.level != "passkey"
    # Such a client may let its model press, so the panel is worth there what approve_action is; and less for an edit,
    # which its dialog for approve_action shows in full, and no dialog does here.
    return a_host_decides(action) and action.edit_of is None and product.hosts_vouch_for(run)


async def _as_shown(product: Product, run_id: str, asked: Asked | Edit) -> Action:
    """The action, if it is of the panel's run and what was shown of it. Raises UnknownId, DecisionRefused."""
    action = await product.store.action(asked.action_id)
    if (action.run, action.hash) != (run_id, asked.digest):
        raise DecisionRefused(f"action {action.id} is not what was shown in this panel; look again, then decide")
    return action


async def _check_code(product: Product, code: str) -> None:
    """Take a code where a person has an app for them: that holds where a host leaks the key. Raises SignInRefused."""
    approver = kept_approver()
    if approver is not None and approver.seed is not None:
        await check_code(product.store, approver, code)


async def _unclassed(product: Product, run: Run) -> list[Tool]:
    """The tools to be classed that are this run's concern, as a key opens nothing else: of servers whose unknown tools
    it has asked about."""
    if run.imported:
        return []
    actions = await product.store.actions(run.id)
    servers = {str(action.tool).partition(".")[0] for action in actions if action.effect == "unknown"}
    return await unclassed_tools(product, servers) if servers else []


def _on_the_page(product: Product, waiting: Sequence[Action], tools: Sequence[Tool]) -> str | None:
    """Where what takes a person can be done, as a press here is only the host's word; None if there is no such."""
    calls = any(action.kind == "call" for action in waiting)
    what = " and ".join([*(["calls edited"] if calls else []), *(["tools classed"] if tools else [])])
    return f"Only on the page are {what}: {_way(product, product.page.address)}" if what else None


def _way(product: Product, address: str | None) -> str:
    """To the page: its address while it is served, else what opens it."""
    return address or f"`{Spoken(product.command, product.settings.path)('ui')}` opens it"
