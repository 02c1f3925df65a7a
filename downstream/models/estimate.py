"""What a request can take at most, so that what is set aside for it is never less than its bill.

No tokenizer makes more than one token of a byte; and of a prompt whose beginning its model has billed before, only what
came after it is not known to the token.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from math import ceil

from downstream.model_port import Message, ModelReply, ModelRequest
from journal.ledger import Spent
from journal.values import Json

_MARK = "billed"
_PER_MESSAGE, _PER_REQUEST = 16, 64
"""Tokens by which providers wrap a message, and a request with its functions."""
_USUAL = 4
"""Bytes of one token in most texts; a tokenizer that makes more of them is no measure for what is too long."""
_FURTHEST_PROMPT, _FURTHEST_REPLY = 4.0, 16.0
"""A bill that goes further beyond its worst case is no measure for the next: else one that is wrong, and a run pays
for itself, would keep all later runs from asking the model."""


@dataclass(frozen=True)
class Worst:
    """The tokens that a request takes at most; `beyond` is by how much more than was thought at first."""

    prompt: int
    reply: int
    beyond: tuple[float, float] = field(default=(1.0, 1.0), compare=False)

    @property
    def tokens(self) -> int:
        return self.prompt + self.reply


def worst_prompt(request: ModelRequest, model: str | None = None) -> int:
    """The tokens that the prompt is at most: its bytes, or what this model billed for its beginning and the rest's."""
    messages, frame = request.messages, _frame(request)
    for place in range(len(messages) - 1, 0, -1):
        mark: Json = (messages[place].raw or {}).get(_MARK)
        if mark is None or mark["model"] != model or mark["messages"] != _digest(messages[:place]):
            continue
        grown = 0 if mark["frame"] == _hash(frame) else _size(frame)
        uses = sum(_size(use.name + use.arguments) for use in messages[place].uses)
        return int(mark["tokens"]) + uses + grown + _sizes(messages[place + 1 :])
    return _size(frame) + _sizes(messages)


def untold(request: ModelRequest, model: str | None, said: int, *, room: int, whole: bool) -> Spent:
    """What a request took at most that nobody told the bill of: `said` are the bytes that came of its reply.

    The reply of a server that heeds `max_tokens` has no more tokens than that and those to think; one that was seen
    `whole` has no more than its bytes and those. What is far longer than was asked for shows that its server does not.
    """
    longest, seen = request.max_tokens + room, said + room
    heeds = said // _USUAL <= longest
    taken = min(seen, longest) if whole else longest
    return Spent(worst_prompt(request, model), taken if heeds else seen, at_most=True)


def marked(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """The reply with what its model billed up to it, for the next request that begins in the same way."""
    mark: Json = {
        "model": reply.model,
        "tokens": reply.spent.tokens,
        "messages": _digest(request.messages),
        "frame": _hash(_frame(request)),
    }
    # Without a bill nobody knows what the beginning took.
    return replace(reply, raw=reply.raw | {_MARK: mark}) if reply.spent.input_tokens else reply


class Bills:
    """How far the bills of each model have gone beyond its worst case: some servers heed no `max_tokens`."""

    def __init__(self) -> None:
        self._beyond: dict[str, tuple[float, float]] = {}

    def worst(self, model: str, request: ModelRequest, longest: int) -> Worst:
        """What a request whose reply may have `longest` tokens takes at most, by all that this model has billed."""
        prompt, reply = beyond = self._beyond.get(model, (1.0, 1.0))
        return Worst(ceil(worst_prompt(request, model) * prompt), ceil(longest * reply), beyond)

    def learn(self, model: str, worst: Worst, spent: Spent) -> None:
        """A bill for what was thought to take at most `worst`, perhaps before other bills were known."""
        prompt, reply = self._beyond.get(model, (1.0, 1.0))
        told_prompt = min(worst.beyond[0] * spent.input_tokens / worst.prompt, _FURTHEST_PROMPT)
        # Of what nobody told, bytes are all that is known.
        said = spent.output_tokens / _USUAL if spent.at_most else spent.output_tokens
        told_reply = min(worst.beyond[1] * said / worst.reply, _FURTHEST_REPLY)
        self._beyond[model] = (max(prompt, told_prompt), max(reply, told_reply))


def _frame(request: ModelRequest) -> str:
    """What a request says beside its messages."""
    if not request.functions and request.schema is None:
        return ""
    offered: Json = [[each.name, each.description, each.parameters] for each in request.functions]
    return json.dumps([offered, request.schema or ""], ensure_ascii=False)


def _sizes(messages: tuple[Message, ...]) -> int:
    return sum(_PER_MESSAGE + _size(_said(message)) for message in messages) + _PER_REQUEST


def _said(message: Message) -> str:
    """All that a message may say on the wire: an assistant's is sent as it came, thoughts and all."""
    plain = message.content + "".join(use.id + use.name + use.arguments for use in message.uses)
    raw: Json = (message.raw or {}).get("message")
    whole = "" if raw is None else json.dumps(raw, ensure_ascii=False)
    return max(plain, whole, key=len) + (message.answers or "")


def _digest(messages: tuple[Message, ...]) -> str:
    return _hash("\x00".join(f"{message.role}\x01{_said(message)}" for message in messages))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
