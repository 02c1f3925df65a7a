"""The door of the page: only this machine's own addresses, only the page's own script, and nothing to build on."""

from collections.abc import Iterator

from server.host.bearer import Application, Message, Receive, Send

from .link import HOST, SITE

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ADDED = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
_REFUSED = b"This page is for a browser on this machine, at the address that steprelay tells.\n"
_API = "/api/"


class Guard:
    """ASGI middleware. A request for another host is refused (DNS rebinding), as is one that another site's page makes
    (CSRF): one that changes something must name our own origin."""

    def __init__(self, app: Application, *, port: int) -> None:
        self._app = app
        self._hosts = [f"{name}:{port}" for name in (HOST, SITE)]

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_ADDED]}
            await send(message)

        if scope["type"] == "http" and self._is_our_own(scope):
            await self._app(scope, receive, send_marked)
        elif scope["type"] == "http":
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send_marked({"type": "http.response.start", "status": 403, "headers": headers})
            await send_marked({"type": "http.response.body", "body": _REFUSED})

    def _is_our_own(self, scope: Message) -> bool:
        hosts = list(_values(scope, "host"))
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return False
        origins, sites = list(_values(scope, "origin")), list(_values(scope, "sec-fetch-site"))
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return False
        if scope["method"] not in ("GET", "HEAD"):
            return len(origins) == 1 and all(site == "same-origin" for site in sites)
        return not scope["path"].startswith(_API) or all(site == "same-origin" for site in sites)


def _values(scope: Message, name: str) -> Iterator[str]:
    return (value.decode("latin-1") for key, value in scope["headers"] if key == name.encode())
