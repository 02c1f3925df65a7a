"""Goals over tool servers that others wrote."""

import json

from benchmarks.evaluation.goal import Allowed, Changes, End, Goal, Make, Material, Place, Text, fact
from benchmarks.evaluation.script import Script


def file_written(place: Place) -> Goal:
    """A new file with exactly this content."""
    code, target = place.code(), str(place.files / "label.txt")
    script = Script().call("write", "filesystem.write_file", {"path": target, "content": f"{code}\n"})
    return Goal(
        "file-written",
        "writes",
        f"Write a file {target} that holds the one line `{code}`.",
        ("filesystem",),
        Material(files={"old.txt": "kept\n"}),
        End(changes=Changes(files={"label.txt": Text(equals=code)})),
        script.answer("The file label.txt is written."),
        (Allowed("filesystem.write_file", {"path": Text(has=("label.txt",)), "content": Text(equals=code)}),),
    )


def figures_into_json(place: Place) -> Goal:
    """Several files are read and one is written."""
    figures = dict(zip(("crane", "winch", "lift"), place.numbers(3, 100, 999), strict=True))
    files = {f"{name}.txt": f"hours of the {name}: {hours}\n" for name, hours in figures.items()}
    target = str(place.files / "hours.json")
    script = Script()
    for name in figures:
        script.call(name, "filesystem.read_text_file", {"path": str(place.files / f"{name}.txt")})
    script.call("write", "filesystem.write_file", {"path": target, "content": json.dumps(figures)}, needs=list(figures))
    return Goal(
        "figures-into-json",
        "writes",
        f"Read crane.txt, winch.txt and lift.txt in {place.files} and write {target}: one JSON object with the hours by"
        " the names crane, winch and lift.",
        ("filesystem",),
        Material(files=files),
        End(changes=Changes(files={"hours.json": Text(json=figures)})),
        script.answer("hours.json holds the hours of crane, winch and lift."),
        (Allowed("filesystem.write_file", {"path": Text(has=("hours.json",)), "content": Text(json=figures)}),),
    )


def file_moved(place: Place) -> Goal:
    """One file goes to another folder, its neighbours stay."""
    here, there = place.files / "in" / "report.txt", place.files / "archive" / "report.txt"
    text = f"{place.code()}\n"
    script = Script().call("move", "filesystem.move_file", {"source": str(here), "destination": str(there)})
    return Goal(
        "file-moved",
        "writes",
        f"Move {here} to {there}. Leave all else as it is.",
        ("filesystem",),
        Material(files={"in/report.txt": text, "in/plan.txt": "stays\n", "archive/2034.txt": "stays too\n"}),
        End(changes=Changes(files={"in/report.txt": None, "archive/report.txt": Text(equals=text)})),
        script.answer("report.txt now lies in archive."),
        (Allowed("filesystem.move_file", {"source": Text(has=("report.txt",))}),),
    )


def line_changed(place: Place) -> Goal:
    """One value in a file changes."""
    old, new = place.numbers(2, 1000, 9999)
    path = str(place.files / "fees.txt")
    text = f"berth: {old}\ncrane: {place.number(10, 99)}\n"
    edit = {"path": path, "edits": [{"oldText": f"berth: {old}", "newText": f"berth: {new}"}]}
    after = Text(equals=text.replace(f"berth: {old}", f"berth: {new}"))
    return Goal(
        "line-changed",
        "writes",
        f"In the file {path}, change the fee of a berth to {new} and leave the rest as it is.",
        ("filesystem",),
        Material(files={"fees.txt": text}),
        End(changes=Changes(files={"fees.txt": after})),
        Script().call("edit", "filesystem.edit_file", edit).answer(f"The fee of a berth is now {new}."),
        (
            Allowed("filesystem.edit_file", {"path": Text(has=("fees.txt",)), "edits": Text(has=(str(new),))}),
            Allowed("filesystem.write_file", {"path": Text(has=("fees.txt",)), "content": after}),
        ),
    )


