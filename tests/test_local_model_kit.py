"""The kit that runs real local models: what it notes of requests, and what it makes of runs."""

import json
import socket
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import pytest
from model_server import on, serve_model

from journal.values import JsonObject
from tests.local_model.goals import GOALS
from tests.local_model.table import Row, summary
from tests.local_model.tap import Asked, open_tap
from tests.local_model.verdict import Ran

TOOLS: JsonObject = {"tools": [{"type": "function", "function": {"name": "submit_report", "parameters": {}}}]}
PLAN: JsonObject = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "submit_plan", "schema": {"type": "object"}}}
}


def ask(url: str, **more: Any) -> tuple[int, str]:
    connection = HTTPConnection(url.removeprefix("http://"), timeout=20)
    body = {"model": "m", "messages": [{"role": "user", "content": "step: x"}], **more}
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        response: HTTPResponse = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@pytest.mark.e2e
def test_the_tap_passes_everything_on_and_notes_who_asked_in_which_way() -> None:
    rules = [*on({"status": 400, "error": "no"}, role="compose"), *on({"text": "hello"})]
    with serve_model(rules) as model, open_tap(model.url) as tap:
        said = [ask(tap.url, **TOOLS), ask(tap.url, **PLAN, stream=True), ask(tap.url)]
    assert [status for status, _ in said] == [200, 200, 400]
    assert "hello" in said[0][1]
    assert said[1][1].rstrip().endswith("data: [DONE]")
    assert [(each.role, each.way, each.status) for each in tap.asked] == [
        ("worker", "function", 200),
        ("planner", "schema", 200),
        ("compose", "text", 400),
    ]


@pytest.mark.e2e
def test_whoever_gives_up_is_noted_and_the_server_is_let_go() -> None:
    with serve_model(on({"text": "late", "hold": "never"})) as model, open_tap(model.url) as tap:
        address = ("127.0.0.1", int(tap.url.rpartition(":")[2]))
        body = json.dumps({"model": "m", "messages": []})
        with socket.create_connection(address) as client:
            head = f"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(f"{head}{body}".encode())
            model.wait_for(lambda request: True)
        assert tap.noted.wait(10)
    assert [each.status for each in tap.asked] == [0]


def rejected(number: int) -> list[JsonObject]:
    return [
        {"type": "model.called", "data": {"role": "planner", "finish": "stop", "requests": 1}},
        {"type": "plan.rejected", "data": {"attempt": number, "errors": ["x"]}},
    ]


def test_plans_are_counted_by_the_way_that_led_to_them() -> None:
    asked = [Asked("planner", "schema", 200, 1.0)] * 2
    asked += [Asked("planner", "function", 400, 1.0), Asked("planner", "function", 200, 1.0)]
    asked += [Asked("worker", "function", 200, 1.0)]
    called = {"role": "planner", "finish": "stop", "requests": 1}
    events: list[JsonObject] = [
        *rejected(1),
        {"type": "model.called", "data": called},
        {"type": "model.called", "data": called | {"finish": "failed"}},
        {"type": "model.called", "data": called},
        {"type": "plan.accepted", "data": {"by": "planner"}},
        {"type": "model.called", "data": {"role": "worker", "finish": "stop", "requests": 1}},
        {"type": "run.ended", "data": {}},
    ]
    view: JsonObject = {"status": "failed", "answer": "Nothing was found", "usage": {"model_calls": 5}}
    row = Row(Ran(GOALS[0], 4, events, view, 0, 12.4), asked)
    assert row.wrong == []
    assert row.line() == (
        "  1 failed                 planner  –          5      0       0     12  On which date is the Harbour Festival?"
    )
    assert list(summary([row])) == [
        "1 goals: 1 failed",
        "the facts stand in 0 answers",
        "a turn of a worker or more in 1 runs",
        "seconds: 12 in all, 12 at most",
        "plans, by the way in which they were asked for:",
        "  schema    asked    2, of the form    1, valid    0",
        "  function  asked    1, of the form    1, valid    1",
        "  text      asked    0, of the form    0, valid    0",
        "turns of workers: 1 by function",
        "what no run may do was done 0 times",
    ]
