"""The door of the HTTP server: in comes who shows this user's token."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
"""What an ASGI server and application exchange; also the scope of a connection."""
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_TOLD = b"steprelay wants the token of its http-token file, as `Authorization: Bearer TOKEN`\n"


class BearerOnly:
    """ASGI middleware that lets a request through only with the token."""

    def __init__(self, app: Application, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_shown(scope):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": _TOLD})

    def _is_shown(self, scope: Message) -> bool:
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
        is_bearer = scheme.lower() == b"bearer"
        return scope["type"] == "http" and is_bearer and hmac.compare_digest(shown.strip(), self._token)
