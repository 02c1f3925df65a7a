"""Replies in a form: the ladder of ways to ask, repairs, what is remembered, and what a replay does."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from run_at_hand import RunAtHand, open_run

from downstream.model_port import (
    FREE,
    Function,
    FunctionUse,
    Message,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Models,
    Place,
    Rate,
)
from downstream.models.door import ModelDoor
from downstream.models.replies import ReplyErrors
from downstream.models.structured import Form, Instead, NoReply, Question, ask_structured
from downstream.settings import ModelSettings
from journal.ledger import Spent
from journal.run_journal import Meaning
from journal.values import JsonObject


class Decision(BaseModel):
    model_config = ConfigDict(extra="forbid")

    decision: str
    reason: str = "none given"
    count: int = 0


def read(data: JsonObject) -> Decision:
    decision = Decision.model_validate(data)
    if decision.decision == "void":
        raise ReplyErrors(["it changes nothing", "it has no reason"])
    return decision


FORM = Form("revise_plan", Decision.model_json_schema(), read)
REQUEST = ModelRequest("reviser", Place(), (Message("user", "Decide."),), 100)
QUESTION = Question(REQUEST, Meaning("revise", {"n": 1}), FORM)
GOOD = '{"decision": "continue", "reason": null, "mood": 1}'


@dataclass
class Model:
    """Says what its list has next; keeps what it was asked."""

    says: Sequence[ModelReply | ModelFailed | str]
    name: str = "m"
    asked: list[ModelRequest] = field(default_factory=list[ModelRequest])

    async def complete(self, model: str, request: ModelRequest) -> ModelReply:
        said = self.says[len(self.asked)]
        self.asked.append(request)
        if isinstance(said, ModelFailed):
            raise said
        return ModelReply(model, said, spent=Spent(10, 1)) if isinstance(said, str) else said

    async def rate_of(self, model: str) -> Rate | None:
        return FREE

    async def warm_up(self) -> None:
        """There is nothing to warm."""

    def ways(self) -> list[str]:
        """How each request asked."""
        return ["schema" if r.schema else "function" if r.functions else "text" for r in self.asked]


@dataclass
class Asked:
    """A run in which a model is asked; each `ask` is a drive of its own."""

    run: RunAtHand
    model: Model
    door: ModelDoor

    async def ask(self, key: str = "revise.1", question: Question[Any] = QUESTION) -> Any:
        return await ask_structured(self.door, await self.run.take(), key, question)


@asynccontextmanager
async def asking(folder: Path, *says: ModelReply | ModelFailed | str) -> AsyncGenerator[Asked]:
    async with open_run(folder) as run:
        model = Model(says)
        models = Models(model.complete, model.rate_of, model.warm_up)
        yield Asked(run, model, ModelDoor(models, ModelSettings(model=model.name), run.store.remembered))


def calling(name: str, arguments: str) -> ModelReply:
    return ModelReply("m", "", (FunctionUse("1", name, arguments),))


async def test_the_first_way_is_a_schema_whose_name_also_stands_in_the_prompt(tmp_path: Path) -> None:
    async with asking(tmp_path, GOOD) as at:
        assert await at.ask() == Decision(decision="continue")
        [request] = at.model.asked
        assert (request.name, request.functions) == ("revise_plan", ())
        assert request.schema is not None
        assert request.schema["additionalProperties"] is False
        assert "reply with JSON: revise_plan" in request.messages[-1].content
        assert await at.run.data("warning", "text") == [{"text": "revise_plan: unknown fields dropped: mood"}]


@pytest.mark.parametrize(
    "reply",
    [calling("revise_plan", GOOD), ModelReply("m", f"Well.\n```json\n{GOOD}\n```")],
    ids=["a call that was not offered", "fenced text"],
)
async def test_whatever_was_asked_calls_and_text_are_taken(tmp_path: Path, reply: ModelReply) -> None:
    async with asking(tmp_path, reply) as at:
        assert (await at.ask()).decision == "continue"


async def test_a_broken_reply_is_shown_all_that_is_wrong_with_it(tmp_path: Path) -> None:
    async with asking(tmp_path, '{"count": "many"}', GOOD) as at:
        await at.ask()
        said, problems = at.model.asked[1].messages[-2:]
        assert (said.role, said.content) == ("assistant", '{"count": "many"}')
        assert "- decision: Field required\n- count: Input should be a valid integer" in problems.content
        assert [request.place.repair for request in at.model.asked] == [0, 1]
        assert (await at.run.usage()).model_calls == 2
        assert await at.run.data("model.called", "key") == [{"key": "revise.1"}, {"key": "revise.1/repair.1"}]


async def test_after_two_repairs_it_is_asked_in_the_next_way_and_later_questions_start_there(tmp_path: Path) -> None:
    words = ["prose"] * 3
    async with asking(tmp_path, *words, "prose", calling("revise_plan", GOOD), GOOD) as at:
        await at.ask()
        await at.ask("revise.2")
        assert at.model.ways() == ["schema"] * 3 + ["function"] * 3
        assert at.model.asked[3].force == "revise_plan"
        assert [len(request.messages) for request in at.model.asked] == [2, 4, 4, 1, 3, 1]


async def test_a_replay_starts_as_the_first_drive_did_whatever_was_learned_since(tmp_path: Path) -> None:
    async with asking(tmp_path, *["prose"] * 6, GOOD) as at:
        first = await at.ask()
        assert (await at.ask(), len(at.model.asked)) == (first, 7)
        assert at.model.ways()[-1] == "text"


async def test_a_server_that_does_not_take_a_way_is_asked_in_the_next_at_once(tmp_path: Path) -> None:
    no = ModelFailed("m", "bad_request", "no such parameter")
    async with asking(tmp_path, no, no, GOOD) as at:
        await at.ask()
        assert at.model.ways() == ["schema", "function", "text"]
        assert (await at.ask(), len(at.model.asked)) == (Decision(decision="continue"), 3)


async def test_a_server_that_takes_no_way_at_all_fails_as_it_said(tmp_path: Path) -> None:
    no = ModelFailed("m", "bad_request", "unknown model")
    async with asking(tmp_path, no, no, no) as at:
        with pytest.raises(ModelFailed, match="unknown model"):
            await at.ask()


async def test_a_model_that_never_gets_it_right_was_asked_in_every_way(tmp_path: Path) -> None:
    async with asking(tmp_path, *["prose"] * 9) as at:
        with pytest.raises(NoReply, match="model m gave no usable revise_plan: no JSON for revise_plan was found"):
            await at.ask()
        assert at.model.ways() == ["schema"] * 3 + ["function"] * 3 + ["text"] * 3


async def test_a_reply_of_the_form_that_means_nothing_is_repaired_twice_and_asked_in_no_other_way(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path, *['{"decision": "void"}'] * 3) as at:
        with pytest.raises(NoReply) as failed:
            await at.ask()
        assert (failed.value.errors, at.model.ways()) == (["it changes nothing", "it has no reason"], ["schema"] * 3)


async def test_a_reply_that_was_cut_is_asked_for_shorter_and_not_shown_again(tmp_path: Path) -> None:
    async with asking(tmp_path, ModelReply("m", GOOD[:20], finish="length"), GOOD) as at:
        await at.ask()
        [*_, told, problems] = at.model.asked[1].messages
        assert ("cut off for its length; say it shorter, in at most 100 tokens" in problems.content, told.role) == (
            True,
            "user",
        )


async def test_a_refusal_ends_it_at_once(tmp_path: Path) -> None:
    async with asking(tmp_path, ModelReply("m", "no", finish="refusal")) as at:
        with pytest.raises(NoReply, match="it refused to answer"):
            await at.ask()


async def test_a_role_whose_reply_is_text_at_heart_takes_it(tmp_path: Path) -> None:
    def as_words(text: str) -> Decision:
        return Decision(decision=text)

    form = replace(FORM, from_text=as_words)
    async with asking(tmp_path, "Just words.", '{"decision": "json"}') as at:
        decisions = [(await at.ask(key, replace(QUESTION, form=form))).decision for key in ("a", "b")]
        assert decisions == ["Just words.", "json"]


SEARCH = Instead("search", Function("search_tools", "Find tools.", {"type": "object", "properties": {"query": {}}}))


def read_either(data: JsonObject) -> JsonObject:
    return data


def or_search(*, offers: bool = True) -> Any:
    """A question whose reply may be a search instead."""
    form = Form(FORM.name, FORM.schema, read_either, instead=SEARCH)
    return Question(REQUEST, QUESTION.meaning, form, offers=offers)


OFFERED: dict[str, tuple[list[str], str | None, bool, bool]] = {
    "schema": ([], None, True, True),
    "function": (["search_tools", "revise_plan"], None, False, False),
    "text": ([], None, False, True),
}


@pytest.mark.parametrize("rung", OFFERED)
async def test_what_may_stand_in_a_replys_place_is_a_function_or_a_field_and_never_a_function_beside_a_schema(
    tmp_path: Path, rung: str
) -> None:
    async with asking(tmp_path, '{"search": "budget", "decision": ""}') as at:
        await at.run.store.remembered.put("model", f"m litellm {version('litellm')}", {"rung": rung})
        assert await at.ask(question=or_search()) == {"search": "budget", "decision": ""}
        [request] = at.model.asked
        told = request.messages[-1].content
        offered = [function.name for function in request.functions]
        assert (offered, request.force, request.schema is not None, '"search": {' in told) == OFFERED[rung]
        if request.schema is not None:
            assert next(iter(request.schema["properties"])) == "search"
            assert "search" in request.schema["required"]


INSTEADS: dict[str, ModelReply | str] = {
    "a function call": calling("search_tools", '{"query": "budget"}'),
    "a call in the text": '{"tool": "search_tools", "arguments": {"query": "budget"}}',
    "its arguments in the text": 'First I look: {"query": "budget"}',
    "the field with arguments": '{"search": {"query": "budget"}}',
}


@pytest.mark.parametrize("name", INSTEADS)
@pytest.mark.parametrize("offers", [True, False], ids=["offered", "not offered"])
async def test_however_a_model_says_it_what_stands_in_a_replys_place_is_read(
    tmp_path: Path, name: str, *, offers: bool
) -> None:
    async with asking(tmp_path, INSTEADS[name]) as at:
        assert await at.ask(question=or_search(offers=offers)) == {"search": {"query": "budget"}}
        [request] = at.model.asked
        assert request.schema is not None
        assert ("search" in request.schema["properties"]) == offers


async def test_a_broken_call_of_what_stands_in_a_replys_place_is_repaired(tmp_path: Path) -> None:
    async with asking(tmp_path, calling("search_tools", "{oops"), GOOD) as at:
        assert (await at.ask(question=or_search()))["decision"] == "continue"
        [*_, said, problems] = at.model.asked[1].messages
        assert (said.content, "the arguments of search_tools: not JSON" in problems.content) == ("{oops", True)


async def test_what_was_said_since_stands_behind_the_format_and_before_what_was_wrong(tmp_path: Path) -> None:
    after = (Message("assistant", "a plan"), Message("user", "not this one"))
    async with asking(tmp_path, "prose", GOOD) as at:
        await at.ask(question=replace(QUESTION, after=after))
        first, second = (request.messages for request in at.model.asked)
        assert (first[2:], second[: len(first)], second[len(first)].content) == (after, first, "prose")
