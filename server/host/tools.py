"""The five tools that hosts see: names, descriptions and hints, and what each does (DESIGN section 9)."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from mcp_types import CallToolResult, InputRequiredResult, ResourceLink, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel

from server.panel.resource import PANEL_META
from server.product import AS_SET, Product, Request, Word
from server.views.action_view import a_host_decides
from server.views.run_view import RunLines, RunView
from server.views.view import run_lines
from server.views.view_text import lines_text, view_text

from .arguments import ApproveAction, CancelRun, GetRun, ListRuns, PlanAndExecute, read_arguments
from .attach import Attachment, Host, delivered
from .edits import Editor, edit_action
from .progress import Progress

Taken = TypeVar("Taken", bound=BaseModel)
Given = RunView | RunLines | InputRequiredResult


@dataclass(frozen=True)
class HostTool(Generic[Taken]):
    """One tool: what it is called and takes, its four hints, and what carries it out."""

    name: str
    description: str
    takes: type[Taken]
    gives: type[BaseModel]
    hints: ToolAnnotations
    run: Callable[[Product, Host, Taken], Awaitable[Given]]
    meta: dict[str, Any] | None = None

    def listed(self) -> Tool:
        """The definition as `tools/list` shows it, the same for every client."""
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=self.takes.model_json_schema(),
            output_schema=self.gives.model_json_schema(),
            annotations=self.hints,
            _meta=self.meta,
        )

    async def call(
        self, product: Product, host: Host, arguments: dict[str, Any]
    ) -> CallToolResult | InputRequiredResult:
        """Raises ToolError for arguments that do not fit, and SteprelayError for calls that are refused."""
        given = await self.run(product, host, read_arguments(self.name, self.takes, arguments))
        return given if isinstance(given, InputRequiredResult) else as_result(given)


def as_result(given: RunView | RunLines) -> CallToolResult:
    """Structured content that stands alone, the same facts as text, then at most one link."""
    text = view_text(given) if isinstance(given, RunView) else lines_text(given)
    content: list[Any] = [TextContent(type="text", text=text)]
    if isinstance(given, RunView):
        uri = given.resources[0]
        content.append(ResourceLink(type="resource_link", uri=uri, name=uri.removeprefix("run://")))
    return CallToolResult(content=content, structured_content=given.model_dump(mode="json"))


async def _plan_and_execute(product: Product, host: Host, taken: PlanAndExecute) -> Given:
    if host.state is not None:
        return await _go_on(product, host, taken.wait_seconds)
    request = Request(
        goal=taken.goal,
        context=taken.context or "",
        review_plan=taken.review_plan,
        budget=taken.budget or AS_SET,
        idempotency_key=taken.idempotency_key,
        interactive=host.shows_forms,
        depth=host.depth,
    )
    run_id = await product.start(request)
    product.warm_up()
    return await Attachment(product, host, run_id).wait(host.patience(taken.wait_seconds))


async def _approve_action(product: Product, host: Host, taken: ApproveAction) -> Given:
    if host.state is not None:
        return await _go_on(product, host, taken.wait_seconds)
    action = await product.store.action(taken.action_id)
    attachment = Attachment(product, host, action.run)
    if taken.edited_arguments is not None:
        editor = Editor("approve_action", host.name)
        await edit_action(product, action, taken.edited_arguments, decision=taken.decision, editor=editor)
        return await attachment.view()
    word = Word(
        action_id=taken.action_id,
        decision=taken.decision,
        tool=taken.tool,
        arguments=taken.arguments,
        note=taken.note,
        content=taken.content,
        client=host.name,
    )
    too_little = await product.take_word(word)
    if too_little is not None and not (host.shows_forms and a_host_decides(action)):
        return (await attachment.view()).model_copy(update={"message": too_little})
    given = await attachment.wait(host.patience(taken.wait_seconds))
    if too_little is None or isinstance(given, InputRequiredResult):
        return given
    still_waits = any(waiting.action_id == action.id for waiting in given.actions)
    return given.model_copy(update={"message": too_little}) if still_waits else given


async def _go_on(product: Product, host: Host, wait_seconds: float | None) -> Given:
    """The next round of a call whose questions were answered; a state that comes again only shows the run."""
    attachment = Attachment(product, host, json.loads(host.state or "{}")["run"])
    if not await attachment.take_answers():
        return await attachment.view()
    return await attachment.wait(host.patience(wait_seconds))


async def _get_run(product: Product, host: Host, taken: GetRun) -> Given:
    view = await product.view(taken.run_id)
    seen = _noteworthy(view)
    progress = Progress(product.store, host.context.session, taken.run_id)
    with anyio.move_on_after(host.patience(taken.wait_seconds)):
        while view.stop_reason is None and _noteworthy(view) == seen and not product.trouble_of(taken.run_id):
            changed = product.store.bell.listen(taken.run_id)
            view = await product.view(taken.run_id)
            if _noteworthy(view) == seen:
                await progress.report()
                await progress.until(changed)
    return await delivered(product, await product.view(taken.run_id, detail=taken.detail))


def _noteworthy(view: RunView) -> object:
    ended = view.steps.total - view.steps.running - view.steps.waiting
    return view.status, [action.action_id for action in view.actions], ended


async def _list_runs(product: Product, host: Host, taken: ListRuns) -> Given:
    runs = await product.store.runs(status=taken.status, limit=taken.limit)
    return RunLines(runs=await run_lines(product.store, runs))


async def _cancel_run(product: Product, host: Host, taken: CancelRun) -> Given:
    await product.cancel(taken.run_id, taken.reason or "cancelled by the host")
    return await delivered(product, await product.view(taken.run_id))


def _hints(letters: str) -> ToolAnnotations:
    """The four hints in the order of DESIGN section 9, T or F each."""
    read_only, destructive, idempotent, open_world = (letter == "T" for letter in letters)
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=open_world,
    )


HOST_TOOLS: tuple[HostTool[Any], ...] = (
    HostTool(
        name="plan_and_execute",
        description=(
            "Do a goal that needs several steps, several servers, or longer than a minute. Give the goal in plain "
            "words and, as context, the facts that cannot be found (names, dates, limits). Answers with the condensed "
            "result, or with a run that goes on: then ask get_run(run_id, wait_seconds=30). Risky actions stop and "
            "wait for a person; review_plan=true also stops after planning. Not for a single look-up."
        ),
        takes=PlanAndExecute,
        gives=RunView,
        hints=_hints("FFFT"),
        run=_plan_and_execute,
        meta=PANEL_META,
    ),
    HostTool(
        name="approve_action",
        description=(
            "Pass on what the USER decided about a waiting action. Never decide by yourself: show the user the action "
            "first. An approval counts only if tool and arguments are repeated exactly as the action shows them, and "
            "only for actions of level host; others are decided by a person in a terminal. Saying no is always taken. "
            "Only actions of kind call can be edited (edited_arguments)."
        ),
        takes=ApproveAction,
        gives=RunView,
        hints=_hints("FTFT"),
        run=_approve_action,
        meta=PANEL_META | {"anthropic/requiresUserInteraction": True},
    ),
    HostTool(
        name="get_run",
        description=(
            "Show a run. With wait_seconds it waits for a change of status, actions or ended steps; with detail=true "
            "it shows every step also while the run is at work."
        ),
        takes=GetRun,
        gives=RunView,
        hints=_hints("TFTF"),
        run=_get_run,
        meta=PANEL_META,
    ),
    HostTool(
        name="list_runs",
        description="The runs of this user, newest first, also those of other hosts and earlier days.",
        takes=ListRuns,
        gives=RunLines,
        hints=_hints("TFTF"),
        run=_list_runs,
    ),
    HostTool(
        name="cancel_run",
        description="End a run. What it has done stays done; the answer says what that is.",
        takes=CancelRun,
        gives=RunView,
        hints=_hints("FFTF"),
        run=_cancel_run,
    ),
)
