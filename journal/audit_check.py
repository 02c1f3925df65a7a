"""Whether a store's audit is as it was written: the first line that is not, and what has become of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, TypeAlias, TypeVar

from .audit import GENESIS, chained
from .canonical import NotCanonical
from .checkpoints import Checkpoint
from .database import Row, Transaction
from .values import Json

T = TypeVar("T")
Fault: TypeAlias = Literal["changed", "missing", "moved", "doubled", "replaced", "truncated"]

_PAGE = 1_000
_NEAR = 1_000
"""A line that was moved further is only known to be another."""
_FIRST = -(2**63)
_TEXTS = ("owner", "run", "type", "data", "prev", "hash")
# A byte that was flipped may leave a text that is none, or another type of value; neither may stop the reading.
_COLUMNS = ", ".join(
    (
        "seq",
        "CASE typeof(at) WHEN 'real' THEN at END AS at",
        *(
            f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) WHEN 'null' THEN NULL ELSE x'ff' END AS {name}"
            for name in _TEXTS
        ),
    )
)


@dataclass(frozen=True)
class Line:
    """A line as its columns have it; `fields` is what its hash covers besides the line before."""

    seq: int
    fields: tuple[Json, ...]
    prev: str
    hash: str

    @property
    def about(self) -> str:
        """The type of the line, and its run."""
        run, type_ = self.fields[3:5]
        return f"{type_}, run {run}" if run else str(type_)

    def is_sound(self, prev: str, *, seq: int | None = None) -> bool:
        """Whether it has the hash of a line that was written after `prev`, with this number."""
        try:
            return self.hash == chained(prev, [self.seq if seq is None else seq, *self.fields[1:]])
        except NotCanonical:
            return False


@dataclass(frozen=True)
class Broken:
    """The first line that does not hold; `text` says in a sentence what is wrong with it."""

    seq: int
    fault: Fault
    text: str


@dataclass(frozen=True)
class AuditCheck:
    """How many lines hold up to the first broken one, the head of these, and how many checkpoints fit them."""

    lines: int
    head: str
    checkpoints: int
    broken: Broken | None


class Readable(Protocol):
    """A store that answers queries, such as a `Database`."""

    async def read(self, query: Callable[[Transaction], T]) -> T: ...


async def check_audit(database: Readable, checkpoints: Sequence[Checkpoint] = ()) -> AuditCheck:
    """Every line of the store against the chain, and the chain against checkpoints. Raises StoreError."""
    known = sorted(checkpoints, key=lambda checkpoint: checkpoint.seq)
    count, prev, fitting, after = 0, GENESIS, 0, _FIRST
    while page := await database.read(partial(_page, first=after)):
        for line in page:
            if line.seq != count + 1 or line.prev != prev or not line.is_sound(prev):
                find = partial(_what_is_wrong, line=line, count=count, prev=prev)
                return AuditCheck(count, prev, fitting, await database.read(find))
            count, prev = line.seq, line.hash
            while fitting < len(known) and known[fitting].seq <= count:
                if known[fitting].seq == count and known[fitting].head != prev:
                    text = f"{line.about}: a checkpoint of {known[fitting].at} knows another line in its place"
                    return AuditCheck(count - 1, line.prev, fitting, Broken(count, "replaced", text))
                fitting += 1
        after = page[-1].seq + 1
    broken = None
    if fitting < len(known):
        text = f"a checkpoint of {known[fitting].at} knows line {known[-1].seq}, and the audit ends with line {count}"
        broken = Broken(count + 1, "truncated", text)
    return AuditCheck(count, prev, fitting, broken)


def _page(tx: Transaction, *, first: int) -> list[Line]:
    sql = f"SELECT {_COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq LIMIT {_PAGE}"
    return [_line(row) for row in tx.rows(sql, (first,))]


def _line(row: Row) -> Line:
    texts = {name: None if row[name] is None else row[name].decode(errors="replace") for name in _TEXTS}
    fields = (row["seq"], texts["owner"], row["at"], texts["run"], texts["type"], texts["data"])
    return Line(row["seq"], fields, str(texts["prev"]), str(texts["hash"]))


def _what_is_wrong(tx: Transaction, *, line: Line, count: int, prev: str) -> Broken:
    """What became of the first line that does not follow from the `count` lines before it."""
    expected = count + 1
    if line.seq > expected and line.is_sound(line.prev):
        return Broken(expected, "missing", f"it is missing: after line {count} comes line {line.seq}")
    if (first := _number_of(tx, line.hash, below=line.seq)) is not None:
        return Broken(line.seq, "doubled", f"{line.about}: it is line {first} once more")
    near = range(line.seq - _NEAR, line.seq + _NEAR)
    written = next((seq for seq in near if line.is_sound(line.prev, seq=seq)), None)
    if written is None and line.prev != prev and line.is_sound(prev):
        return Broken(line.seq, "changed", f"{line.about}: what it says of the line before it was changed")
    if written is None:
        return Broken(line.seq, "changed", f"{line.about}: it is not as it was written")
    if written == line.seq:
        return Broken(line.seq, "replaced", f"{line.about}: it was written after another line than line {count}")
    if tx.row("SELECT 1 FROM audit WHERE prev = ? AND seq > ?", (prev, line.seq)) is None:
        return Broken(line.seq, "missing", "it is missing, and the next line has its number now")
    return Broken(line.seq, "moved", f"{line.about}: it was written as line {written}")


def _number_of(tx: Transaction, hash_: str, *, below: int) -> int | None:
    row = tx.row("SELECT seq FROM audit WHERE hash = ? AND seq < ? ORDER BY seq LIMIT 1", (hash_, below))
    return None if row is None else int(row["seq"])
