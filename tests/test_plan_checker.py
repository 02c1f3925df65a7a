"""What a plan may hold, and what its writer is told where it holds something else."""

import json
from typing import Any

import pytest
from plan_bounds import bounds, errors_of, worker
from planner_rig import TOOLS, call, tool

from downstream.policy_settings import PolicySettings
from executors.settings import OPERATOR, REVIEWER, WorkerSettings
from executors.step import CallStep
from planner.checker import check_given_plan, check_plan
from planner.offer import idle_patterns, never_allowed, offer_workers
from planner.plan import Plan, PlanError

Json = Any
WRONG: dict[str, tuple[list[Json], list[str]]] = {
    "empty": ([], ["the plan has no step; it needs at least one"]),
    "not an object": (["a"], ['step 1 is not an object; write {"id": …, "kind": …}']),
    "unknown kind": (
        [{"id": "a", "kind": "kall"}],
        ["step 'a': kind 'kall' is unknown; did you mean 'call'?"],
    ),
    "no kind": ([{"id": "a"}], ["step 'a': kind None is unknown; use one of call, worker, compose"]),
    "no task": (
        [{"id": "a", "kind": "compose", "task": ""}],
        ["step 'a': a compose step needs 'task'"],
    ),
    "no id": ([{"kind": "compose", "task": "t"}], ["step 1: a compose step needs 'id'"]),
    "id": (
        [{"id": "First Step", "kind": "compose", "task": "t"}],
        [
            "step 'First Step': an id is a lower-case letter, then at most 31 of a-z, 0-9 and _, such as 'first_step'",
        ],
    ),
    "duplicate id": (
        [call("a"), call("a")],
        ["step id 'a' is used more than once; give each step an id of its own"],
    ),
    "unknown tool": (
        [call("a", tool="notes.serch")],
        ["step 'a': unknown tool 'notes.serch'; did you mean 'notes.search'?"],
    ),
    "denied tool": (
        [call("a", tool="notes.denied", arguments={})],
        ["step 'a': the policy never allows 'notes.denied'; do without it"],
    ),
    "unknown worker": (
        [worker(worker="reseacher")],
        ["step 'w': unknown worker 'reseacher'; did you mean 'researcher'?"],
    ),
    "file path as worker": (
        [worker(worker="/etc/agents/x.md")],
        [
            "step 'w': unknown worker '/etc/agents/x.md'; use one of researcher, operator, writer, reviewer, reader",
        ],
    ),
    "tool outside the worker's list": (
        [worker(worker="reader", tools=["notes.read"])],
        ["step 'w': worker 'reader' may not use 'notes.read'; researcher, operator, reviewer may, or use a call step"],
    ),
    "write tool for a reading worker": (
        [worker(tools=["outbox.send"])],
        ["step 'w': worker 'researcher' may not use 'outbox.send'; operator may, or use a call step"],
    ),
    "unknown tool in a list": (
        [worker(tools=["notes.find"])],
        ["step 'w': unknown tool 'notes.find'; did you mean 'notes.read'?"],
    ),
    "denied tool in a list": (
        [worker(worker="operator", tools=["notes.denied"])],
        ["step 'w': the policy never allows 'notes.denied'; do without it"],
    ),
    "wrong literal": (
        [call("a", arguments={"query": 7})],
        ["step 'a': arguments.query: 7 is not of type 'string'"],
    ),
    "missing argument": (
        [call("a", arguments={})],
        ["step 'a': arguments: 'query' is a required property of notes.search"],
    ),
    "unknown argument": (
        [call("a", arguments={"query": "x", "limt": 3})],
        [
            "step 'a': arguments: Additional properties are not allowed ('limt' was unexpected); did you mean 'limit'?",
        ],
    ),
    "wrong literal beside a reference": (
        [call("a"), call("b", arguments={"query": {"$step": "a"}, "limit": "many"})],
        ["step 'b': arguments.limit: 'many' is not of type 'integer'"],
    ),
    "wrong literal in $literal": (
        [call("a", arguments={"query": {"$literal": {"$step": "x"}}})],
        ["step 'a': arguments.query: {'$step': 'x'} is not of type 'string'"],
    ),
    "arguments as one reference": (
        [call("a"), call("b", arguments={"$step": "a"})],
        ["step 'b': arguments is an object of named arguments; a reference stands for one value inside it"],
    ),
    "reference to no step": (
        [call("a", arguments={"query": {"$step": "zzz.text"}})],
        ["step 'a' needs 'zzz', which is no step of the plan; it has: a"],
    ),
    "reference to itself": (
        [call("a", arguments={"query": {"$step": "a"}})],
        ["step 'a' needs itself; take that need out"],
    ),
    "reference with company": (
        [call("b"), call("a", arguments={"query": {"$step": "b", "or": "c"}})],
        ['step \'a\': a reference stands alone: {"$step": "id.path"} without other keys'],
    ),
    "malformed reference": (
        [call("a", arguments={"query": {"$step": "b.."}})],
        ['step \'a\': \'b..\' is no reference; write {"$step": "id"} or {"$step": "id.path.to[0].field"}'],
    ),
    "unknown need": ([call("a", "b")], ["step 'a' needs 'b', which is no step of the plan; it has: a"]),
    "cycle": (
        [call("a", "c"), call("b", "a"), call("c", "b"), call("d", "c")],
        ["the needs form a cycle: a needs c needs b needs a; take one of these needs out"],
    ),
    "cycle by reference": (
        [call("a", arguments={"query": {"$step": "b"}}), call("b", "a")],
        ["the needs form a cycle: a needs b needs a; take one of these needs out"],
    ),
    "arguments that are no JSON": (
        [{"id": "a", "kind": "call", "tool": "notes.search", "arguments_json": "{query:"}],
        ["step 'a': arguments_json is not a JSON object written as text"],
    ),
    "output that is no schema": (
        [worker(output={"type": "objekt"})],
        ["step 'w': output is not a JSON Schema: 'objekt' is not valid under any of the given schemas"],
    ),
}


