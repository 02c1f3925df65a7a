"""References in arguments."""

from typing import Any

import pytest

from executors.paths import ReferenceMissing
from executors.resolve import resolve, resolve_artifacts
from journal.values import Value

PLAN = frozenset({"plan"})
LIST = Value({"items": [{"name": "a", "$step": "x"}, {"name": "b"}]}, frozenset({"private:notes"}))
TEXT = Value("hello", frozenset({"open:web"}))
INPUTS = {"list": LIST, "nothing": Value(None, TEXT.label), "text": TEXT}


async def artifact(artifact_id: str, path: str | None) -> Value:
    if artifact_id != "f_1":
        raise ReferenceMissing(f"artifact {artifact_id} is not among this step's inputs and calls; there is f_1")
    return Value(f"whole{path or ''}", frozenset({"private:fs"}))


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("list", LIST.data),
        ("list.items[1].name", "b"),
        ("list.items[0]", {"name": "a", "$step": "x"}),
        ("list.items.1.name", "b"),
        ("text", "hello"),
    ],
)
async def test_a_reference_stands_for_the_value_of_a_step_or_a_part_of_it(reference: str, expected: Any) -> None:
    resolved = await resolve({"a": {"$step": reference}}, INPUTS, label=PLAN, read_artifact=artifact)
    assert resolved.data == {"a": expected}


async def test_every_substituted_value_keeps_its_label_at_its_place() -> None:
    arguments = {"to": "me", "body": [{"a/b": {"$step": "list.items[0].name"}}, {"$step": "text"}]}
    resolved = await resolve(arguments, INPUTS, label=PLAN, read_artifact=artifact)
    assert resolved.parts == {"/body/0/a~1b": LIST.label, "/body/1": TEXT.label}
    assert (resolved.label, resolved.label_at("/to"), resolved.joined) == (PLAN, PLAN, PLAN | LIST.label | TEXT.label)


async def test_all_arguments_may_be_one_reference_to_an_object() -> None:
    resolved = await resolve({"$step": "list.items[1]"}, INPUTS, label=PLAN, read_artifact=artifact)
    assert (resolved.data, resolved.label_at("/name")) == ({"name": "b"}, LIST.label)


async def test_what_was_substituted_is_not_read_for_references_again() -> None:
    resolved = await resolve({"a": {"$step": "list"}}, INPUTS, label=PLAN, read_artifact=artifact)
    assert resolved.data["a"]["items"][0]["$step"] == "x"


async def test_a_literal_is_passed_unread() -> None:
    resolved = await resolve({"a": {"$literal": {"$step": "nothing"}}}, {}, label=PLAN, read_artifact=artifact)
    assert (resolved.data, resolved.parts) == ({"a": {"$step": "nothing"}}, {})


async def test_an_artifact_is_passed_by_reference_also_from_a_worker() -> None:
    arguments = {"a": {"$artifact": "f_1"}, "b": [{"$artifact": "f_1", "path": ".x"}], "c": {"$step": "list"}}
    resolved = await resolve_artifacts(arguments, label=PLAN, read_artifact=artifact)
    assert resolved.data == {"a": "whole", "b": ["whole.x"], "c": {"$step": "list"}}
    assert set(resolved.parts) == {"/a", "/b/0"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": {"$step": "list.items[0].name.x"}}, "list.items[0].name is a text of 1 characters"),
        ({"a": {"$step": "nothing.x"}}, "nothing.x does not exist: nothing is null"),
        ({"a": {"$step": "list.items[2].name"}}, "list.items[2].name does not exist: list.items is a list of 2"),
        ({"a": {"$step": "list.items[0].size"}}, "list.items[0] is an object with $step, name"),
        ({"a": {"$step": "list.nothing"}}, "list.nothing does not exist: list is an object with items"),
        ({"a": {"$step": "text.size"}}, "text.size does not exist: text is a text of 5 characters"),
        ({"a": {"$step": "other"}}, "step other gave no value; this step has values of list, nothing, text"),
        ({"a": {"$step": "list..x"}}, "list..x is not a path"),
        ({"a": {"$step": "No Step"}}, "'No Step' is not a reference"),
        ({"a": {"$step": 3}}, "3 is not a reference"),
        ({"a": {"$artifact": "f_2"}}, "artifact f_2 is not among"),
        ({"$step": "text"}, "arguments must be an object; the reference gives a text of 5 characters"),
    ],
)
async def test_a_reference_to_nothing_says_what_is_there(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ReferenceMissing) as caught:
        await resolve(arguments, INPUTS, label=PLAN, read_artifact=artifact)
    assert text in str(caught.value)


async def test_without_any_inputs_the_error_says_so() -> None:
    with pytest.raises(ReferenceMissing, match="this step has no values of others"):
        await resolve({"a": {"$step": "list"}}, {}, label=PLAN, read_artifact=artifact)
