"""Settings of tool servers, models and approvals; the policy's stand in `policy_settings`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, PositiveFloat, SecretStr, ValidationInfo

from journal.settings import SETTINGS, placed

from .policy_settings import Effect, Matcher, PolicyRule, PolicySettings
from .reconcile_settings import NameOrMore, Reconcile
from .tool_names import fits

__all__ = [
    "SCRIPTED",
    "ApprovalSettings",
    "Effect",
    "Matcher",
    "ModelName",
    "ModelOptions",
    "ModelSettings",
    "ModelsByRole",
    "PolicyRule",
    "PolicySettings",
    "Price",
    "Reconcile",
    "Role",
    "ServerOptions",
    "ServerSettings",
    "ToolOptions",
    "Transport",
]

Transport = Literal["stdio", "http", "sse"]
Role = Literal["planner", "reviser", "worker", "reviewer", "compose", "answer"]


SCRIPTED = "scripted:"


def _model_name(name: str, info: ValidationInfo) -> str:
    if not name.startswith(SCRIPTED):
        return name
    return SCRIPTED + placed(name.removeprefix(SCRIPTED), info)


ModelName = Annotated[str, Field(min_length=1), AfterValidator(_model_name)]
"""A name that litellm knows, or `scripted:FILE`."""


class ToolOptions(BaseModel):
    """What the user says about tools that their annotations can't."""

    model_config = SETTINGS

    cache: bool = True
    idempotent: bool = False
    idempotency_key: str | None = None
    """The argument that is filled with a key, so that a repeat is safe."""
    reconcile: NameOrMore | None = None
    """The read tool that tells whether a call took place: its name, or more about how to ask it."""

    @property
    def how_to_reconcile(self) -> Reconcile | None:
        return Reconcile(tool=self.reconcile) if isinstance(self.reconcile, str) else self.reconcile


class ServerOptions(BaseModel):
    """Our own keys for one server, kept apart so that hosts can read `mcpServers` too. Times are seconds."""

    model_config = SETTINGS

    trust: Literal["annotations", "none"] = "annotations"
    private: bool = False
    effects: dict[str, Effect] = Field(default={})
    max_parallel: int = Field(default=4, ge=1, le=64)
    call_timeout: PositiveFloat = 60.0
    start_timeout: PositiveFloat = 30.0
    session: Literal["shared", "run"] = "shared"
    tools: dict[str, ToolOptions] = Field(default={})

    def for_tool(self, name: str) -> ToolOptions:
        """The options of a tool (without its server): an exact name first, then the longest glob that fits."""
        fitting = [glob for glob in self.tools if fits(glob, name)]
        return self.tools[max(fitting, key=lambda glob: (glob == name, len(glob)))] if fitting else ToolOptions()


class ServerSettings(BaseModel):
    """One tool server with every variable expanded and every path absolute."""

    model_config = SETTINGS

    name: str
    transport: Transport
    command: str | None = None
    args: tuple[str, ...] = Field(default=(), repr=False)
    env: dict[str, str] = Field(default={}, repr=False)
    cwd: Path | None = None
    url: str | None = Field(default=None, repr=False)
    headers: dict[str, str] = Field(default={}, repr=False)
    timeout: int | None = Field(default=None, ge=1)
    """Milliseconds for one call, as hosts write it."""
    options: ServerOptions = ServerOptions()

    @property
    def call_timeout(self) -> float:
        """Seconds for one call: `server_options` first, then the hosts' `timeout`, then the default."""
        if self.timeout is not None and "call_timeout" not in self.options.model_fields_set:
            return self.timeout / 1000
        return self.options.call_timeout


class Price(BaseModel):
    """US dollars, for models that no price list knows."""

    model_config = SETTINGS

    input_per_million: float = Field(ge=0, allow_inf_nan=False)
    output_per_million: float = Field(ge=0, allow_inf_nan=False)


class ModelOptions(BaseModel):
    """How models are reached; the same for every role."""

    model_config = SETTINGS

    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout: PositiveFloat = 120.0
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    price: Price | None = None


class ModelsByRole(BaseModel):
    """Models for single roles, and what is tried after a model that fails."""

    model_config = SETTINGS

    planner: ModelName | None = None
    worker: ModelName | None = None
    answer: ModelName | None = None
    fallbacks: tuple[ModelName, ...] = ()


class ModelSettings(BaseModel):
    """Which model answers in which role; without any name, one must be chosen before a run."""

    model_config = SETTINGS

    model: ModelName | None = None
    models: ModelsByRole = ModelsByRole()
    options: ModelOptions = ModelOptions()

    @property
    def fallbacks(self) -> tuple[str, ...]:
        return self.models.fallbacks

    def for_role(self, role: Role) -> str | None:
        """The model of a role: revisers use the planner's, reviewers and compose the worker's, all else `model`."""
        if role in ("planner", "reviser"):
            own = self.models.planner
        elif role == "answer":
            own = self.models.answer
        else:
            own = self.models.worker
        return own or self.model


class ApprovalSettings(BaseModel):
    """Who may say yes, how the page shows itself, and how long an action waits."""

    model_config = SETTINGS

    approve_action: Literal["host", "person"] = "host"
    page: Literal["auto", "link", "off"] = "auto"
    pending_hours: PositiveFloat = 24.0
    min_answer_seconds: float = Field(default=1.5, ge=0, allow_inf_nan=False)
