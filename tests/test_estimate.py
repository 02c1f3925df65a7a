"""The worst case of a request is never below its bill, whatever the text and whoever counts."""

from dataclasses import replace

import pytest

from downstream.model_port import Function, FunctionUse, Message, ModelReply, ModelRequest, Place
from downstream.models.estimate import Bills, Worst, marked, worst_prompt
from journal.ledger import Spent

MODEL = "m"
LOOK = Function("look", "Looks.", {"type": "object", "properties": {"query": {"type": "string"}}})
TEXTS = {
    "English": "The budget was discussed at length. " * 40,
    "digits": "3141592653" * 100,
    "JSON": '{"id": 1, "ok": true}, ' * 60,
    "Chinese": "今天我们讨论了预算的问题。" * 40,
    "rare signs": "\U00020000\U0002a6d0\ue000" * 100,
    "emoji": "\U0001f680" * 200,
    "half a pair": "\ud83d" * 50,
    "nothing": "",
}


def by_bytes(request: ModelRequest) -> int:
    """What the greediest tokenizer makes of a request: a token of each byte, and some around each message."""
    said = [message.content + "".join(use.arguments for use in message.uses) for message in request.messages]
    offered = [each.name + each.description + str(each.parameters) for each in request.functions]
    whole = "".join([*said, *offered, str(request.schema or "")])
    return len(whole.encode("utf-8", "surrogatepass")) + 4 * len(said)


def request_of(*messages: Message, **changes: object) -> ModelRequest:
    made = ModelRequest("worker", Place(step="s"), messages, 100)
    return replace(made, **changes)  # type: ignore[arg-type]


def answered(request: ModelRequest, reply: ModelReply, *results: str) -> ModelRequest:
    """The next request of a conversation, in which these results came."""
    tools = tuple(Message("tool", text, answers="u") for text in results)
    return replace(request, messages=(*request.messages, marked(reply, request).message(), *tools))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("schema", [None, {"type": "object"}], ids=["plain", "schema"])
def test_no_text_takes_more_than_its_worst_case(text: str, schema: dict[str, str] | None) -> None:
    request = request_of(Message("system", text), Message("user", text), functions=(LOOK,), schema=schema)
    assert worst_prompt(request, MODEL) >= by_bytes(request)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_of_a_prompt_that_was_billed_before_only_the_rest_is_taken_at_its_worst(text: str) -> None:
    first = request_of(Message("system", text * 20), Message("user", text), functions=(LOOK,))
    bill = Spent(by_bytes(first), 30)
    said = ModelReply(MODEL, "", (FunctionUse("u", "look", '{"query": "x"}'),), spent=bill)
    second = answered(first, said, text)
    worst = worst_prompt(second, MODEL)
    added = len(text.encode("utf-8", "surrogatepass"))
    assert bill.tokens + added <= worst <= bill.tokens + added + 200
    third = answered(second, replace(said, spent=Spent(worst, 30)), text)
    assert worst_prompt(third, MODEL) <= worst + 30 + added + 200


def test_a_cheap_bill_of_the_beginning_keeps_the_whole_prompt_cheap() -> None:
    first = request_of(Message("user", TEXTS["English"] * 10))
    second = answered(first, ModelReply(MODEL, "Go on.", spent=Spent(3_600, 5)), "ok")
    assert worst_prompt(first, MODEL) > 14_000
    assert 3_605 <= worst_prompt(second, MODEL) < 3_800


@pytest.mark.parametrize("change", ["model", "beginning", "bill"])
def test_a_bill_for_something_else_counts_for_nothing(change: str) -> None:
    first = request_of(Message("user", "x" * 1_000))
    spent = Spent() if change == "bill" else Spent(10, 5)
    second = answered(first, ModelReply(MODEL, "Go on.", spent=spent))
    if change == "beginning":
        second = replace(second, messages=(Message("user", "y" * 1_000), *second.messages[1:]))
    assert worst_prompt(second, "other" if change == "model" else MODEL) > 1_000


def test_functions_that_came_later_are_added_in_full() -> None:
    first = request_of(Message("user", "x"))
    second = answered(first, ModelReply(MODEL, "Go on.", spent=Spent(10, 5)))
    more = replace(second, functions=(replace(LOOK, description="z" * 500),))
    assert worst_prompt(more, MODEL) > worst_prompt(second, MODEL) + 500


def test_an_assistants_message_counts_as_it_is_sent_back_thoughts_and_all() -> None:
    thought = {"model": MODEL, "message": {"content": "", "thinking": "z" * 3_000}}
    assert worst_prompt(request_of(Message("user", "x"), Message("assistant", "", raw=thought)), MODEL) > 3_000


def test_a_model_that_billed_more_than_its_worst_case_has_a_worse_one_from_then_on() -> None:
    bills, request = Bills(), request_of(Message("user", "x" * 836))
    worst = bills.worst(MODEL, request, 100)
    assert (worst, worst.tokens) == (Worst(916, 100), 1_016)
    bills.learn(MODEL, worst, Spent(458, 300))
    assert bills.worst(MODEL, request, 100) == Worst(916, 300)
    bills.learn(MODEL, bills.worst(MODEL, request, 100), Spent(1_832, 600))
    assert bills.worst(MODEL, request, 100) == Worst(1_832, 600)
    bills.learn(MODEL, bills.worst(MODEL, request, 100), Spent(10, 10))
    assert bills.worst(MODEL, request, 100) == Worst(1_832, 600)
    assert bills.worst("other", request, 100) == Worst(916, 100)


@pytest.mark.parametrize("replies", [1, 8])
def test_replies_that_were_asked_for_at_the_same_time_count_as_one_of_them(replies: int) -> None:
    bills, request = Bills(), request_of(Message("user", "x" * 836))
    worst = [bills.worst(MODEL, request, 100) for _ in range(replies)]
    for each in worst:
        bills.learn(MODEL, each, Spent(1_832, 200))
    assert bills.worst(MODEL, request, 100) == Worst(1_832, 200)
    bills.learn(MODEL, bills.worst(MODEL, request, 100), Spent(1_832, 400))
    bills.learn(MODEL, worst[0], Spent(1_832, 300))
    assert bills.worst(MODEL, request, 100) == Worst(1_832, 400)


def test_a_bill_that_cannot_be_right_keeps_no_later_run_from_asking_the_model() -> None:
    bills, request = Bills(), request_of(Message("user", "x" * 836))
    for _ in range(3):
        bills.learn(MODEL, bills.worst(MODEL, request, 100), Spent(10**12, 10**12))
    assert bills.worst(MODEL, request, 100) == Worst(4 * 916, 16 * 100)
