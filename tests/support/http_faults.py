"""What a server over HTTP does in place of a right answer, by name; each is asked for it once, and is well after."""

import gzip
import json
import socket
import struct

import anyio
from anyio.abc import SocketAttribute
from faulty_http import Answer, Asked

MIB = 1024 * 1024
_EVENTS = "text/event-stream"


def _status(status: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(asked: Asked) -> None:
        await asked.send(body, status=status, **headers)

    return answer


def _body(body: bytes, kind: str = "application/json") -> Answer:
    async def answer(asked: Asked) -> None:
        await asked.send(body, kind=kind)

    return answer


def _result(text: str) -> dict[str, object]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


async def _reset(asked: Asked) -> None:
    raw: socket.socket = asked.stream.extra(SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _close(asked: Asked) -> None:
    """The connection ends without a word."""


async def _hang(asked: Asked) -> None:
    await anyio.sleep_forever()


async def _drip(asked: Asked) -> None:
    body = asked.reply()
    await asked.head(kind="application/json", length=len(body))
    for byte in body:
        await asked.stream.send(bytes([byte]))
        await anyio.sleep(0.001)


async def _json_cut(asked: Asked) -> None:
    await asked.head(kind="application/json", length=500)
    await asked.stream.send(asked.reply()[:20])


async def _json_large(asked: Asked) -> None:
    await asked.send(asked.reply(result=_result("x" * 7 * MIB)))


async def _json_too_large(asked: Asked) -> None:
    await asked.head(kind="application/json")
    for _ in range(100):
        await asked.stream.send(b"x" * MIB)


async def _gzip(asked: Asked) -> None:
    """A few bytes that would become 40 MiB."""
    await asked.send(gzip.compress(asked.reply(result=_result("x" * 40 * MIB))), content_encoding="gzip")


async def _gzip_broken(asked: Asked) -> None:
    await asked.send(b"no gzip", content_encoding="gzip")


async def _events_gzip(asked: Asked) -> None:
    await asked.head(kind=_EVENTS, content_encoding="gzip")
    await asked.stream.send(gzip.compress(b"data: " + asked.reply() + b"\n\n"))


async def _named_encoding(asked: Asked) -> None:
    await asked.send(asked.reply(), content_encoding="Identity")


async def _wrong_id(asked: Asked) -> None:
    await asked.send(json.dumps({"jsonrpc": "2.0", "id": 99_999, "result": _result("not yours")}).encode())


async def _wrong_shape(asked: Asked) -> None:
    await asked.send(asked.reply(result={"resultType": "complete", "content": "text"}))


async def _invalid_utf8(asked: Asked) -> None:
    await asked.send(asked.reply(result=_result("cafe")).replace(b"cafe", b"caf\xe9"))


async def _lost_session(asked: Asked) -> None:
    await asked.send(asked.reply(error={"code": -32600, "message": "Session not found"}), status=404)


async def _error(asked: Asked) -> None:
    await asked.send(asked.reply(error={"code": -32603, "message": "it broke"}))


async def _events(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.stream.send(b": keep alive\n\nevent: unheard\ndata: of\n\n")
    await asked.event(asked.reply())


async def _events_twice(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.event(asked.reply(result=_result("first")))
    await asked.event(asked.reply(result=_result("second")))


async def _events_large(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.event(asked.reply(result=_result("x" * 15 * MIB)))


async def _events_too_large(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.event(asked.reply(result=_result("x" * 17 * MIB)))


async def _events_flood(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "on it"}}
    for _ in range(20):
        await asked.stream.send((b"data: " + json.dumps(note).encode() + b"\n\n") * 250)
    await asked.event(asked.reply())


async def _events_junk(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.event(b"not json")
    await asked.event(asked.reply())


async def _events_cut(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.stream.send(b"data: " + asked.reply()[:20])


async def _events_resumed(asked: Asked) -> None:
    reply = asked.reply()

    async def go_on(again: Asked, last: str) -> None:
        if last != "e1":
            await again.send(b"", status=405)
            return
        await again.head(kind=_EVENTS)
        await again.event(reply)

    asked.server.gets = go_on
    await asked.head(kind=_EVENTS)
    await asked.stream.send(b"id: e1\nretry: 10\ndata: \n\n")


async def _events_never_resumed(asked: Asked) -> None:
    await asked.head(kind=_EVENTS)
    await asked.stream.send(b"id: e1\nretry: 10\ndata: \n\n")


FAULTS: dict[str, Answer] = {
    "401": _status(401),
    "403": _status(403),
    "404": _status(404),
    "429": _status(429, retry_after="1"),
    "500": _status(500),
    "502 with a page": _status(502, b"<h1>bad gateway</h1>"),
    "503": _status(503),
    "202": _status(202),
    "redirect to another host": _status(307, location="http://169.254.169.254/latest/meta-data"),
    "redirect to a page": _status(303, location="/login"),
    "reset": _reset,
    "closed": _close,
    "hang": _hang,
    "drip": _drip,
    "json cut": _json_cut,
    "json of 7 MiB": _json_large,
    "json of 100 MiB": _json_too_large,
    "gzip of 40 MiB": _gzip,
    "gzip broken": _gzip_broken,
    "events in gzip": _events_gzip,
    "no encoding, named": _named_encoding,
    "no json": _body(b"oops"),
    "nothing": _body(b""),
    "a page": _body(b"<p>hello", "text/html"),
    "wrong id": _wrong_id,
    "wrong shape": _wrong_shape,
    "invalid utf-8": _invalid_utf8,
    "lost session": _lost_session,
    "error": _error,
    "events": _events,
    "events twice": _events_twice,
    "events of 15 MiB": _events_large,
    "events of 17 MiB": _events_too_large,
    "events flooded": _events_flood,
    "events with junk": _events_junk,
    "events cut": _events_cut,
    "events resumed": _events_resumed,
    "events never resumed": _events_never_resumed,
}


def _event_of(mib: int) -> Answer:
    async def answer(asked: Asked) -> None:
        assert asked.server.events is not None
        await asked.send(b"", status=202)
        reply = asked.reply(result=_result("x" * mib * MIB))
        await asked.server.events.send(b"event: message\ndata: " + reply + b"\n\n")

    return answer


async def _stream_cut(asked: Asked) -> None:
    assert asked.server.events is not None
    await asked.send(b"", status=202)
    await asked.server.events.send_eof()


SSE_FAULTS = {name: FAULTS[name] for name in ("401", "500", "reset", "hang")} | {
    "event of 15 MiB": _event_of(15),
    "event of 17 MiB": _event_of(17),
    "stream cut": _stream_cut,
}


def once(fault: Answer, then: Answer) -> Answer:
    """The fault for the first call, the right answer for all others."""
    left = [fault]

    async def answer(asked: Asked) -> None:
        await (left.pop() if left else then)(asked)

    return answer


async def refuse_after_listing(asked: Asked) -> None:
    """As a `protocol`: after the listing nobody listens any more."""
    await asked.send(asked.reply())
    if asked.message["method"] == "tools/list":
        asked.server.listening.cancel()
