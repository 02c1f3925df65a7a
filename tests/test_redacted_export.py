"""What a redacted export lets through: shapes, words of ours and ids, and nothing that anybody said."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.wording import cut, shown
from journal.archive.redaction import Mask, shape, what_counts
from journal.seals import seal_of
from journal.values import JsonObject
from server.redacted import Redacted

Json = Any
TEXTS = st.text(alphabet=string.ascii_letters + string.digits + " .,-_ÄéßЖ漢\n", max_size=60)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(0, 10**12) | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Pay Kurt 4,711.50 €!", "Xxx Xxxx 1,111.11 €!"),
        ("Grüße aus Ωmega, 漢字", "Xxxxx xxx Xxxxx, xx"),
        ("see https://kurt.example/a?b=7 or www.kurt.example", "xxx https://xxxx.xxxxxxx/x?x=1 xx www.xxxx.xxxxxxx"),
        ("mailto:kurt@example.org", "mailto:xxxx@xxxxxxx.xxx"),
        ("`code` <b> [x](y)\n\t…", "`xxxx` <x> [x](x)\n\t…"),
    ],
)
def test_a_shape_has_letters_and_digits_space_and_punctuation(text: str, masked: str) -> None:
    assert (shape(text), shape(masked)) == (masked, masked)


@given(TEXTS, TEXTS, st.integers(1, 40))
def test_masking_goes_together_with_cutting_and_joining(one: str, other: str, limit: int) -> None:
    mask = Mask((), ())
    masked = [mask.text(text) for text in (one, other)]
    assert what_counts(" ".join(masked)) == what_counts(" ".join((one, other)))
    assert shape(cut(masked[0], limit)) == shape(cut(one, limit))


@given(st.lists(TEXTS, max_size=12))
def test_equal_texts_stay_equal_and_different_ones_different(texts: list[str]) -> None:
    mask = Mask((), ())
    long = [text for text in texts if sum(char.isascii() and char.isalnum() for char in text) > 1]
    masked = {text: mask.text(text) for text in long}
    assert len(set(masked.values())) == len(masked)
    assert [mask.text(text) for text in long] == [masked[text] for text in long]


@given(DATA)
def test_data_shown_as_json_has_the_shape_of_what_it_was(data: Json) -> None:
    masked = Mask((), ()).data(data)
    assert what_counts(shown(masked)) == what_counts(shown(data))


def test_numbers_keep_their_length_and_stay_numbers() -> None:
    mask = Mask((), ())
    masked = [mask.number(number) for number in (4711, 4712, 7, 8, 0, 12.5, -3, 1e300)]
    assert masked == [1111, 1112, 1, 2, 3, 11.1, -1, 4e111]
    assert [what_counts(number) for number in (4711, 12.5, True, None)] == ["1", "1.1", True, None]


def test_names_of_members_stay_only_where_they_are_known() -> None:
    mask = Mask({"study"}, {"key"})
    assert mask.data({"key": "Kurt", "kurt": 1, "paul": [None, True]}) == {
        "key": "Xxxx",
        "xxxx": 1,
        "xxxy": [None, True],
    }


def test_references_point_to_where_they_did() -> None:
    mask = Mask({"study"}, ())
    assert mask.data({"offers": [{"kurt": 1}]}) == {"xxxxxx": [{"xxxx": 1}]}
    assert mask.data({"$step": "study.offers[0].kurt"}) == {"$step": "study.xxxxxx[0].xxxx"}
    assert mask.data({"$step": ["no", "reference"]}) == {"$step": ["xx", "xxxxxxxxx"]}
    assert mask.data({"$artifact": "f_abcdefgh", "path": "a"})["$artifact"] == "f_abcdefgh"


def tool(**more: Json) -> JsonObject:
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string", "format": "email"}, "tags": {"items": {"enum": ["Kurt"]}}},
        "required": ["to"],
        "additionalProperties": {"type": "string", "title": "Kurt"},
        "oneOf": [{"required": ["to"]}],
    }
    fields: JsonObject = {"class": "write", "server": "mail", "name": "send", "wire": "mail__send", "pin": "abc"}
    fields |= {"title": "Send to Kurt", "description": "For Kurt.", "input_schema": schema, "output_schema": schema}
    return fields | {"annotations": {"readOnlyHint": False, "title": "Kurt"}} | more


RUN: JsonObject = {
    "id": "r_abcdefgh",
    "goal": "Pay Kurt.",
    "context": "",
    "settings_path": "/home/kurt/s.yaml",
    "options": {"secret": "Kurt", "plan": {"steps": [], "kurt": 1}, "budget": {"usd": 2.5}, "warnings": ["Kurt"]},
    "message": "Kurt",
    "answer": None,
    "cancel_reason": "Kurt said so",
    "warnings": ["Kurt"],
    "result": {"findings": [{"claim": "Kurt"}]},
    "fingerprint": "abc",
    "request_hash": "abc",
    "idempotency_key": "kurt-1",
    "driver": "l_1",
    "status": "failed",
}
SETTINGS: JsonObject = {
    "fingerprint": "abc",
    "model": {"model": "scripted:/home/kurt/x.json", "models": {"planner": "a/b", "fallbacks": ["scripted:/kurt"]}},
    "workers": [{"name": "clerk", "instructions": "Obey Kurt.", "tools": ["mail.*"]}],
    "policy": {"rules": [{"deny": "mail.send", "when": {"/to": {"prefix": "kurt@"}}}, {"allow": "mail.send"}]},
    "server_options": {},
}


def redacted(*, memo: Json = (), settings: JsonObject = SETTINGS, **rows: Json) -> Redacted:
    tables: JsonObject = {name: [] for name in ("steps", "intents", "ledger", "actions", "events", "audit")}
    lines = [{"run": RUN["id"], "hash": "abc", "seal": None, **row} for row in memo]
    return Redacted({"run": RUN, **tables, "memo": lines, "tools": [tool()], "settings": settings, **rows})


def reply(name: str, **fields: Json) -> JsonObject:
    whole: JsonObject = {
        "model": "a/b",
        "text": "",
        "uses": [],
        "finish": "stop",
        "spent": {"usd": 0.1},
        "raw": {"kurt": 1},
    }
    return {"key": "plan.1", "name": name, "value": {"reply": whole | fields}}


def test_a_run_keeps_its_numbers_and_words_of_ours_only() -> None:
    row = redacted().document["run"]
    assert row["options"] == {"plan": {"steps": [], "xxxx": 1}, "budget": {"usd": 2.5}, "warnings": ["Xxxx"]}
    assert (row["settings_path"], row["cancel_reason"], row["answer"]) == ("/xxxx/xxxx/x.xxxy", "Xxxx xxxx xx", None)
    assert (row["fingerprint"], row["request_hash"], row["idempotency_key"], row["status"]) == ("", "", None, "failed")


def test_tools_keep_names_and_types_and_nothing_that_a_masked_value_would_not_fit() -> None:
    [made] = redacted().document["tools"]
    schema = made["input_schema"]
    assert (made["title"], made["pin"], made["annotations"]) == ("Xxxx xx Xxxx", "", {"readOnlyHint": False})
    assert schema == {
        "type": "object",
        "properties": {"to": {"type": "string"}, "tags": {"items": {}}},
        "required": ["to"],
        "additionalProperties": {"type": "string"},
        "anyOf": [{"required": ["to"]}],
    }
    assert redacted(tools=[tool(output_schema=None)]).document["tools"][0]["output_schema"] is None


def test_settings_keep_that_a_rule_has_conditions_and_not_which() -> None:
    made = redacted().document["settings"]
    assert made["policy"]["rules"] == [
        {"deny": "mail.send", "when": {"/to": {"absent": False}}},
        {"allow": "mail.send"},
    ]
    assert made["model"]["models"] == {"planner": "a/b", "fallbacks": ["scripted:/xxxx"]}
    assert made["workers"] == [{"name": "clerk", "description": "", "instructions": "Xxxx Xxxx.", "tools": ["mail.*"]}]
    assert redacted(settings={}).document["settings"] == {}


REPLIES: dict[str, tuple[JsonObject, JsonObject]] = {
    "a function of ours": (
        reply(
            "worker",
            uses=[
                {
                    "id": "1",
                    "name": "submit_report",
                    "arguments": '{"status": "done", "kurt": 7, "data_json": "{\\"paul\\": 1}"}',
                }
            ],
        ),
        {
            "uses": [
                {
                    "id": "1",
                    "name": "submit_report",
                    "arguments": '{"status": "done", "xxxx": 1, "data_json": "{\\"xxxy\\": 2}"}',
                }
            ]
        },
    ),
    "a tool's function": (
        reply("worker", uses=[{"id": "1", "name": "mail__send", "arguments": '{"to": "done"}'}]),
        {"uses": [{"id": "1", "name": "mail__send", "arguments": '{"to": "xxxx"}'}]},
    ),
    "arguments that are no JSON": (
        reply("worker", uses=[{"id": "1", "name": "mail__send", "arguments": "{Kurt"}]),
        {"uses": [{"id": "1", "name": "mail__send", "arguments": "{Xxxx"}]},
    ),
    "JSON in prose": (
        reply("submit_answer", text='Well, Kurt: {"answer": "Paul", "caveats": []} and {so on'),
        {"text": 'Xxxx, Xxxx: {"answer": "Xxxx", "caveats": []} xxx {xx xx'},
    ),
    "an action written down": (
        reply("worker", text='{"tool": "submit_report", "arguments": {"status": "done", "output_json": "{}"}}'),
        {"text": '{"tool": "submit_report", "arguments": {"status": "done", "output_json": "{}"}}'},
    ),
    "a link that is read": (
        reply("worker", uses=[{"name": "read_resource", "arguments": '{"uri": "doc://Kurt", "server": "mail"}'}]),
        {"uses": [{"name": "read_resource", "arguments": '{"uri": "xxx://Xxxx", "server": "mail"}'}]},
    ),
    "a text": (reply("compose", text='Dear {"status": "done"}'), {"text": 'Xxxx {"xxxxxx": "xxxx"}'}),
}


@pytest.mark.parametrize("what", REPLIES)
def test_replies_are_masked_by_what_their_fields_mean(what: str) -> None:
    row, expected = REPLIES[what]
    [made] = redacted(memo=[row]).document["memo"]
    masked = made["value"]["reply"]
    assert {name: masked[name] for name in expected} == expected
    assert (masked["raw"], masked["spent"], made["hash"]) == ({}, {"usd": 0.1}, "")
    assert made["seal"] == seal_of(RUN["id"], "plan.1", row["name"], "", json.dumps(made["value"]))


VALUES: dict[str, tuple[Json, Json]] = {
    "stop": ({"turn": 3, "limit": "turns"}, {"turn": 3, "limit": "turns"}),
    "check": (["Kurt is no tool"], ["Xxxx xx xx xxxx"]),
    "search_tools": (
        {"text": "Kurt", "value": {"data": ["mail__send"]}},
        {"text": "Xxxx", "value": {"data": ["mail__send"]}},
    ),
    "tool": (
        {
            "called": {
                "call": "c_abcdefgh",
                "tool": "mail.resources/read",
                "links": ["doc://Kurt"],
                "ok": True,
                "value": {"data": "done", "label": ["private:mail"]},
            }
        },
        {
            "called": {
                "call": "c_abcdefgh",
                "tool": "mail.resources/read",
                "links": ["xxx://Xxxx"],
                "ok": True,
                "value": {"data": "xxxx", "label": ["private:mail"]},
            }
        },
    ),
    "outcome": (
        {"effects": ["mail.send c_abcdefgh"], "confidence": 0.25, "summary": "Kurt 7", "seven": 7},
        {"effects": ["mail.send c_abcdefgh"], "confidence": 0.25, "summary": "Xxxx 1", "seven": 1},
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_records_are_masked_by_what_their_fields_mean(name: str) -> None:
    value, expected = VALUES[name]
    [made] = redacted(memo=[{"key": "k", "name": name, "value": value}]).document["memo"]
    assert made["value"] == expected


async def test_artifacts_keep_their_form() -> None:
    kept: dict[str, bytes | None] = {
        "text/plain": b"Kurt 7",
        "application/json": b'{"kurt": "Paul"}',
        "image/png": b"\xff\xfe\x00",
        "x/json": b"{Kurt",
        "gone": None,
    }

    async def content(row: JsonObject) -> bytes | None:
        return kept[row["media_type"]]

    masked = redacted().artifacts(content)
    made = {media_type: await masked({"media_type": media_type}) for media_type in kept}
    assert made == {
        "text/plain": b"Xxxx 1",
        "application/json": b'{"xxxx": "Xxxy"}',
        "image/png": b"\0\0\0",
        "x/json": b"{Xxxx",
        "gone": None,
    }
