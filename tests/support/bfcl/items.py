"""Questions of the Berkeley Function-Calling Leaderboard: all of them from its package, or a sample that lies here.

`python -m bfcl.items`, with the root and `tests/support` in PYTHONPATH, writes the sample anew.
"""

import functools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import third_party

from downstream.json_shape import is_array, is_object

from .reading import Item, Json, item_of

PACKAGE, VERSION = "bfcl-eval", "2026.3.23"
SAMPLE = Path(__file__).with_name("sample.json")
SAMPLED = 60
KINDS = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
)
"""Those with a single turn and a ground truth in Python's values; the two of other languages write theirs as code."""
_NOTICE = (
    "60 items of the Berkeley Function-Calling Leaderboard, from the package bfcl-eval 2026.3.23, by its authors at UC "
    "Berkeley (github.com/ShishirPatil/gorilla), under the Apache License 2.0, a copy of which lies beside this file. "
    "Changed: the questions' words are left out, and each ground truth stands with its item."
)


def installed() -> third_party.Ready | third_party.Missing:
    """The package without what it needs to run models, as only its data is read."""
    return third_party.python_with(f"{PACKAGE}-{VERSION}", ("--no-deps", f"{PACKAGE}=={VERSION}"))


@functools.cache
def all_items() -> Sequence[Item]:
    """Every item, in the order of the package, which must be installed."""
    return [item_of(raw) for raw in _raw_items()]


@functools.cache
def sample() -> Sequence[Item]:
    """The items that lie here."""
    return [item_of(raw) for raw in json.loads(SAMPLE.read_text(encoding="utf-8"))["items"]]


def chosen() -> Iterator[Json]:
    """What the sample holds: items that are the first with some trait, and as many others, evenly spread, as fit in."""
    every = list(_raw_items())
    seen: set[str] = set()
    first: dict[str, Json] = {}
    for raw in every:
        if (traits := _traits(item_of(raw))) - seen:
            seen |= traits
            first[raw["id"]] = raw
    others = [raw for raw in every if raw["id"] not in first]
    free = SAMPLED - len(first)
    spread = [others[number * len(others) // free] for number in range(free)]
    ids = {raw["id"] for raw in (*first.values(), *spread)}
    yield from (raw for raw in every if raw["id"] in ids)


def _traits(item: Item) -> set[str]:
    """What makes an item worth having: types and keywords of its tools, shapes of its arguments, whether they fit."""
    traits = {f"{len(item.calls)} calls" if len(item.calls) > 3 else "few", f"{len(item.tools) > 20}"}
    for call in item.calls:
        schema = item.tools[call.tool]["inputSchema"]
        traits |= set(_marks(schema, "")) | set(_shapes(call.arguments, ""))
        traits |= {f"misfit {each.partition(' is ')[2].partition('[')[0]}" for each in item.misfits(call)}
        traits |= {"dotted"} if "." in call.tool else set[str]()
    return traits


def _marks(schema: Json, place: str) -> Iterator[str]:
    yield f"{place} {schema.get('type')} {sorted(schema.keys() & {'enum', 'format', 'maximum'})}"
    for name, field in schema.get("properties", {}).items():
        yield f"ascii {name.isascii()}"
        yield from _marks(field, f"{place}.")
    if "items" in schema:
        yield from _marks(schema["items"], f"{place}[")


def _shapes(value: Json, place: str) -> Iterator[str]:
    yield f"{place} {type(value).__name__} {not value}"
    if isinstance(value, str):
        yield f"text {value.isascii()} {any(sign in value for sign in '{[')} {any(sign in value for sign in chr(10))}"
    for item in value.values() if is_object(value) else value if is_array(value) else ():
        yield from _shapes(item, f"{place}.")


def _raw_items() -> Iterator[Json]:
    found = installed()
    assert isinstance(found, third_party.Ready)
    (data,) = Path(found.command[0]).parents[1].glob("lib/python*/site-packages/bfcl_eval/data")
    for kind in KINDS:
        name = f"BFCL_v4_{kind}.json"
        answers = {line["id"]: line["ground_truth"] for line in _lines(data / "possible_answer" / name)}
        for line in _lines(data / name):
            yield {"id": line["id"], "function": line["function"], "ground_truth": answers[line["id"]]}


def _lines(path: Path) -> Iterator[Json]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def write_sample() -> None:
    """Write the sample as the package has it."""
    lines = ",\n".join(json.dumps(raw, ensure_ascii=False) for raw in chosen())
    SAMPLE.write_text(f'{{"notice": {json.dumps(_NOTICE)},\n"items": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    write_sample()
    sys.stdout.write(f"{len(sample())} items\n")
