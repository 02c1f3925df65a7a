"""Three fixed pieces of work, each in several ways: what the models say, over which material."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from model_script import Rule, answer, call, compose, planner, report, worker
from model_wire import Json

from server.commands.opening import OWN_PROCESS

from . import many_tools

DOCUMENTS = tuple(f"report-{name}.md" for name in ("north", "east", "south", "west", "inner"))
_LENGTH = 40_000
_NEEDED = ("get_tide_tables", "list_permits")
_WORDS = (
    "the a of and to in for with that as on by it is was at from this be are which not have or had its were an but"
    " harbour quay ship cargo crane depth tide pilot berth water report year month number tons office survey repair"
    " basin channel buoy light signal crew permit weather storm season north south vessel dredging measure"
)


@dataclass(frozen=True)
class Way:
    """One way to do a piece of work. `servers` are entries of `mcpServers`, `notes` what the notes server holds."""

    name: str
    goal: str
    rules: Sequence[Rule]
    servers: Mapping[str, Sequence[str]]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


def documents_by_worker() -> Way:
    """A worker reads five long documents and looks up in each what it needs."""
    reads = [call("notes.read", {"path": path}) for path in DOCUMENTS]
    looks = [call("read_artifact", {"artifact_id": f"{{{{artifact:{n}}}}}", "search": "yearly total"}) for n in _five()]
    step = _worker("compare", "Read the five reports and say which has the largest yearly total.", ["notes.read"])
    said = report("The south has the largest.", {"The south has the largest yearly total.": [5, 6, 7, 8, 9]})
    return _documents("one worker reads all five", [step], worker("compare", [reads, looks], said))


def documents_by_calls() -> Way:
    """Five call steps read them, and a worker is given what they read."""
    looks = [call("read_artifact", {"artifact_id": f"{{{{artifact:{n}}}}}", "search": "yearly total"}) for n in _five()]
    needs = [f"read{n}" for n in _five()]
    reads = [_call(f"read{n}", "notes.read", {"path": path}) for n, path in enumerate(DOCUMENTS)]
    step = _worker("compare", "Say which of the reports has the largest yearly total.", ["notes.read"], needs)
    said = report("The south has the largest.", {"The south has the largest yearly total.": [0, 1, 2, 3, 4]})
    return _documents("five call steps, then a worker", [*reads, step], worker("compare", [looks], said))


def documents_composed() -> Way:
    """Five call steps read them, and a compose step gets all of them whole: no artifact is shown."""
    needs = [f"read{n}" for n in _five()]
    reads = [_call(f"read{n}", "notes.read", {"path": path}) for n, path in enumerate(DOCUMENTS)]
    step = {"id": "compare", "kind": "compose", "task": "Say which has the largest yearly total.", "needs": needs}
    said = compose("compare", "The south has the largest yearly total.")
    return _documents("five call steps, then one text from all of them, whole", [*reads, step], said)


def tools_listed() -> Way:
    """The plan's step lists the two tools that it needs."""
    names = [f"catalogue.{name}" for name in _NEEDED]
    calls = [call(name, {"reference": "B7"}) for name in names]
    return _catalogue("the step lists the two", _both(names), worker("look", [calls], _found([0, 1])))


def tools_searched() -> Way:
    """The step lists none, so its worker has all 120: it is shown ten, and searches."""
    names = [f"catalogue.{name}" for name in _NEEDED]
    search = [call("search_tools", {"query": "tide tables permits", "limit": 4})]
    calls = [call(name, {"reference": "B7"}) for name in names]
    return _catalogue("the worker searches", _both(None), worker("look", [search, calls], _found([1, 2])))


def tools_of_half(first: int) -> Way:
    """Half of the catalogue with two workers that are shown thirty tools each: what all definitions take."""
    half = [f"catalogue.{name}" for name in many_tools.NAMES[first : first + 60]]
    steps = [_worker(f"look{n}", "Look.", half[30 * n : 30 * n + 30]) for n in range(2)]
    said = report("Looked.", {"There are 3 records.": [0]})
    rules = [rule for n in range(2) for rule in worker(f"look{n}", [[call(half[30 * n], {"reference": "B7"})]], said)]
    return _catalogue("half of it", steps, rules, first=first, count=60)


