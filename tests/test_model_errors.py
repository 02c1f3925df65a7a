"""What a provider's failure means, told from its status, class and words."""

from types import SimpleNamespace
from typing import Any

import pytest

from downstream.model_port import FailureKind, FunctionUse, Message, ModelRequest, Place, Rate
from downstream.models.clients import StayingClients, sent_elsewhere
from downstream.models.errors import cleaned, failure_kind, failure_text, was_never_sent
from downstream.models.estimate import Bills, untold, worst_prompt
from downstream.models.messages import pause_asked, reply_from, wire_messages
from downstream.models.prices import bytes_said, heard_of, is_loopback
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
    (500, "InternalServerError", "Invalid response object Traceback (most recent call last):", "malformed"),
    (500, "APIConnectionError", "'NoneType' object is not iterable", "malformed"),
    (422, "BadRequestError", "Error converting to valid response block=usageMetadata not found", "malformed"),
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
        ("It broke Traceback (most recent call last):", "It broke"),
    ],
    ids=["path", "windows", "markup", "address", "long", "traceback"],
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


def test_a_stream_that_broke_off_took_the_most_that_it_may_have_but_for_what_it_said() -> None:
    usage = SimpleNamespace(prompt_tokens=90, completion_tokens=1, prompt_tokens_details=None)
    pieces = [piece("y" * 40), piece("z" * 40)]
    most = Spent(400, 100, at_most=True)
    assert heard_of(pieces, Rate(1.0, 4.0), at_most=most) == Spent(400, 100, usd=0.0008, at_most=True)
    told = heard_of([piece(usage=usage), *pieces], None, at_most=most)
    assert told == Spent(90, 100, cost_known=False, at_most=True)


def test_what_a_piece_says_are_its_text_its_thoughts_and_its_calls() -> None:
    said = piece("text")
    said.choices[0].delta.tool_calls = [SimpleNamespace(function=SimpleNamespace(name="f", arguments="{}"))]
    said.choices[0].delta.reasoning_content = "Hm ü"
    assert bytes_said(said) == len("text" + "Hm ü" + "f" + "{}") + 1


def asked(prompt: str = "x" * 400) -> ModelRequest:
    return ModelRequest("planner", Place(), (Message("user", prompt),), 100)


@pytest.mark.parametrize(
    ("said", "whole", "taken"),
    [
        (40, True, 50),
        (300, True, 110),
        (300, False, 110),
        (40, False, 110),
        (4_000, True, 4_010),
        (4_000, False, 4_010),
    ],
    ids=["short", "long", "a long part", "a part", "far more than asked for", "part of far more"],
)
def test_a_reply_that_nobody_billed_took_its_bytes_or_all_that_was_asked_for(
    said: int, whole: bool, taken: int
) -> None:
    assert untold(asked(), "m", said, room=10, whole=whole) == Spent(worst_prompt(asked()), taken, at_most=True)


def test_bytes_are_no_measure_for_a_server_that_heeds_its_limit() -> None:
    bills, request = Bills(), asked()
    worst = bills.worst("m", request, 100)
    bills.learn("m", worst, Spent(worst.prompt, 400, at_most=True))
    assert bills.worst("m", request, 100) == worst
    bills.learn("m", worst, Spent(worst.prompt, 800, at_most=True))
    assert bills.worst("m", request, 100).reply == 200


DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        ("3", 3.0),
        ("-1", 0.0),
        ("inf", None),
        ("nan", None),
        ("1e20", 3600.0),
        ("Wed, 21 Oct 2026 07:28:08 GMT", 8.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.0),
        ("Wed, 21 Oct 2036 07:27:00 GMT", 3600.0),
        ("soon", None),
        (None, None),
    ],
)
def test_a_pause_is_a_number_or_a_date_and_an_hour_at_most(asked: str | None, pause: float | None) -> None:
    assert pause_asked({"retry-after": asked, "date": DATE}) == pause
    assert pause_asked({"retry-after": DATE}) is None


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


@pytest.mark.parametrize(
    ("location", "said"),
    [("https://elsewhere.example/v1", "its server sends to elsewhere.example,"), ("/v2", "another path of its own")],
)
def test_a_redirect_names_its_host(location: str, said: str) -> None:
    assert said in str(sent_elsewhere({"location": location}))
    assert sent_elsewhere({}) is None


def test_a_client_that_comes_into_the_store_follows_no_redirect() -> None:
    inner, kept = SimpleNamespace(follow_redirects=True), dict[str, Any]()
    store = SimpleNamespace(set_cache=kept.__setitem__, get_cache=kept.get)
    clients = StayingClients(store)
    clients.set_cache("one", SimpleNamespace(client=inner, follow_redirects=True))
    clients.set_cache("two", SimpleNamespace(other=1))
    assert (clients.get_cache("one").follow_redirects, inner.follow_redirects) == (False, False)
    assert clients.get_cache("two") == SimpleNamespace(other=1)
