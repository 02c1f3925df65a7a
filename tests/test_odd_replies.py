"""What litellm hands on that is no reply, and names that it can make nothing of: each is a failure of the model."""

import json
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from pydantic import SecretStr

from downstream.model import open_models
from downstream.model_port import Message, ModelFailed, ModelRequest, Place
from downstream.settings import ModelOptions, ModelSettings
from journal.ledger import Spent
from journal.outlet import Outlet

# What litellm and its parts warn of, or leave for the end of the process, is not this project's.
pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

REQUEST = ModelRequest("compose", Place(), (Message("user", "Write."),), 200)
CALL = {"id": 5, "type": "function", "function": {"name": "look", "arguments": "{}"}}
"""Every server's id is a text; litellm lets a number through."""


async def say(body: bytes, stream: SocketStream) -> None:
    """Read one request to its end and answer it with this body."""
    async with stream:
        asked = b""
        while b"\r\n\r\n" not in asked:
            asked += await stream.receive()
        head, _, rest = asked.partition(b"\r\n\r\n")
        [length] = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(rest) < length:
            rest += await stream.receive()
        lines = ("HTTP/1.1 200 OK", "content-type: application/json", f"content-length: {len(body)}", "", "")
        await stream.send("\r\n".join(lines).encode() + body)


async def failure_of(message: Any) -> ModelFailed:
    """How a request fails whose answer has this message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": "stop"}
    reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    body = json.dumps(reply | {"usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}}).encode()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    base = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
    settings = ModelSettings(options=ModelOptions(api_base=base, api_key=SecretStr("sk-none"), timeout=20.0))
    failures: list[ModelFailed] = []
    with anyio.fail_after(60):
        async with listener, anyio.create_task_group() as group, open_models(settings, Outlet()) as models:
            group.start_soon(listener.serve, partial(say, body))
            with pytest.raises(ModelFailed) as failed:
                await models.complete("openai/m", REQUEST)
            failures.append(failed.value)
            group.cancel_scope.cancel()
    return failures[0]


async def test_a_reply_that_has_no_form_is_malformed_and_paid() -> None:
    failed = await failure_of({"tool_calls": [CALL]})
    assert (failed.kind, failed.reason, failed.spent) == ("malformed", "its reply can't be read", Spent(5, 3))


async def test_a_model_whose_provider_nobody_knows_fails_where_it_is_asked_whatever_effort_is_set() -> None:
    options = ModelOptions(reasoning_effort="low")
    async with open_models(ModelSettings(options=options), Outlet()) as models:
        assert await models.room_of("nonsense/m", "worker") == 0
        with pytest.raises(ModelFailed) as failed:
            await models.complete("nonsense/m", REQUEST)
    assert (failed.value.kind, failed.value.spent) == ("bad_request", None)
