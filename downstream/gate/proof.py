"""What an auditor may ask about a call: which tool it was, where its arguments came from, and what let it go out."""

from journal.canonical import digest
from journal.grants import LEVEL, Grant, Leave
from journal.values import JsonObject

from .policy import Verdict, deciding, read_rules
from .stages import Case, Gate


def proof_of(gate: Gate, case: Case, verdict: Verdict, leave: Leave | None) -> JsonObject:
    """`rules` are those of the settings that decided, none where the class did; `verdict` is what came of it, with
    taint and repetition; `level` and `via` are those of the yes that it uses up."""
    tool = case.tool
    deciders = deciding(read_rules(gate.policy, tool.full_name, case.call.arguments.data))
    proof: JsonObject = {
        "pin": tool.pin,
        "labels": sorted(case.call.arguments.joined | case.call.read),
        "policy": digest(gate.policy.model_dump(mode="json")),
        "rules": [f"{reading.number}: {reading.rule.verb} {reading.rule.tool}" for reading in deciders],
        "verdict": verdict.verb,
        "reasons": list(verdict.reasons),
    }
    if isinstance(leave, Grant):
        return proof | {"level": LEVEL, "via": "grant", "grant": leave.id}
    return proof if leave is None else proof | {"level": leave.decided_level, "via": leave.via}
