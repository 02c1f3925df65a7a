"""What the audit says of an action: that it was asked, who decided it and how, and whether that counted."""

from typing import TYPE_CHECKING

from .audit import AuditLine
from .values import JsonObject

if TYPE_CHECKING:
    from .actions import Action


def asked_line(action: "Action") -> AuditLine:
    """`level` is the least that a yes needs."""
    data: JsonObject = {
        "kind": action.kind,
        "level": action.level,
        "tool": action.tool,
        "effect": action.effect,
        "step": action.step,
        "reasons": list(action.reasons),
        "edit_of": action.edit_of,
    }
    return _line(action, "action.asked", data)


def edited_line(action: "Action", *, via: str, client: str | None) -> AuditLine:
    """Who had a call wait with other arguments in place of an earlier one, and by which way they said so."""
    return _line(action, "action.edited", {"edit_of": action.edit_of, "via": via, "client": client})


def decided_line(action: "Action", *, client: str | None) -> AuditLine:
    """`level` and `via` tell how the decision came, `client` who vouches for it, `seconds` how long it took."""
    data: JsonObject = {
        "kind": action.kind,
        "choice": action.choice,
        "level": action.decided_level,
        "via": action.via,
        "client": client,
        "note": action.note,
        "seconds": round((action.decided_at or action.created_at) - action.created_at, 3),
        "edited": action.edit_of is not None,
    }
    return _line(action, "action.decided", data)


def settled_line(action: "Action") -> AuditLine:
    """That nobody decided in time, or that a drive has acted on the decision."""
    if action.state == "expired":
        return _line(action, "action.expired", {"kind": action.kind})
    return _line(action, "action.used", {"kind": action.kind, "choice": action.choice})


def _line(action: "Action", type_: str, data: JsonObject) -> AuditLine:
    hashes = {"action_hmac": action.hash}
    return AuditLine(type_, {"action_id": action.id, **data}, run=action.run, keyed=hashes)
