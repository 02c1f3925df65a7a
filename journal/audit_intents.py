"""What the audit says of a call with an effect: before it is sent, and what became of it."""

import hashlib
import json

from .audit import AuditLine
from .database import Transaction
from .intents import IntentState, NewIntent
from .values import Json, JsonObject


def begun_line(run_id: str, key: str, intent: NewIntent) -> AuditLine:
    """To be written in the change that uses up the approval, before anything is sent.

    Of the key, which holds a hash of the step with its arguments, only a keyed hash is told, as of these.
    """
    data: JsonObject = {
        "call": intent.call,
        "step": intent.step,
        "tool": intent.tool,
        "class": intent.class_,
        "action": intent.action,
        "grant": intent.grant,
    }
    hashes = {"key_hmac": key, "arguments_hmac": intent.arguments_hash, "action_hmac": intent.action_hash}
    return AuditLine("intent.begun", data | (intent.audit or {}), run=run_id, keyed=hashes)


def ended_line(tx: Transaction, run_id: str, key: str, state: IntentState, *, at: float, result: Json) -> AuditLine:
    """`result` is what is recorded of the call, None where nothing is."""
    row = tx.rows("SELECT call, tool, begun_at FROM intents WHERE run = ? AND key = ?", (run_id, key))[0]
    ms = round(1000 * (at - row["begun_at"]))
    data: JsonObject = {"call": row["call"], "tool": row["tool"], "ms": ms}
    said = None if result is None else hashlib.sha256(json.dumps(result).encode()).hexdigest()
    return AuditLine(f"intent.{state}", data, run=run_id, keyed={"result_hmac": said})