@pytest.mark.parametrize(("steps", "errors"), WRONG.values(), ids=WRONG.keys())
def test_a_plan_that_may_not_run_is_refused_with_the_reason_and_the_way_out(
    steps: list[Json], errors: list[str]
) -> None:
    assert errors_of(*steps) == errors


def test_all_errors_of_a_plan_are_told_at_once() -> None:
    errors = errors_of(call("a", tool="x.y"), worker(worker="nobody"), call("c", "nowhere"), {"id": "d", "kind": "k"})
    assert [error.split(":")[0] for error in errors[:3]] == ["step 'a'", "step 'w'", "step 'd'"]
    assert errors[3:] == ["step 'c' needs 'nowhere', which is no step of the plan; it has: a, w, c, d"]


def test_a_step_with_a_wrong_id_or_kind_hides_no_other_error() -> None:
    lost = call("d", arguments={"query": {"$step": "zz"}})
    bad, odd = call("Bad", tool="t.nope"), {"id": "e", "kind": "cal", "tool": "t.gone", "needs": ["yy"]}
    said = "\n".join(
        errors_of(call("b"), call("b"), lost, bad, odd, call("f", "Bad", "e"), call("g", "h"), call("h", "g"))
    )
    for told in (
        "step id 'b' is used more than once",
        "step 'd' needs 'zz', which is no step",
        "step 'Bad': an id is a lower-case letter",
        "step 'Bad': unknown tool 't.nope'",
        "step 'e': kind 'cal' is unknown",
        "step 'e': unknown tool 't.gone'",
        "step 'e' needs 'yy', which is no step",
        "the needs form a cycle: g needs h needs g",
    ):
        assert said.count(told) == 1, said
    assert said.count("\n") == 7


def test_what_is_left_of_an_unreadable_step_is_needed_by_others_without_a_word() -> None:
    unreadable = [{"id": "a", "kind": "call"}, {"id": "c", "kind": "call", "arguments_json": "{", "tool": "x.y"}]
    errors = errors_of(*unreadable, {"kind": "compose", "task": "t"}, call("b", "a", "c"))
    assert errors == [
        "step 'a': a call step needs 'tool'",
        "step 'c': arguments_json is not a JSON object written as text",
        "step 3: a compose step needs 'id'",
    ]


@pytest.mark.parametrize("deep", [900, 5_000])
def test_a_step_nested_too_deeply_is_an_error_and_not_a_fault(deep: int) -> None:
    value: Json = 1
    for _ in range(deep):
        value = {"d": [value]}
    text = '{"query": ' + "[" * deep + "]" * deep + "}"
    by_text = call("c", "a", arguments=None, arguments_json=text)
    errors = errors_of(call("a", arguments={"query": value}), {"id": "b", "kind": value}, by_text)
    told = "nested deeper than 64; make it flatter, or pass it as text"
    assert errors[:2] == [f"step 'a': {told}", f"step 'b': {told}"]
    assert errors[2] in (f"step 'c': {told}", "step 'c': arguments_json is not a JSON object written as text")


