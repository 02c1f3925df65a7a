"""What a failure of a model's server means for us, told from its status, its class and its words."""

import re

from downstream.model_port import FailureKind


class Endless(Exception):
    """A stream whose pieces came in time, and more of them than there is time for in all."""


_BY_NAME: dict[str, FailureKind] = {
    "Endless": "endless",
    "Timeout": "timeout",
    "APITimeoutError": "timeout",
    "TimeoutError": "timeout",
    "ContextWindowExceededError": "context",
    "ContentPolicyViolationError": "refusal",
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "PaymentRequiredError": "quota",
    "MidStreamFallbackError": "transport",
    "JSONDecodeError": "malformed",
    "APIResponseValidationError": "malformed",
}
_BY_STATUS: dict[int, FailureKind] = {
    200: "malformed",
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    413: "context",
    429: "rate",
}
# Providers that share a status, or a class of litellm, differ in these words only.
_BY_WORDS: tuple[tuple[FailureKind, str], ...] = (
    ("quota", r"insufficient_quota|credit balance|payment required"),
    ("context", r"context.{0,20}(length|window|size)|maximum context|prompt is too long|too many tokens"),
    ("refusal", r"content.?(policy|filter|management)|responsible ai"),
    (
        "transport",
        r"connection (error|reset|refused|aborted)|disconnected|cannot connect|peer closed|payload is not completed",
    ),
    (
        "malformed",
        r"<html|expecting (value|property name|'.' delimiter)|unable to get json|not valid json|invalid json"
        r"|unterminated string|invalid response object|converting to valid response|'NoneType' object|validation error",
    ),
)
_SAYS: dict[FailureKind, str] = {
    "auth": "its server refused the key, or there is none; set model_options.api_key, or the provider's variable",
    "quota": "its account has no credit left",
    "rate": "its server asks to slow down; try later, or name another in models.fallbacks",
    "overload": "its server failed; try later, or name another in models.fallbacks",
    "transport": "the connection to its server failed; check that it is up, and model_options.api_base",
    "timeout": "it gave no answer in time; model_options.timeout may be raised",
    "endless": "its reply had no end",
    "context": "the request is longer than it can take",
    "refusal": "its provider refused the content",
    "bad_request": "its server did not take the request",
    "malformed": "its reply can't be read",
}
_LONGEST = 160
# litellm, httpx, which it speaks to, and aiohttp, which does it for httpx, each wrap what the other raised.
_NO_CONNECTION = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError", "ClientConnectorDNSError"})
_DEEPEST = 10


def failure_kind(status: int | None, name: str, text: str) -> FailureKind:
    """The kind of a failure: `name` is the foreign error's class, `text` what it says."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    said: list[FailureKind] = [kind for kind, words in _BY_WORDS if re.search(words, text, re.IGNORECASE)]
    if said and (said[0] != "malformed" or status in (None, 200, 422, 500)):
        return said[0]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is None or name == "APIConnectionError":
        return "transport"
    return "overload" if status >= 500 else "bad_request"


def was_never_sent(error: BaseException) -> bool:
    """Whether there was no connection to send the request on: then it has taken nothing."""
    cause: BaseException | None = error
    for _ in range(_DEEPEST):
        if cause is None:
            break
        if type(cause).__name__ in _NO_CONNECTION:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def failure_text(kind: FailureKind, status: int | None, text: str) -> str:
    """One sentence of ours, and for what only the server can explain a short, cleaned quotation of its words."""
    # litellm gives a lost connection, a timeout and what it can't read a status that no server sent.
    shown = status if status != 200 and kind not in ("transport", "timeout", "malformed") else None
    said = _SAYS.get(kind, "it gave no reply") + (f" (HTTP {shown})" if shown else "")
    # A server's words about a key tend to quote it, and broken replies explain nothing.
    quoted = "" if kind in ("auth", "malformed", "timeout", "transport") else cleaned(text)
    return f"{said}: {quoted}" if quoted else said


def cleaned(text: str) -> str:
    """The message within an error's text, without class names, paths, markup and line breaks."""
    text = text.partition("Traceback (most recent call last)")[0]
    inner = re.search(r"""["']message["']\s*:\s*["']((?:[^"'\\]|\\.)*)["']""", text)
    first = inner[1] if inner else text.strip().split("\n")[0]
    first = re.sub(r"^(?:[\w.]*(?:Error|Exception|Timeout)[:\s-]*)+", "", first)
    first = re.sub(r"(?:\b[A-Za-z]:\\|(?<![\w:/])/)(?:[\w.@ -]+[\\/])+[\w.@-]*", "…", first)
    first = re.sub(r"<[^>]*>|[{}\x00-\x1f]", " ", first)
    return " ".join(first.partition(" Handle with ")[0].split())[:_LONGEST]
