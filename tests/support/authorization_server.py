"""An authorization server, and a tool server that takes only its tokens, on one loopback port each in a thread."""

import base64
import hashlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode

import httpx2
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

Era = Literal["modern", "legacy", "sse"]
READ = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
WRITE = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
METADATA = "/.well-known/oauth-authorization-server"
RESOURCE = "/.well-known/oauth-protected-resource"


@dataclass
class AuthorizationServer:
    """Grants codes and tokens, rotates refresh tokens, and notes what it was asked; a test may change all of it.

    `seconds` is how long its access tokens are good for; `broken` has its token endpoint answer with that status and no
    token; `any_redirect` takes an address that no client registered; `registers_with` is the secret that clients get.
    """

    url: str = ""
    seconds: int = 3600
    broken: int | None = None
    denies: bool = False
    refreshes: bool = True
    any_redirect: bool = False
    registers_with: str | None = None
    clients: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    access: dict[str, float] = field(default_factory=dict[str, float])
    refresh: dict[str, str] = field(default_factory=dict[str, str])
    issued: list[str] = field(default_factory=list[str])
    grants: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def is_good(self, token: str) -> bool:
        return self.access.get(token, 0) > time.time()

    def expire(self) -> None:
        """No access token is good any more; refresh tokens are."""
        self.access.clear()

    def revoke(self) -> None:
        """Nothing granted so far is good any more."""
        self.access.clear()
        self.refresh.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            status, body, headers = self._answer(scope, await _body(receive))
            await _reply(send, status, body, headers)

    def _answer(self, scope: Scope, body: bytes) -> tuple[int, Any, dict[str, str]]:
        path, query = scope["path"], _flat(scope["query_string"].decode())
        match path:
            case "/authorize":
                return 302, None, {"location": self._authorized(query)}
            case "/token":
                headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                status, answer = self._token(_flat(body.decode()), headers.get("authorization", ""))
                return status, answer, {}
            case "/register":
                client = json.loads(body) | {"client_id": f"client-{secrets.token_hex(4)}"}
                client |= {"token_endpoint_auth_method": "none"}
                if self.registers_with is not None:
                    how = {"token_endpoint_auth_method": "client_secret_post", "client_secret": self.registers_with}
                    client |= how
                self.clients[client["client_id"]] = client
                return 201, self.clients[client["client_id"]], {}
            case _ if path == METADATA:
                return 200, self._metadata(), {}
            case _:
                return 404, None, {}

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        } | self.metadata

    def _authorized(self, query: dict[str, str]) -> str:
        self.asked.append(query)
        known = self.clients[query["client_id"]]
        assert self.any_redirect or query["redirect_uri"] in known["redirect_uris"]
        assert query["code_challenge_method"] == "S256"
        if self.denies:
            return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def _token(self, form: dict[str, str], authorization: str) -> tuple[int, Any]:
        self.grants.append(form | {"authorization": authorization})
        if self.broken is not None:
            return self.broken, {"error": "server_error"}
        match form["grant_type"]:
            case "authorization_code":
                asked = self.codes.pop(form["code"], None)
                proof = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(proof).decode().rstrip("=")
                if asked is None or challenge != asked["code_challenge"] or form["resource"] != asked["resource"]:
                    return 400, {"error": "invalid_grant"}
                return 200, self._issue(form["client_id"])
            case "refresh_token":
                # Used once: what it is replaced by is the only good one from then on.
                if self.refresh.pop(form["refresh_token"], None) != form["client_id"]:
                    return 400, {"error": "invalid_grant"}
                return 200, self._issue(form["client_id"])
            case _:
                wanted = base64.b64encode(b"robot:robot-secret-0123456789").decode()
                if authorization != f"Basic {wanted}":
                    return 401, {"error": "invalid_client"}
                return 200, self._issue("robot", refreshes=False)

    def _issue(self, client: str, *, refreshes: bool = True) -> dict[str, Any]:
        refreshes = refreshes and self.refreshes
        token = {"access_token": f"at-{secrets.token_urlsafe(24)}", "token_type": "Bearer"}
        self.access[token["access_token"]] = time.time() + self.seconds
        if refreshes:
            token["refresh_token"] = f"rt-{secrets.token_urlsafe(24)}"
            self.refresh[token["refresh_token"]] = client
        self.issued += [token["access_token"], *([token["refresh_token"]] if refreshes else [])]
        return token | {"expires_in": self.seconds}