def test_five_hundred_steps_are_too_many_and_say_so() -> None:
    errors = errors_of(*(call(f"s{number}") for number in range(500)))
    assert errors == ["500 steps are too many; budget.steps allows 20, so join some"]


@pytest.mark.parametrize(
    "fields",
    [{"kind": "call", "tool": "zz.nothing"}, {"kind": "compose", "task": "t", "needs": ["nope", "neither"]}],
    ids=["tools", "needs"],
)
def test_of_steps_without_end_only_the_first_are_looked_at(fields: Json) -> None:
    steps = [fields | {"id": f"s{number}"} for number in range(8_000)]
    errors = errors_of(*steps)
    assert errors[0] == "8000 steps are too many; budget.steps allows 20, so join some"
    assert len(errors) <= 101
    assert sum(map(len, errors)) < 20_000


def test_a_plan_error_tells_of_forty_errors_and_of_how_many_there_are_besides() -> None:
    error = PlanError(f"{number} is wrong" for number in range(45))
    assert (len(error.errors), error.told[39:]) == (45, ("39 is wrong", "and 5 more errors"))
    assert str(error).endswith("- 39 is wrong\n- and 5 more errors")
    assert PlanError(["x" * 5_000] * 41).told[-1] == "and 1 more error"
    assert len(str(PlanError(["x" * 5_000] * 41))) < 50_000


def test_of_names_that_are_not_there_a_step_is_told_the_first() -> None:
    names = [f"nope{number}" for number in range(14)]
    errors = errors_of(*(call(f"s{number}") for number in range(13)), call("a", *names))
    listed = ", ".join(f"s{number}" for number in range(12))
    assert errors[0] == f"step 'a' needs 'nope0', which is no step of the plan; it has: {listed}, and 2 more"
    assert errors[12:] == ["step 'a' needs 2 more that are no steps of the plan"]
    errors = errors_of(worker(tools=[f"notes.{name}" for name in names]))
    assert (len(errors), errors[12]) == (13, "step 'w': 2 more of its tools are unknown")


@pytest.mark.parametrize("field", ["needs", "tools"])
def test_a_list_without_end_is_not_read(field: str) -> None:
    names = [f"n{number}" for number in range(100_000)]
    errors = errors_of(worker() | {field: names}, call("b", "w"))
    assert errors == [f"step 'w': {field} has 100,000 entries; at most 1,000 are read"]


def test_a_chain_of_a_thousand_steps_is_checked_without_recursion() -> None:
    steps = [call("s0"), *(call(f"s{number}", f"s{number - 1}") for number in range(1, 1000))]
    assert len(check_plan({"steps": steps}, bounds(max_steps=1000)).steps) == 1000


@pytest.mark.parametrize("data", [None, "plan", 7, {}, {"steps": {}}], ids=str)
def test_a_reply_that_is_no_plan_says_what_a_plan_is(data: Json) -> None:
    with pytest.raises(PlanError, match="an object with a list of steps"):
        check_plan(data, bounds())


def test_a_plan_error_is_a_value_error_that_lists_every_error() -> None:
    with pytest.raises(ValueError, match=r"(?s)no step 'x' to drop.*- second"):
        raise PlanError(["no step 'x' to drop", "second"])


def test_a_reference_makes_its_step_a_need_and_is_not_checked_against_the_schema() -> None:
    arguments = {"query": {"$step": "a.items[0].name"}, "limit": {"$artifact": "f_1"}}
    plan = check_plan({"steps": [call("b", arguments=arguments), call("a")]}, bounds())
    assert plan.by_id["b"].needs == ("a",)


def test_what_stands_in_a_literal_is_no_reference() -> None:
    literal = tool("x.put", {"data": {"type": "object"}})
    step = call("a", tool="x.put", arguments={"data": {"$literal": {"$step": "nowhere"}}})
    assert check_plan({"steps": [step]}, bounds(tools=(literal,))).by_id["a"].needs == ()


def test_a_schema_that_looks_into_values_does_not_judge_references() -> None:
    schema = {"items": {"type": "array", "minItems": 3, "uniqueItems": True, "contains": {"const": "z"}}}
    picky = tool("x.put", schema)
    steps = [call("a"), call("b", tool="x.put", arguments={"items": [{"$step": "a"}, "y"]})]
    with pytest.raises(PlanError) as raised:
        check_plan({"steps": steps}, bounds(tools=(*TOOLS, picky)))
    assert len(raised.value.errors) == 1
    assert "is too short" in raised.value.errors[0]


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "http://x.invalid/s"}], ids=["broken", "remote"])
def test_a_tool_whose_schema_is_broken_is_left_to_the_gate(schema: Json) -> None:
    odd = tool("x.odd")
    odd.input_schema.clear()
    odd.input_schema.update(schema)
    assert check_plan({"steps": [call("a", tool="x.odd")]}, bounds(tools=(odd,))).steps[0].id == "a"