def looks_by_calls() -> Way:
    """Six look-ups whose arguments are known: a call step each."""
    return _looks("six call steps", [_call(f"look{n}", "notes.read", {"path": f"gauge{n}.md"}) for n in range(6)], [])


def looks_by_worker() -> Way:
    """The same by one worker, all in one turn."""
    calls = [call("notes.read", {"path": f"gauge{n}.md"}) for n in range(6)]
    said = report("All six were read.", {f"Gauge {n} reads {1000 + n}.": [n] for n in range(6)})
    step = _worker("look", "Read gauge0.md to gauge5.md and say what each reads.", ["notes.read"])
    return _looks("one worker step", [step], worker("look", [calls], said))


def looks_by_workers() -> Way:
    """The same by six workers."""
    steps = [_worker(f"look{n}", f"Read gauge{n}.md and say what it reads.", ["notes.read"]) for n in range(6)]
    rules = [
        rule
        for n in range(6)
        for rule in worker(
            f"look{n}",
            [[call("notes.read", {"path": f"gauge{n}.md"})]],
            report(f"It reads {1000 + n}.", {f"Gauge {n} reads {1000 + n}.": [0]}),
        )
    ]
    return _looks("six worker steps", steps, rules)


def _five() -> range:
    return range(len(DOCUMENTS))


def _documents(name: str, steps: Sequence[Json], rules: Sequence[Rule]) -> Way:
    return _way(
        name,
        "Which of the five reports (north, east, south, west, inner) has the largest yearly total?",
        [*planner(steps), *rules, *answer("The south has the largest yearly total.")],
        notes={path: _document(path) for path in DOCUMENTS},
    )


def _document(path: str) -> str:
    chance = Random(path)
    known = _WORDS.split()
    words = [chance.choice(known) for _ in range(_LENGTH // 5)]
    text = " ".join(words)[:_LENGTH]
    middle = len(text) // 2
    return f"{text[:middle]}\nThe yearly total was {chance.randint(1000, 9999)} tons.\n{text[middle:]}"


def _catalogue(
    name: str, steps: Sequence[Json], rules: Sequence[Rule], *, first: int = 0, count: int = len(many_tools.NAMES)
) -> Way:
    goal = "What do the tide tables and the permits say of B7?"
    said = [*planner(steps), *rules, *answer("3 records each.")]
    return Way(name, goal, said, {"catalogue": [sys.executable, many_tools.__file__, str(first), str(count)]})


def _looks(name: str, steps: Sequence[Json], rules: Sequence[Rule]) -> Way:
    return _way(
        name,
        "What do the gauges 0 to 5 read? Each has a note gaugeN.md.",
        [*planner(steps), *rules, *answer("They read 1000 to 1005.")],
        notes={f"gauge{n}.md": f"# Gauge {n}\n\nIt reads {1000 + n}." for n in range(6)},
    )


def _way(name: str, goal: str, rules: Sequence[Rule], *, notes: Mapping[str, str]) -> Way:
    return Way(name, goal, rules, {"notes": [*OWN_PROCESS, "tool-server", "notes", "{notes}"]}, notes)


def _both(tools: list[str] | None) -> list[Json]:
    return [_worker("look", "Find out what the tide tables and the permits say of B7.", tools)]


def _found(evidence: list[int]) -> Json:
    return report("3 records each.", {"There are 3 records of each.": evidence})


def _worker(id_: str, task: str, tools: list[str] | None, needs: Sequence[str] = ()) -> Json:
    listed = {} if tools is None else {"tools": tools}
    return {"id": id_, "kind": "worker", "worker": "operator", "task": task, "needs": list(needs), **listed}


def _call(id_: str, tool: str, arguments: Json) -> Json:
    return {"id": id_, "kind": "call", "title": f"Do {id_}", "tool": tool, "arguments": arguments}
