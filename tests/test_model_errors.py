"""What a provider's failure means, told from its status, class and words."""

from types import SimpleNamespace

import pytest

from downstream.model import is_loopback
from downstream.model_port import FailureKind, FunctionUse, Message
from downstream.models.errors import cleaned, failure_kind, failure_text
from downstream.models.messages import reply_from, seconds, wire_message
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


def test_a_failure_is_told_in_our_words_with_a_short_quotation_at_most() -> None:
    raw = (
        'litellm.BadRequestError: OpenAIException - {"error": {"message": "no model \\"m\\"", "type": "x"}}\nTraceback'
    )
    assert failure_text("bad_request", 404, raw) == 'its server did not take the request (HTTP 404): no model \\"m\\"'
    assert failure_text("auth", 401, "bad key sk-123").endswith("or the provider's variable (HTTP 401)")
    assert failure_text("timeout", None, "litellm.Timeout: at /usr/lib/x.py") == "it gave no answer in time"
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


def test_a_message_of_another_model_goes_out_in_plain_words() -> None:
    uses = (FunctionUse("1", "f", '{"a": 1}'), FunctionUse("2", "g", "{broken"))
    wire = wire_message(Message("assistant", "", uses, raw={"model": "other", "message": {"thinking": "x"}}), "mine")
    calls = [{"name": "f", "arguments": '{"a": 1}'}, {"name": "g", "arguments": "{}"}]
    assert wire == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": str(n + 1), "type": "function", "function": each} for n, each in enumerate(calls)],
    }


def test_a_refusal_that_stands_beside_the_content_is_one() -> None:
    def model_dump(*, exclude_none: bool) -> dict[str, str]:
        return {"refusal": "no"} if exclude_none else {}

    message = SimpleNamespace(content=None, tool_calls=None, refusal="no", model_dump=model_dump)
    choice = SimpleNamespace(message=message, finish_reason="stop")
    reply = reply_from("m", SimpleNamespace(choices=[choice]), Spent())
    assert (reply.finish, reply.text, reply.raw) == ("refusal", "", {"model": "m", "message": {"refusal": "no"}})


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