@pytest.mark.parametrize("written", ["notes.search", "notes__search", "notes/search", "mcp__notes__search"], ids=str)
def test_a_tool_may_be_named_in_every_way_in_which_models_and_hosts_do(written: str) -> None:
    plan = check_plan({"steps": [call("a", tool=written), worker(tools=[written])]}, bounds())
    assert [step.tool for step in plan.steps if isinstance(step, CallStep)] == ["notes.search"]
    assert plan.by_id["w"].model_dump()["tools"] == ("notes.search",)


def test_an_id_of_an_earlier_version_is_taken_for_good() -> None:
    assert errors_of(call("a"), used=frozenset({"a", "a_2"})) == [
        "step id 'a' was used before in this run; a new step needs a new id, such as 'a_3'"
    ]


def test_steps_that_stay_count_and_may_be_needed() -> None:
    kept = (CallStep(id="old", kind="call", tool="notes.search"),)
    assert [step.id for step in check_plan({"steps": [call("new", "old")]}, bounds(kept=kept)).steps] == ["old", "new"]
    assert errors_of(call("new"), kept=kept, max_steps=1) == [
        "1 steps besides 1 that stay are too many; budget.steps allows 1, so join some"
    ]


def test_a_given_plan_is_checked_by_the_same_rules() -> None:
    assert check_given_plan({"steps": [call("a")]}, bounds(used=frozenset({"a"}))).steps[0].id == "a"
    with pytest.raises(PlanError, match="no step"):
        check_given_plan([], bounds())


def test_an_invalid_plan_cannot_be_constructed() -> None:
    step = CallStep(id="a", kind="call", tool="notes.search", arguments={"query": {"$step": "b"}})
    other = CallStep(id="b", kind="call", tool="notes.search")
    with pytest.raises(PlanError, match="refers to 'b' without needing it"):
        Plan((step, other))


def test_a_worker_without_its_tools_leaves_the_list_with_a_warning() -> None:
    workers = (
        WorkerSettings(name="git", tools=("git.push",)),
        WorkerSettings(name="away", tools=("gone.push",)),
        WorkerSettings(name="pen", tools=()),
        WorkerSettings(name="glob", tools=("none.*",)),
    )
    offer = offer_workers(workers, TOOLS, missing=["gone"])
    assert list(offer.workers) == ["pen"]
    assert offer.warnings == ("worker 'git' is left out of plans: no server has its tool git.push",)
    alone = offer_workers((*workers[:1], REVIEWER), TOOLS)
    assert list(alone.workers.values()) == [OPERATOR, REVIEWER]
    assert alone.warnings[1] == "no worker of the settings can be used, so the built-in 'operator' takes their place"


def test_a_rule_or_sink_for_a_tool_that_its_server_does_not_have_is_a_warning() -> None:
    rules = [{"deny": "notes.serch"}, {"ask": "notes.del_*"}, {"allow": "notes.*"}, {"deny": "*.wipe"}, {"deny": "x.y"}]
    rules.append({"deny": "notes.resources/read"})
    policy = PolicySettings.model_validate_json(json.dumps({"rules": rules, "sinks": {"outbox.sent": ["/to"]}}))
    assert idle_patterns(policy, [tool.full_name for tool in TOOLS]) == [
        "policy.rules[0]: no server has a tool 'notes.serch'; did you mean 'notes.search'?",
        "policy.rules[1]: no server has a tool 'notes.del_*'; mend it or take it out",
        "policy.sinks: no server has a tool 'outbox.sent'; did you mean 'outbox.send'?",
    ]


def test_only_a_rule_without_conditions_keeps_a_tool_out_of_plans() -> None:
    policy = PolicySettings.model_validate(
        {
            "rules": ({"deny": "*.denied"}, {"deny": "notes.read", "when": {"/path": {"prefix": "x"}}}, {"ask": "a.w"}),
            "defaults": {"write": "deny"},
        }
    )
    tools = [tool("notes.denied"), tool("notes.read"), tool("b.w", class_="write"), tool("a.w", class_="write")]
    assert [never_allowed(policy, one) for one in tools] == [True, False, True, False]
