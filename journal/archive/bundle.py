"""A run as one JSON document: its rows as tables hold them, readable, checked in full before any of it is believed."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, NoReturn, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from journal.actions import ActionKind, ActionState, Level
from journal.errors import SteprelayError
from journal.intents import IntentState
from journal.runs import RunStatus, StopReason
from journal.schema import VERSION
from journal.steps import StepStatus
from journal.values import Json, JsonObject

FORMAT = 1
"""The version of the document; `schema` beside it is that of the rows."""
_OLDEST_SCHEMA = 2

_LAST_YEAR = 253_402_300_799.0
_ID = "^{}_[a-z2-7]{{26}}$"
RunId: TypeAlias = Annotated[str, Field(pattern=_ID.format("r"))]
ActionId: TypeAlias = Annotated[str, Field(pattern=_ID.format("a"))]
ArtifactId: TypeAlias = Annotated[str, Field(pattern=_ID.format("f"))]
Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Amount: TypeAlias = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Time: TypeAlias = Annotated[float, Field(ge=0, le=_LAST_YEAR, allow_inf_nan=False)]


class BadBundle(SteprelayError):
    """A file that is no exported run, or not a whole one; nothing of it was taken in."""

    def __init__(self, what: str, *, way: str = "export the run again with `runs export ID -o FILE`") -> None:
        super().__init__(f"not an exported run: {what}; nothing was imported; {way}")


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Source(_Row):
    step: str
    tool: str
    call: str


class _Finding(_Row):
    step: str
    claim: str
    evidence: list[str]
    supported: bool


class _Options(BaseModel):
    """What readers of a run take from its options."""

    model_config = ConfigDict(extra="ignore", strict=True)

    budget: dict[str, Amount] | None = None


class _Result(BaseModel):
    """What readers of a run take from its result."""

    model_config = ConfigDict(extra="ignore", strict=True)

    sources: list[_Source] = []
    findings: list[_Finding] = []


def _fits(model: type[BaseModel]) -> AfterValidator:
    """The data as it is, if the model can be made of it."""

    def check(data: JsonObject) -> JsonObject:
        model.model_validate(data)
        return data

    return AfterValidator(check)


class RunRow(_Row):
    """The run's own row; `owner` is only read."""

    id: RunId
    owner: str
    fingerprint: str
    settings_path: str
    goal: str
    goal_label: Literal["user", "host"]
    context: str
    options: Annotated[JsonObject, _fits(_Options)]
    idempotency_key: str | None
    request_hash: str
    delivered: bool
    status: RunStatus
    stop_reason: StopReason | None
    message: str | None
    answer: str | None
    result: Annotated[JsonObject, _fits(_Result)] | None
    warnings: list[str]
    epoch: Count
    driver: str | None
    wake_at: Time | None
    cancel_reason: str | None
    driven_seconds: Amount
    last_seq: Count
    created_at: Time
    updated_at: Time
    ended_at: Time | None
    origin: JsonObject | None


class _OfRun(_Row):
    run: RunId


class MemoRow(_OfRun):
    """One recorded result."""

    key: str
    name: str
    hash: str
    value: Json
    epoch: Count
    at: Time
    seal: str | None


class StepLine(_OfRun):
    """One step as readers see it."""

    id: str
    position: Count
    version: Count
    kind: Literal["call", "worker", "compose"]
    title: str
    worker: str | None
    optional: bool
    dropped: bool
    status: StepStatus
    summary: str
    definition: JsonObject
    started_at: Time | None
    ended_at: Time | None


class IntentRow(_OfRun):
    """One call with an effect."""

    key: str
    call: str
    step: str
    tool: str
    class_: Annotated[str, Field(alias="class")]
    arguments: JsonObject
    arguments_hash: str
    action: str | None
    state: IntentState
    epoch: Count
    begun_at: Time
    ended_at: Time | None
    driver: str | None
    deadline: Time | None
    sends: Count


class LedgerRow(_OfRun):
    """What one call took."""

    key: str
    epoch: Count
    kind: Literal["model", "tool"]
    purpose: Literal["work", "answer"]
    state: Literal["reserved", "settled", "lost"]
    step: str | None
    worker: str | None
    role: str | None
    model: str | None
    model_calls: Count
    tool_calls: Count
    tokens: Count
    usd: Amount
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    reasoning_tokens: Count = 0
    cost_known: bool
    at: Time


