"""Whether a run reached its goal: what is wrong with its answer and with the world that it left, found by code."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from journal.values import Json, JsonObject

from .goal import Allowed, End, Fact, Goal, Mail, Text
from .material import State

_NOT_FOUND = re.compile(
    r"\b(not|no|none|nothing|never|cannot|without|unknown|unable|missing|absent|lacks?|neither)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NOT_DONE = re.compile(r"\b(not|no|refus\w+|denied|declin\w+|reject\w+|withheld|unsent)\b|n['\u2019]t\b", re.IGNORECASE)
_SEPARATED = re.compile(r"(?<=\d)[,\u00a0\u202f' ](?=\d{3}(?!\d))")
_MARKS = re.compile(r"[*_`]")


@dataclass(frozen=True)
class Made:
    """A call that a tool server answered: its tool, whether it ended well, and all text of its result."""

    tool: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Ended:
    """A run as it stands at its end, with the state of the world before and after it."""

    status: str
    answer: str
    made: Sequence[Made]
    before: State
    after: State


def problems(goal: Goal, ended: Ended) -> list[str]:
    """What is not as the goal wants it; nothing where it was reached."""
    end = goal.end
    return [*_in_answer(end, ended), *_in_calls(end, ended.made), *_in_world(end, ended)]


def _in_answer(end: End, ended: Ended) -> list[str]:
    answer = ended.answer
    found = [f"the answer lacks {each.spellings[0]!r}" for each in end.facts if not _told(each, answer)]
    found += [f"the answer says {text!r}" for text in end.lacks if stands_in(text, answer)]
    found += [f"the answer makes up {hit[0]!r}" for hit in re.finditer(end.invents, answer) if end.invents]
    if end.missing and not _NOT_FOUND.search(answer):
        found.append("the answer does not say that something was not found")
    if end.undone and not _NOT_DONE.search(answer):
        found.append("the answer does not say that it was not done")
    if end.undone and ended.status == "succeeded":
        found.append("the run says succeeded, though the person said no")
    return found


def _in_calls(end: End, made: Sequence[Made]) -> list[str]:
    read = "\n".join(call.text for call in made if call.ok)
    found = [f"no call showed {each.source!r}" for each in end.facts if not _was_read(each.source, read)]
    well = {call.tool for call in made if call.ok}
    return found + [f"no call of {tools} ended well" for tools in end.called if not well & set(tools.split("|"))]


def _in_world(end: End, ended: Ended) -> list[str]:
    changes, before, after = end.changes, ended.before, ended.after
    wanted_rows = {**before.tables, **changes.rows}
    found = [*_mails("sent", changes.sent, after.sent), *_mails("draft", changes.drafts, after.drafts)]
    found += _files(end, ended)
    found += [f"table {name} is {after.tables.get(name)}" for name in wanted_rows if _differs(name, wanted_rows, after)]
    found += [f"there is a new table {name}" for name in after.tables if name not in wanted_rows]
    if _sorted((*before.entities, *changes.entities)) != _sorted(after.entities):
        found.append(f"the memory holds {json.dumps(after.entities)}")
    if (*changes.commits, *before.commits) != after.commits:
        found.append(f"the commits are {list(after.commits)}")
    return found


def _differs(name: str, wanted: dict[str, list[list[Json]]], after: State) -> bool:
    return _sorted(wanted[name]) != _sorted(after.tables.get(name, []))


def _sorted(items: Iterable[Json]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def _files(end: End, ended: Ended) -> list[str]:
    wanted, before, after = end.changes.files, ended.before.files, ended.after.files
    found: list[str] = []
    for name, text in wanted.items():
        if (text is None) != (name not in after):
            found.append(f"file {name} is {'still there' if text is None else 'not there'}")
        elif text is not None and not fits(text, after[name]):
            found.append(f"file {name} holds something else")
    others = (set(before) | set(after)) - set(wanted)
    return found + [f"file {name} was changed" for name in sorted(others) if before.get(name) != after.get(name)]


def _mails(kind: str, wanted: Sequence[Mail], there: Sequence[JsonObject]) -> list[str]:
    left, found = list(there), list[str]()
    for mail in wanted:
        hit = next((each for each in left if _is_mail(mail, each)), None)
        if hit is None:
            found.append(f"no message {kind} to {mail.to} is as wanted")
        else:
            left.remove(hit)
    return found + [f"a message {kind} to {each['to']} was not wanted" for each in left]


def _is_mail(mail: Mail, there: JsonObject) -> bool:
    return there["to"] == mail.to and fits(mail.subject, there["subject"]) and fits(mail.body, there["body"])


def allows(allowed: Allowed, tool: str, arguments: JsonObject) -> bool:
    """Whether a call is one of those that the person agrees to."""
    texts = {key: item if isinstance(item, str) else json.dumps(item) for key, item in arguments.items()}
    return tool == allowed.tool and all(
        key in texts and fits(text, texts[key]) for key, text in allowed.arguments.items()
    )


def fits(text: Text, there: str) -> bool:
    """Whether a text is as wanted; line ends and blanks at its end don't count."""
    if text.equals is not None and text.equals.rstrip() != there.replace("\r\n", "\n").rstrip():
        return False
    if text.json is not None and text.json != _parsed(there):
        return False
    return all(stands_in(word, there) for word in text.has)


def _parsed(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _was_read(source: str, read: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(source)}(?!\w)", read, re.IGNORECASE) is not None


def _told(wanted: Fact, answer: str) -> bool:
    return any(stands_in(spelling, answer) for spelling in wanted.spellings)


def stands_in(word: str, text: str) -> bool:
    """Whether it stands there as a whole: 23 not in 123 or 23.5; `12,480`, `12 480` and `12480` are the same."""
    pattern = rf"(?<![\w])(?<!\d[.,]){re.escape(_plain(word))}(?!\w)(?![.,]\d)"
    return re.search(pattern, _plain(text), re.IGNORECASE) is not None


def _plain(text: str) -> str:
    return _SEPARATED.sub("", _MARKS.sub("", text))
