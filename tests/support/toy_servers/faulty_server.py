"""A tool server on stdio whose first call of `look` goes wrong: `-m toy_servers.faulty_server FAULT VERSION STATE`.

STATE is a file: where it is already there, nothing goes wrong any more, so a server started again is well. The faults
are the names below; what stands in WHOLE replaces the reply and ends there. With `tools_change` and `tools_flood` its
tools are others from the first call on, which it tells once or a thousand times; STATE with `.lists`
counts listings, with `.listening` is there once it is listened for changes.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toy_servers.by_hand import LOOK, ByHand

MIB = 1024 * 1024
_ENDED = 3
_AT_START = ("exit_at_start", "hang_at_start")
_CHANGED = {"type": "object", "properties": {"to": {"type": "string"}}}
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_LISTENING: list[Any] = []


def _raw(line: bytes) -> int:
    written = sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    return written


def _send(message: dict[str, Any]) -> None:
    _raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _head(id_: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":' % id_


def _text(id_: Any, text: bytes) -> bytes:
    return _head(id_) + b'{"resultType":"complete","content":[{"type":"text","text":"' + text + b'"}]}}\n'


def _tell(method: str, **params: Any) -> None:
    meta = {"_meta": {_SUBSCRIPTION: _LISTENING[0]}} if _LISTENING else {}
    _send({"method": method, "params": params | meta})


def _drip(id_: Any) -> None:
    for byte in _text(id_, b"dripped"):
        _raw(bytes([byte]))
        time.sleep(0.002)  # the slowness is the fault


def _flood_progress(token: Any) -> None:
    for n in range(5_000):
        _send({"method": "notifications/progress", "params": {"progressToken": token, "progress": n}})


def _flood_log() -> None:
    for n in range(5_000):
        _send({"method": "notifications/message", "params": {"level": "info", "data": f"line {n}"}})


def _flood_stderr() -> None:
    for _ in range(100):
        sys.stderr.write("x" * 99 * 1024 + "\n")
    sys.stderr.flush()


def _end_after_effect() -> None:
    Path(sys.argv[3]).with_suffix(".effect").touch()
    os._exit(_ENDED)


def _close_stdout() -> None:
    os.close(1)
    time.sleep(60)  # it lives on until it is ended


def _never_reply() -> None:
    time.sleep(60)  # until it is ended


BEFORE: dict[str, Callable[[Any], object]] = {
    # What comes before the right reply.
    "flood_stdout": lambda id_: [_raw(b"loading ...\n" * 1000) for _ in range(200)],
    "flood_stderr": lambda id_: _flood_stderr(),
    "flood_progress": _flood_progress,
    "flood_log": lambda id_: _flood_log(),
    "empty_lines": lambda id_: _raw(b"\n\r\n  \n"),
    "unknown_id": lambda id_: _send({"id": 987654, "result": {"content": []}}),
    "text_id": lambda id_: _send({"id": "not yours", "result": {"content": []}}),
    "null_id": lambda id_: _send({"id": None, "error": {"code": -32700, "message": "what?"}}),
    "no_object": lambda id_: _raw(b'[]\n5\n"five"\nnull\n'),
    "wrong_jsonrpc": lambda id_: _raw(b'{"jsonrpc":"1.0","id":%d,"result":{}}\n' % (id_ + 1000)),
    "asks_roots": lambda id_: _send({"id": "r1", "method": "roots/list"}),
    "asks_sampling": lambda id_: _send({"id": "s1", "method": "sampling/createMessage", "params": {}}),
    "unknown_method": lambda id_: _send({"id": "u1", "method": "server/undress"}),
    "bad_notification": lambda id_: _send({"method": "notifications/progress", "params": {"progress": "far"}}),
    "cancels_it": lambda id_: _send({"method": "notifications/cancelled", "params": {"requestId": id_}}),
}
WHOLE: dict[str, Callable[[Any], object]] = {
    # What comes in place of the right reply.
    "exit_in_call": lambda id_: os._exit(_ENDED),
    "exit_after_effect": lambda id_: _end_after_effect(),
    "exit_in_reply": lambda id_: (_raw(_text(id_, b"x" * 1000)[:500]), os._exit(_ENDED)),
    "reply_without_newline": lambda id_: (_raw(_text(id_, b"whole")[:-1]), os._exit(_ENDED)),
    "hang": lambda id_: None,
    "stuck": lambda id_: _never_reply(),
    "close_stdout": lambda id_: _close_stdout(),
    "drip": _drip,
    "one_byte": lambda id_: _raw(_text(id_, b"x")),
    "one_mib": lambda id_: _raw(_text(id_, b"x" * MIB)),
    "seven_mib": lambda id_: _raw(_text(id_, b"x" * 7 * MIB)),
    "nine_mib": lambda id_: _raw(_text(id_, b"x" * 9 * MIB)),
    "nine_mib_id_last": lambda id_: _raw(
        b'{"result":{"content":[{"type":"text","text":"' + b"x" * 9 * MIB + b'"}]},"jsonrpc":"2.0","id":%d}\n' % id_
    ),
    "nine_mib_of_nothing": lambda id_: _raw(b"x" * 9 * MIB + b"\n"),
    "hundred_mib": lambda id_: [_raw(_head(id_) + b'"'), *(_raw(b"x" * MIB) for _ in range(100))] and _raw(b'"}\n'),
    "invalid_utf8": lambda id_: _raw(_text(id_, b"caf\xe9 \xff\xfe")),
    "escaped_nul": lambda id_: _raw(_text(id_, b"a\\u0000b\\u001b[31mc")),
    "raw_nul": lambda id_: _raw(_text(id_, b"a\x00b")),
    "deep_300": lambda id_: _raw(
        _head(id_) + b'{"content":[],"structuredContent":{"n":' + b"[" * 300 + b"]" * 300 + b"}}}\n"
    ),
    "deep_100000": lambda id_: _raw(_head(id_) + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    "huge_int": lambda id_: _raw(_head(id_) + b'{"content":[],"structuredContent":{"n":' + b"9" * 5000 + b"}}}\n"),
    "big_int": lambda id_: _raw(
        _head(id_) + b'{"resultType":"complete","content":[],"structuredContent":{"n":' + b"9" * 40 + b"}}}\n"
    ),
    "twice": lambda id_: (_raw(_text(id_, b"first")), _raw(_text(id_, b"second"))),
    "content_no_list": lambda id_: _send({"id": id_, "result": {"resultType": "complete", "content": "text"}}),
    "unknown_content": lambda id_: _send(
        {"id": id_, "result": {"resultType": "complete", "content": [{"type": "hologram", "of": "a cat"}]}}
    ),
    "result_is_number": lambda id_: _send({"id": id_, "result": 5}),
    "result_is_null": lambda id_: _send({"id": id_, "result": None}),
    "neither": lambda id_: _send({"id": id_}),
    "error_is_text": lambda id_: _send({"id": id_, "error": "no"}),
    "error_internal": lambda id_: _send({"id": id_, "error": {"code": -32603, "message": "it \x1b[31mbroke"}}),
    "error_params": lambda id_: _send({"id": id_, "error": {"code": -32602, "message": "n is wrong"}}),
    "junk_before_on_line": lambda id_: _raw(b"Loading ... " + _text(id_, b"lost")),
    "batch": lambda id_: _raw(b"[" + _text(id_, b"one of a batch")[:-1] + b"]\n"),
    "crlf": lambda id_: _raw(_text(id_, b"ended as on Windows")[:-1] + b"\r\n"),
    "input_required": lambda id_: _send({"id": id_, "result": {"resultType": "input_required", "requestState": "s"}}),
    "unknown_result_type": lambda id_: _send({"id": id_, "result": {"resultType": "task", "taskId": "t1"}}),
    "sampling_required": lambda id_: _send(
        {
            "id": id_,
            "result": {
                "resultType": "input_required",
                "inputRequests": {
                    "q": {
                        "method": "sampling/createMessage",
                        "params": {"messages": [], "maxTokens": 5},
                    }
                },
            },
        }
    ),
}


def main() -> None:
    """Behave as the fault says at the first start or call, and well ever after."""
    fault, state = sys.argv[1], Path(sys.argv[3])
    if fault in _AT_START and not state.exists():
        state.touch()
        sys.exit("faulty_server: the database is missing") if fault == "exit_at_start" else time.sleep(60)
    server = ByHand("1999-12-31" if fault == "downgrade" else sys.argv[2])
    server.tells_of_changes = fault.startswith("tools_")
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "subscriptions/listen":
            _listen(message, state)
        elif method == "tools/list":
            _list(message, state, server)
        elif method == "tools/call" and not state.exists():
            state.touch()
            _go_wrong(message, fault, server)
        else:
            _answer(message, server)


def _answer(message: Any, server: ByHand) -> None:
    if (answer := server.answer(message)) is not None:
        _send({"id": message["id"], **answer})


def _go_wrong(message: Any, fault: str, server: ByHand) -> None:
    if fault in WHOLE:
        WHOLE[fault](message["id"])
        return
    if fault in BEFORE:
        BEFORE[fault](message["id"])
    if server.tells_of_changes:
        server.tools = [LOOK | {"inputSchema": _CHANGED}, LOOK | {"name": "added"}]
        for _ in range(1000 if fault == "tools_flood" else 1):
            _tell("notifications/tools/list_changed")
    _answer(message, server)


def _list(message: Any, state: Path, server: ByHand) -> None:
    if sys.argv[1] == "exit_in_list" and not state.exists():
        state.touch()
        os._exit(_ENDED)
    with state.with_suffix(".lists").open("a") as lists:
        lists.write("x")
    _answer(message, server)


def _listen(message: Any, state: Path) -> None:
    _LISTENING.append(message["id"])
    state.with_suffix(".listening").touch()
    _tell("notifications/subscriptions/acknowledged", notifications={"toolsListChanged": True})


if __name__ == "__main__":
    main()
