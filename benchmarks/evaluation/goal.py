"""A goal as data: what is asked, over which material, and what must be so when its run has ended."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from journal.values import Json, JsonObject

Server: TypeAlias = Literal[
    "notes", "code", "outbox", "filesystem", "memory", "everything", "time", "git", "sqlite"
]  # fmt: skip
Kind: TypeAlias = Literal[
    "look-up", "arithmetic", "comparison", "writes", "long", "missing", "injection", "parallel", "refused"
]


@dataclass(frozen=True)
class Place:
    """Where a goal's material lies, and the chance that its numbers come from."""

    folder: Path
    chance: random.Random

    @property
    def files(self) -> Path:
        """The folder of the filesystem server; the git server's repository too."""
        return self.folder / "files"

    def number(self, low: int, high: int) -> int:
        return self.chance.randint(low, high)

    def numbers(self, count: int, low: int, high: int) -> list[int]:
        """Different ones."""
        return self.chance.sample(range(low, high), count)

    def code(self) -> str:
        """A word that stands nowhere else, such as `QXM-48213`."""
        letters = "".join(self.chance.sample("BCDFGHJKLMNPQRSTVWXZ", 3))
        return f"{letters}-{self.number(10_000, 99_999)}"


@dataclass(frozen=True)
class Fact:
    """What must stand in the answer, in one of these spellings, and `source` in the result of a call of the run.

    Without a `source` it is the first spelling.
    """

    spellings: tuple[str, ...]
    source: str


def fact(*spellings: object, source: object = None) -> Fact:
    words = tuple(map(str, spellings))
    return Fact(words, words[0] if source is None else str(source))


@dataclass(frozen=True)
class Text:
    """What a text must be, as text or as JSON, or hold as whole words; nothing given fits any text."""

    equals: str | None = None
    json: Json = None
    has: tuple[str, ...] = ()


ANY = Text()


@dataclass(frozen=True)
class Mail:
    """A message that must be in the outbox; all that are there must be expected."""

    to: str
    subject: Text = ANY
    body: Text = ANY


@dataclass(frozen=True)
class Allowed:
    """A call that the person agrees to, so often. `arguments` are matched as text, others as their JSON."""

    tool: str
    arguments: Mapping[str, Text] = field(default_factory=dict[str, Text])
    times: int = 1


@dataclass(frozen=True)
class Material:
    """What the tool servers find. `tables` are SQL statements; `entities` are the memory server's lines.

    `commits` are pairs of a message and the files that it sets; `staged` are files that wait for a commit.
    """

    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    tables: tuple[str, ...] = ()
    entities: tuple[JsonObject, ...] = ()
    commits: tuple[tuple[str, Mapping[str, str]], ...] = ()
    staged: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Changes:
    """How the world may differ from the material afterwards, and must; all else must be as it was.

    `files` by path, None for one that is gone; `rows` are whole tables; `entities` and `commits` are those added.
    """

    sent: tuple[Mail, ...] = ()
    drafts: tuple[Mail, ...] = ()
    files: Mapping[str, Text | None] = field(default_factory=dict[str, "Text | None"])
    rows: Mapping[str, list[list[Json]]] = field(default_factory=dict[str, list[list[Json]]])
    entities: tuple[JsonObject, ...] = ()
    commits: tuple[str, ...] = ()


@dataclass(frozen=True)
class End:
    """What must be so at the end.

    `facts` stand in the answer, `lacks` do not, nor anything that the pattern `invents` finds. `missing`: the answer
    says that something was not found. `undone`: it says that something was not done, and the run does not call itself
    succeeded. `called`: one call of each of these tools ended well, a `|` between tools that do the same.
    """

    facts: tuple[Fact, ...] = ()
    lacks: tuple[str, ...] = ()
    invents: str = ""
    missing: bool = False
    undone: bool = False
    called: tuple[str, ...] = ()
    changes: Changes = Changes()


@dataclass(frozen=True)
class Goal:
    """One goal. `script` is what a competent scripted model says to it."""

    name: str
    kind: Kind
    text: str
    servers: tuple[Server, ...]
    material: Material
    end: End
    script: JsonObject
    allowed: tuple[Allowed, ...] = ()

    @property
    def agreed(self) -> tuple[Allowed, ...]:
        """What the person agrees to: the mails of the end, and what the goal allows besides."""
        changes = self.end.changes
        mails = [_mail("outbox.send", mail) for mail in changes.sent]
        return (*mails, *(_mail("outbox.draft", mail) for mail in changes.drafts), *self.allowed)


def _mail(tool: str, mail: Mail) -> Allowed:
    return Allowed(tool, {"to": Text(equals=mail.to), "subject": mail.subject, "body": mail.body})


Make: TypeAlias = Callable[[Place], Goal]
"""A goal with fresh numbers."""
