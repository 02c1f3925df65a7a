"""How a tool call can go wrong on the way, and what that says about whether it ran."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    URL_ELICITATION_REQUIRED,
)
from pydantic import ValidationError

from downstream.settings import ServerSettings
from journal.errors import SteprelayError

from .exchange import Exchange
from .names import clean_text

LINE_TOO_LONG = "it sent a line of more than 8 MiB"
"""What the reader of a child process says in place of a message that is too long."""
TOO_MANY_PARTS = "it sent an answer of more than 20,000 parts"
"""What is said in place of an answer of which the SDK is to read none."""

_QUOTED = 400
_TOLD = 120
"""So many characters of a server's own words stand in a sentence of ours."""
_FETCHING = ("npx", "bunx", "uvx")
_PLAIN_OPTIONS = ("-y", "--yes", "-q", "--quiet")
_LOST_SESSION = ("Session not found", "Session terminated")
_ASKING = (MISSING_REQUIRED_CLIENT_CAPABILITY, URL_ELICITATION_REQUIRED)
_REFUSING = {
    401: "it wants a login (HTTP 401); put a valid token into the server's headers",
    403: "it does not allow this (HTTP 403); the server's headers need other rights",
    404: "nothing answers at its address (HTTP 404); check the server's url",
    429: "it wants fewer calls (HTTP 429); try again later",
}


class ServerUnavailable(SteprelayError):
    """A tool server could not be started or reached; nothing was sent to it."""

    def __init__(self, server: str, reason: str) -> None:
        self.server, self.reason = server, reason
        super().__init__(f"tool server {server!r} cannot be used: {reason}")


class CallFailed(SteprelayError):
    """A call has no result. `may_have_run` false is certain; `lost` asks for a new connection before the next call;
    `late` says that its time was up."""

    def __init__(self, text: str, *, may_have_run: bool, lost: bool = False, late: bool = False) -> None:
        self.text, self.may_have_run, self.lost, self.late = text, may_have_run, lost, late
        super().__init__(text)


class NeedsLogin(CallFailed):
    """The call did not run, since somebody has to log in at its server first."""

    def __init__(self, server: str) -> None:
        self.server = server
        super().__init__(f"{server} cannot be used: {login_reason(server)}", may_have_run=False)


class NotAccepted(CallFailed):
    """The tool is not what was accepted of its server."""

    def __init__(self, tool: str, why: str) -> None:
        super().__init__(f"{tool} may not be called: {why}", may_have_run=False)


class AnsweredBadly(SteprelayError):
    """The server answered with an error, or (`did_run`) with a result that does not fit what it promised."""

    def __init__(self, text: str, *, did_run: bool = False) -> None:
        self.did_run = did_run
        super().__init__(text)


def wants_more(server: str) -> CallFailed:
    """A server asks for what no client of ours gives; by the protocol it has not begun with the call itself."""
    text = f"{server} wants more from its client than forms and addresses for a person, which is all that it is given"
    return CallFailed(text, may_have_run=False)


def login_reason(server: str) -> str:
    """Why a server cannot be used before somebody logs in, and how that is done."""
    return f"it needs a login; log in with: steprelay servers login {server}"


def explain(
    server: str, error: MCPError | ValidationError | RuntimeError, exchange: Exchange
) -> CallFailed | AnsweredBadly:
    """What an error of the SDK means, by DESIGN.md section 3. When in doubt, the call may have run.

    A ValidationError or RuntimeError stands for an answer that does not fit the protocol or the tool's own schema.
    """
    if not exchange.sent:
        # Only what the connection did says that it is lost: arguments that are no message leave it as it is.
        return CallFailed(
            f"{server} could not be sent the call: {_words(error)}",
            may_have_run=False,
            lost=not isinstance(error, ValidationError),
        )
    if isinstance(error, MCPError):
        return _refused(server, error, exchange) or _answered(server, error, exchange)
    return broken_promise(server, str(error))


def broken_promise(server: str, how: str) -> AnsweredBadly:
    """An answer that does not fit the protocol, or the tool's own schema."""
    text = f"{server} ran the call, but its answer does not fit what it promised: {_clean(how)}"
    return AnsweredBadly(text, did_run=True)