@dataclass
class Protected:
    """The tool server behind it: what was called, and with what one was not let in.

    `leads_to` has it redirect everything there; `open` lets everybody in.
    """

    url: str
    auth: AuthorizationServer
    calls: list[str] = field(default_factory=list[str])
    seen: list[str] = field(default_factory=list[str])
    open: bool = False
    leads_to: str | None = None
    during: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    """What happens while a call is carried out."""

    def called(self, call: str) -> None:
        self.calls.append(call)
        self.during.get(call, lambda: None)()

    def entry(self) -> dict[str, Any]:
        """As an entry of `mcpServers`."""
        return {"url": self.url, **({"type": "sse"} if self.url.endswith("/sse") else {})}


def follow(address: str) -> httpx2.Response:
    """What a person's browser does at this address: it is sent back to where the login came from."""
    with httpx2.Client(follow_redirects=True) as browser:
        return browser.get(address)


@contextmanager
def open_protected(era: Era = "modern") -> Generator[Protected]:
    """A tool server that lets in only who has a token, with its authorization server at another port."""
    auth = AuthorizationServer()
    with _served(auth) as auth_url, _listener() as (listener, base):
        auth.url = auth_url
        protected = Protected(f"{base}{'/sse' if era == 'sse' else '/mcp'}", auth)
        with _running(_Guarded(protected, era), listener):
            yield protected


class _Guarded:
    def __init__(self, protected: Protected, era: Era) -> None:
        server = _tools(protected)
        self._protected = protected
        self._era = era
        self._app = server.sse_app() if era == "sse" else server.streamable_http_app()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        protected, base = self._protected, self._protected.url.rpartition("/")[0]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"].startswith(RESOURCE):
            said = {"resource": protected.url, "authorization_servers": [protected.auth.url]}
            await _reply(send, 200, said, {})
        elif protected.leads_to is not None:
            await _body(receive)
            await _reply(send, 307, None, {"location": protected.leads_to})
        elif not protected.open and not protected.auth.is_good(
            headers.get("authorization", "").removeprefix("Bearer ")
        ):
            protected.seen.append(headers.get("authorization", ""))
            told = f'Bearer error="invalid_token", resource_metadata="{base}{RESOURCE}"'
            await _body(receive)
            await _reply(send, 401, {"error": "invalid_token"}, {"www-authenticate": told})
        elif self._era == "legacy" and headers.get("mcp-protocol-version", "") in MODERN_PROTOCOL_VERSIONS:
            await _body(receive)
            await _reply(send, 400, None, {})
        else:
            await self._app(scope, receive, send)


def _tools(protected: Protected) -> MCPServer:
    server = MCPServer("protected")

    async def look(word: str) -> str:
        """Look a word up."""
        protected.called(f"look {word}")
        return f"found {word}"

    async def put(word: str) -> str:
        """Put a word down."""
        protected.called(f"put {word}")
        return f"kept {word}"

    async def leak(context: Context) -> str:
        """Say with what one was let in."""
        protected.called("leak")
        return json.dumps(dict(context.headers or {}))

    for tool, annotations in ((look, READ), (put, WRITE), (leak, READ)):
        server.tool(annotations=annotations)(tool)
    return server


@contextmanager
def _listener() -> Generator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def _served(app: Any) -> Generator[str]:
    with _listener() as (listener, url), _running(app, listener):
        yield url


@contextmanager
def _running(app: Any, listener: socket.socket) -> Generator[None]:
    lifespan: Literal["auto", "off"] = "auto" if isinstance(app, _Guarded) else "off"
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan=lifespan, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        part: bytes = message.get("body", b"")
        body += part
        if not message.get("more_body"):
            return body


async def _reply(send: Send, status: int, body: Any, headers: dict[str, str]) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    told = {"content-type": "application/json", "content-length": str(len(content))} | headers
    raw = [(name.encode(), value.encode()) for name, value in told.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


def _flat(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}
