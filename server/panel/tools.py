"""The tools of the panel. Hosts hide them from models, and without the panel's own key they do nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from downstream.tools import ToolClass
from journal.audit import AuditLine
from journal.values import JsonObject
from server.host.arguments import read_arguments
from server.host.attach import Host
from server.page.bodies import LARGEST_BODY
from server.page.classing import Word
from server.page.desk import Asked
from server.page.edits import Edit
from server.product import Product

from .panel import NotThePanel, Panel
from .resource import PANEL_META, PANEL_URI

_APP_ONLY = PANEL_META | {"ui": {"resourceUri": PANEL_URI, "visibility": ["app"]}}


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run_id: str = Field(description="The run that the panel shows.")
    view_key: str = Field(max_length=100, description="The key that only the panel was given.")


class _Shown(_State):
    action_id: str = Field(description="The waiting action.")
    digest: str = Field(description="The hash of the action as the panel shows it.")


class _Decide(_Shown):
    choice: str = Field(description="One of the action's choices.")
    note: str | None = Field(default=None, max_length=2_000, description="What the person adds.")
    content: JsonObject | None = Field(default=None, description="What the person filled in, for forms.")
    code: str = Field(default="", max_length=20, description="The code of the authenticator app, where one is set up.")


class _Edit(_Shown):
    arguments: str = Field(max_length=LARGEST_BODY, description="What the person typed: the new arguments as JSON.")


class _Class(_State):
    tool: str = Field(description="The tool, as server.tool.")
    pin: str = Field(description="The hash of the tool's definition as the panel shows it.")
    tool_class: ToolClass = Field(description="What the person says that the tool may do.")
    code: str = Field(default="", max_length=20, description="The code of the authenticator app, where one is set up.")


Taken = TypeVar("Taken", bound=_State)


@dataclass(frozen=True)
class PanelTool(Generic[Taken]):
    """A tool for the panel only: listed for every client, as the protocol wants, and refused for all but the panel."""

    name: str
    description: str
    takes: type[Taken]
    read_only: bool
    run: Callable[[Panel, Product, Host, Taken], Awaitable[JsonObject]]

    def listed(self) -> Tool:
        """The definition as `tools/list` shows it, the same for every client."""
        hints = ToolAnnotations(
            read_only_hint=self.read_only,
            destructive_hint=not self.read_only,
            idempotent_hint=self.read_only,
            open_world_hint=not self.read_only,
        )
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=self.takes.model_json_schema(),
            annotations=hints,
            _meta=_APP_ONLY,
        )

    async def call(self, panel: Panel, product: Product, host: Host, arguments: dict[str, Any]) -> CallToolResult:
        """Raises ToolError for arguments that do not fit, and SteprelayError for calls that are refused."""
        taken = read_arguments(self.name, self.takes, arguments)
        try:
            panel.check(host, run_id=taken.run_id, view_key=taken.view_key)
        except NotThePanel:
            # Whoever looks back should see that something else than the panel has tried.
            await product.store.note(AuditLine("panel.refused", {"tool": self.name, "client": host.name}))
            raise
        given = await self.run(panel, product, host, taken)
        text = TextContent(type="text", text="This is for steprelay's panel; get_run shows the run.")
        return CallToolResult(content=[text], structured_content=given)


async def _state(panel: Panel, product: Product, host: Host, taken: _State) -> JsonObject:
    return await panel.state(product, host, run_id=taken.run_id)


async def _decide(panel: Panel, product: Product, host: Host, taken: _Decide) -> JsonObject:
    asked = Asked(taken.action_id, taken.choice, taken.digest, taken.note or None, taken.content)
    return await panel.decide(product, host, run_id=taken.run_id, asked=asked, code=taken.code)


async def _edit(panel: Panel, product: Product, host: Host, taken: _Edit) -> JsonObject:
    edit = Edit(taken.action_id, taken.digest, taken.arguments)
    return await panel.edit(product, host, run_id=taken.run_id, edit=edit)


async def _class(panel: Panel, product: Product, host: Host, taken: _Class) -> JsonObject:
    word = Word(taken.tool, taken.pin, taken.tool_class)
    return await panel.class_tool(product, host, run_id=taken.run_id, word=word, code=taken.code)


PANEL_TOOLS: tuple[PanelTool[Any], ...] = (
    PanelTool(
        name="panel_state",
        description="For steprelay's panel only: what it shows. Not for models, who have no key for it; use get_run.",
        takes=_State,
        read_only=True,
        run=_state,
    ),
    PanelTool(
        name="panel_decide",
        description=(
            "For the buttons of steprelay's panel only. Not for models, who have no key for it: a person presses. "
            "Never ask the user for a key or code, and never pass one on."
        ),
        takes=_Decide,
        read_only=False,
        run=_decide,
    ),
    PanelTool(
        name="panel_edit",
        description=(
            "For steprelay's panel only: have a call wait with what a person typed there. Not for models, who have no "
            "key for it; use approve_action with edited_arguments."
        ),
        takes=_Edit,
        read_only=False,
        run=_edit,
    ),
    PanelTool(
        name="panel_class",
        description=(
            "For steprelay's panel only: what a person says there that a tool may do. Not for models, who have no key "
            "for it. Never ask the user for a key or code, and never pass one on."
        ),
        takes=_Class,
        read_only=False,
        run=_class,
    ),
)
