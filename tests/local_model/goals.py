"""Fifty goals over the demo's tool servers, each with the fact that its end must have, and how a good model goes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from journal.values import JsonObject
from server.demo import settings as demo


@dataclass(frozen=True)
class Goal:
    """What is asked for. `facts` must all stand in a true answer, `line` is the sentence that says them.

    `note` is the file that tells it, `query` finds that file, `code` works it out where no note says it, and `to` is
    whom a mail about it goes to. None of `not_facts` may stand in a true answer: what the same note says of something
    else.
    """

    number: int
    text: str
    facts: tuple[str, ...]
    note: str
    query: str
    line: str
    code: str | None = None
    to: str | None = None
    not_facts: tuple[str, ...] = ()

    @property
    def is_simple(self) -> bool:
        """One look into the notes answers it, and nothing is changed."""
        return self.code is None and self.to is None

    def is_met_by(self, answer: str) -> bool:
        """Whether the facts stand in the answer, however numbers and dates are written."""
        said = _plain(answer)

        def stands(fact: str) -> bool:
            return re.search(rf"(?<!\w){re.escape(_plain(fact))}(?!\w)", said) is not None

        return all(map(stands, self.facts)) and not any(map(stands, self.not_facts))

    @property
    def plan(self) -> list[JsonObject]:
        """A plan of one step; a mail is a call of its own, so that a person approves what is sent."""
        tools = ["notes.search", "notes.read", *(["code.run"] if self.code else [])]
        worker = {"kind": "worker", "worker": "operator" if self.code else "researcher", "title": "Look it up"}
        look: JsonObject = {"id": "look", **worker, "task": f"Find out from the notes: {self.text}", "tools": tools}
        if self.to is None:
            return [look]
        mail = {"to": self.to, "subject": "Harbour Festival", "body": self.line}
        return [look, {"id": "send", "kind": "call", "needs": ["look"], "tool": "outbox.send", "arguments": mail}]

    def script(self) -> JsonObject:
        """A competent model for this goal, as a file of `scripted:`."""
        calls = [[{"tool": "notes.search", "arguments": {"query": self.query}}]]
        calls.append([{"tool": "notes.read", "arguments": {"path": self.note}}])
        if self.code is not None:
            calls.append([{"tool": "code.run", "arguments": {"code": self.code}}])
        found = {"claim": self.line, "evidence": [len(calls) - 1]}
        report = {"status": "done", "summary": self.line, "findings": [found], "confidence": 0.9, "plan_holds": True}
        attempt = {"turns": [{"calls": each} for each in calls], "report": report}
        return {"plan": self.plan, "steps": {"look": {"attempts": [attempt]}}, "answer": self.line}


NOTES = Path(demo.__file__).parent / "notes"
"""The folder that the goals are about."""

_WHEN, _COSTS, _IDEAS, _PEOPLE, _MAILS = (
    "festival.md",
    "costs.md",
    "ideas.md",
    "volunteers.md",
    "how-we-work/status-mails.md",
)

# Question, facts, note, query, the line that says them.
_LOOK_UPS: tuple[tuple[str, tuple[str, ...], str, str, str], ...] = (
    (
        "On which date is the Harbour Festival?",
        ("12 June 2027",),
        _WHEN,
        "festival",
        "It is on Saturday, 12 June 2027.",
    ),
    ("At what time does the Harbour Festival begin?", ("11:00",), _WHEN, "festival", "It begins at 11:00."),
    ("At what time does the Harbour Festival end?", ("23:00",), _WHEN, "festival", "It ends at 23:00."),
    ("On which weekday is the Harbour Festival?", ("Saturday",), _WHEN, "festival", "It is on a Saturday."),
    ("Where does the Harbour Festival take place?", ("old pier",), _WHEN, "pier", "It is on the old pier."),
    ("Where is the Harbour Festival held in heavy rain?", ("fish hall",), _WHEN, "rain", "In the fish hall."),
    ("How many visitors does the Harbour Festival expect?", ("900",), _WHEN, "visitors", "About 900 visitors."),
    ("How many people does the pier carry at a time?", ("400",), _WHEN, "pier people", "It carries 400 people."),
    ("Who counts the people at the gate?", ("harbour office",), _WHEN, "gate", "The harbour office counts them."),
    ("Who is responsible for boats and safety?", ("harbour office",), _WHEN, "safety", "The harbour office is."),
    ("Who is responsible for the money of the festival?", ("treasurer",), _WHEN, "money", "The treasurer is."),
    ("Who is responsible for the programme?", ("programme group",), _WHEN, "programme", "The programme group is."),
    ("How much money did the town grant?", ("12000",), _COSTS, "granted town", "The town granted 12,000 EUR."),
    ("What do stage and sound cost?", ("4200",), _COSTS, "stage sound", "Stage and sound cost 4,200 EUR."),
    ("What do the tents cost?", ("1850",), _COSTS, "tents", "The tents cost 1,850 EUR."),
    ("What do the boats cost?", ("1490",), _COSTS, "boats", "The boats cost 1,490 EUR."),
    ("What does the insurance cost?", ("1120",), _COSTS, "insurance", "The insurance costs 1,120 EUR."),
    ("What do the permits cost?", ("640",), _COSTS, "permits", "The permits cost 640 EUR."),
    ("What do the posters cost?", ("380",), _COSTS, "posters", "The posters cost 380 EUR."),
    ("Who keeps the list of costs?", ("treasurer",), _COSTS, "costs list", "The treasurer keeps it."),
    ("How many volunteers are wanted?", ("forty",), _PEOPLE, "volunteers", "Forty volunteers are wanted."),
    ("How many volunteers have said yes?", ("31",), _PEOPLE, "volunteers", "31 have said yes."),
    ("When does the late shift begin?", ("19:00",), _PEOPLE, "late shift", "The late shift begins at 19:00."),
    ("When does the late shift end?", ("23:30",), _PEOPLE, "late shift", "The late shift ends at 23:30."),
    ("Who calls the volunteers?", ("programme group",), _PEOPLE, "calls week", "The programme group calls them."),
    (
        "In which week are the volunteers called?",
        ("first week of May",),
        _PEOPLE,
        "volunteers",
        "In the first week of May.",
    ),
    ("Which regatta is among the ideas for later?", ("children",), _IDEAS, "regatta", "A children's regatta."),
    ("What are the boats of the children's regatta made of?", ("paper",), _IDEAS, "regatta", "Of paper."),
    ("Who must agree to lanterns along the pier?", ("fire brigade",), _IDEAS, "lanterns", "The fire brigade must."),
    ("Who is to be asked about a second stage?", ("treasurer",), _IDEAS, "second stage", "The treasurer is."),
    ("How many lines may a status mail have?", ("six",), _MAILS, "status mails", "At most six lines."),
    ("In which currency are amounts in status mails?", ("EUR",), _MAILS, "status mails", "In EUR."),
)

# Question, facts, note, query, line, code.
_SUMS: tuple[tuple[str, tuple[str, ...], str, str, str, str], ...] = (
    (
        "What do all costs of the festival add up to?",
        ("9680",),
        _COSTS,
        "costs",
        "All costs are 9,680 EUR.",
        "4200 + 1850 + 1490 + 1120 + 640 + 380",
    ),
    (
        "How much is left of the granted money after all costs?",
        ("2320",),
        _COSTS,
        "costs",
        "2,320 EUR are left.",
        "12000 - (4200 + 1850 + 1490 + 1120 + 640 + 380)",
    ),
    ("What do tents and boats cost together?", ("3340",), _COSTS, "tents boats", "They cost 3,340 EUR.", "1850 + 1490"),
    ("What do permits and posters cost together?", ("1020",), _COSTS, "permits", "They cost 1,020 EUR.", "640 + 380"),
    (
        "How much more do stage and sound cost than the tents?",
        ("2350",),
        _COSTS,
        "stage tents",
        "They cost 2,350 EUR more.",
        "4200 - 1850",
    ),
    ("How many volunteers are still missing?", ("9",), _PEOPLE, "volunteers", "9 are missing.", "40 - 31"),
    ("How many hours does the festival last?", ("12 hours",), _WHEN, "festival", "It lasts 12 hours.", "23 - 11"),
    (
        "How many expected visitors are more than the pier carries at a time?",
        ("500",),
        _WHEN,
        "visitors pier",
        "500 are more than it carries.",
        "900 - 400",
    ),
)

# By number, what makes the answer to a look-up false though its facts stand there.
_CONTRARY = {6: ("old pier",)}

# Of these look-ups, by number, a mail is to be sent as well.
_MAILED = (1, 2, 5, 6, 13, 14, 22, 23, 29, 31)
_RECIPIENT = "team@harbour.example"


def _goals() -> Iterator[Goal]:
    number = 0
    for text, facts, note, query, line in _LOOK_UPS:
        number += 1
        yield Goal(number, text, facts, note, query, line, not_facts=_CONTRARY.get(number, ()))
    for text, facts, note, query, line, code in _SUMS:
        number += 1
        yield Goal(number, text, facts, note, query, line, code)
    for which in _MAILED:
        number += 1
        text, facts, note, query, line = _LOOK_UPS[which - 1]
        yield Goal(number, f"Find out and mail it to {_RECIPIENT}: {text}", facts, note, query, line, to=_RECIPIENT)


GOALS = tuple(_goals())
SIMPLE = tuple(GOALS[number - 1] for number in (1, 5, 6, 7, 8, 14, 15, 17, 22, 29))
"""Ten of which each is answered by one note, for a model that is small but no toy."""


def note_of(goal: Goal) -> str:
    """What the note of a goal says."""
    return (NOTES / goal.note).read_text(encoding="utf-8")


def _plain(text: str) -> str:
    """Lower case, days before their months, without the commas and blanks that people put into numbers."""
    text = re.sub(r"\b([A-Z][a-z]+) (\d{1,2})(?:st|nd|rd|th)?, (\d{4})\b", r"\2 \1 \3", text)
    return re.sub(r"(?<=\d)[,.\u202f\u00a0 ](?=\d{3}(?!\d))", "", " ".join(text.lower().split()))
