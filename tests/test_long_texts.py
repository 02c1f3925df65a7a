"""Texts that a model, a server or a page chose are gone through once, however long they are and whatever repeats."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from gate_case import tool

from downstream.door import Arguments
from downstream.gate.addresses import local_addresses
from downstream.gate.policy import Verdict
from downstream.gate.taint import Flow, raise_for_taint
from downstream.gate.targets import stands_in, targets
from downstream.models.replies import broken_json, read_json
from downstream.policy_settings import PolicySettings
from downstream.tool_words import Said, Words
from journal.values import Json, Label

SECONDS = 2
"""Of the processor, also where tests are traced. Before, each of these took many times as long."""
MANY = 60_000


def unread(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def many_cells() -> Verdict:
    data: Any = {"rows": [[f"cell {number}"] for number in range(20_000)], "to": "ana@example.org"}
    clean: Label = frozenset({"plan"})
    used = tool("sheet.write", "write", ["rows", "to"])
    flow = Flow(used, Arguments(data, clean), clean, "", lambda value, called: frozenset(), frozenset())
    return raise_for_taint(Verdict("ask", "host", ()), flow, targets(used, data, PolicySettings()))


@pytest.mark.parametrize(
    "read",
    [
        lambda: local_addresses("a" * MANY),
        lambda: local_addresses("a-" * MANY),
        lambda: local_addresses("1a" * MANY),
        lambda: local_addresses("a:" * MANY),
        lambda: local_addresses(":" * MANY + "g"),
        lambda: local_addresses("a:" * MANY + "g"),
        lambda: local_addresses("a" * MANY + ":" * MANY + "!"),
        lambda: local_addresses("http:," * MANY),
        lambda: local_addresses("//a," * MANY),
        lambda: local_addresses("file:" * MANY),
        lambda: local_addresses("http://" + "0." * MANY),
        lambda: local_addresses("http://" + "1-" * MANY + ".nip.io"),
        lambda: local_addresses("/" * MANY),
        lambda: Words.of(["a b " * MANY]).hold(Said.of("a b " * MANY)),
        lambda: stands_in('""""', '"' * MANY + "x"),
        lambda: stands_in("....", "(...." * MANY + "x"),
        lambda: unread("{" + '\\"' * MANY),
        lambda: unread("{" + '\\"' * MANY + "\\"),
        lambda: broken_json("```" + "\n" * MANY),
        many_cells,
    ],
    ids=[
        *("one word", "one scheme", "digits between", "schemes", "colons", "hex", "a name and colons"),
        *("links without a blank", "and without a scheme", "files", "numbers", "a name", "slashes", "words"),
        *("quotes", "dots", "a string that breaks off", "and in an escape", "a fence", "cells"),
    ],
)
def test_it_is_gone_through_once(read: Callable[[], object]) -> None:
    began = time.process_time()
    read()
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1http:127.0.0.1", ["1http:127.0.0.1"]),
        ("see.http://127.0.0.1/x", ["see.http://127.0.0.1/x"]),
        ("x+ssh://localhost", ["x+ssh://localhost"]),
        ("FILE:///etc/passwd", ["FILE:///etc/passwd"]),
        ("note:http://127.0.0.1/x", ["http://127.0.0.1/x"]),
        ("view-source:http:localhost", ["http:localhost"]),
        ("a:b:ws://10.0.0.1", ["ws://10.0.0.1"]),
        ("::1", ["::1"]),
        ("fe80::1:2", ["fe80::1:2"]),
        ("::ffff:127.0.0.1", ["::ffff:127.0.0.1"]),
        (":1", []),
        ("news: all is well", []),
        ("mailto:ana@example.org", []),
        ("https://example.org/a:b", []),
    ],
)
def test_addresses_of_this_machine_are_found_also_behind_another_word(text: str, found: list[str]) -> None:
    assert local_addresses(text) == found


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        ("ana@example.org", "tell ana@example.org", True),
        ("ana@example.org", 'to:"ana@example.org".)', True),
        ("ana@example.org", "to ana@example.org" + ')"' * 40, True),
        ("ana@example.org", "to ana@example.org" + ')"' * 40 + "x", False),
        ("ana@example.org", "joana@example.org", False),
        ("ana@example.org", "joana@example.org ana@example.org\n", True),
        ("ana@example.org", "ana@example.organic", False),
        ("....", "x ....", True),
        ("....", "x .....y", False),
        ("....", "(.....x .... y", True),
        ("ana", "ana", False),
        (12345, "number 12345", True),
    ],
)
def test_a_value_stands_in_a_text_as_a_whole_word_only(value: Json, text: str, stands: bool) -> None:
    assert stands_in(value, text) is stands


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": ",]", "b": "\\",}",}', {"a": ",]", "b": '",}'}),
    ],
)
def test_commas_too_many_are_dropped_outside_of_strings_only(text: str, data: Json) -> None:
    assert read_json(text) == data
