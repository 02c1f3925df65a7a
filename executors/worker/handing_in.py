"""The functions by which a worker and a reviewer hand in what they have: their only way to end."""

from downstream.model_port import Function
from downstream.models.schemas import for_reply
from journal.values import JsonObject

_REPORT: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "claim": {"type": "string", "description": "One statement of what is so"},
                    "evidence": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Ids of calls, c_…, that show it",
                    },
                },
                "required": ["claim", "evidence"],
            },
        },
        "summary": {"type": "string", "description": "The answer to the task and no more, in at most 1200 characters"},
        "status": {
            "type": "string",
            "enum": ["done", "partial", "blocked", "failed"],
            "description": "done: the whole task; partial: some of it; blocked: something that you need and "
            "cannot get; failed: it cannot be done",
        },
        "confidence": {"type": "number", "description": "0 to 1: how sure you are that this answers the task"},
        "suggestions": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What should be done next, if anything",
        },
        "plan_holds": {
            "type": "boolean",
            "description": "true, unless what you found makes the rest of the job pointless or wrong",
        },
    },
    "required": ["status", "summary", "findings"],
}

SUBMIT_REVIEW = Function(
    "submit_review",
    "Hand in your verdict on the claims. This ends your work.",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "accepted": {"type": "boolean", "description": "true only if the evidence bears out every claim"},
            "problems": {
                "type": "array",
                "items": {"type": "string"},
                "description": "One sentence for each claim that fails",
            },
        },
        "required": ["accepted", "problems"],
    },
)


def submit_report(output: JsonObject | None) -> Function:
    """The function for a step with this output schema; without one, `data` is an open object."""
    data = output or {"type": "object", "description": "Results as data, where later steps need them"}
    required = [*_REPORT["required"], *(["data"] if output else [])]
    schema = _REPORT | {"properties": _REPORT["properties"] | {"data": data}, "required": required}
    return Function("submit_report", "Hand in your report. This ends your work.", for_reply(schema))
