"""The page over HTTP: its files, sign-in, and what its script asks for. Only who is signed in sees anything of runs."""

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Annotated, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from downstream.gate.form_fields import ContentUnfit
from downstream.gate.prompt_text import LARGEST_ARGUMENTS
from downstream.servers.confirmed import CLASSES
from downstream.tools import ToolClass
from journal.actions import SAYS_NO
from journal.errors import SteprelayError
from journal.values import Json, JsonObject

from .approver import kept_approver
from .desk import Asked, Desk
from .lockout import SignInRefused
from .sessions import SESSION_SECONDS, Sessions, SignedIn

_TYPES = {"page.css": "text/css", "view.js": "text/javascript", "page.js": "text/javascript"}
_LARGEST_BODY = 4 * LARGEST_ARGUMENTS
_KEY_HEADER = "x-steprelay-key"
Proof = Callable[[str], str]
"""What answers a nonce so that our own processes know the page for theirs."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _SignIn(_Body):
    code: Annotated[str, Field(max_length=200)] | None = None
    pin: Annotated[str, Field(max_length=200)] | None = None


class _Decide(_Body):
    action_id: str
    choice: str
    digest: str
    note: Annotated[str, Field(max_length=2_000)] | None = None
    content: JsonObject | None = None
    code: Annotated[str, Field(max_length=20)] = ""


class _Edit(_Body):
    action_id: str
    digest: str
    arguments: str


class _Confirm(_Body):
    pin: str
    class_: Annotated[ToolClass, Field(alias="class")]
    code: Annotated[str, Field(max_length=20)] = ""


Taken = TypeVar("Taken", bound=_Body)


class _Refused(SteprelayError):
    """A request that is answered with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def build_app(desk: Desk, sessions: Sessions, proof: Proof, *, port: int) -> Starlette:
    """The application, without its guard."""
    page = _Page(desk, sessions, proof, f"steprelay-{port}")
    return Starlette(
        routes=[
            Route("/", page.shell),
            Route("/a/{action_id}", page.shell),
            Route("/assets/{name}", page.asset),
            Route("/hello", page.hello),
            Route("/api/session", page.begin, methods=["POST"]),
            Route("/api/session/end", page.end, methods=["POST"]),
            Route("/api/state", page.state),
            Route("/api/runs/{run_id}", page.run),
            Route("/api/decide", page.decide, methods=["POST"]),
            Route("/api/edit", page.edit, methods=["POST"]),
            Route("/api/tools", page.tools),
            Route("/api/classes", page.confirm, methods=["POST"]),
        ],
        exception_handlers={SteprelayError: partial(_as_error, desk)},
    )


class _Page:
    """The handlers of one served page; `cookie` is the name of its cookie, of which browsers share all ports."""

    def __init__(self, desk: Desk, sessions: Sessions, proof: Proof, cookie: str) -> None:
        self._desk = desk
        self._sessions = sessions
        self._proof = proof
        self._cookie = cookie

    async def shell(self, request: Request) -> Response:
        return Response(asset("page.html"), media_type="text/html")

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _TYPES:
            raise _Refused(404, "no such file")
        return Response(asset(name), media_type=_TYPES[name])

    async def hello(self, request: Request) -> Response:
        return PlainTextResponse(self._proof(request.query_params.get("nonce", "")[:64]))

    async def begin(self, request: Request) -> Response:
        taken = await _read(request, _SignIn)
        begun = await (
            self._sessions.by_pin(taken.pin) if taken.pin is not None else self._sessions.by_code(taken.code or "")
        )
        answer = JSONResponse({"key": begun.key})
        seconds = int(SESSION_SECONDS)
        answer.set_cookie(self._cookie, begun.cookie, max_age=seconds, path="/api", httponly=True, samesite="strict")
        return answer

    async def end(self, request: Request) -> Response:
        await self._sessions.end((await self._signed_in(request)).id)
        answer = JSONResponse({})
        answer.delete_cookie(self._cookie, path="/api", httponly=True, samesite="strict")
        return answer

    async def state(self, request: Request) -> Response:
        session = await self._signed_in(request)
        state = await self._desk.state(by=session.id)
        return JSONResponse(state | {"asks_codes": session.asks_codes, "min_seconds": self._desk.min_seconds})

    async def run(self, request: Request) -> Response:
        await self._signed_in(request)
        return JSONResponse(await self._desk.run(request.path_params["run_id"]))

    async def decide(self, request: Request) -> Response:
        session = await self._signed_in(request)
        taken = await _read(request, _Decide)
        asked = Asked(taken.action_id, taken.choice, taken.digest, taken.note or None, taken.content)
        if taken.choice not in SAYS_NO:
            await self._check_code(session, taken.code)
        return JSONResponse(await self._desk.decide(asked, by=session.id))

    async def edit(self, request: Request) -> Response:
        session = await self._signed_in(request)
        taken = await _read(request, _Edit)
        arguments = _arguments(taken.arguments)
        return JSONResponse(await self._desk.edit(taken.action_id, taken.digest, arguments, by=session.id))

    async def tools(self, request: Request) -> Response:
        await self._signed_in(request)
        return JSONResponse({"tools": await self._desk.unknown_tools(), "classes": CLASSES})

    async def confirm(self, request: Request) -> Response:
        session = await self._signed_in(request)
        taken = await _read(request, _Confirm)
        await self._check_code(session, taken.code)
        return JSONResponse(await self._desk.confirm(taken.pin, taken.class_, by=session.id))

    async def _check_code(self, session: SignedIn, code: str) -> None:
        if session.asks_codes:
            await self._sessions.check_code(session, code)

    async def _signed_in(self, request: Request) -> SignedIn:
        cookie, key = request.cookies.get(self._cookie, ""), request.headers.get(_KEY_HEADER, "")
        if (session := await self._sessions.find(cookie, key)) is None:
            raise _Refused(401, "nobody is signed in; type `steprelay ui` in a terminal, or the PIN here")
        return session


def asset(name: str) -> bytes:
    """One of the page's files."""
    return files("server.page").joinpath("assets", name).read_bytes()


async def _read(request: Request, kind: type[Taken]) -> Taken:
    """The body of a request. Raises _Refused."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise _Refused(415, "the body must be JSON")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_BODY:
            raise _Refused(413, f"the body is above {_LARGEST_BODY} bytes")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        places = ", ".join(".".join(map(str, each["loc"])) or "the body" for each in error.errors())
        raise _Refused(400, f"not as the page sends it: {places}") from error


def _arguments(text: str) -> JsonObject:
    """What a person typed as JSON; read here, since browsers round large numbers. Raises _Refused."""
    try:
        data: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Refused(400, f"the arguments are no JSON: {error}") from error
    if not isinstance(data, dict):
        raise _Refused(400, "the arguments are no JSON object, {…}")
    return cast("JsonObject", data)


async def _as_error(desk: Desk, request: Request, error: Exception) -> Response:
    assert isinstance(error, SteprelayError)
    body: dict[str, Json] = {"error": desk.plain(str(error))}
    if isinstance(error, _Refused):
        if error.status == 401:
            body["pin"] = kept_approver() is not None
        return JSONResponse(body, status_code=error.status)
    return JSONResponse(body, status_code=403 if isinstance(error, SignInRefused) else _status(error))


def _status(error: SteprelayError) -> int:
    return 422 if isinstance(error, ContentUnfit) else 409