def why_not_open(error: BaseException, *, said: str) -> str:
    """Why a server could not be opened, and what it wrote to stderr last, quoted: the planner and people read it."""
    error = _first(error)
    if isinstance(error, ServerUnavailable):
        reason = error.reason
    elif isinstance(error, MCPError) and error.code == CONNECTION_CLOSED and error.message == "Connection closed":
        reason = "it ended before it answered; try it on its own to see why"
    else:
        why = _quoted(_words(error)) if str(error) else type(error).__name__
        reason = f"it cannot be opened ({why}); check that it is up, and its entry in mcpServers"
    return f"{reason}; it said: {_quoted(said)}" if said else reason


def no_answer(server: ServerSettings) -> ServerUnavailable:
    """A server that was given up before it could be used."""
    raise_it = f"raise server_options.{server.name}.start_timeout"
    way_out = f"try it on its own, or {raise_it}"
    if (command := Path(server.command or "").stem) in _FETCHING:
        way_out = f"it may still be fetching what it runs; {_by_hand(command, server.args)}, or {raise_it}"
    return ServerUnavailable(server.name, f"it did not answer within {server.options.start_timeout:g} s; {way_out}")


def _by_hand(command: str, args: Sequence[str]) -> str:
    """How to run it once. Only the name of the package is repeated: in any other argument there may be a secret."""
    for place, word in enumerate(args):
        if not word.startswith("-"):
            if "://" in word:
                break
            return f"run it once by hand: `{' '.join([command, *args[: place + 1]])[:_TOLD]}`"
        if word not in _PLAIN_OPTIONS:
            break
    return "run its command once by hand"


def _answered(server: str, error: MCPError, exchange: Exchange) -> CallFailed | AnsweredBadly:
    words, status = _words(error), exchange.status or 0
    if exchange.broken or status >= 500 or error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        return CallFailed(f"{server} broke off before it answered: {words}", may_have_run=True)
    if error.code in (METHOD_NOT_FOUND, INVALID_PARAMS) or (error.code == INVALID_REQUEST and not 0 < status < 300):
        return CallFailed(f"{server} did not take the call: {words}", may_have_run=False)
    if (what := _unread(error, exchange)) is not None:
        text = f"{server} ran the call, but sent {what}, which was not read; ask it for less at once"
        return AnsweredBadly(text, did_run=True)
    if error.code == PARSE_ERROR:
        text = f"{server} answered with something that is no JSON-RPC reply: {words}"
        return CallFailed(text, may_have_run=True)
    # Answers that are none (202, a page of HTML) and error pages: something was done with the request.
    if error.code == INVALID_REQUEST or status >= 400:
        return CallFailed(f"{server} gave no answer to the call: {words}", may_have_run=True)
    return AnsweredBadly(f"{server} answered with an error: {words}")


def _unread(error: MCPError, exchange: Exchange) -> str | None:
    """What was not read of an answer for its size."""
    if exchange.too_long:
        return "an answer of more than 16 MiB"
    said = {LINE_TOO_LONG: "a line of more than 8 MiB", TOO_MANY_PARTS: "an answer of more than 20,000 parts"}
    return said.get(error.message) if error.code == PARSE_ERROR else None


def _refused(server: str, error: MCPError, exchange: Exchange) -> CallFailed | None:
    if exchange.unreachable:
        return CallFailed(f"{server} cannot be reached: {_words(error)}", may_have_run=False, lost=True)
    if error.code in _ASKING:
        return wants_more(server)
    if _is_lost(error, exchange) or error.code == HEADER_MISMATCH:
        return CallFailed(f"{server} no longer knows us: {_words(error)}", may_have_run=False, lost=True)
    if exchange.status in _REFUSING:
        return CallFailed(f"{server} refused the call: {_REFUSING[exchange.status]}", may_have_run=False)
    return None


def _is_lost(error: MCPError, exchange: Exchange) -> bool:
    """Whether the server does not know our session: many say so in words of their own, with status 400."""
    said = error.message.encode() + exchange.refusal
    return error.message in _LOST_SESSION or (exchange.status == 400 and b"session" in said.lower())


def _first(error: BaseException) -> BaseException:
    """Whatever a group of errors began with: the SDK wraps what it raises in several."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return _first(group.exceptions[0])
    return error


def _quoted(text: str) -> str:
    return json.dumps(clean_text(text)[:_TOLD], ensure_ascii=False)


def _words(error: BaseException) -> str:
    return _clean(str(error))


def _clean(text: str) -> str:
    # Cut before as well: there may be millions of characters, of which few are shown.
    return clean_text(text[: 10 * _QUOTED])[:_QUOTED]
