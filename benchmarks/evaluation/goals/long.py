"""Material longer than a model is shown at once: kept as an artifact, to be searched, read in parts or passed on."""

from benchmarks.evaluation.goal import Allowed, Changes, End, Goal, Make, Material, Place, Text, fact
from benchmarks.evaluation.script import Script

_WORDS = [
    "tide",
    "quay",
    "rope",
    "hull",
    "mast",
    "gull",
    "buoy",
    "lamp",
    "pier",
    "sand",
    "mist",
    "keel",
    "oar",
    "net",
    "crab",
    "shoal",
    "reef",
    "cove",
]


def _log(place: Place, lines: int) -> list[str]:
    return [
        f"{n:04d} {place.chance.choice(('calm', 'busy', 'foggy'))} "
        + " ".join(place.chance.choice(_WORDS) for _ in range(9))
        for n in range(lines)
    ]


def needle(place: Place) -> Goal:
    """One line in the middle of 60,000 characters."""
    lines, code = _log(place, 1000), place.code()
    lines[place.number(400, 600)] = f"Anchorpoint recalibrated by the survey ship, seal {code}."
    script = Script().worker(
        "find",
        f"The seal is {code}.",
        [("notes.search", {"query": "anchorpoint recalibrated"})],
        [("notes.read", {"path": "watch.log"})],
    )
    return Goal(
        "needle",
        "long",
        "The note watch.log is long. Which seal does its line about the anchorpoint name?",
        ("notes",),
        Material(notes={"watch.log": "\n".join(lines)}),
        End(facts=(fact(code),)),
        script.answer(f"The seal is {code}."),
    )


def count_in_a_long_note(place: Place) -> Goal:
    """How often a word stands in 40,000 characters."""
    lines, count = _log(place, 700), place.number(23, 61)
    for number in place.chance.sample(range(700), count):
        lines[number] += " COLLISION"
    script = Script().call("read", "notes.read", {"path": "events.log"})
    script.compose("count", f"COLLISION stands in {count} lines.", needs=["read"])
    return Goal(
        "count-in-a-long-note",
        "long",
        "In how many lines of the note events.log does the word COLLISION stand?",
        ("notes", "code"),
        Material(notes={"events.log": "\n".join(lines)}),
        End(facts=(fact(count, source="COLLISION"),)),
        script.answer(f"COLLISION stands in {count} lines."),
    )


def two_long_reports(place: Place) -> Goal:
    """The ends of two long notes, compared."""
    totals = place.numbers(2, 10_000, 99_999)
    notes = {
        f"year-{year}.md": "\n".join([*_log(place, 450), f"Total of the year: {total} tons."])
        for year, total in zip((2034, 2035), totals, strict=True)
    }
    difference = abs(totals[0] - totals[1])
    script = Script().worker(
        "compare", f"They differ by {difference} tons.", [("notes.read", {"path": path}) for path in notes]
    )
    return Goal(
        "two-long-reports",
        "long",
        "By how many tons do the yearly totals at the end of year-2034.md and year-2035.md differ?",
        ("notes", "code"),
        Material(notes=notes),
        End(facts=(fact(difference, source=totals[0]), fact(difference, source=totals[1]))),
        script.answer(f"They differ by {difference} tons."),
    )


def long_text_passed_on(place: Place) -> Goal:
    """A text of 50,000 characters, from one server to another, whole."""
    text = "\n".join(_log(place, 850)) + f"\nend {place.code()}\n"
    target = str(place.files / "copy.log")
    script = Script().call("read", "notes.read", {"path": "whole.log"})
    script.call("write", "filesystem.write_file", {"path": target, "content": {"$step": "read.text"}}, needs=["read"])
    return Goal(
        "long-text-passed-on",
        "long",
        f"Write the whole text of the note whole.log, unchanged, to the file {target}.",
        ("notes", "filesystem"),
        Material(notes={"whole.log": text}),
        End(changes=Changes(files={"copy.log": Text(equals=text)}), called=("notes.read",)),
        script.answer("The file copy.log holds the whole note."),
        (Allowed("filesystem.write_file", {"path": Text(has=("copy.log",)), "content": Text(equals=text)}),),
    )


def total_of_a_long_table(place: Place) -> Goal:
    """A thousand rows, of which a few count."""
    rows = [(n, place.chance.choice("pqrs"), place.number(10, 99)) for n in range(1000)]
    picked = [amount for n, kind, amount in rows if kind == "q" and n % 100 == 7]
    if not picked:
        rows[107], picked = (107, "q", 55), [55]
    lines = [f"row-{n},{kind},{amount}" for n, kind, amount in rows]
    wanted = [n for n, kind, _ in rows if kind == "q" and n % 100 == 7]
    script = Script().call("read", "notes.read", {"path": "ledger.csv"})
    script.call("sum", "code.run", {"code": f"sum({picked})"}, needs=["read"])
    return Goal(
        "total-of-a-long-table",
        "long",
        f"In the note ledger.csv (row,kind,amount), what do the amounts of {', '.join(f'row-{n}' for n in wanted)} come"
        " to in all?",
        ("notes", "code"),
        Material(notes={"ledger.csv": "\n".join(["row,kind,amount", *lines])}),
        End(facts=tuple(fact(sum(picked), source=lines[n]) for n in wanted)),
        script.answer(f"They come to {sum(picked)}."),
    )


GOALS: tuple[Make, ...] = (needle, count_in_a_long_note, two_long_reports, long_text_passed_on, total_of_a_long_table)
