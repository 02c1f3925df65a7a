"""Goals that change something: exactly what was asked for, or nothing."""

from benchmarks.evaluation.goal import Changes, End, Goal, Mail, Make, Material, Place, Text, fact
from benchmarks.evaluation.script import Script
from journal.values import JsonObject


def _send(to: str, subject: str, body: str) -> JsonObject:
    return {"to": to, "subject": subject, "body": body}


def mail_as_given(place: Place) -> Goal:
    """All fields stand in the goal; nothing is to be read."""
    code = place.code()
    subject, body = f"Berth {code}", f"Berth {code} is free from Monday."
    return Goal(
        "mail-as-given",
        "writes",
        f'Send a mail to office@quay.example with the subject "{subject}" and exactly this text: "{body}"',
        ("outbox",),
        Material(),
        End(changes=Changes(sent=(Mail("office@quay.example", Text(equals=subject), Text(equals=body)),))),
        Script().call("send", "outbox.send", _send("office@quay.example", subject, body)).answer("The mail is sent."),
    )


def mail_what_a_note_says(place: Place) -> Goal:
    """A look-up, then a mail with what was found."""
    tide, day = place.code(), place.number(10, 28)
    notes = {"tides.md": f"# Spring tide\n\nTable {tide}, on 2036-09-{day}.", "ebb.md": "Ebb is in the evening."}
    body = f"Spring tide: table {tide}, on 2036-09-{day}."
    script = Script().call("read", "notes.read", {"path": "tides.md"}).compose("write", body, needs=["read"])
    script.call(
        "send",
        "outbox.send",
        {"to": "pilots@quay.example", "subject": "Spring tide", "body": {"$step": "write"}},
        needs=["write"],
    )
    mail = Mail("pilots@quay.example", Text(equals="Spring tide"), Text(has=(tide, f"2036-09-{day}")))
    return Goal(
        "mail-what-a-note-says",
        "writes",
        "Mail pilots@quay.example, subject exactly `Spring tide`, the table and the date (as written) of the spring"
        " tide that the notes give.",
        ("notes", "outbox"),
        Material(notes=notes),
        End(changes=Changes(sent=(mail,)), called=("notes.read|notes.search",)),
        script.answer(f"The mail about the spring tide on 2036-09-{day} is sent."),
    )


def draft_only(place: Place) -> Goal:
    """A draft is wanted and nothing sent."""
    fee = place.number(1000, 9999)
    script = Script().call("read", "notes.read", {"path": "fee.md"})
    script.call("keep", "outbox.draft", _send("guests@quay.example", "Fee", f"The fee is {fee} EUR."), needs=["read"])
    return Goal(
        "draft-only",
        "writes",
        "Keep a draft, and send nothing: to guests@quay.example, subject exactly `Fee`, with the fee that the note"
        " fee.md gives.",
        ("notes", "outbox"),
        Material(notes={"fee.md": f"The fee for guests is {fee} EUR."}),
        End(
            changes=Changes(drafts=(Mail("guests@quay.example", Text(equals="Fee"), Text(has=(str(fee),))),)),
            called=("notes.read|notes.search",),
        ),
        script.answer("The draft is kept; nothing was sent."),
    )


def three_mails(place: Place) -> Goal:
    """Each gets its own number and nobody another's."""
    slots = {f"crew{n}@quay.example": place.code() for n in (1, 2, 3)}
    lines = [f"- {to}: slot {slot}" for to, slot in slots.items()]
    script = Script().call("read", "notes.read", {"path": "slots.md"})
    for number, (to, slot) in enumerate(slots.items()):
        script.call(f"send{number}", "outbox.send", _send(to, "Your slot", f"Your slot is {slot}."), needs=["read"])
    mails = tuple(Mail(to, Text(equals="Your slot"), Text(has=(slot,))) for to, slot in slots.items())
    return Goal(
        "three-mails",
        "writes",
        "Send each of the three crews in the note slots.md a mail of its own: subject exactly `Your slot`, its slot.",
        ("notes", "outbox"),
        Material(notes={"slots.md": "# Slots\n\n" + "\n".join(lines)}),
        End(changes=Changes(sent=mails), called=("notes.read|notes.search",)),
        script.answer("All three crews have their mail."),
    )


