"""What a provider's failure means, told from its status, class and words."""

from types import SimpleNamespace
from typing import Any

import pytest

from downstream.model_port import FREE, FailureKind, FunctionUse, Message, ModelRequest, Place, Rate
from downstream.models.errors import cleaned, failure_kind, failure_text, was_never_sent
from downstream.models.messages import reply_from, seconds, wire_messages
from downstream.models.prices import heard_of, is_loopback
from journal.ledger import Spent

KINDS: list[tuple[int | None, str, str, FailureKind]] = [
    (401, "AuthenticationError", "Incorrect API key", "auth"),
    (403, "APIError", "not for you", "auth"),
    (429, "RateLimitError", "insufficient_quota", "quota"),
    (400, "BadRequestError", "Your credit balance is too low", "quota"),
    (429, "RateLimitError", "slow down; see billing for higher limits", "rate"),
    (529, "APIError", "overloaded", "overload"),
    (500, "InternalServerError", "Connection error.", "transport"),
    (500, "InternalServerError", "oops", "overload"),
    (500, "APIConnectionError", "oops", "transport"),
    (None, "OSError", "no route", "transport"),
    (502, "APIError", "<html>Bad Gateway</html>", "overload"),
    (200, "APIError", "<html>", "malformed"),
    (422, "BadRequestError", "Expecting value: line 1", "malformed"),
    (503, "MidStreamFallbackError", "dropped", "transport"),
    (408, "Timeout", "late", "timeout"),
    (400, "ContextWindowExceededError", "x", "context"),
    (400, "BadRequestError", "exceeds the maximum context of 8192", "context"),
    (413, "APIError", "x", "context"),
    (400, "ContentPolicyViolationError", "x", "refusal"),
    (400, "BadRequestError", "blocked by our content filter", "refusal"),
    (404, "NotFoundError", "no such model", "bad_request"),
    (400, "UnsupportedParamsError", "x", "bad_request"),
]


@pytest.mark.parametrize(
    ("status", "name", "text", "kind"), KINDS, ids=[f"{row[0]} {row[1]} {row[3]}" for row in KINDS]
)
def test_a_failure_has_one_kind(status: int | None, name: str, text: str, kind: FailureKind) -> None:
    assert failure_kind(status, name, text) == kind


def test_an_error_that_goes_back_to_others_without_end_is_looked_through_in_part() -> None:
    errors = [OSError(str(number)) for number in range(3)]
    for error, cause in zip(errors, [*errors[1:], errors[0]], strict=True):
        error.__cause__ = cause
    assert was_never_sent(errors[0]) is False


def test_a_failure_is_told_in_our_words_with_a_short_quotation_at_most() -> None:
    raw = (
        'litellm.BadRequestError: OpenAIException - {"error": {"message": "no model \\"m\\"", "type": "x"}}\nTraceback'
    )
    assert failure_text("bad_request", 404, raw) == 'its server did not take the request (HTTP 404): no model \\"m\\"'
    assert failure_text("auth", 401, "bad key sk-123").endswith("or the provider's variable (HTTP 401)")
    assert (
        failure_text("timeout", None, "litellm.Timeout: at /usr/lib/x.py")
        == "it gave no answer in time; model_options.timeout may be raised"
    )
    assert failure_text("price", None, "") == "it gave no reply"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("litellm.APIError: ValueError: broken in /usr/lib/python3/site.py", "broken in …"),
        (r"failed at C:\Users\me\model.py now", "failed at … now"),
        ("<html><body>Bad</body></html>", "Bad"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("x" * 500, "x" * 160),
    ],
    ids=["path", "windows", "markup", "address", "long"],
)
def test_a_quotation_holds_no_paths_classes_or_markup(text: str, said: str) -> None:
    assert cleaned(text) == said


@pytest.mark.parametrize("broken", ["{broken", "[" * 200_000], ids=["no JSON", "deep"])
def test_a_message_of_another_model_goes_out_in_plain_words(broken: str) -> None:
    uses = (FunctionUse("1", "f", '{"a": 1}'), FunctionUse("2", "g", broken))
    said = Message("assistant", "", uses, raw={"model": "other", "message": {"thinking": "x"}})
    wire, answer = wire_messages([said, Message("tool", "ok", answers="2")], "mine")
    ids = [each.pop("id") for each in wire["tool_calls"]]
    calls = [{"name": "f", "arguments": '{"a": 1}'}, {"name": "g", "arguments": "{}"}]
    assert wire == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": each} for each in calls],
    }
    assert answer == {"role": "tool", "content": "ok", "tool_call_id": ids[1]}


def test_ids_of_other_models_calls_are_such_as_every_provider_takes_and_its_own_stay() -> None:
    long = "call_1__thought__" + "A" * 300
    own = Message("assistant", "", (FunctionUse("own", "f", "{}"),), raw={"model": "mine", "message": {"as": "said"}})
    foreign = Message("assistant", "", (FunctionUse(long, "f", "{}"),), raw={"model": "other", "message": {}})
    results = [Message("tool", "1", answers=long), Message("tool", "2", answers="own")]
    wire = wire_messages([foreign, results[0], own, results[1]], "mine")
    renamed = wire[0]["tool_calls"][0]["id"]
    assert (len(renamed), renamed.isalnum(), wire[1]["tool_call_id"]) == (9, True, renamed)
    assert (wire[2], wire[3]["tool_call_id"]) == ({"as": "said"}, "own")


def test_a_refusal_that_stands_beside_the_content_is_one() -> None:
    def model_dump(*, exclude_none: bool) -> dict[str, str]:
        return {"refusal": "no"} if exclude_none else {}

    message = SimpleNamespace(content=None, tool_calls=None, refusal="no", model_dump=model_dump)
    choice = SimpleNamespace(message=message, finish_reason="stop")
    reply = reply_from("m", SimpleNamespace(choices=[choice]), Spent())
    assert (reply.finish, reply.text, reply.raw) == ("refusal", "", {"model": "m", "message": {"refusal": "no"}})


def piece(text: str = "", **fields: Any) -> Any:
    delta = SimpleNamespace(content=text, tool_calls=None, reasoning_content=None)
    return SimpleNamespace(choices=[SimpleNamespace(delta=delta)], **fields)


def test_a_stream_that_broke_off_took_what_it_said_else_what_went_and_came() -> None:
    request = ModelRequest("planner", Place(), (Message("user", "x" * 400),), 100)
    usage = SimpleNamespace(prompt_tokens=90, completion_tokens=1, prompt_tokens_details=None)
    pieces = [piece("y" * 40), piece("z" * 40)]
    assert heard_of(request, pieces, Rate(1.0, 4.0)) == Spent(100, 20, usd=0.00018)
    assert heard_of(request, [piece(usage=usage), *pieces], None) == Spent(90, 20, cost_known=False)
    pieces[0].choices[0].delta.tool_calls = [SimpleNamespace(function=SimpleNamespace(arguments="a" * 80))]
    pieces[1].choices[0].delta.reasoning_content = "Hm. " * 10
    assert heard_of(request, pieces, FREE).output_tokens == 50


def test_a_pause_that_is_a_date_or_nonsense_is_none() -> None:
    assert [seconds(text) for text in ("3", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", None)] == [3.0, 0.0, None, None]


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]/", True),
        ("localhost:11434", True),
        ("http://my.localhost", True),
        ("https://api.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://10.0.0.1", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(url: str, local: bool) -> None:
    assert is_loopback(url) == local
