"""Scripts for the model server: rules that answer a request by what it asks, never by how many came before."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict, cast

from model_wire import Json, ModelRequest, Role, Speaker, Wire

Fault = Literal["reset", "hang", "truncate", "html", "empty", "null"]


class When(TypedDict, total=False):
    """What a rule answers; every key given must fit. `system`, `user`, `tool`, `any` and headers are regexes."""

    role: Role
    name: str
    step: str
    turn: int
    min_turn: int
    must: str
    model: str
    wire: Wire
    stream: bool
    system: str
    user: str
    tool: str
    any: str
    header: dict[str, str]


class Call(TypedDict):
    """A function call; a string as arguments is sent as it stands, so it need not be JSON."""

    name: str
    arguments: Json


class Usage(TypedDict, total=False):
    """Tokens to report; `prompt` includes the cached ones and those `written` to Anthropic's cache, `completion` those
    of `reasoning`.

    What is missing is counted as characters / 4.
    """

    prompt: int
    completion: int
    cached: int
    written: int
    reasoning: int


class Reply(TypedDict, total=False):
    """What is said, or what goes wrong.

    `json` is a call of the function `name` (default: the name asked for) where that is offered, else JSON text.
    `hold` waits for `ModelServer.release`, `latency` and `chunk_delay` are seconds, `drop_after`
    and `stall_after` count chunks.
    `raw` is sent as it stands, as of the content type `kind` (JSON) and with `headers`.
    In strings `{{call:N}}`, `{{last_tool}}` and `{{user}}` stand for what the request holds.
    """

    text: str
    json: Json
    name: str
    tool_calls: list[Call]
    thinking: str
    finish: str
    usage: Usage
    latency: float
    hold: str
    chunk_delay: float
    drop_after: int
    stall_after: int
    fault: Fault
    status: int
    retry_after: float
    error: str
    code: str
    raw: str
    kind: str
    headers: dict[str, str]


class Rule(TypedDict, total=False):
    """The first rule that fits answers; `times` lets it answer so often only, for tests of retries."""

    reply: Required[Reply]
    when: When
    times: int


Turn = Sequence[Call] | Reply | str
"""One reply of a scripted conversation: function calls, plain text, or a reply in full."""


class ScriptError(ValueError):
    """A script with a key that no rule has; a typo would otherwise match everything."""


def load_script(path: Path) -> list[Rule]:
    """Read and check a script file, a JSON list of rules."""
    return check_script(json.loads(path.read_text(encoding="utf-8")))


def check_script(rules: Json) -> list[Rule]:
    """The same rules, typed; raises ScriptError for unknown keys."""
    for number, rule in enumerate(rules):
        parts: list[tuple[str, type, Json]] = [("rule", Rule, rule), ("when", When, rule.get("when", {}))]
        parts.append(("reply", Reply, rule.get("reply", {})))
        for label, kind, part in parts:
            unknown = set(part) - set(kind.__annotations__)
            if unknown or "reply" not in rule:
                raise ScriptError(f"rule {number}: {label} has unknown keys {sorted(unknown)}, or there is no reply")
    return cast("list[Rule]", rules)


def fits(when: When, request: ModelRequest) -> bool:
    """Whether a request is what the rule answers."""
    wanted = cast("dict[str, Json]", when)
    equal = ("role", "name", "step", "turn", "must", "model", "wire", "stream")
    if any(key in wanted and wanted[key] != getattr(request, key) for key in equal):
        return False
    if request.turn < when.get("min_turn", 0):
        return False
    regexes = [(regex, request.headers.get(key.lower(), "")) for key, regex in when.get("header", {}).items()]
    speakers: tuple[Speaker, ...] = ("system", "user", "tool")
    regexes += [(wanted[speaker], request.text(speaker)) for speaker in speakers if speaker in wanted]
    regexes += [(when["any"], request.text())] if "any" in when else []
    return all(re.search(regex, text, re.DOTALL) for regex, text in regexes)


def filled(data: Json, request: ModelRequest) -> Json:
    """The data with its placeholders replaced by what the request holds."""
    if isinstance(data, Mapping):
        return {key: filled(value, request) for key, value in cast("Mapping[str, Json]", data).items()}
    if isinstance(data, list | tuple):
        return [filled(item, request) for item in cast("Sequence[Json]", data)]
    if not isinstance(data, str):
        return data
    ids = request.call_ids

    def value(found: re.Match[str]) -> str:
        if found["call"] is not None:
            index = int(found["call"])
            return ids[index] if index < len(ids) else f"c_missing_{index}"
        return request.last("tool") if found[0] == "{{last_tool}}" else request.last("user")

    return re.sub(r"\{\{(?:call:(?P<call>\d+)|last_tool|user)\}\}", value, data)


def call(tool: str, arguments: Json = None, /, **named: Json) -> Call:
    """A call of `server.tool`, which finds its wire name by itself; a string is sent as raw arguments."""
    return {"name": tool, "arguments": arguments if isinstance(arguments, str) else {**(arguments or {}), **named}}


def planner(*plans: Sequence[Json] | Reply | str) -> list[Rule]:
    """A plan as its steps; several plans answer the asks of one conversation in turn, the last one repeats."""
    return _conversation({"role": "planner"}, [_wrapped(plan, "submit_plan", key="steps") for plan in plans])


def reviser(decisions: Sequence[dict[str, Json]], *, cues: Mapping[int, str] | None = None) -> list[Rule]:
    """Decisions in order, told apart by content: each after the first answers a request in which the id of a step
    stands that the one before added, or its cue, a regex."""
    rules: list[Rule] = []
    cue: str | None = None
    for number, decision in enumerate(decisions):
        cue = (cues or {}).get(number, cue)
        if number and cue is None:
            raise ScriptError(f"decision {number} follows one that adds no step, so it needs a cue")
        when: When = {"role": "reviser"} if cue is None else {"role": "reviser", "any": cue}
        added: list[Json] = decision.get("add", [])
        full: Json = {"reason": "scripted", "drop": [], "add": added, **decision}
        rules.append({"when": when, "reply": {"json": full, "name": "revise_plan"}})
        cue = rf"\b{re.escape(added[0]['id'])}\b" if added else None
    # The latest comes first, since what tells an earlier one may still stand in the request.
    return rules[::-1]


def worker(step: str, turns: Sequence[Turn] = (), report: Json = None) -> list[Rule]:
    """The turns of a worker, then its report, also when only that is offered; evidence may be call numbers."""
    when: When = {"role": "worker", "step": step}
    replies = [_reply(turn) for turn in turns]
    if report is None:
        return _conversation(when, replies)
    said: Reply = report if _is_reply(report) else {"json": _cited(report), "name": "submit_report"}
    rules = _conversation(when, [*replies, said])
    if any("tool_calls" in reply for reply in replies):
        rules.insert(0, {"when": {**when, "must": "submit_report"}, "reply": said})
    return rules


def report(summary: str, claims: Mapping[str, Sequence[int | str]] | None = None, **fields: Json) -> Json:
    """A report; claims map to the numbers (or ids) of the calls that show them."""
    findings = [{"claim": claim, "evidence": list(evidence)} for claim, evidence in (claims or {}).items()]
    base: dict[str, Json] = {"status": "done", "summary": summary, "findings": findings, "confidence": 0.9}
    return {**base, "suggestions": [], "plan_holds": True, **fields}


def reviewer(
    step: str, turns: Sequence[Turn] = (), *, accepted: bool = True, problems: Sequence[str] = ()
) -> list[Rule]:
    """The turns of a reviewer, then its verdict."""
    when: When = {"role": "reviewer", "step": step}
    verdict: Reply = {"json": {"accepted": not problems, "problems": list(problems)}, "name": "submit_review"}
    return _conversation(when, [*(_reply(turn) for turn in turns), verdict])


def compose(step: str, *turns: Turn) -> list[Rule]:
    """The text of a compose step."""
    return _conversation({"role": "compose", "step": step}, [_reply(turn) for turn in turns])


def answer(text: str, caveats: Sequence[str] = ()) -> list[Rule]:
    """The run's answer."""
    said: Reply = {"json": {"answer": text, "caveats": list(caveats)}, "name": "submit_answer"}
    return [{"when": {"role": "answer"}, "reply": said}]


