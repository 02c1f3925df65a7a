"""Arithmetic over what notes say, and comparisons of two sources."""

from datetime import date, timedelta

from benchmarks.evaluation.goal import End, Goal, Make, Material, Place, fact
from benchmarks.evaluation.script import Script


def _computed(place: Place, name: str, note: tuple[str, str], *, goal: str, code: str, result: int) -> Goal:
    """A note, path and text, to be read, and something to be worked out of it."""
    path, text = note
    script = Script().worker(
        "work_out", f"The result is {result}.", [("notes.read", {"path": path})], [("code.run", {"code": code})]
    )
    return Goal(
        name,
        "arithmetic",
        goal,
        ("notes", "code"),
        Material(notes={path: text, "other.md": f"Nothing of use, only {place.code()}."}),
        End(facts=(fact(result, source=text.splitlines()[-1]),)),
        script.answer(f"The result is {result}."),
    )


def sum_of_costs(place: Place) -> Goal:
    costs = place.numbers(9, 1000, 9999)
    lines = [f"- item {number}: {cost} EUR" for number, cost in enumerate(costs, 1)]
    return _computed(
        place,
        "sum-of-costs",
        ("costs.md", "# Costs of the quay\n\n" + "\n".join(lines)),
        goal="What do the items in the note costs.md come to in all, in EUR?",
        code=f"sum({costs})",
        result=sum(costs),
    )


def sum_of_a_column(place: Place) -> Goal:
    rows = [(f"2035-{1 + n % 12:02d}-{1 + n % 28:02d}", place.number(100, 999), n % 3) for n in range(60)]
    total = sum(tons for _, tons, berth in rows if berth == 2)
    lines = [f"{day},{tons},{'abc'[berth]}" for day, tons, berth in rows]
    return _computed(
        place,
        "sum-of-a-column",
        ("cargo.csv", "\n".join(["day,tons,berth", *lines])),
        goal="How many tons came to berth c in all, after the note cargo.csv?",
        code=f"sum({[tons for _, tons, berth in rows if berth == 2]})",
        result=total,
    )


def median_wait(place: Place) -> Goal:
    waits = place.numbers(15, 11, 500)
    lines = [f"ship {number} waited {wait} minutes" for number, wait in enumerate(waits, 1)]
    return _computed(
        place,
        "median-wait",
        ("waits.md", "# Waits at the lock\n\n" + "\n".join(lines)),
        goal="What is the median of the waits at the lock, in minutes, after the note waits.md?",
        code=f"sorted({waits})[7]",
        result=sorted(waits)[7],
    )


def left_of_budget(place: Place) -> Goal:
    budget, paid = place.number(50_000, 90_000), place.numbers(6, 1200, 7000)
    text = f"# Budget\n\nGranted: {budget} EUR.\n" + "\n".join(f"Paid: {each} EUR." for each in paid)
    return _computed(
        place,
        "left-of-budget",
        ("budget.md", text),
        goal="How many EUR are left of the budget in the note budget.md?",
        code=f"{budget} - sum({paid})",
        result=budget - sum(paid),
    )


def compound(place: Place) -> Goal:
    start, rate, years = place.number(10_000, 90_000), place.number(2, 7), place.number(8, 17)
    value = round(start * (1 + rate / 100) ** years)
    text = f"# Reserve fund\n\nIt began with {start} EUR, at {rate} percent a year, interest added once a year."
    return _computed(
        place,
        "compound",
        ("fund.md", text),
        goal=f"What is the reserve fund in fund.md worth after {years} full years, rounded to whole EUR?",
        code=f"round({start} * (1 + {rate} / 100) ** {years})",
        result=value,
    )


