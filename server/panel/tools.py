"""The two tools of the panel. Hosts hide them from models, and without the panel's own key they do nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from journal.audit import AuditLine
from journal.values import JsonObject
from server.host.arguments import read_arguments
from server.host.attach import Host
from server.page.desk import Asked
from server.product import Product

from .panel import NotThePanel, Panel
from .resource import PANEL_META, PANEL_URI

_APP_ONLY = PANEL_META | {"ui": {"resourceUri": PANEL_URI, "visibility": ["app"]}}


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    run_id: str = Field(description="The run that the panel shows.")
    view_key: str = Field(max_length=100, description="The key that only the panel was given.")


class _Decide(_State):
    action_id: str = Field(description="The waiting action.")
    choice: str = Field(description="One of the action's choices.")
    digest: str = Field(description="The hash of the action as the panel shows it.")
    note: str | None = Field(default=None, max_length=2_000, description="What the person adds.")
    content: JsonObject | None = Field(default=None, description="What the person filled in, for forms.")
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
)
