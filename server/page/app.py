"""The page over HTTP: its files, sign-in, and what its script asks for. Only who is signed in sees anything of runs."""

from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import Annotated

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from downstream.gate.form_fields import ContentUnfit
from downstream.tools import ToolClass
from journal.actions import SAYS_NO
from journal.errors import SteprelayError
from journal.values import Json, JsonObject

from .approver import kept_approver
from .bodies import Body, Refused, read_body
from .classing import Word
from .desk import Asked, Desk
from .edits import ArgumentsUnread, Edit
from .link import SITE
from .lockout import SignInRefused
from .passkey_file import can_verify
from .passkey_routes import PasskeyRoutes
from .passkeys import Passkeys
from .sessions import SESSION_SECONDS, Sessions, SignedIn

_SCRIPTS = ("view.js", "passkeys.js", "page.js")
_TYPES = {"page.css": "text/css"} | dict.fromkeys(_SCRIPTS, "text/javascript")
_KEY_HEADER = "x-steprelay-key"
Proof = Callable[[str], str]
"""What answers a nonce so that our own processes know the page for theirs."""


class _SignIn(Body):
    code: Annotated[str, Field(max_length=200)] | None = None
    pin: Annotated[str, Field(max_length=200)] | None = None


class _Decide(Body):
    action_id: str
    choice: str
    digest: str
    note: Annotated[str, Field(max_length=2_000)] | None = None
    content: JsonObject | None = None
    code: Annotated[str, Field(max_length=20)] = ""
    passkey: JsonObject | None = None
    grants: Annotated[list[str], Field(max_length=100, default_factory=list[str])]


class _Edit(Body):
    action_id: str
    digest: str
    arguments: str


class _Confirm(Body):
    tool: str
    pin: str
    class_: Annotated[ToolClass, Field(alias="class")]
    code: Annotated[str, Field(max_length=20)] = ""


def build_app(desk: Desk, sessions: Sessions, proof: Proof, *, port: int) -> Starlette:
    """The application, without its guard."""
    passkeys = Passkeys(desk.store, port=port)
    page = _Page(desk, sessions, proof, port=port, passkeys=passkeys)
    keys = PasskeyRoutes(desk, passkeys, page.signed_in, page.check_person)
    return Starlette(
        routes=[
            Route("/", page.shell),
            Route("/a/{action_id}", page.shell),
            Route("/assets/{name}", page.asset),
            Route("/hello", page.hello),
            Route("/api/session", page.begin, methods=["POST"]),
            Route("/api/session/end", page.end, methods=["POST"]),
            Route("/api/state", page.state),
            Route("/api/decide", page.decide, methods=["POST"]),
            Route("/api/edit", page.edit, methods=["POST"]),
            Route("/api/tools", page.tools),
            Route("/api/classes", page.confirm, methods=["POST"]),
            *keys.routes,
        ],
        exception_handlers={SteprelayError: partial(_as_error, desk)},
    )


class _Page:
    """The handlers of one served page. The cookie is named after the port, since all ports of a host share cookies."""

    def __init__(self, desk: Desk, sessions: Sessions, proof: Proof, *, port: int, passkeys: Passkeys) -> None:
        self._desk = desk
        self._sessions = sessions
        self._proof = proof
        self._port = port
        self._passkeys = passkeys
        self._cookie = f"steprelay-{port}"

    async def shell(self, request: Request) -> Response:
        # Passkeys want a name, and a session holds at one address only; browsers keep what stands behind the `#`.
        if request.url.hostname != SITE and can_verify():
            return RedirectResponse(f"http://{SITE}:{self._port}{request.url.path}")
        return Response(asset("page.html"), media_type="text/html")

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _TYPES:
            raise Refused(404, "no such file")
        return Response(asset(name), media_type=_TYPES[name])

    async def hello(self, request: Request) -> Response:
        return PlainTextResponse(self._proof(request.query_params.get("nonce", "")[:64]))

    async def begin(self, request: Request) -> Response:
        taken = await read_body(request, _SignIn)
        begun = await (
            self._sessions.by_pin(taken.pin) if taken.pin is not None else self._sessions.by_code(taken.code or "")
        )
        answer = JSONResponse({"key": begun.key})
        seconds = int(SESSION_SECONDS)
        answer.set_cookie(self._cookie, begun.cookie, max_age=seconds, path="/api", httponly=True, samesite="strict")
        return answer

    async def end(self, request: Request) -> Response:
        await self._sessions.end((await self.signed_in(request)).id)
        answer = JSONResponse({})
        answer.delete_cookie(self._cookie, path="/api", httponly=True, samesite="strict")
        return answer

    async def state(self, request: Request) -> Response:
        session = await self.signed_in(request)
        state = await self._desk.state(by=session.id)
        return JSONResponse(state | {"asks_codes": session.asks_codes, "min_seconds": self._desk.min_seconds})

    async def decide(self, request: Request) -> Response:
        session = await self.signed_in(request)
        taken = await read_body(request, _Decide)
        asked = Asked(
            action_id=taken.action_id,
            choice=taken.choice,
            digest=taken.digest,
            note=taken.note or None,
            content=taken.content,
            passkey=taken.passkey,
            grants=tuple(taken.grants),
        )
        if taken.choice not in SAYS_NO:
            await self._check_code(session, taken.code)
        return JSONResponse(await self._desk.decide(asked, self._passkeys, by=session.id))

    async def edit(self, request: Request) -> Response:
        session = await self.signed_in(request)
        taken = await read_body(request, _Edit)
        edit = Edit(taken.action_id, taken.digest, taken.arguments)
        return JSONResponse(await self._desk.edit(edit, by=session.id))

    async def tools(self, request: Request) -> Response:
        session = await self.signed_in(request)
        return JSONResponse(await self._desk.unclassed_tools(by=session.id))

    async def confirm(self, request: Request) -> Response:
        session = await self.signed_in(request)
        taken = await read_body(request, _Confirm)
        await self._check_code(session, taken.code)
        return JSONResponse(await self._desk.class_tool(Word(taken.tool, taken.pin, taken.class_), by=session.id))

    async def check_person(self, session: SignedIn, pin: str, code: str) -> bool:
        """Take a person's PIN once more, with a code where they have one; false where no PIN was set up.

        Raises SignInRefused.
        """
        if session.approver is None:
            return False
        await self._sessions.check_pin(session.approver, pin)
        await self._check_code(session, code)
        return True

    async def _check_code(self, session: SignedIn, code: str) -> None:
        if session.asks_codes:
            await self._sessions.check_code(session, code)

    async def signed_in(self, request: Request) -> SignedIn:
        cookie, key = request.cookies.get(self._cookie, ""), request.headers.get(_KEY_HEADER, "")
        if (session := await self._sessions.find(cookie, key)) is None:
            raise Refused(401, "nobody is signed in; type `steprelay ui` in a terminal, or the PIN here")
        return session


def asset(name: str) -> bytes:
    """One of the page's files."""
    return files("server.page").joinpath("assets", name).read_bytes()


async def _as_error(desk: Desk, request: Request, error: Exception) -> Response:
    assert isinstance(error, SteprelayError)
    body: dict[str, Json] = {"error": desk.plain(str(error))}
    if isinstance(error, Refused):
        if error.status == 401:
            body["pin"] = kept_approver() is not None
        return JSONResponse(body, status_code=error.status)
    return JSONResponse(body, status_code=403 if isinstance(error, SignInRefused) else _status(error))


def _status(error: SteprelayError) -> int:
    if isinstance(error, ArgumentsUnread):
        return 400
    return 422 if isinstance(error, ContentUnfit) else 409
