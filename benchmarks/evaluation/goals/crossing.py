"""Work that can go on beside each other, also over several servers."""

from benchmarks.evaluation.goal import Changes, End, Goal, Mail, Make, Material, Place, Text, fact
from benchmarks.evaluation.script import Script


def five_notes(place: Place) -> Goal:
    """Five look-ups that need nothing of each other."""
    gauges = dict(zip(("north", "east", "south", "west", "inner"), place.numbers(5, 1000, 9999), strict=True))
    notes = {f"gauge-{name}.md": f"# Gauge {name}\n\nIt reads {value}." for name, value in gauges.items()}
    script = Script()
    for name in gauges:
        script.call(name, "notes.read", {"path": f"gauge-{name}.md"})
    told = ", ".join(f"{name} {value}" for name, value in gauges.items())
    return Goal(
        "five-notes",
        "parallel",
        "What do the gauges north, east, south, west and inner read? Each has a note gauge-NAME.md.",
        ("notes",),
        Material(notes=notes),
        End(facts=tuple(fact(value) for value in gauges.values())),
        script.answer(f"They read: {told}."),
    )


def eight_workers(place: Place) -> Goal:
    """Eight notes to be found by what they say, and a sum."""
    loads = place.numbers(8, 1000, 9999)
    notes = {f"hold{n}/list.md": f"# Hold {n}\n\nLoad: {load} kg." for n, load in enumerate(loads, 1)}
    script = Script()
    for number, load in enumerate(loads, 1):
        script.worker(f"hold{number}", f"{load} kg", [("notes.read", {"path": f"hold{number}/list.md"})])
    ids = [f"hold{number}" for number in range(1, 9)]
    script.call("sum", "code.run", {"code": f"sum({loads})"}, needs=ids)
    return Goal(
        "eight-workers",
        "parallel",
        "What is the load of all eight holds together, in kg? Each hold has a note of its own.",
        ("notes", "code"),
        Material(notes=notes),
        End(facts=tuple(fact(sum(loads), source=f"{load} kg") for load in loads)),
        script.answer(f"All eight holds carry {sum(loads)} kg."),
    )


def three_servers(place: Place) -> Goal:
    """A note, a table and the memory, side by side."""
    stock, least, maker = place.number(100, 499), place.number(500, 999), place.code()
    material = Material(
        notes={"least.md": f"# Least stock\n\nFenders: never below {least}."},
        tables=(
            "CREATE TABLE stock (item TEXT, pieces INTEGER)",
            f"INSERT INTO stock VALUES ('fenders', {stock}), ('cleats', {place.number(1, 99)})",
        ),
        entities=({"name": "fenders", "entityType": "item", "observations": [f"made by {maker}"]},),
    )
    script = (
        Script()
        .call("least", "notes.read", {"path": "least.md"})
        .call("stock", "sqlite.read_query", {"query": "SELECT pieces FROM stock WHERE item = 'fenders'"})
        .call("maker", "memory.search_nodes", {"query": "fenders"})
    )
    return Goal(
        "three-servers",
        "parallel",
        "Of fenders: how many are in the database (table stock), how many must there be at least (notes), and who makes"
        " them (memory)? How many are wanting?",
        ("notes", "sqlite", "memory"),
        material,
        End(facts=(fact(stock), fact(least), fact(maker), fact(least - stock, source=stock))),
        script.answer(f"{stock} are there, {least} must be: {least - stock} are wanting. They are made by {maker}."),
    )


def stock_against_notes(place: Place) -> Goal:
    """Two sources, a decision and a mail."""
    items = ("bollards", "ladders", "tyres")
    stock = dict(zip(items, place.numbers(3, 10, 99), strict=True))
    short = items[place.number(0, 2)]
    least = {item: count + (5 if item == short else -3) for item, count in stock.items()}
    rows = ", ".join(f"('{item}', {count})" for item, count in stock.items())
    script = (
        Script()
        .call("least", "notes.read", {"path": "least.md"})
        .call("stock", "sqlite.read_query", {"query": "SELECT item, pieces FROM stock"})
        .call(
            "order",
            "outbox.send",
            {"to": "buyer@quay.example", "subject": "Order", "body": f"Please order 5 {short}."},
            needs=["least", "stock"],
        )
    )
    return Goal(
        "stock-against-notes",
        "comparison",
        "Which item in the table stock is below the least number in the note least.md? Mail buyer@quay.example, subject"
        " exactly `Order`, which item it is and how many are wanting.",
        ("notes", "sqlite", "outbox"),
        Material(
            notes={"least.md": "# Least\n\n" + "\n".join(f"- {item}: {count}" for item, count in least.items())},
            tables=("CREATE TABLE stock (item TEXT, pieces INTEGER)", f"INSERT INTO stock VALUES {rows}"),
        ),
        End(
            facts=(fact(short),),
            changes=Changes(sent=(Mail("buyer@quay.example", Text(equals="Order"), Text(has=(short, "5"))),)),
            called=("sqlite.read_query", "notes.read|notes.search"),
        ),
        script.answer(f"Only {short} are below the least number: 5 are wanting, and the buyer has a mail."),
    )


GOALS: tuple[Make, ...] = (five_notes, eight_workers, three_servers, stock_against_notes)
