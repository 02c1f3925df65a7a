"""The one way out for text: no secret leaves in any of its forms."""

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.outlet import Outlet

SECRET = 'p&ss "wörd" /+?'
OUTLET = Outlet([("KEY", SECRET), ("SHORT", "1234567"), ("OTHER", "other-secret")])

FORMS = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 without padding": base64.b64encode(SECRET.encode()).decode().rstrip("="),
    "base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "URL": quote(SECRET, safe=""),
    "URL path": quote(SECRET),
    "URL, small": quote(SECRET, safe="")
    .replace("%2F", "%2f")
    .replace("%C3%B6", "%c3%b6")
    .replace("%2B", "%2b")
    .replace("%3F", "%3f"),
    "form": quote_plus(SECRET),
    "JSON": json.dumps(SECRET)[1:-1],
    "JSON with letters": json.dumps(SECRET, ensure_ascii=False)[1:-1],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_secret_is_replaced_in_every_form(form: str) -> None:
    assert OUTLET.text(f"before {form} after") == "before [secret:KEY] after"


@given(st.text(), st.text(), st.sampled_from(sorted(FORMS.values())))
def test_whatever_stands_around_it_no_secret_leaves(before: str, after: str, form: str) -> None:
    assert form not in OUTLET.text(f"{before}{form}{after}")


PLAIN = [("OTHER", "other-secret")]
WRAPPED = base64.encodebytes(bytes(50) + b"a long secret that goes on over the end of a line" + bytes(50)).decode()


@pytest.mark.parametrize("text", [WRAPPED, WRAPPED.replace("\n", "\r\n  "), json.dumps({"file": WRAPPED})])
def test_a_secret_in_wrapped_base64_is_replaced_and_all_else_stays(text: str) -> None:
    outlet = Outlet([("LONG", "a long secret that goes on over the end of a line"), *PLAIN])
    redacted = outlet.text(f"{text} and {text}")
    assert redacted.count("[secret:LONG]") == 2
    before, between, after = redacted.split("[secret:LONG]")
    whole = f"{text} and {text}"
    assert whole.startswith(before)
    assert between in whole
    assert whole.endswith(after)
    assert Outlet(PLAIN).text(whole) == whole


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
def test_a_secret_in_bytes_is_named(encoding: str) -> None:
    assert OUTLET.names_in_bytes(b"\x00\x01" + SECRET.encode(encoding)) == ["[secret:KEY]"]
    assert OUTLET.names_in_bytes(b"\x00\x01") == []


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode], ids=["standard", "for URLs"])
@pytest.mark.parametrize("after", ["", "t", "ta"])
@pytest.mark.parametrize("before", ["", "u", "user:", "xyz", "\xff\xff"])
@pytest.mark.parametrize("secret", ["8letters", "9 letters", SECRET])
def test_a_secret_amid_other_bytes_in_base64_is_replaced_but_for_its_edges(
    encode: Callable[[bytes], bytes], after: str, before: str, secret: str
) -> None:
    around = before.encode("latin-1")
    text = f"Basic {encode(around + secret.encode() + after.encode()).decode()} and so on"
    clean = Outlet([("KEY", secret)]).text(text)
    left = clean.replace("[secret:KEY]", "", 1)
    edges = 4 * len(around) // 3 + 4 * len(after) // 3 + 6
    assert "[secret:KEY]" in clean
    assert len(left) - len("Basic  and so on") <= edges


def test_two_secrets_side_by_side_are_both_replaced() -> None:
    assert OUTLET.text(f"other-secret{SECRET}") == "[secret:OTHER][secret:KEY]"


def test_values_under_8_characters_and_all_other_text_stay_as_they_are() -> None:
    assert OUTLET.text("1234567 and the rest") == "1234567 and the rest"
    assert Outlet().text("no secrets, ä") == "no secrets, ä"


def test_data_is_cleaned_in_strings_keys_and_depths() -> None:
    data = {"a": [1, None, True, 0.5, ("x", SECRET)], SECRET: {"b": "other-secret!"}}
    clean: Any = {"a": [1, None, True, 0.5, ["x", "[secret:KEY]"]], "[secret:KEY]": {"b": "[secret:OTHER]!"}}
    assert OUTLET.json(data) == clean


def test_half_a_surrogate_pair_leaves_as_a_question_mark() -> None:
    assert Outlet().json({"a\ud83d": ["\udc00b", "ä"]}) == {"a?": ["?b", "ä"]}
