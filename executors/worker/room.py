"""Keeping a worker's history within what its model takes: results that can be read again leave it, in large bites."""

import json
from collections.abc import Iterable

from downstream.door import Called
from downstream.model_port import ModelReply, ModelRequest
from executors.built_in_tools import READ_ARTIFACT, SEARCH_TOOLS
from executors.job import Equipment
from journal.artifacts import ArtifactNotKept, NewArtifact
from journal.events import NewEvent
from journal.run_journal import RunJournal
from journal.values import JsonObject

from .brief import Brief
from .call_log import CallLog
from .conversation import Conversation, Shown

_FULL, _ROOMY = 0.75, 0.4
"""The parts of a model's window above which a history is condensed, and down to which."""
_BITE = 0.1
"""Less than this part is not worth a request whose prefix no cache has."""
_REFUSED = 0.9
"""What a model has refused as too long is so much more than it takes, at least."""
_SMALLEST = 1_000
_STUB = 200
_LEAST, _MOST = 0.25, 1.0
"""Tokens for a character: our estimate at first, and what is believed of a server that counts more."""


class Room:
    """What of one attempt's history has to go. Each decision is written down, so that every replay makes the same."""

    def __init__(
        self, equipment: Equipment, journal: RunJournal, brief: Brief, talk: Conversation, log: CallLog
    ) -> None:
        self.equipment = equipment
        self.journal = journal
        self.brief = brief
        self.talk = talk
        self.log = log
        self.refusals = 0
        """How often in a row the model has refused a request as too long."""
        self.is_condensed = False
        """Whether results were taken out, which can be read as artifacts."""
        self._tokens_per_character = _LEAST
        self._at_most = float("inf")

    def took(self, request: ModelRequest, reply: ModelReply) -> None:
        """The model has read this request; what it says of its length is better than our guess."""
        self.refusals = 0
        told = reply.spent.input_tokens / max(1, request.prompt_characters())
        self._tokens_per_character = min(max(told, _LEAST), _MOST)

    def refused(self, request: ModelRequest) -> None:
        """The model's server has called this request too long, whatever its window is said to be."""
        self.refusals += 1
        self._at_most = min(self._at_most, _REFUSED * self._size(request))

    async def again(self, turn: str) -> bool | None:
        """Do as was decided before this turn; None if nothing was, else whether its request fitted then."""
        found = await self.journal.recall(self._key(turn), self.brief.row("condensed"))
        if found is None:
            return None
        self._condense(found.value["dropped"])
        return bool(found.value["fits"])

    async def make(self, turn: str, request: ModelRequest, *, is_last: bool = False) -> bool:
        """Condense the history if this turn's request nearly fills the window; whether the request fits in the end.

        What the model has not read yet goes only where nothing else helps, or where no turn follows anyway.
        """
        if (fitted := await self.again(turn)) is not None:
            return fitted
        size, window = self._size(request), await self._window()
        if size <= _FULL * window:
            return True
        chosen = list(self._chosen(size, window, is_last=is_last))
        gain = self._tokens(sum(each.characters - _STUB for each in chosen))
        if gain < _BITE * window and (not chosen or size <= window):
            return size <= window
        dropped = {each.call: await self._kept(each) for each in chosen}
        before = request.prompt_characters()
        after = before - self._condense(dropped)
        fits = self._tokens(after) <= window
        step = self.brief.place.step
        text = f"history of step {step} condensed: {before:,} → {after:,} characters"
        value: JsonObject = {"dropped": dropped, "fits": fits}
        told = [NewEvent("warning", {"text": text}, step=step)]
        await self.journal.record(self._key(turn), self.brief.row("condensed"), value, events=told)
        return fits

    def _key(self, turn: str) -> str:
        return f"{self.brief.key}/{turn}/condensed"

    def _tokens(self, characters: int) -> float:
        return characters * self._tokens_per_character

    def _size(self, request: ModelRequest) -> float:
        return self._tokens(request.prompt_characters())

    async def _window(self) -> float:
        model = self.equipment.model_for(self.brief.role, self.brief.account)
        return min((await self.equipment.traits_of(model)).window, self._at_most)

    def _chosen(self, size: float, window: float, *, is_last: bool) -> Iterable[Shown]:
        """The oldest results first, until there is room."""
        for shown in self.talk.results:
            enough = window * (_ROOMY if shown.is_read or is_last else 1.0)
            if size > enough and shown.characters >= _SMALLEST and self._end(shown.call).tool != SEARCH_TOOLS.name:
                size -= self._tokens(shown.characters - _STUB)
                yield shown

    def _end(self, call: str) -> Called:
        return next(end for end in self.log.ends if end.call == call)

    async def _kept(self, shown: Shown) -> str | None:
        """The artifact that holds the result whole; empty for one that is read anew, None where there is no room."""
        end = self._end(shown.call)
        if end.tool == READ_ARTIFACT.name:
            return ""
        if end.artifacts and f"kept whole as {end.artifacts[0]};" in end.text.partition("\n")[0]:
            return end.artifacts[0]
        media_type = "application/json" if _is_data(end) else "text/plain"
        content = end.text.encode(errors="replace")
        new = NewArtifact(self.brief.place.step or "", end.call, media_type, content, end.value.label)
        try:
            return (await self.journal.artifacts.add(self.journal.run.id, new)).id
        except ArtifactNotKept:
            return None

    def _condense(self, dropped: dict[str, str | None]) -> int:
        """Put a few words in place of these results; how many characters that has saved."""
        self.is_condensed = self.is_condensed or any(dropped.values())
        return sum(
            self.talk.shorten(call, _words(self._end(call), artifact))
            for call, artifact in dropped.items()
            if artifact is not None
        )


def _words(end: Called, artifact: str) -> str:
    """What stands for a result that has left the history: its call's id, by which it can still be cited."""
    what = "This result" if end.ok else "The call failed; what it said"
    there = (
        f"it is kept whole as {artifact}, which read_artifact reads" if artifact else "make the call again to see it"
    )
    return f"[{end.call}]\n{what} ({len(end.text):,} characters) was taken out of the history to make room; {there}."


def _is_data(end: Called) -> bool:
    try:
        return not isinstance(end.value.data, str) and bool(json.loads(end.text) == end.value.data)
    except (ValueError, RecursionError):
        return False
