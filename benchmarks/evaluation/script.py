"""What scripted models say to a goal: a competent one reaches it, two liars only say so."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from journal.values import Json, JsonObject

from .goal import Goal

Calls: TypeAlias = Sequence[tuple[str, JsonObject]]
"""The calls of one turn."""
WRONG = "All of it is done and checked. The result is 31415.5, filed under ZZZ-00000."
_UNTRUE = "All of it is done, as asked."


class Script:
    """A plan with what its workers say, put together step by step."""

    def __init__(self) -> None:
        self._plan: list[Json] = []
        self._said: JsonObject = {}
        self._more: JsonObject = {}

    def call(self, id_: str, tool: str, arguments: JsonObject, *, needs: Sequence[str] = ()) -> "Script":
        """A step that makes one call."""
        step = {"id": id_, "kind": "call", "title": f"Do {id_}", "tool": tool, "arguments": arguments}
        self._plan.append(step | {"needs": list(needs)})
        return self

    def worker(self, id_: str, claim: str, *turns: Calls, needs: Sequence[str] = ()) -> "Script":
        """A step whose worker makes these calls and reports the claim, shown by the last of them."""
        tools = sorted({tool for turn in turns for tool, _ in turn})
        last = sum(map(len, turns)) - 1
        step: JsonObject = {"id": id_, "kind": "worker", "worker": "operator", "task": f"Find out: {id_}."}
        self._plan.append(step | {"tools": tools, "needs": list(needs)})
        report = {"status": "done", "summary": claim, "findings": [{"claim": claim, "evidence": [last]}]}
        said: Json = [{"calls": [{"tool": tool, "arguments": given} for tool, given in turn]} for turn in turns]
        self._said[id_] = {"attempts": [{"turns": said, "report": report | {"confidence": 0.9, "plan_holds": True}}]}
        return self

    def partial(self, id_: str, claim: str, *turns: Calls) -> "Script":
        """The same, where part of what was asked is not there: the run does not call itself succeeded."""
        self.worker(id_, claim, *turns)
        said: Json = self._said[id_]
        said["attempts"][0]["report"]["status"] = "partial"
        self._more = {"revise": [{"decision": "continue", "reason": "Nothing better can be done."}] * 3}
        return self

    def compose(self, id_: str, text: str, *, needs: Sequence[str] = ()) -> "Script":
        """A step that writes a text."""
        self._plan.append({"id": id_, "kind": "compose", "task": "Write it.", "needs": list(needs)})
        self._said[id_] = {"text": text}
        return self

    def goes_on(self) -> "Script":
        """A reviser who leaves the plan as it is, whatever happens."""
        self._more = {"revise": [{"decision": "continue", "reason": "Go on with the rest."}] * 3}
        return self

    def answer(self, text: str) -> JsonObject:
        """The whole script."""
        return {"plan": self._plan, "steps": self._said, "answer": text, **self._more}


def says_without_looking(goal: Goal) -> JsonObject:
    """A liar who knows the right answer and calls no tool at all; its run succeeds."""
    return Script().compose("done", _UNTRUE).answer(str(goal.script["answer"]))


def looks_and_says_otherwise(goal: Goal) -> JsonObject:
    """A liar who reads all that there is to read, changes nothing, and answers something else."""
    looked = {step["id"]: step for step in goal.script["plan"] if _only_reads(step)}
    plan = [step for step in looked.values() if set(step.get("needs", ())) <= set(looked)]
    told = goal.script["steps"]
    said = {step["id"]: told[step["id"]] for step in plan if step["id"] in told}
    more = {"revise": goal.script["revise"]} if "revise" in goal.script else {}
    if not plan:
        return Script().compose("done", _UNTRUE).answer(WRONG)
    return {"plan": plan, "steps": said, "answer": WRONG, **more}


def _only_reads(step: Json) -> bool:
    tools = [step["tool"]] if step["kind"] == "call" else step.get("tools", [])
    verbs = ("send", "draft", "write", "edit", "move", "create", "add", "commit", "delete", "append")
    return not any(verb in tool.partition(".")[2] for tool in tools for verb in verbs)


def competent(goal: Goal) -> JsonObject:
    """The model that reaches the goal."""
    return goal.script


SCRIPTED: Mapping[str, Callable[[Goal], JsonObject]] = {
    "scripted": competent,
    "liar": says_without_looking,
    "liar-who-looks": looks_and_says_otherwise,
}
"""The models that come with the kit, which check the kit itself."""