def host(*turns: Turn) -> list[Rule]:
    """The turns of a host's own model, such as that of a coding agent."""
    return _conversation({"role": "host"}, [_reply(turn) for turn in turns])


def on(reply: Reply, *, times: int | None = None, **when: Any) -> list[Rule]:
    """One rule in front of others: a fault for one role, step or turn."""
    rule: Rule = {"when": cast("When", when), "reply": reply}
    if times is not None:
        rule["times"] = times
    return check_script([rule])


def _conversation(when: When, replies: Sequence[Reply]) -> list[Rule]:
    last = len(replies) - 1
    return [
        {"when": {**when, "min_turn": turn} if turn == last else {**when, "turn": turn}, "reply": reply}
        for turn, reply in enumerate(replies)
    ]


def _is_reply(data: Json) -> bool:
    return isinstance(data, dict) and set(cast("dict[str, Json]", data)) <= set(Reply.__annotations__)


def _reply(turn: Turn) -> Reply:
    if isinstance(turn, str):
        return {"text": turn}
    return turn if isinstance(turn, dict) else {"tool_calls": list(turn)}


def _wrapped(given: Sequence[Json] | Reply | str, name: str, *, key: str) -> Reply:
    if isinstance(given, str) or _is_reply(given):
        return _reply(cast("Turn", given))
    return {"json": {key: list(cast("Sequence[Json]", given))}, "name": name}


def _cited(given: Json) -> Json:
    if not isinstance(given, dict):
        return given
    fields = cast("dict[str, Json]", given)
    findings: list[Json] = [_marked(finding) for finding in fields.get("findings", [])]
    return fields | {"findings": findings} if findings else fields


def _marked(finding: dict[str, Json]) -> Json:
    evidence = [f"{{{{call:{item}}}}}" if isinstance(item, int) else item for item in finding.get("evidence", [])]
    return finding | {"evidence": evidence}
