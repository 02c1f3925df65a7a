"""What an error on the way to a tool server says about whether the call ran, by DESIGN.md section 3."""

import pytest
from mcp import MCPError
from tool_connections import stdio

from downstream.servers.exchange import Exchange
from downstream.servers.failures import AnsweredBadly, CallFailed, ServerUnavailable, explain, no_answer, why_not_open

SENT = Exchange(sent=True)
CLOSED = MCPError(-32000, "Connection closed")
CHECK = "check that it is up, and its entry in mcpServers"
PAGE = MCPError(-32603, "Server returned an error response")


def http(status: int, *, broken: bool = False, refusal: bytes = b"") -> Exchange:
    return Exchange(sent=True, status=status, broken=broken, refusal=refusal)


@pytest.mark.parametrize(
    ("error", "exchange", "may_have_run", "lost"),
    [
        (CLOSED, Exchange(), False, True),
        (CLOSED, SENT, True, False),
        (MCPError(-32001, "timed out"), SENT, True, False),
        (MCPError(-32000, "ConnectError"), Exchange(sent=True, unreachable=True), False, True),
        (MCPError(-32000, "ReadError"), Exchange(sent=True, broken=True), True, False),
        (MCPError(-32700, "Failed to parse JSON response"), http(200, broken=True), True, False),
        (MCPError(-32700, "bad JSON"), http(200), True, False),
        (PAGE, http(401), False, False),
        (PAGE, http(403), False, False),
        (MCPError(-32601, "Not Found"), http(404), False, False),
        (PAGE, http(429), False, False),
        (MCPError(-32600, "Session not found"), http(404), False, True),
        (MCPError(-32600, "Session terminated"), http(404), False, True),
        (MCPError(-32001, "Session not found"), http(400), False, True),
        (MCPError(-32000, "Bad Request: No valid session ID provided"), http(400), False, True),
        (PAGE, http(400, refusal=b"Invalid session"), False, True),
        (PAGE, http(400, refusal=b"Invalid"), True, False),
        (MCPError(-32020, "header mismatch"), http(400), False, True),
        (PAGE, http(500), True, False),
        (PAGE, http(502), True, False),
        (MCPError(-32602, "in a page of errors"), http(503), True, False),
        (MCPError(-32602, "no such tool"), http(400), False, False),
        (MCPError(-32601, "no such method"), SENT, False, False),
        (MCPError(-32600, "invalid"), SENT, False, False),
        (MCPError(-32600, "Redirect not followed"), http(302), False, False),
        (MCPError(-32600, "Unexpected content type: text/html"), http(200), True, False),
        (MCPError(-32600, "server answered a request with 202 Accepted"), http(202), True, False),
        (PAGE, http(418), True, False),
        (MCPError(-32021, "elicitation is required"), SENT, False, False),
        (MCPError(-32042, "open this page"), SENT, False, False),
        (RuntimeError("not running"), Exchange(), False, True),
    ],
)
def test_when_in_doubt_a_call_may_have_run(
    error: MCPError | RuntimeError, exchange: Exchange, may_have_run: bool, lost: bool
) -> None:
    meant = explain("shop", error, exchange)
    assert isinstance(meant, CallFailed)
    assert (meant.may_have_run, meant.lost) == (may_have_run, lost)
    assert str(meant).startswith("shop ")


@pytest.mark.parametrize(
    ("error", "exchange", "text"),
    [
        (MCPError(-32603, "disk full"), SENT, "shop answered with an error: disk full"),
        (RuntimeError("n"), SENT, "shop ran the call, but its answer does not fit what it promised: n"),
    ],
)
def test_an_answer_that_is_an_error_or_does_not_fit_means_that_the_call_ran(
    error: MCPError | RuntimeError, exchange: Exchange, text: str
) -> None:
    meant = explain("shop", error, exchange)
    assert isinstance(meant, AnsweredBadly)
    assert str(meant) == text


@pytest.mark.parametrize(
    ("error", "said", "reason"),
    [
        (
            ExceptionGroup("a", [ExceptionGroup("b", [CLOSED])]),
            "no disk",
            'it ended before it answered; try it on its own to see why; it said: "no disk"',
        ),
        (ServerUnavailable("shop", "no url"), "", "no url"),
        (MCPError(-32603, "\x1b[31mbroken\x1b[0m"), "", f'it cannot be opened ("broken"); {CHECK}'),
        (ValueError(), "", f"it cannot be opened (ValueError); {CHECK}"),
    ],
)
def test_why_a_server_cannot_be_opened_is_said_in_a_line(error: Exception, said: str, reason: str) -> None:
    assert why_not_open(error, said=said) == reason


RAISE = "raise server_options.shop.start_timeout"
FETCHING = "it did not answer within 30 s; it may still be fetching what it runs; "


@pytest.mark.parametrize(
    ("command", "args", "reason"),
    [
        ("node", ["server.js"], f"it did not answer within 30 s; try it on its own, or {RAISE}"),
        (
            "npx",
            ["-y", "@shop/mcp@1", "--key=s3cret"],
            f"{FETCHING}run it once by hand: `npx -y @shop/mcp@1`, or {RAISE}",
        ),
        ("/opt/bin/uvx", ["shop-mcp"], f"{FETCHING}run it once by hand: `uvx shop-mcp`, or {RAISE}"),
        ("npx.cmd", ["--registry", "x", "shop"], f"{FETCHING}run its command once by hand, or {RAISE}"),
        ("uvx", ["git+https://me:s3cret@127.0.0.1/shop"], f"{FETCHING}run its command once by hand, or {RAISE}"),
        ("bunx", [], f"{FETCHING}run its command once by hand, or {RAISE}"),
    ],
)
def test_a_server_that_was_waited_for_in_vain_names_the_time_and_the_way_out(
    command: str, args: list[str], reason: str
) -> None:
    assert no_answer(stdio("shop", [command, *args])).reason == reason