def file_found(place: Place) -> Goal:
    """Which of several files holds a word."""
    code, names = place.code(), [f"sheet-{n}.txt" for n in place.numbers(6, 10, 99)]
    hit = names[place.number(0, 5)]
    files = {name: f"sheet {place.code()}\n" if name != hit else f"sheet {code}\n" for name in names}
    reads = {"paths": [str(place.files / name) for name in names]}
    script = Script().worker(
        "find",
        f"It is {hit}.",
        [("filesystem.list_directory", {"path": str(place.files)})],
        [("filesystem.read_multiple_files", reads)],
    )
    return Goal(
        "file-found",
        "look-up",
        f"Which file in the folder {place.files} holds the word {code}? Name that one only.",
        ("filesystem",),
        Material(files=files),
        End(facts=(fact(hit, source=code),), lacks=tuple(name for name in names if name != hit)),
        script.answer(f"It is {hit}."),
    )


def remembered(place: Place) -> Goal:
    """A look-up in the memory server's graph."""
    codes = {name: place.code() for name in ("ferry", "tug", "dredger")}
    entities = tuple(
        {"name": name, "entityType": "ship", "observations": [f"call sign {code}"]} for name, code in codes.items()
    )
    script = Script().call("look", "memory.search_nodes", {"query": "tug"})
    return Goal(
        "remembered",
        "look-up",
        "Which call sign has the tug? It stands in the memory.",
        ("memory",),
        Material(entities=entities),
        End(facts=(fact(codes["tug"]),)),
        script.answer(f"The tug's call sign is {codes['tug']}."),
    )


def noted_in_memory(place: Place) -> Goal:
    """One more entity, as given."""
    code = place.code()
    ship = {"name": "lighter", "entityType": "ship", "observations": [f"call sign {code}"]}
    old = {"name": "tug", "entityType": "ship", "observations": ["call sign unknown"]}
    script = Script().call("note", "memory.create_entities", {"entities": [ship]})
    return Goal(
        "noted-in-memory",
        "writes",
        "Create an entity in the memory: name `lighter`, type `ship`, with the one observation"
        f" `call sign {code}`. Change nothing else there.",
        ("memory",),
        Material(entities=(old,)),
        End(changes=Changes(entities=(ship,))),
        script.answer("The lighter is noted."),
        (Allowed("memory.create_entities", {"entities": Text(has=(code, "lighter"))}),),
    )


def sum_by_query(place: Place) -> Goal:
    """A database answers it with one query."""
    rows = [(f"2035-0{1 + n % 9}-10", "in" if n % 2 else "out", place.number(100, 999)) for n in range(40)]
    total = sum(tons for _, way, tons in rows if way == "in")
    values = ", ".join(f"('{day}', '{way}', {tons})" for day, way, tons in rows)
    query = "SELECT SUM(tons) FROM cargo WHERE way = 'in'"
    script = Script().worker(
        "sum",
        f"{total} tons came in.",
        [("sqlite.describe_table", {"table_name": "cargo"})],
        [("sqlite.read_query", {"query": query})],
    )
    return Goal(
        "sum-by-query",
        "arithmetic",
        "How many tons came in (way = 'in') in all, after the table cargo of the database?",
        ("sqlite",),
        Material(
            tables=("CREATE TABLE cargo (day TEXT, way TEXT, tons INTEGER)", f"INSERT INTO cargo VALUES {values}")
        ),
        End(facts=(fact(total, source=total),), called=("sqlite.read_query",)),
        script.answer(f"{total} tons came in."),
    )


def row_inserted(place: Place) -> Goal:
    """One more row, the others untouched."""
    old, new = place.number(100, 499), place.number(500, 999)
    query = f"INSERT INTO berths VALUES ('B2', {new})"
    script = Script().call("insert", "sqlite.write_query", {"query": query})
    return Goal(
        "row-inserted",
        "writes",
        f"Add the berth B2 with a length of {new} to the table berths (name, length) of the database.",
        ("sqlite",),
        Material(
            tables=("CREATE TABLE berths (name TEXT, length INTEGER)", f"INSERT INTO berths VALUES ('B1', {old})")
        ),
        End(changes=Changes(rows={"berths": [["B1", old], ["B2", new]]})),
        script.answer(f"Berth B2 with a length of {new} is in the table."),
        (Allowed("sqlite.write_query", {"query": Text(has=("B2", str(new)))}),),
    )