def days_between(place: Place) -> Goal:
    begin = date(2033, 1, 1) + timedelta(days=place.number(0, 300))
    end = begin + timedelta(days=place.number(400, 900))
    text = f"# Works at the lock\n\nClosed from {begin.isoformat()}, open again on {end.isoformat()}."
    return _computed(
        place,
        "days-between",
        ("lock.md", text),
        goal="How many days lie between the day on which the lock closes and the day it opens again (note lock.md)?",
        code=f"import datetime\n(datetime.date.fromisoformat('{end}') - datetime.date.fromisoformat('{begin}')).days",
        result=(end - begin).days,
    )


def cheaper_offer(place: Place) -> Goal:
    """Two offers for the same basket."""
    names, counts = ("rope", "paint", "tar", "canvas"), place.numbers(4, 3, 19)
    offers = {name: place.numbers(4, 21, 99) for name in ("eastside", "westside")}
    totals = {name: sum(c * p for c, p in zip(counts, prices, strict=True)) for name, prices in offers.items()}
    if totals["eastside"] == totals["westside"]:
        offers["westside"][0] += 1
        totals["westside"] += counts[0]
    low = min(totals, key=lambda name: totals[name])
    notes = {"needed.md": "\n".join(f"- {name}: {c} pieces" for name, c in zip(names, counts, strict=True))}
    for offer, prices in offers.items():
        lines = [f"- {name}: {price} EUR a piece" for name, price in zip(names, prices, strict=True)]
        notes[f"offer-{offer}.md"] = f"# Offer of {offer}\n\n" + "\n".join(lines)
    reads = [("notes.read", {"path": path}) for path in notes]
    code = f"sum(c * p for c, p in zip({counts}, {offers[low]}))"
    script = Script().worker("compare", f"{low} is cheaper.", reads, [("code.run", {"code": code})])
    sources = [text.splitlines()[-1] for text in notes.values()]
    return Goal(
        "cheaper-offer",
        "comparison",
        "Which of the two offers in the notes is cheaper for all that needed.md lists? What does it come to in EUR?",
        ("notes", "code"),
        Material(notes=notes),
        End(facts=(fact(low, source=sources[1]), fact(totals[low], source=sources[2]))),
        script.answer(f"The offer of {low} is cheaper: {totals[low]} EUR."),
    )


def notes_that_disagree(place: Place) -> Goal:
    """Both must be told."""
    one, other = place.numbers(2, 210, 890)
    notes = {
        "log/pilot.md": f"# Pilot's log\n\nDepth at the sill: {one} cm.",
        "log/surveyor.md": f"# Surveyor's log\n\nDepth at the sill: {other} cm.",
    }
    script = Script().worker("compare", "They disagree.", [("notes.read", {"path": path}) for path in notes])
    return Goal(
        "notes-that-disagree",
        "comparison",
        "Do the logs of the pilot and of the surveyor give the same depth at the sill? Give both depths.",
        ("notes",),
        Material(notes=notes),
        End(facts=(fact(one), fact(other))),
        script.answer(f"No: the pilot's log says {one} cm, the surveyor's {other} cm."),
    )


def not_on_the_other_list(place: Place) -> Goal:
    """One of many is missing from the second list."""
    codes = [place.code() for _ in range(18)]
    gone = codes[place.number(0, 17)]
    rest = [code for code in codes if code != gone]
    place.chance.shuffle(rest)
    notes = {"booked.md": "# Booked\n\n" + "\n".join(codes), "arrived.md": "# Arrived\n\n" + "\n".join(rest)}
    script = Script().worker("compare", f"{gone} is missing.", [("notes.read", {"path": path}) for path in notes])
    return Goal(
        "not-on-the-other-list",
        "comparison",
        "Which one of the containers in booked.md is not in arrived.md? Name only that one.",
        ("notes",),
        Material(notes=notes),
        End(facts=(fact(gone), fact(gone, source=rest[-1])), lacks=tuple(rest)),
        script.answer(f"Container {gone} has not arrived."),
    )


GOALS: tuple[Make, ...] = (
    sum_of_costs,
    sum_of_a_column,
    median_wait,
    left_of_budget,
    compound,
    days_between,
    cheaper_offer,
    notes_that_disagree,
    not_on_the_other_list,
)
