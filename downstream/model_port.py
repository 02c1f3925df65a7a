"""A model as the floors above see it: one request in, one reply out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from journal.errors import SteprelayError
from journal.ledger import Spent
from journal.values import Json, JsonObject

Role: TypeAlias = Literal["planner", "reviser", "worker", "reviewer", "compose", "answer"]
Finish: TypeAlias = Literal["stop", "length", "refusal"]
FailureKind: TypeAlias = Literal[
    "auth",
    "quota",
    "rate",
    "overload",
    "transport",
    "timeout",
    "endless",
    "context",
    "refusal",
    "bad_request",
    "malformed",
    "script",
    "price",
    "unavailable",
]
RETRIED: frozenset[str] = frozenset({"rate", "overload", "transport", "timeout", "malformed"})


class ModelFailed(SteprelayError):
    """A model gave no usable reply. `retry_after` is what its server asked for, in seconds; `spent` what it took."""

    def __init__(
        self, model: str, kind: FailureKind, text: str, *, retry_after: float | None = None, spent: Spent | None = None
    ) -> None:
        self.model, self.kind, self.reason, self.retry_after, self.spent = model, kind, text, retry_after, spent
        super().__init__(f"model {model}: {text}")


@dataclass(frozen=True)
class FunctionUse:
    """A function that a model wants called; `arguments` is the text it wrote, JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """One message. An assistant's is sent back as it came (`raw`), so that its model finds its own marks in it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    uses: tuple[FunctionUse, ...] = ()
    answers: str | None = None
    """For a tool message: the id of the function use that it answers."""
    raw: JsonObject | None = None


@dataclass(frozen=True)
class Function:
    """A function offered to a model; `parameters` is a JSON Schema that every provider takes."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True)
class Place:
    """Where in a run a request stands; scripted models choose their reply by it. All numbers count from 1.

    `number` is the plan attempt, the revision or the review; `turn` is a worker's, and in planning one more than the
    searches so far. `repair` counts from 0, and so does `retry`, which the model door sets: how often this very request
    has failed before.
    """

    number: int = 1
    step: str | None = None
    attempt: int = 1
    turn: int = 1
    repair: int = 0
    retry: int = 0


@dataclass(frozen=True)
class ModelRequest:
    """What a model is asked. `name` is the reply's name (`submit_plan`, …) or None for plain text and worker turns.

    `schema` asks for JSON by schema under that name, `strict` in the part of its language that every provider takes;
    `functions` are offered, and `force` names the one to be called.
    `prompt` names the files of its instructions with their versions (`planner@1a2b3c4d`), for the events only.
    `listen` is so many seconds after its first piece a streamed reply is cut, as by its length.
    """

    role: Role
    place: Place
    messages: tuple[Message, ...]
    max_tokens: int
    name: str | None = None
    schema: JsonObject | None = None
    strict: bool = True
    functions: tuple[Function, ...] = ()
    force: str | None = None
    stream: bool = False
    prompt: str = ""
    listen: float | None = None

    def prompt_characters(self) -> int:
        """How much text the request holds; a quarter of it is our estimate of its tokens."""
        texts = sum(len(message.content) + sum(len(use.arguments) for use in message.uses) for message in self.messages)
        offered = sum(len(f.name) + len(f.description) + len(str(f.parameters)) for f in self.functions)
        return texts + offered + (len(str(self.schema)) if self.schema else 0)


@dataclass(frozen=True)
class ModelReply:
    """What a model said: text, function uses, or both; `raw` is its message for the next turn, known by its model only.

    `replayed` says that the journal knew it already, `left_out` what was asked for and the model has no place for.
    """

    model: str
    text: str
    uses: tuple[FunctionUse, ...] = ()
    finish: Finish = "stop"
    spent: Spent = field(default_factory=Spent)
    raw: JsonObject = field(default_factory=dict[str, Json])
    replayed: bool = False
    left_out: tuple[str, ...] = ()

    def message(self) -> Message:
        """The reply as a message of the next request."""
        return Message("assistant", self.text, self.uses, raw=self.raw or None)


class Complete(Protocol):
    """Ask the model named `model` once, without retries. Raises ModelFailed."""

    async def __call__(self, model: str, request: ModelRequest) -> ModelReply: ...


LONG_PROMPT = 100_000
"""Tokens. Some providers ask more for longer requests, from 100,000 on or from later on, by litellm's list."""


@dataclass(frozen=True)
class Rate:
    """US dollars for a million tokens; `written` is for input that the provider keeps in its cache, if dearer.

    `long` is what holds for requests of more than `LONG_PROMPT` tokens, where it is known to be dearer.
    """

    input: float
    output: float
    written: float | None = None
    long: "Rate | None" = None

    def cost(self, *, input_tokens: int, output_tokens: int, written: int = 0) -> float:
        """US dollars for so many tokens; `written` are those of the input that went into the cache."""
        if self.long is not None and input_tokens > LONG_PROMPT:
            return self.long.cost(input_tokens=input_tokens, output_tokens=output_tokens, written=written)
        more = written * (self.dearest_input - self.input)
        return (input_tokens * self.input + output_tokens * self.output + more) / 1_000_000

    @property
    def dearest_input(self) -> float:
        """US dollars for a million tokens of input, in the worst case."""
        return max(self.input, self.written or 0.0)


FREE = Rate(0.0, 0.0)


@dataclass(frozen=True)
class Traits:
    """How many tokens a model takes in a request, and from how many on its provider keeps a prefix (None: never).

    `by_grammar` says that its server holds replies to a schema by a grammar of its own, as those for one's own machine
    do: such a schema may have optional fields and open objects.
    """

    window: int = 32_768
    caches_from: int | None = None
    by_grammar: bool = False


async def _no_room(model: str, role: Role) -> int:
    return 0


async def _nothing_known(model: str) -> Traits:
    return Traits()


@dataclass(frozen=True)
class Models:
    """The models that are open: how to ask one, what it costs (None: nobody knows), and how to be ready early.

    `room_of` tells how many tokens a model may think for in a role, on top of those asked for; `traits_of` what else
    is known of it.
    """

    complete: Complete
    rate_of: Callable[[str], Awaitable[Rate | None]]
    warm_up: Callable[[], Awaitable[None]]
    room_of: Callable[[str, Role], Awaitable[int]] = _no_room
    traits_of: Callable[[str], Awaitable[Traits]] = _nothing_known