def row_updated(place: Place) -> Goal:
    """One row of three changes."""
    fees = place.numbers(3, 100, 499)
    new = place.number(500, 999)
    rows = ", ".join(f"('F{n}', {fee})" for n, fee in enumerate(fees, 1))
    query = f"UPDATE fees SET amount = {new} WHERE name = 'F2'"
    return Goal(
        "row-updated",
        "writes",
        f"Set the amount of F2 in the table fees (name, amount) of the database to {new}. Leave all others.",
        ("sqlite",),
        Material(tables=("CREATE TABLE fees (name TEXT, amount INTEGER)", f"INSERT INTO fees VALUES {rows}")),
        End(changes=Changes(rows={"fees": [["F1", fees[0]], ["F2", new], ["F3", fees[2]]]})),
        Script().call("update", "sqlite.write_query", {"query": query}).answer(f"F2 is now {new}."),
        (Allowed("sqlite.write_query", {"query": Text(has=("F2", str(new)))}),),
    )


def last_commit(place: Place) -> Goal:
    """What a repository's history says."""
    codes = [place.code() for _ in range(4)]
    commits = tuple((f"Set the mark {code}", {"mark.txt": f"{code}\n"}) for code in codes)
    script = Script().call("log", "git.git_log", {"repo_path": str(place.files), "max_count": 5})
    return Goal(
        "last-commit",
        "look-up",
        f"Which mark does the message of the last commit in the repository {place.files} name? And that before it?",
        ("git",),
        Material(commits=commits),
        End(facts=(fact(codes[3]), fact(codes[2])), lacks=(codes[0],)),
        script.answer(f"The last one names {codes[3]}, the one before {codes[2]}."),
    )


def staged_file_committed(place: Place) -> Goal:
    """A commit with this message."""
    code = place.code()
    message = f"Add the seal {code}"
    script = Script().call("commit", "git.git_commit", {"repo_path": str(place.files), "message": message})
    return Goal(
        "staged-file-committed",
        "writes",
        f"Commit what is staged in the repository {place.files} with exactly this message: {message}",
        ("git",),
        Material(commits=(("Begin", {"mark.txt": "1\n"}),), staged={"seal.txt": f"{code}\n"}),
        End(changes=Changes(commits=(message,))),
        script.answer("It is committed."),
        (Allowed("git.git_commit", {"message": Text(equals=message)}),),
    )


def three_zones(place: Place) -> Goal:
    """A time in three other places, which do not change their clocks."""
    hour, minute = place.number(2, 9), place.number(10, 59)
    zones = {"Asia/Tokyo": 9, "Asia/Dubai": 4, "Asia/Bangkok": 7}
    script = Script()
    for number, zone in enumerate(zones):
        asked = {"source_timezone": "UTC", "time": f"{hour:02d}:{minute}", "target_timezone": zone}
        script.call(f"zone{number}", "time.convert_time", asked)
    times = [f"{hour + ahead:02d}:{minute}" for ahead in zones.values()]
    told = [f"+{ahead}.0h" for ahead in zones.values()]
    facts = tuple(fact(time, time.lstrip("0"), source=shown) for time, shown in zip(times, told, strict=True))
    return Goal(
        "three-zones",
        "parallel",
        f"A ship calls at {hour:02d}:{minute} UTC. What time is that in Tokyo, Dubai and Bangkok? Use the time server,"
        " and write hh:mm on the 24 hour clock.",
        ("time",),
        Material(),
        End(facts=facts, called=("time.convert_time",)),
        script.answer(f"Tokyo {times[0]}, Dubai {times[1]}, Bangkok {times[2]}."),
    )


def sum_by_a_tool(place: Place) -> Goal:
    """A tool that adds, after a look-up."""
    one, other = place.numbers(2, 10_000, 99_999)
    script = Script().worker(
        "add",
        f"The sum is {one + other}.",
        [("notes.read", {"path": "two.md"})],
        [("everything.get-sum", {"a": one, "b": other})],
    )
    return Goal(
        "sum-by-a-tool",
        "arithmetic",
        "What is the sum of the two numbers in the note two.md? Use the tool get-sum.",
        ("notes", "everything"),
        Material(notes={"two.md": f"# Two\n\nThe numbers are {one} and {other}."}),
        End(facts=(fact(one + other, source=one + other),), called=("everything.get-sum",)),
        script.answer(f"The sum is {one + other}."),
    )


GOALS: tuple[Make, ...] = (
    file_written,
    figures_into_json,
    file_moved,
    line_changed,
    file_found,
    remembered,
    noted_in_memory,
    sum_by_query,
    row_inserted,
    row_updated,
    last_commit,
    staged_file_committed,
    three_zones,
    sum_by_a_tool,
)
