"""Grants in a file: beside the plan that they are for, and sealed, so that a file which was changed is refused."""

import hmac
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from journal.canonical import canonical
from journal.grants import Grant
from journal.values import Json, JsonObject

from .granting import plan_digest
from .host.kept_secret import grants_key
from .settings_file.document import SettingsError, read_document
from .terminal.exit_codes import UsageProblem
from .views.action_view import time_text

_TOLD = "grants stand in a file with the plan that they are for; `steprelay plan GOAL --grant -o FILE` writes one"


@dataclass(frozen=True)
class GrantFile:
    """A plan, as {"steps": […]}, and grants for calls of it."""

    plan: JsonObject
    grants: tuple[Grant, ...]


def sealed(file: GrantFile) -> JsonObject:
    """The file's data, sealed with this user's key. Raises NotKept."""
    data: JsonObject = {"steps": file.plan["steps"], "grants": [_to_json(grant) for grant in file.grants]}
    return data | {"seal": _seal(data)}


def read_grant_file(path: Path) -> GrantFile:
    """The plan and its grants. Raises UsageProblem where it holds none or is not as it was written, and NotKept."""
    try:
        located = read_document(path, otherwise=_TOLD)
    except SettingsError as error:
        raise UsageProblem(str(error)) from error
    data: JsonObject = located.data
    if located.repeated or set(data) != {"steps", "grants", "seal"}:
        raise UsageProblem(f"{path}: {_TOLD}")
    if not hmac.compare_digest(_seal(data).encode(), str(data["seal"]).encode()):
        raise UsageProblem(
            f"{path}: its grants are void: it was changed after they were given, or another user gave them; "
            "a person gives new ones with `steprelay plan GOAL --grant -o FILE`"
        )
    plan = plan_digest(data["steps"])
    return GrantFile({"steps": data["steps"]}, tuple(_from_json(each, plan) for each in data["grants"]))


def _seal(data: JsonObject) -> str:
    sealed = canonical({"v": 1, "steps": data["steps"], "grants": data["grants"]})
    return hmac.new(grants_key(), sealed, sha256).hexdigest()


def _to_json(grant: Grant) -> JsonObject:
    """Without the plan, which the file holds; the time as people read it."""
    data = grant.to_json()
    del data["plan"]
    return data | {"expires_at": time_text(grant.expires_at)}


def _from_json(data: Json, plan: str) -> Grant:
    fields: JsonObject = data | {"plan": plan, "expires_at": datetime.fromisoformat(data["expires_at"]).timestamp()}
    return Grant(**fields)