class ActionRow(_OfRun):
    """One action, with what its hash covers."""

    id: ActionId
    key: str
    step: str | None
    kind: ActionKind
    choices: list[str]
    level: Level
    state: ActionState
    question: str
    tool: str | None
    arguments: Json
    effect: str | None
    reasons: list[str]
    binding: Json
    hash: str
    created_at: Time
    expires_at: Time | None
    choice: str | None
    decided_level: Level | None
    via: str | None
    decided_at: Time | None
    note: str | None
    content: Json
    edit_of: str | None
    sources: list[JsonObject] = []
    subject: str
    handled: bool
    serial: Count


class EventRow(_OfRun):
    """One line of the history."""

    seq: Count
    at: Time
    type: str
    step: str | None = None
    call: str | None = None
    data: JsonObject


class AuditRow(_OfRun):
    """One line of the audit of the store that the run came from; it proves nothing here."""

    seq: Count
    owner: str
    at: Time
    type: str
    data: JsonObject
    prev: str
    hash: str


class ArtifactRow(_OfRun):
    """One artifact; `content` is base64, null where the file was lost before the export."""

    id: ArtifactId
    step: str
    call: str
    media_type: str
    size: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    label: list[str]
    created_at: Time
    content: str | None


class Bundle(BaseModel):
    """The document. `usage` is for readers; `tools` and `settings` are what a replay needs besides the rows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    steprelay_run: Literal[1]
    schema_: Annotated[int, Field(alias="schema")]
    run: RunRow
    usage: JsonObject
    memo: list[MemoRow]
    steps: list[StepLine]
    intents: list[IntentRow]
    ledger: list[LedgerRow]
    actions: list[ActionRow]
    events: list[EventRow]
    audit: list[AuditRow]
    tools: list[JsonObject]
    settings: JsonObject
    redacted: bool = False
    artifacts: list[ArtifactRow]


def read_bundle(text: str) -> Bundle:
    """The document, checked: shapes, versions, that all rows are of its run and none stands twice. Raises BadBundle."""
    try:
        data: Json = json.loads(text)
    except RecursionError:
        _refuse("it is nested too deeply")
    except ValueError as error:
        _refuse(f"no whole JSON ({error})")
    _check_versions(data)
    try:
        bundle = Bundle.model_validate(data)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        _refuse(f"{'.'.join(map(str, problem['loc']))[:120]}: {problem['msg'][:200]}")
    _check_rows(bundle)
    return bundle


def _refuse(what: str) -> NoReturn:
    raise BadBundle(what) from None


def _check_versions(data: Json) -> None:
    upgrade, document = "upgrade steprelay", cast("JsonObject", data if isinstance(data, dict) else {})
    if (found := document.get("steprelay_run")) is None:
        _refuse("the file holds something else")
    if found != FORMAT:
        raise BadBundle(f"its format is {str(found)[:20]!r}, this release reads {FORMAT}", way=upgrade)
    schema: Json = document.get("schema")
    if isinstance(schema, int) and schema > VERSION:
        raise BadBundle(f"it has schema {str(schema)[:20]}, this release knows {VERSION}", way=upgrade)
    if schema not in range(_OLDEST_SCHEMA, VERSION + 1):
        _refuse(f"its schema is {str(schema)[:20]!r}, this release reads {_OLDEST_SCHEMA} to {VERSION}")


def _check_rows(bundle: Bundle) -> None:
    tables: dict[str, tuple[Sequence[_OfRun], list[Json]]] = {
        "memo": (bundle.memo, [row.key for row in bundle.memo]),
        "steps": (bundle.steps, [row.id for row in bundle.steps]),
        "intents": (bundle.intents, [row.key for row in bundle.intents]),
        "ledger": (bundle.ledger, [(row.key, row.epoch) for row in bundle.ledger]),
        "actions": (bundle.actions, [row.id for row in bundle.actions]),
        "actions by key": (bundle.actions, [(row.key, row.serial) for row in bundle.actions]),
        "events": (bundle.events, [row.seq for row in bundle.events]),
        "audit": (bundle.audit, [row.seq for row in bundle.audit]),
        "artifacts": (bundle.artifacts, [row.id for row in bundle.artifacts]),
    }
    for name, (rows, keys) in tables.items():
        if foreign := next((row.run for row in rows if row.run != bundle.run.id), None):
            _refuse(f"{name}: a row belongs to another run, {foreign[:40]!r}")
        if twice := next((key for key, count in Counter(keys).items() if count > 1), None):
            _refuse(f"{name}: {str(twice)[:80]!r} stands twice")
