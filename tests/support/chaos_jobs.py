"""Runs for processes that get killed: their plans in several shapes, and one script that foresees them all."""

from typing import Any

from products import call_step

Plan = list[dict[str, Any]]
ANSWER = "All is done."
EFFECTS = ("add", "drop", "stuck")
SHAPES = ("reads", "writes", "approval", "worker", "retry", "revision")


def tag(number: int) -> str:
    """What stands in the keys and gates of one run only."""
    return f"j{number:04d}"


def gate(number: int) -> str:
    """The file that lets the long calls of a run end."""
    return f"go-{tag(number)}"


def plan(number: int) -> Plan:
    """The plan of a run; shapes take turns."""
    key, shape = tag(number), SHAPES[number % len(SHAPES)]
    made: dict[str, Plan] = {
        "reads": [
            *(call_step(f"look{place}", "quick.read", key=f"{key}-{place}") for place in range(3)),
            _worker(f"study_{key}", "quick.read"),
            {"id": f"text_{key}", "kind": "compose", "title": "Text", "needs": [f"study_{key}"], "task": "Write."},
        ],
        "writes": [
            call_step("one", "quick.add", key=f"{key}-one"),
            call_step("two", "quick.add", key=f"{key}-two"),
            call_step("held", "quick.stuck", key=f"{key}-held", gate=gate(number)),
            call_step("last", "quick.add", "one", "two", "held", key=f"{key}-last"),
        ],
        "approval": [
            call_step("look", "quick.read", key=f"{key}-look"),
            call_step("gone", "quick.drop", "look", key=f"{key}-gone"),
            call_step("then", "quick.add", "gone", key=f"{key}-then"),
        ],
        "worker": [_worker(f"act_{key}", "quick.read", "quick.add", worker="operator")],
        "retry": [
            _worker(f"again_{key}", "quick.read"),
            call_step("hold", "quick.wait", gate=gate(number)),
            call_step("post", "quick.add", f"again_{key}", "hold", key=f"{key}-post"),
        ],
        "revision": [
            call_step("name", "quick.tell", key=f"{key}-new"),
            call_step("kept", "quick.stuck", key=f"{key}-kept", gate=gate(number)),
            call_step("bad", "quick.fail", text=key),
            call_step("late", "quick.add", "bad", key=f"{key}-never"),
        ],
    }
    return made[shape]


def script(count: int) -> dict[str, Any]:
    """The model of so many runs."""
    steps: dict[str, Any] = {}
    for key in map(tag, range(count)):
        looks = [_call("read", f"{key}-{name}") for name in ("a", "b")]
        adds = [_call("add", f"{key}-{name}") for name in ("c", "d")]
        turn = {"calls": looks, "delay": 0.05}
        steps[f"study_{key}"] = {"attempts": [{"turns": [turn], "report": _report(0, 1)}]}
        failed = {"status": "failed", "summary": "Nothing."}
        steps[f"again_{key}"] = {"attempts": [{"report": failed}, {"turns": [turn], "report": _report(0, 1)}]}
        turns = [{"calls": [*adds, looks[0]], "delay": 0.05}, {"calls": [_call("add", f"{key}-e")], "delay": 0.05}]
        steps[f"act_{key}"] = {"attempts": [{"turns": turns, "report": _report(0, 3)}]}
        steps[f"text_{key}"] = {"text": "So it is."}
    again = call_step("again", "quick.add", "kept", key={"$step": "name"})
    check = call_step("check", "quick.read", "again", key="check")
    revision = {"decision": "revise", "drop": ["bad", "late"], "add": [again, check]}
    return {"plan": [], "steps": steps, "revise": [revision], "answer": ANSWER}


def _worker(id_: str, *tools: str, worker: str = "researcher") -> dict[str, Any]:
    return {"id": id_, "kind": "worker", "title": "Work", "worker": worker, "task": "Do it.", "tools": list(tools)}


def _call(tool: str, key: str) -> dict[str, Any]:
    return {"tool": f"quick.{tool}", "arguments": {"key": key}}


def _report(*evidence: int) -> dict[str, Any]:
    findings = [{"claim": "It is so.", "evidence": list(evidence)}]
    return {"status": "done", "summary": "Done.", "findings": findings, "confidence": 0.9}
