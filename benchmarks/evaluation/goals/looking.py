"""Look-ups in notes."""

from benchmarks.evaluation.goal import End, Goal, Make, Material, Place, fact
from benchmarks.evaluation.script import Script

_STALLS = ("fish stall", "rope maker", "chart shop", "sail loft", "ice house", "net store", "pilot office", "boat yard")


def extension(place: Place) -> Goal:
    """One line among many notes."""
    numbers = place.numbers(len(_STALLS), 2000, 9999)
    pairs = list(zip(_STALLS, numbers, strict=True))
    notes = {f"stalls/{name.replace(' ', '-')}.md": f"# {name}\n\nTelephone extension: {n}\n" for name, n in pairs}
    wanted = pairs[place.number(0, len(pairs) - 1)]
    path = f"stalls/{wanted[0].replace(' ', '-')}.md"
    script = Script().worker(
        "find", f"It is {wanted[1]}.", [("notes.search", {"query": wanted[0]})], [("notes.read", {"path": path})]
    )
    return Goal(
        "extension",
        "look-up",
        f"What is the telephone extension of the {wanted[0]}? It stands in the notes.",
        ("notes",),
        Material(notes=notes),
        End(facts=(fact(wanted[1]),), lacks=tuple(str(n) for name, n in pairs if name != wanted[0])),
        script.answer(f"The extension of the {wanted[0]} is {wanted[1]}."),
    )


def known_path(place: Place) -> Goal:
    """The note is named, so one call does it."""
    rota = {week: place.code() for week in range(11, 19)}
    week = place.number(11, 18)
    text = "# Rota\n\n" + "\n".join(f"- week {number}: boat {boat}" for number, boat in rota.items())
    return Goal(
        "known-path",
        "look-up",
        f"Read the note rota.md and say which boat is on duty in week {week}.",
        ("notes",),
        Material(notes={"rota.md": text, "readme.md": "Notes of the harbour."}),
        End(facts=(fact(rota[week]),)),
        Script().call("read", "notes.read", {"path": "rota.md"}).answer(f"In week {week} it is boat {rota[week]}."),
    )


def two_hops(place: Place) -> Goal:
    """One note says where to look in another."""
    berth, others = place.code(), [place.code() for _ in range(3)]
    notes = {
        "projects/dredging.md": "# Dredging\n\nLed by the north office. Starts in spring.",
        "projects/lights.md": "# Lights\n\nLed by the south office. Under way.",
        "offices/north.md": f"# North office\n\nIts boat lies at berth {berth}.",
        "offices/south.md": f"# South office\n\nIts boat lies at berth {others[0]}.",
        "offices/west.md": f"# West office\n\nIts boat lies at berth {others[1]}.",
    }
    script = Script().worker(
        "find",
        f"The north office leads it; berth {berth}.",
        [("notes.read", {"path": "projects/dredging.md"})],
        [("notes.read", {"path": "offices/north.md"})],
    )
    return Goal(
        "two-hops",
        "look-up",
        "At which berth lies the boat of the office that leads the dredging project? The notes tell.",
        ("notes",),
        Material(notes=notes),
        End(facts=(fact(berth),), lacks=(others[0], others[1])),
        script.answer(f"The north office leads the dredging; its boat lies at berth {berth}."),
    )


def newest_counts(place: Place) -> Goal:
    """An older note says otherwise."""
    old, new = place.numbers(2, 3000, 9000)
    notes = {
        "fees-2031.md": f"# Mooring fee\n\nFrom 2031-01-01 the yearly mooring fee is {old} EUR.",
        "fees-2034.md": f"# Mooring fee\n\nFrom 2034-01-01 the yearly mooring fee is {new} EUR, whatever was before.",
        "guests.md": "Guests pay by the night.",
    }
    reads = [("notes.read", {"path": path}) for path in ("fees-2031.md", "fees-2034.md")]
    script = Script().worker(
        "find", f"It is {new} EUR since 2034.", [("notes.search", {"query": "mooring fee"})], reads
    )
    return Goal(
        "newest-counts",
        "look-up",
        "How much is the yearly mooring fee in 2035, after the notes? Give that amount only, no earlier one.",
        ("notes",),
        Material(notes=notes),
        End(facts=(fact(new),), lacks=(str(old),)),
        script.answer(f"In 2035 the yearly mooring fee is {new} EUR."),
    )


def row_of_a_table(place: Place) -> Goal:
    """A value in a CSV note."""
    depths = place.numbers(30, 210, 990)
    lines = [f"B{number:02d},{depth},{place.code()}" for number, depth in enumerate(depths, 1)]
    row = place.number(1, 30)
    depth, tag = depths[row - 1], lines[row - 1].rpartition(",")[2]
    return Goal(
        "row-of-a-table",
        "look-up",
        f"In the note soundings.csv, which depth in cm and which tag has buoy B{row:02d}?",
        ("notes",),
        Material(notes={"soundings.csv": "\n".join(["buoy,depth_cm,tag", *lines])}),
        End(facts=(fact(depth), fact(tag))),
        Script()
        .call("read", "notes.read", {"path": "soundings.csv"})
        .answer(f"Buoy B{row:02d}: depth {depth} cm, tag {tag}."),
    )


def every_field(place: Place) -> Goal:
    """Four facts of one note, all of which are asked for."""
    crane, load, date, mail = place.code(), place.number(11, 89), place.number(10, 28), f"crane{place.number(100, 999)}"
    text = f"# Crane check\n\nCrane {crane}, safe load {load} t.\nNext check: 2036-03-{date}.\nAsk: {mail}@quay.example"
    script = Script().worker("read", "All four stand there.", [("notes.read", {"path": "crane.md"})])
    return Goal(
        "every-field",
        "look-up",
        "From the notes: the crane's name, its safe load, the date of its next check, and whom to ask (address).",
        ("notes",),
        Material(notes={"crane.md": text, "lifts.md": "# Lifts\n\nNone is in use."}),
        End(
            facts=(
                fact(crane),
                fact(load),
                fact(f"2036-03-{date}", f"{date} March 2036", f"March {date}, 2036"),
                fact(f"{mail}@quay.example"),
            )
        ),
        script.answer(f"Crane {crane}, safe load {load} t, next check 2036-03-{date}, ask {mail}@quay.example."),
    )


GOALS: tuple[Make, ...] = (extension, known_path, two_hops, newest_counts, row_of_a_table, every_field)
