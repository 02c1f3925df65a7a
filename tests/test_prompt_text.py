"""The question that a person is asked: all of it visible, nothing in it from elsewhere outside quotes."""

import pytest
from gate_case import tool

from downstream.gate.prompt_text import argument_lines, call_question, escaped, quoted

SEND = tool("mail.send", "write", ["to", "body"])


def test_a_question_shows_every_argument_escaped_and_the_targets_first() -> None:
    question = call_question(SEND, {"body": 'a\n"b"\u202e\u200b\u00e9', "n": 5, "to": "ana"}, ("to",))
    assert question.split("\n") == [
        "Call mail.send (write) once, with exactly these arguments?",
        '"to": "ana"',
        '"body": "a\\n\\"b\\"\\u202e\\u200b\u00e9"',
        '"n": 5',
    ]
    assert call_question(SEND, {}).endswith("\n(no arguments)")
    assert call_question(tool("x.a b\u202e", "read"), {}).startswith('Call "x.a b\\u202e" (read)')


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("\x7f", "\\u007f"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("a\u00a0b", "a\\u00a0b"),
        ("\u3164", "\\u3164"),
        ("\ufe0f", "\\ufe0f"),
        ("\u2028", "\\u2028"),
        ("\u4f60\u597d \u00e9", "\u4f60\u597d \u00e9"),
    ],
    ids=ascii,
)
def test_what_cannot_be_seen_is_shown_escaped(hidden: str, shown: str) -> None:
    assert escaped(hidden) == shown


def test_a_quotation_is_cut_at_120_characters() -> None:
    assert len(quoted("x" * 500)) == 122


def test_arguments_are_listed_once_each_even_if_a_target_is_missing() -> None:
    assert argument_lines({"a": 1}, ("b", "a")) == ['"a": 1']
