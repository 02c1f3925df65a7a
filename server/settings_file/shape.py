"""The shape of a settings file: one model, its JSON Schema, and what is wrong with data that does not fit it."""

import json
import re
from pathlib import Path
from typing import Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from downstream.settings import (
    ApprovalSettings,
    ModelName,
    ModelOptions,
    ModelsByRole,
    PolicySettings,
    ServerOptions,
    Transport,
)
from executors.settings import WorkerEntry
from journal.settings import SETTINGS, AuditSettings, EngineSettings, RetentionSettings, StoreUrl
from journal.values import Json, JsonObject
from planner.settings import BudgetSettings, Revise

from .document import meant, named
from .located import Place, is_list, is_map

HOST_KEYS = frozenset(
    {
        "alwaysAllow",
        "alwaysLoad",
        "autoApprove",
        "description",
        "dev",
        "disabledTools",
        "enabledTools",
        "excludeTools",
        "gallery",
        "icon",
        "includeTools",
        "metadata",
        "name",
        "trust",
    }
)
"""Keys of a server entry that only hosts read."""


class ServerEntry(BaseModel):
    """One server as hosts write it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"] | None = Field(
        default=None, validation_alias=AliasChoices("type", "transport", "transportType")
    )
    command: str | None = Field(default=None, min_length=1, strict=True)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default={})
    env_file: str | None = Field(default=None, alias="envFile", strict=True)
    cwd: str | None = Field(default=None, min_length=1, strict=True)
    url: str | None = Field(default=None, strict=True)
    headers: dict[str, str] = Field(default={})
    timeout: StrictInt | None = Field(default=None, ge=1)
    disabled: StrictBool = False

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        # Nothing of the url is quoted: it may hold a password.
        if url is not None and not re.match(r"https?://[^/?#\s]", url):
            raise ValueError("must be http://HOST… or https://HOST…")
        return url

    @model_validator(mode="after")
    def _can_be_reached(self) -> "ServerEntry":
        if self.command and self.url and not self.type:
            raise ValueError("has both command and url; keep one, or say which with type")
        wanted = "command" if self.transport == "stdio" else "url"
        if not getattr(self, wanted):
            raise ValueError(f"needs {wanted}" if self.type else "needs command (a program) or url (a remote server)")
        return self

    @property
    def transport(self) -> Transport:
        """As written, else by what is there: a command is started, a bare url is streamable HTTP."""
        if self.type in ("stdio", "sse"):
            return self.type
        return "http" if self.type or self.url else "stdio"


class SettingsFile(BaseModel):
    """All keys of a settings file."""

    model_config = SETTINGS

    schema_: str | None = Field(default=None, alias="$schema")
    model: ModelName | None = None
    models: ModelsByRole = ModelsByRole()
    model_options: ModelOptions = ModelOptions()
    servers: dict[str, ServerEntry] = Field(default={}, alias="mcpServers")
    server_options: dict[str, ServerOptions] = Field(default={})
    workers: tuple[WorkerEntry, ...] = ()
    policy: PolicySettings = PolicySettings()
    approvals: ApprovalSettings = ApprovalSettings()
    budget: BudgetSettings = BudgetSettings()
    store: StoreUrl | None = None
    retention: RetentionSettings = RetentionSettings()
    audit: AuditSettings = AuditSettings()
    revise: Revise = "on_trigger"
    engine: EngineSettings = EngineSettings()
    secrets: tuple[str, ...] = ()


def settings_schema() -> JsonObject:
    """JSON Schema of the settings file."""
    schema = SettingsFile.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "steprelay settings"
    schema["properties"]["servers"] = schema["properties"]["mcpServers"]
    entry: JsonObject = schema["$defs"]["ServerEntry"]["properties"]
    entry |= {key: {"description": "Read by hosts only."} for key in sorted(HOST_KEYS)}
    return schema


def fit(data: JsonObject, folder: Path | None) -> tuple[SettingsFile, list[tuple[Place, str]]]:
    """The data as a settings file, or the defaults and every way in which it does not fit."""
    try:
        # As JSON, because strict models take a list for a tuple from there only.
        return SettingsFile.model_validate_json(json.dumps(data), context={"folder": folder}), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return SettingsFile(), [(_place(each, data), _sentence(each, data)) for each in details]


def _place(error: ErrorDetails, data: Json) -> Place:
    """The part of the location that is in the data; pydantic adds marks of its own."""
    place: Place = ()
    for part in error["loc"]:
        inside = data
        for step in place:
            inside = inside[step]
        known = inside if is_map(inside) else range(len(inside)) if is_list(inside) else ()
        if part in known:
            place = (*place, part)
    return place


def _sentence(error: ErrorDetails, data: Json) -> str:
    place = _place(error, data)
    if error["type"] == "extra_forbidden":
        where = f" in {named(place[:-1])}" if place[:-1] else ""
        return f"unknown key {place[-1]!r}{where}{meant(str(place[-1]), _keys_at(place[:-1]))}"
    if error["type"] == "string_type":
        return f"{named(place)}: must be a text; put it into quotes"
    if error["type"] == "missing":
        return f"{named(place)}: {error['loc'][-1]} is missing"
    return f"{named(place)}: {in_our_words(error['msg'])}"


def in_our_words(message: str) -> str:
    """What pydantic says, as the end of a sentence that begins with a key."""
    message = message.removeprefix("Value error, ").replace("an object", "a map of keys")
    return re.sub("^(Input|String|Object) should", "must", message)


def _keys_at(place: Place) -> list[str]:
    """The keys that the schema knows at a place."""
    schema = settings_schema()
    node = schema
    for part in (*place, None):
        # A value that may be null is a choice, with the shape first.
        node = node.get("anyOf", [node])[0]
        node = node.get("oneOf", [node])[0]
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        if part is not None:
            node = node.get("items") if isinstance(part, int) else _below(node, part)
    return list(node.get("properties", ()))


def _below(node: JsonObject, key: str) -> JsonObject:
    found: JsonObject = node.get("properties", {}).get(key) or node["additionalProperties"]
    return found
