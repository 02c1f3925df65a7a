"""Arguments arrive as they were meant: the calls of the Berkeley Function-Calling Leaderboard, made in every way.

A sample of 60 items lies beside these tests; the whole, 2,351 items with 3,152 calls, comes from the package.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
import pytest
import third_party
from bfcl.items import SAMPLE, all_items, chosen, installed, sample
from bfcl.misfits import Tried, try_misfits
from bfcl.reading import Item, Json, item_of, schema_of
from bfcl.replay import replay
from bfcl.shelves import Arrival, Placed, Shelves
from bfcl.ways import Style, Way, as_text, packed
from model_wire import Wire

from downstream.door import Arguments
from downstream.gate.argument_reading import Reading, read_arguments
from downstream.models.parameters import parameters_of

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = pytest.mark.filterwarnings("ignore")

WIRES: tuple[Wire, ...] = ("openai", "anthropic", "gemini")
BY_MODELS: tuple[Style, ...] = ("functions", "next_action", "planner")
EVERY_WAY = [
    Way("given plan"),
    *(Way(style, wire) for style in BY_MODELS for wire in WIRES),
    Way("as text", "openai"),
]
WHOLE_WAYS = [
    Way("given plan"),
    *(Way("functions", wire) for wire in WIRES),
    *(Way(style, "openai") for style in ("as text", "next_action", "planner")),
]
CASE_OF_AN_ENUM = {"live_multiple_756-169-11": ['/genre "horror" as "Horror"']}
NULL_FOR_ABSENT = {"live_multiple_1038-265-0": ["/start_date left out"]}


def placed(item: Item) -> list[Placed]:
    return Shelves.of([item]).calls


def raw(parameters: Json, *answers: Json) -> Json:
    function = {"name": "f", "description": "F.", "parameters": {"type": "dict", "properties": parameters}}
    return {"id": "made", "function": [function], "ground_truth": [{"f": answer} for answer in answers]}


def test_definitions_are_translated_by_their_types_alone() -> None:
    definition: Json = {
        "type": "dict",
        "properties": {
            "a": {"type": "float", "description": "A float."},
            "b": {"type": "tuple", "items": {"type": "dict", "properties": {"any": {"type": "any", "default": 1}}}},
            "type": {"type": "string", "enum": ["float"]},
        },
        "required": ["a"],
    }
    assert schema_of(definition) == {
        "type": "object",
        "properties": {
            "a": {"type": "number", "description": "A float."},
            "b": {"type": "array", "items": {"type": "object", "properties": {"any": {"default": 1}}}},
            "type": {"type": "string", "enum": ["float"]},
        },
        "required": ["a"],
    }


@pytest.mark.parametrize(
    ("parameter", "values", "taken"),
    [
        ({"type": "integer"}, [5, 6], {"x": 5}),
        ({"type": "integer"}, ["five", 5], {"x": 5}),
        ({"type": "integer"}, [None, ""], {}),
        ({"type": "string"}, ["", "a"], {"x": "a"}),
        ({"type": "integer"}, [], {}),
        ({"type": "integer"}, ["five"], {"x": "five"}),
        ({"type": "dict", "properties": {"y": {"type": "float"}}}, [{"y": [1.5, 2], "z": [""]}], {"x": {"y": 1.5}}),
        ({"type": "array", "items": {"type": "dict"}}, [[{"y": [1]}, {"y": 2}]], {"x": [{"y": 1}, {"y": 2}]}),
    ],
)
def test_of_the_right_values_the_first_that_fits_is_taken(parameter: Json, values: Json, taken: Json) -> None:
    (call,) = item_of(raw({"x": parameter}, {"x": values})).calls
    assert call.arguments == taken


def test_an_argument_that_must_be_there_may_be_an_empty_text() -> None:
    made = raw({"x": {"type": "string"}}, {"x": [""]})
    made["function"][0]["parameters"]["required"] = ["x"]
    assert item_of(made).calls[0].arguments == {"x": ""}


def test_arrivals_that_differ_in_a_type_alone_are_different() -> None:
    assert len({Arrival.of("t", {"x": value}) for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert Arrival.of("t", {"a": 1, "b": 2}) == Arrival.of("t", {"b": 2, "a": 1})


def test_a_careless_model_writes_as_text_whatever_can_be_nothing_else() -> None:
    fields = {"n": {"type": "integer"}, "o": {"type": "dict"}, "s": {"type": "string"}, "w": {"type": "any"}}
    (made,) = placed(item_of(raw(fields, {"n": [5], "o": [{"a": [1]}], "s": ["1"], "w": [2]})))
    assert as_text(made) == {"n": "5", "o": '{"a": 1}', "s": "1", "w": 2}


def test_every_call_of_the_sample_is_made_by_one_worker_once() -> None:
    shelves = Shelves.of(sample())
    made = [each for some in packed(shelves.calls, shelves) for each in some]
    assert sorted(map(str, (each.arrival for each in made))) == sorted(str(each.arrival) for each in shelves.calls)
    assert all(len(tools) == len(set(tools)) for tools in shelves.servers.values())


def test_the_sample_says_where_it_is_from_and_under_which_licence() -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert all(word in text[:500] for word in ("bfcl-eval", "UC Berkeley", "Apache License 2.0", "Changed"))
    assert "Apache License" in SAMPLE.with_name("LICENSE-Apache-2.0.txt").read_text(encoding="utf-8")


def read(schema: Json, arguments: Json) -> Reading:
    return read_arguments(schema, Arguments(arguments, frozenset({"plan"}), {"/a_o/0": frozenset({"host"})}))


def test_an_argument_gets_its_own_name_back_also_where_the_schema_would_take_any_other() -> None:
    year: Json = {"type": "object", "properties": {"año": {"type": "array"}, "n": {"type": "integer"}}}
    (shown, _) = parameters_of(year).schema["properties"]
    made = read(year, {shown: [2024], "n": 1, "other": 2})
    assert made.arguments.data == {"año": [2024], "n": 1, "other": 2}
    assert made.arguments.parts == {"/año/0": frozenset({"host"})}
    assert made.read_as == (f"/{shown} as año",)
    # Also where the rest cannot be read, so that what is told is wrong with it is what is.
    assert read(year, {shown: [2024], "n": "many"}).arguments.data == {"año": [2024], "n": "many"}


def test_an_argument_that_has_the_shown_name_itself_keeps_it() -> None:
    both: Json = {"type": "object", "properties": {"año": {}, "a_o": {}}}
    assert read(both, {"a_o": 1}).arguments.data == {"a_o": 1}
    assert read({"type": "object", "properties": {"año": {}}}, {"a_o": 1, "año": 2}).read_as == ()


async def check(folder: Path, items: Sequence[Item], way: Way, *, calls: int) -> None:
    replayed = await replay(folder, items, way)
    assert replayed.mismatches == []
    assert (replayed.expected.total(), replayed.arrived.total()) == (calls, calls)


def refused(tried: Tried) -> None:
    """Each misfit has an error in a plan, and each that was not made one for its worker, about the same argument."""
    assert all(each.plan for each in tried.misfits)
    assert all("the arguments do not fit" in each.worker for each in tried.refused)
    assert tried.arrived.total() == len(tried.read)


@pytest.mark.e2e
@pytest.mark.parametrize("way", EVERY_WAY, ids=str)
async def test_every_call_of_a_sample_arrives_with_equal_arguments(tmp_path: Path, way: Way) -> None:
    await check(tmp_path / "runs", sample(), way, calls=86)


@pytest.mark.e2e
async def test_calls_of_a_sample_that_do_not_fit_are_refused_with_what_is_wrong(tmp_path: Path) -> None:
    tried = await try_misfits(tmp_path / "runs", sample(), Way("functions", "openai"))
    refused(tried)
    assert (len(tried.misfits), tried.read) == (6, NULL_FOR_ABSENT)
    worst = {each.item: (each.plan[0], each.worker) for each in tried.refused}["live_multiple_552-153-1"]
    assert all("True is not one of" in text or "True is not of type" in text for text in worst)


async def whole() -> Sequence[Item]:
    found = await anyio.to_thread.run_sync(installed)
    if isinstance(found, third_party.Missing):
        pytest.skip(found.reason)  # no registry here: the reason says which
    return all_items()


@pytest.mark.slow
@pytest.mark.parametrize("way", WHOLE_WAYS, ids=str)
async def test_every_call_of_the_whole_arrives_with_equal_arguments(tmp_path: Path, way: Way) -> None:
    items = await whole()
    assert (len(items), sum(len(item.calls) for item in items)) == (2_351, 3_152)
    await check(tmp_path / "runs", items, way, calls=3_131)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_calls_of_the_whole_that_do_not_fit_are_refused_and_none_is_bent(tmp_path: Path, wire: Wire) -> None:
    """But for two that are read as every call is: an enum's choice in another case, and null for what may be absent."""
    tried = await try_misfits(tmp_path / "runs", await whole(), Way("functions", wire))
    refused(tried)
    assert (len(tried.misfits), tried.read) == (21, CASE_OF_AN_ENUM | NULL_FOR_ABSENT)
    sys.stdout.write("".join(f"  {each.item}: {each.plan[0]}\n" for each in tried.misfits))


@pytest.mark.slow
async def test_the_sample_is_what_would_be_chosen_from_the_package_again() -> None:
    await whole()
    assert [item_of(each) for each in chosen()] == list(sample())
