"""Where the journal lies, what it keeps and which engine drives runs; also what every floor's settings models share."""

import os
from pathlib import Path, PurePath
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from .errors import SteprelayError
from .values import JsonObject

SETTINGS = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
"""For every settings model: unknown keys, coercions and inputs quoted in errors (they may be secret) are out."""

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


class NotBuiltYet(SteprelayError):
    """A setting that the schema knows and this release cannot start with."""

    def __init__(self, setting: str, *, instead: str) -> None:
        self.setting = setting
        super().__init__(f"{setting} is not built yet in this release; {instead}")


class Secret(NamedTuple):
    """A value that must not leave; shown, it is only its name."""

    name: str
    value: str

    def __repr__(self) -> str:
        return f"Secret({self.name})"


def _store_url(url: str) -> str:
    if url.startswith(_POSTGRES):
        return url
    path = url.removeprefix(_SQLITE)
    if path == url or not PurePath(path).is_absolute():
        raise ValueError("must be sqlite:////absolute/path.db (four slashes) or postgresql://…")
    return url


def placed(path: str, info: ValidationInfo) -> str:
    """The path made absolute against the settings file's folder, which is the context of a validation from a file."""
    context: JsonObject = info.context or {}
    return os.path.normpath(context["folder"] / Path(path).expanduser()) if context else path


StoreUrl = Annotated[str, AfterValidator(_store_url)]


class StoreSettings(BaseModel):
    """Where the journal is kept; without `url`, in the state folder."""

    model_config = SETTINGS

    url: StoreUrl | None = Field(default=None, repr=False)


class LocalEngine(BaseModel):
    """Runs driven by this process, at most `runs` at once."""

    model_config = SETTINGS

    runs: int = Field(default=16, ge=1, le=1000)


class TemporalEngine(BaseModel):
    """Runs dispatched by a Temporal service."""

    model_config = SETTINGS

    address: str = "localhost:7233"
    namespace: str = "default"
    task_queue: str = "steprelay"


class EngineSettings(BaseModel):
    """Exactly one engine: `local` (the default) or `temporal`."""

    model_config = SETTINGS

    local: LocalEngine | None = None
    temporal: TemporalEngine | None = None

    @model_validator(mode="after")
    def _one_engine(self) -> "EngineSettings":
        if self.local and self.temporal:
            raise ValueError("local and temporal exclude each other; keep one")
        return self

    @property
    def kind(self) -> Literal["local", "temporal"]:
        return "temporal" if self.temporal else "local"


class RetentionSettings(BaseModel):
    """How long runs are kept once they have ended, and how much of large results."""

    model_config = SETTINGS

    days: int | None = Field(default=90, ge=1)
    run_artifacts_mib: int = Field(default=64, ge=1)
    store_artifacts_mib: int = Field(default=2048, ge=1)


class AuditSettings(BaseModel):
    """A file outside the store to which the audit's head is appended, so that lines taken off its end are missed."""

    model_config = SETTINGS

    checkpoints: Annotated[str, Field(min_length=1), AfterValidator(placed)] | None = None
    every: int = Field(default=100, ge=1)


def state_folder() -> Path:
    """The folder for everything kept between processes, private to this user; made on demand."""
    from platformdirs import user_state_path

    folder = user_state_path("steprelay", appauthor=False)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def sqlite_path(store: StoreSettings) -> Path:
    """The file of the journal. Raises NotBuiltYet for PostgreSQL."""
    if store.url is None:
        return state_folder() / "steprelay.db"
    if store.url.startswith(_POSTGRES):
        raise NotBuiltYet("store: postgresql://", instead="use sqlite:////absolute/path.db, or leave `store` out")
    return Path(store.url.removeprefix(_SQLITE))


def local_engine(engine: EngineSettings) -> LocalEngine:
    """The local engine's settings. Raises NotBuiltYet for Temporal."""
    if engine.temporal:
        raise NotBuiltYet("engine: temporal", instead="use engine: {local: {runs: 16}}, or leave `engine` out")
    return engine.local or LocalEngine()


def is_secret_name(name: str) -> bool:
    """Whether a variable or header of this name is taken to hold a secret."""
    return any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASS", "AUTH"))
