"""Settings of tool servers, models and approvals; the policy's stand in `policy_settings`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, PositiveFloat, SecretStr, ValidationInfo, model_validator

from journal.settings import SETTINGS, placed

from .policy_settings import Effect, Matcher, PolicyRule, PolicySettings
from .reconcile_settings import NameOrMore, Reconcile
from .tool_names import fits

__all__ = [
    "SCRIPTED",
    "ApprovalSettings",
    "AuthSettings",
    "Effect",
    "Effort",
    "EffortByRole",
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
_SHARED = {"reviser": "planner", "reviewer": "worker", "compose": "worker"}
"""Roles that have another one's model and effort."""


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


class AuthSettings(BaseModel):
    """How a server over HTTP is logged in at: by a person's browser, or by client credentials."""

    model_config = SETTINGS

    kind: Literal["oauth", "client_credentials"]
    client_id: str | None = Field(default=None, min_length=1)
    client_secret: SecretStr | None = None
    issuer: str | None = None
    """The authorization server that the client belongs to."""
    scopes: tuple[str, ...] = ()
    redirect_port: int | None = Field(default=None, ge=1, le=65535)

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> "AuthSettings":
        if self.kind == "client_credentials" and not (self.client_id and self.client_secret):
            raise ValueError("client_credentials needs client_id and client_secret")
        if self.client_secret and not self.client_id:
            raise ValueError("client_secret needs the client_id that it belongs to")
        return self


class ServerOptions(BaseModel):
    """Our own keys for one server, kept apart so that hosts can read `mcpServers` too. Times are seconds."""

    model_config = SETTINGS

    trust: Literal["annotations", "none"] = "annotations"
    private: bool = False
    effects: dict[str, Effect] = Field(default={})
    max_parallel: int = Field(default=4, ge=1, le=64)
    call_timeout: PositiveFloat = 60.0
    """How long a call may go without an answer or, since it began or last told of it, progress."""
    longest_call: PositiveFloat = 600.0
    """How long a call may take in all, whatever progress it tells of; never less than `call_timeout`."""
    start_timeout: PositiveFloat = 30.0
    session: Literal["shared", "run"] = "shared"
    """`run` gives each run a connection of its own, closed whenever the run ends or waits."""
    auth: AuthSettings | None = None
    tools: dict[str, ToolOptions] = Field(default={})

    def for_tool(self, name: str) -> ToolOptions:
        """The options of a tool (without its server): an exact name first, then the longest glob that fits."""
        glob = _best(self.tools, name)
        return ToolOptions() if glob is None else self.tools[glob]

    def effect_of(self, name: str) -> Effect | None:
        """What `effects` says of a tool (without its server), chosen in the same way."""
        glob = _best(self.effects, name)
        return None if glob is None else self.effects[glob]


def _best(globs: Iterable[str], name: str) -> str | None:
    fitting = [glob for glob in globs if fits(glob, name)]
    return max(fitting, key=lambda glob: (glob == name, len(glob)), default=None)


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

    @property
    def longest_call(self) -> float:
        """Seconds for one call that goes on telling of progress."""
        return max(self.options.longest_call, self.call_timeout)


class Price(BaseModel):
    """US dollars, for models that no price list knows."""

    model_config = SETTINGS

    input_per_million: float = Field(ge=0, allow_inf_nan=False)
    output_per_million: float = Field(ge=0, allow_inf_nan=False)


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class EffortByRole(BaseModel):
    """How hard models think, where roles differ; by the same roles as `models`."""

    model_config = SETTINGS

    planner: Effort | None = None
    worker: Effort | None = None
    answer: Effort | None = None


class ModelOptions(BaseModel):
    """How models are reached; the same for every role, but for how hard they think."""

    model_config = SETTINGS

    api_base: str | None = None
    api_key: SecretStr | None = None
    timeout: PositiveFloat = 120.0
    reasoning_effort: Effort | EffortByRole | None = None
    price: Price | None = None

    def effort_of(self, role: Role) -> Effort | None:
        """How hard a role's model thinks; None leaves it to the model."""
        if not isinstance(self.reasoning_effort, EffortByRole):
            return self.reasoning_effort
        own: Effort | None = getattr(self.reasoning_effort, _SHARED.get(role, role))
        return own


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
        own: str | None = getattr(self.models, _SHARED.get(role, role))
        return own or self.model


class ApprovalSettings(BaseModel):
    """Who may say yes, how the page shows itself, and how long an action waits."""

    model_config = SETTINGS

    approve_action: Literal["host", "person"] = "host"
    page: Literal["auto", "link", "off"] = "auto"
    pending_hours: PositiveFloat = 24.0
    min_answer_seconds: float = Field(default=1.5, ge=0, allow_inf_nan=False)
    trusted_hosts: tuple[str, ...] = ()
