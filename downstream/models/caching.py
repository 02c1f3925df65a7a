"""Providers' prompt caches: whose prefixes are kept, from which length on, and the marks that Claude needs for it."""

import json

from downstream.model_port import Message, ModelRequest
from journal.values import JsonObject

_MARK: JsonObject = {"type": "ephemeral"}
_LEAST = 1_024
"""No provider keeps a prefix of fewer tokens."""
_WORTH_A_MARK = 3 * _LEAST
"""Characters: three of them make a token where many do."""
_CLAUDE = {"sonnet-4-5": _LEAST, "sonnet-4-6": 2_048}
"""From how many tokens on prefixes are kept for those of Claude's models that ask for fewer than the others."""
_OTHER_CLAUDES = 4_096
_HOSTS = frozenset({"bedrock", "vertex_ai", "openrouter", "azure_ai"})
"""Who serves Claude beside Anthropic and takes its marks; not all of its models there keep prefixes."""
_BY_THEMSELVES = frozenset({"openai", "azure", "deepseek"})
"""Providers that keep prefixes unasked. Gemini does too and promises nothing, so nobody waits for it."""


def is_claude(model: str) -> bool:
    """Whether it is one of Anthropic's, whoever serves it."""
    return "claude" in model


def takes_marks(model: str, provider: str, *, listed: bool) -> bool:
    """Whether a request to the model is marked; `listed` says that litellm's list has it among those that cache."""
    return is_claude(model) and (provider == "anthropic" or (listed and provider in _HOSTS))


def cached_from(model: str, provider: str, *, listed: bool, elsewhere: bool) -> int | None:
    """How many tokens a prefix must have to be found again by the next request, on which one can rely; None: never.

    `elsewhere` says that the settings give an address: then `openai/` is no more than the name of a wire.
    """
    if takes_marks(model, provider, listed=listed):
        name = model.replace(".", "-")
        return next((tokens for part, tokens in _CLAUDE.items() if part in name), _OTHER_CLAUDES)
    return _LEAST if listed and provider in _BY_THEMSELVES and not elsewhere else None


def written_at_most(prompt: int) -> int:
    """How many tokens of a prompt may have gone into a cache, where nobody tells."""
    return prompt if prompt >= _LEAST else 0


def with_marks(arguments: JsonObject, request: ModelRequest) -> JsonObject:
    """litellm's arguments for this request with up to four marks: after the tools, after the system message, and in
    a conversation of several turns after its last message, where the next turn reads on, and where the last turn's was.

    Only copies are changed. A mark on a prefix that is too short does nothing, and costs nothing.
    """
    messages: list[JsonObject] = list(arguments["messages"])
    for index in _ends(request):
        messages[index] = messages[index] | {"cache_control": _MARK}
    marked = arguments | {"messages": messages}
    if _offered(request) >= _WORTH_A_MARK:
        *others, last = arguments["tools"]
        marked["tools"] = [*others, last | {"cache_control": _MARK}]
    return marked


def prefix_of(request: ModelRequest) -> tuple[str, int]:
    """What requests of the same kind begin with, as text, and how many tokens that are about."""
    system = [message.content for message in request.messages if message.role == "system"]
    offered = [[each.name, each.description, each.parameters] for each in request.functions]
    text = json.dumps([offered, request.schema, system])
    return text, (_offered(request) + sum(map(len, system))) // 4


def _ends(request: ModelRequest) -> set[int]:
    """The messages after which a later request may read on."""
    messages = request.messages
    system = [index for index, message in enumerate(messages) if message.role == "system"][-1:]
    replies = [index for index, message in enumerate(messages) if message.role == "assistant"][-1:]
    # Where nothing but the end is offered, no turn follows: its prefix would be paid for and never read.
    turns = [len(messages) - 1, *(index - 1 for index in replies)] if len(request.functions) > 1 else []
    return {index for index in {*system, *turns} if _is_worth_it(request, index)}


def _is_worth_it(request: ModelRequest, index: int) -> bool:
    message = request.messages[index]
    before = _offered(request) + sum(map(_characters, request.messages[: index + 1]))
    return message.role != "assistant" and bool(message.content) and before >= _WORTH_A_MARK


def _characters(message: Message) -> int:
    return len(message.content) + sum(len(use.arguments) for use in message.uses)


def _offered(request: ModelRequest) -> int:
    return sum(len(each.name) + len(each.description) + len(str(each.parameters)) for each in request.functions)
