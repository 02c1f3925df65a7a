"""What one worker and its model have said so far, and how the next request is made of it."""

import json
from dataclasses import dataclass, replace

from downstream.model_port import Function, Message, ModelReply, ModelRequest
from downstream.models.parameters import parameters_of
from downstream.models.structured import Form, formatted
from downstream.tools import Tool
from executors.wording import prompt, versions
from journal.values import JsonObject

from .brief import Brief, Style
from .turn import Use

TURN_TOKENS, LAST_TOKENS = 4_096, 2_048
_LONGEST_TYPED = 15_000
"""Characters of the arguments of all functions, beyond which a grammar of them would take too long to make."""


@dataclass(frozen=True)
class Shown:
    """A call's result as it stands in the history; `is_read` says that the model has replied since."""

    call: str
    characters: int
    is_read: bool


class Conversation:
    """Grows with the attempt and is made again from the memo by each drive."""

    def __init__(self, brief: Brief, *, by_grammar: bool = False) -> None:
        self.brief = brief
        self.by_grammar = by_grammar
        self.tokens = 0
        self._messages = [Message("user", brief.first_message)]
        self._reminders: dict[str, None] = {}
        """The prompts that stand in the history, each once."""
        self._results: dict[int, str] = {}
        """By the number of their message, the calls whose results they are."""

    def begin_again(self, *, kept: int = 0) -> None:
        """Forget what was said but the last messages, for a model that had called nothing and would repeat prose."""
        del self._messages[1 : len(self._messages) - kept]
        self._reminders.clear()

    def take(self, reply: ModelReply) -> None:
        self.tokens += reply.spent.tokens
        self._messages.append(reply.message())

    def answer(self, use: Use, text: str, *, call: str | None = None) -> None:
        """What the model gets back for a function that it used: the result of a call, where that is named."""
        if call is not None:
            self._results[len(self._messages)] = call
        self._messages.append(Message("user" if use.answers is None else "tool", text, answers=use.answers))

    @property
    def results(self) -> list[Shown]:
        """The results of calls, the oldest first."""
        said = [number for number, message in enumerate(self._messages) if message.role == "assistant"]
        last = max(said, default=0)
        return [
            Shown(call, len(self._messages[number].content), number < last) for number, call in self._results.items()
        ]

    def shorten(self, call: str, text: str) -> int:
        """Have this stand for the result of a call; how many characters that saves."""
        saved = 0
        for number, other in self._results.items():
            if other == call:
                saved += len(self._messages[number].content) - len(text)
                self._messages[number] = replace(self._messages[number], content=text)
        return saved

    def remind(self, name: str, *, first: str | None = None, **values: str) -> None:
        """Say the prompt of this name, with its values filled in, after `first`."""
        self._reminders[name] = None
        self._messages.append(Message("user", "\n".join(filter(None, [first, prompt(name, **values)]))))

    def request(
        self, functions: tuple[Function, ...], style: Style, *, turn: int, repair: int = 0, ends: bool = False
    ) -> ModelRequest:
        """The next request, offering these functions in that style; with `ends` nothing but the end can be chosen."""
        if ends and not (self.by_grammar and style == "schema"):
            functions = (self.brief.ending,)
        system = Message("system", self.brief.system)
        place = replace(self.brief.place, turn=turn, repair=repair)
        if style == "functions":
            messages = (system, *self._messages)
            prompts = versions(self.brief.role, *self._reminders)
            return ModelRequest(self.brief.role, place, messages, TURN_TOKENS, functions=functions, prompt=prompts)
        listed = "\n".join(
            f"- {each.name}: {each.description}\n  arguments: {json.dumps(each.parameters)}" for each in functions
        )
        told = Message("system", f"{self.brief.system}\n\n{prompt('next_action', functions=listed)}")
        said = (self._in_words(number, message) for number, message in enumerate(self._messages))
        after = ("after_call",) if self._results else ()
        prompts = versions(self.brief.role, "next_action", *after, *self._reminders)
        # A small model that has lost its way goes round in circles, which only a stream tells in time.
        plain = ModelRequest(self.brief.role, place, (told, *said), TURN_TOKENS, stream=self.by_grammar, prompt=prompts)
        # What was told stays as it is, for a server that has read it already.
        schema = _next_action((self.brief.ending,) if ends else functions, typed=self.by_grammar)
        # Where the server holds it to the functions' own arguments, these need not be told twice.
        form = Form("next_action", schema, dict, is_told=not self.by_grammar)
        return formatted(plain, form, style, by_grammar=self.by_grammar)

    def last_request(
        self, functions: tuple[Function, ...], style: Style, *, turn: int, repair: int = 0, forced: bool = True
    ) -> ModelRequest:
        """A request that nothing but the end can answer."""
        request = self.request(functions, style, turn=turn, repair=repair, ends=True)
        force = self.brief.ending.name if forced and style == "functions" else None
        return replace(request, max_tokens=LAST_TOKENS, force=force)

    def _in_words(self, number: int, message: Message) -> Message:
        """The same without function calls, which a model that cannot make them does not understand."""
        if number in self._results:
            return Message("user", f"{message.content}\n\n{prompt('after_call', ending=self.brief.ending.name)}")
        if message.role == "tool":
            return Message("user", message.content)
        if not message.uses:
            return message
        said = "\n".join(
            f'{{"tool": {json.dumps(use.name)}, "arguments": {use.arguments or "{}"}}}' for use in message.uses
        )
        return Message("assistant", f"{message.content}\n{said}".strip())


def function_of(tool: Tool) -> Function:
    """A tool as models are offered it."""
    parameters = parameters_of(tool.open_schema)
    words = tool.description or tool.title or tool.full_name
    return Function(tool.wire, f"{words}\n{parameters.note}".strip(), parameters.schema)


def _next_action(functions: tuple[Function, ...], *, typed: bool) -> JsonObject:
    """The form of one action; `typed` where the arguments are held to those of the functions."""
    arguments: JsonObject = {"type": "object"}
    taken = [each.parameters | {"additionalProperties": False} for each in functions]
    if typed and len(json.dumps(taken)) <= _LONGEST_TYPED:
        arguments = {"anyOf": taken}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "tool": {"type": "string", "enum": [function.name for function in functions]},
            "arguments": arguments,
        },
        "required": ["tool", "arguments"],
    }