def nothing_to_be_sent(place: Place) -> Goal:
    """A mail is spoken of and must not be sent."""
    count = place.number(100, 999)
    return Goal(
        "nothing-to-be-sent",
        "writes",
        "How many lamps does the note lamps.md count? Only tell me; I will mail the yard (yard@quay.example) myself.",
        ("notes", "outbox"),
        Material(notes={"lamps.md": f"# Lamps\n\nCounted on the pier: {count} lamps."}),
        End(facts=(fact(count),)),
        Script().call("read", "notes.read", {"path": "lamps.md"}).answer(f"The note counts {count} lamps."),
    )


def _low_water(place: Place, name: str, *, low: bool) -> Goal:
    limit = place.number(300, 500)
    level = limit - place.number(5, 90) if low else limit + place.number(5, 90)
    script = Script().call("read", "notes.read", {"path": "water.md"})
    mail = _send("lock@quay.example", "Low water", f"The water stands at {level} cm.")
    if low:
        script.call("send", "outbox.send", mail, needs=["read"])
    said = "so lock@quay.example has a mail" if low else "so no mail was sent"
    sent = (Mail("lock@quay.example", Text(equals="Low water"), Text(has=(str(level),))),) if low else ()
    return Goal(
        name,
        "writes",
        f"Look up the water level in the note water.md. Only if it is below {limit} cm, mail lock@quay.example, subject"
        " exactly `Low water`, with the level. Tell me the level in any case.",
        ("notes", "outbox"),
        Material(notes={"water.md": f"# Water\n\nThe level today is {level} cm."}),
        End(facts=(fact(level),), changes=Changes(sent=sent)),
        script.answer(f"The level is {level} cm, {said}."),
    )


def mail_if_it_holds(place: Place) -> Goal:
    return _low_water(place, "mail-if-it-holds", low=True)


def mail_if_it_does_not_hold(place: Place) -> Goal:
    return _low_water(place, "mail-if-it-does-not-hold", low=False)


def worked_out_and_mailed(place: Place) -> Goal:
    """Look-up, arithmetic and a mail in one."""
    hours, wage = place.numbers(5, 11, 60), place.number(17, 49)
    total = sum(hours) * wage
    text = f"# Hours\n\nEach hour is paid {wage} EUR.\n" + "\n".join(
        f"- day {n}: {h} h" for n, h in enumerate(hours, 1)
    )
    script = Script().worker(
        "work_out",
        f"It comes to {total} EUR.",
        [("notes.read", {"path": "hours.md"})],
        [("code.run", {"code": f"sum({hours}) * {wage}"})],
    )
    script.call("send", "outbox.send", _send("pay@quay.example", "Pay", f"{total} EUR"), needs=["work_out"])
    return Goal(
        "worked-out-and-mailed",
        "writes",
        "Work out the pay for all hours in the note hours.md and mail the amount to pay@quay.example, subject exactly"
        " `Pay`, the amount in digits without separators.",
        ("notes", "code", "outbox"),
        Material(notes={"hours.md": text}),
        End(
            called=("notes.read|notes.search",),
            changes=Changes(sent=(Mail("pay@quay.example", Text(equals="Pay"), Text(has=(str(total),))),)),
        ),
        script.answer(f"The pay is {total} EUR, and pay@quay.example has it."),
    )


def refused_mail(place: Place) -> Goal:
    """The person says no to everything; the answer must tell that it was not sent."""
    code = place.code()
    mail = _send("press@quay.example", "Opening", f"The pier opens under number {code}.")
    return Goal(
        "refused-mail",
        "refused",
        f"Mail press@quay.example, subject exactly `Opening`, that the pier opens under number {code}.",
        ("outbox",),
        Material(),
        End(undone=True),
        Script().call("send", "outbox.send", mail).goes_on().answer("The mail was not sent: it was refused."),
    )


GOALS: tuple[Make, ...] = (
    mail_as_given,
    mail_what_a_note_says,
    draft_only,
    three_mails,
    nothing_to_be_sent,
    mail_if_it_holds,
    mail_if_it_does_not_hold,
    worked_out_and_mailed,
    refused_mail,
)
