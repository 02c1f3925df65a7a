"""Names and texts as models see them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downstream.servers.names import clean_json, clean_text, wire_names


@pytest.mark.parametrize(
    ("full", "wire"),
    [
        ("fs.read_file", "fs__read_file"),
        ("my-box.b__c", "my-box__b__c"),
        ("fs.read.file", "fs__read_file_04ea75bf"),
        ("fs.lesen für alle", "fs__lesen_f_r_alle_816262ba"),
        (f"fs.{'x' * 60}", f"fs__{'x' * 60}"),
        (f"fs.{'x' * 61}", f"fs__{'x' * 51}_9452cc34"),
        ("fs.read/file", "fs__read_file_f21bae8b"),
        ("fs.日本語", "fs______a610bac4"),
        ("fs.", "fs__"),
        ("1st.read", "_1st__read_ad336aff"),
        ("-x.read", "_-x__read_f49e3a76"),
    ],
)
def test_a_wire_name_reads_like_the_tool_and_ends_in_a_hash_only_where_it_was_changed(full: str, wire: str) -> None:
    assert wire_names([full]) == {full: wire}


def test_names_that_would_be_the_same_are_told_apart_whatever_their_order() -> None:
    [plain] = wire_names(["a.b c"]).values()
    both = ["a.b c", f"a.{plain.removeprefix('a__')}"]
    wires = wire_names(both)
    assert wires == wire_names(reversed(both))
    assert len(set(wires.values())) == 2


def test_a_tool_that_bears_the_changed_name_of_another_keeps_it_and_the_other_gives_way() -> None:
    [changed] = wire_names(["a.b/c"]).values()
    thief = f"a.{changed.removeprefix('a__')}"
    wires = wire_names(["a.b/c", thief])
    assert wires[thief] == changed == wire_names([thief])[thief]
    assert wires["a.b/c"] != changed
    assert re.fullmatch(r"a__b_c_[0-9a-f]{8}", wires["a.b/c"])


def test_names_that_look_the_same_once_cleaned_or_cut_are_told_apart() -> None:
    long = "a." + "x" * 80
    names = ["a.b c", "a.b/c", "a.b_c", "a.b.c", "a.b-c", f"{long}1", f"{long}2"]
    wires = wire_names(names)
    assert len(set(wires.values())) == len(names)
    assert (wires["a.b_c"], wires["a.b-c"]) == ("a__b_c", "a__b-c")


@given(st.lists(st.text(max_size=90), max_size=20, unique=True))
def test_every_tool_has_its_own_name_that_every_provider_takes(tools: list[str]) -> None:
    wires = wire_names([f"server.{tool}" for tool in tools])
    assert len(set(wires.values())) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", wire) for wire in wires.values())


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("tab\tand\r\nnewline\n", "tab\tand\nnewline\n"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07text", "red text"),
        ("a\u202eb\u2066c\u200bd\ufeffe\u00adf", "abcdef"),
        ("hidden \U000e0041\U000e0042 tags", "hidden  tags"),
        ("bell\x07 null\x00 c1\x9b", "bell null c1"),
        ("one\u2028two", "one\ntwo"),
        ("Grüße, 日本, \U0001f44d\ufe0f", "Grüße, 日本, \U0001f44d\ufe0f"),
        ("half \ud800 a pair", "half \ufffd a pair"),
    ],
)
def test_what_nobody_sees_is_taken_out(text: str, seen: str) -> None:
    assert clean_text(text) == seen


@given(st.text())
def test_a_clean_text_is_not_changed_again(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


def test_data_is_cleaned_in_every_string_and_key() -> None:
    assert clean_json({"a\u200b": ["x\x00", 1, None, {"b": True}]}) == {"a": ["x", 1, None, {"b": True}]}
