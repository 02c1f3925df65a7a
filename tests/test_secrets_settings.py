"""What of the settings is a secret, what it is called and whose it is, and what text and data lose by that."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.outlet import Outlet
from server.settings import Found, Settings, load_settings

ENVIRON = {
    "SHOP_TOKEN": "shop-0123456789",
    "BOTH_KEY": "both-0123456789",
    "LISTED": "listed-012345",
    "OPENAI_API_KEY": "sk-model-0123456789",
    "CLIENT": "client-0123456789",
    "PLAIN": "plain-0123456789",
}


def loaded(folder: Path, data: Any) -> Settings:
    path = folder / "steprelay.json"
    path.write_text(json.dumps(data))
    return load_settings(Found(path, "option"), environ=ENVIRON, lenient=True)


def stdio(**env: Any) -> dict[str, Any]:
    return {"command": "run-it", "env": env}


def test_a_secret_belongs_to_the_servers_in_whose_entry_or_login_it_stands_and_to_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "shop.env").write_text("FILE_TOKEN=file-0123456789\n")
    settings = loaded(
        tmp_path,
        {
            "mcpServers": {
                "My Shop": stdio(A_TOKEN="${SHOP_TOKEN}", B="${BOTH_KEY}", C="${PLAIN}") | {"envFile": "shop.env"},
                "bank": {"url": "https://bank.example/mcp", "headers": {"Authorization": "Bearer ${BOTH_KEY}"}},
                "vault": {"url": "https://vault.example/mcp"},
                "no!name!": {"command": 1, "env": {"X_TOKEN": "broken-0123456789"}},
            },
            "server_options": {
                "vault": {"auth": {"kind": "client_credentials", "client_id": "me", "client_secret": "${CLIENT}"}}
            },
            "model_options": {"api_key": "written-0123456789"},
            "secrets": ["LISTED"],
        },
    )
    outlet = settings.outlet
    names = {secret.name: sorted(outlet.owners(secret.name)) for secret in settings.secrets}
    assert names == {
        "SHOP_TOKEN": ["my-shop"],
        "BOTH_KEY": ["bank", "my-shop"],
        "FILE_TOKEN": ["my-shop"],
        "X_TOKEN": [],
        "CLIENT": ["vault"],
        "api_key": [],
        "LISTED": [],
        "OPENAI_API_KEY": [],
    }
    text = "[secret:BOTH_KEY] [secret:LISTED] [secret:SHOP_TOKEN]"
    assert outlet.restored(text, "bank") == "both-0123456789 [secret:LISTED] [secret:SHOP_TOKEN]"
    assert outlet.restored(text, "vault") == text


def test_another_servers_secret_of_the_same_name_is_told_by_its_server(tmp_path: Path) -> None:
    entries = {name: stdio(API_KEY=f"{name}-0123456789") for name in ("one", "two")}
    outlet = loaded(tmp_path, {"mcpServers": entries}).outlet
    text = outlet.text("one-0123456789, two-0123456789")
    assert text == "[secret:API_KEY], [secret:API_KEY of two]"
    assert outlet.restored(text, "two") == "[secret:API_KEY], two-0123456789"


def test_bare_numbers_in_env_are_secrets_as_text_and_as_numbers_from_eight_digits_on(tmp_path: Path) -> None:
    (tmp_path / "steprelay.yaml").write_text(
        "mcpServers: {shop: {command: run-it, env: {A_KEY: 4929123456781, B_PASS: 12345678.25, C_KEY: 1234567, "
        "E: 87654321, F_KEY: '00912345678'}}}\n"
    )
    outlet = load_settings(Found(tmp_path / "steprelay.yaml", "option"), environ={}).outlet
    data = [4929123456781, 4929123456781.0, 12345678.25, 1234567, 87654321, True, 912345678, 4929123456780, None]
    a, b, f = "[secret:A_KEY]", "[secret:B_PASS]", "[secret:F_KEY]"
    assert outlet.foreign(data) == [a, a, b, 1234567, 87654321, True, f, 4929123456780, None]
    assert outlet.json({"n": [4929123456781, "4929123456781"]}) == {"n": [4929123456781, a]}
    assert outlet.text("4929123456781, 12345678.25, 1234567, 87654321") == f"{a}, {b}, 1234567, 87654321"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"a long tok-4f7a1c…"', '"a long [secret:T]…"'),
        ("tok-4f7a…", "[secret:T]…"),
        ("tok-4f7…", "tok-4f7…"),
        ("tok-4f7a and more…", "tok-4f7a and more…"),
        ("tok-4f7a tok-4f7a1c9e22… and tok-4f7a1c9…", "tok-4f7a [secret:T]… and [secret:T]…"),
        ("…tok-4f7a1c", "…tok-4f7a1c"),
    ],
)
def test_what_is_left_of_a_secret_in_a_text_that_was_cut_short_goes_too(text: str, shown: str) -> None:
    assert Outlet([("T", "tok-4f7a1c9e22")]).text(text) == shown


def test_a_secret_of_several_lines_is_known_by_each_long_one_and_in_json_within_json() -> None:
    key = f"-----BEGIN KEY-----\n{'QUJD' * 16}\n{'REVG' * 16}\n-----END KEY-----"
    outlet = Outlet([("PEM", key), ("Q", "a\"quoted'\\one")])
    assert outlet.text(f"log: {'REVG' * 16}") == "log: [secret:PEM]"
    assert outlet.text("-----BEGIN KEY-----") == "-----BEGIN KEY-----"
    assert outlet.text(json.dumps({"text": json.dumps({"key": key})})) == json.dumps(
        {"text": '{"key": "[secret:PEM]"}'}
    )
    assert outlet.text(json.dumps({"text": json.dumps({"q": "a\"quoted'\\one"})})) == json.dumps(
        {"text": '{"q": "[secret:Q]"}'}
    )
    assert outlet.text(str({"q": "a\"quoted'\\one"})) == "{'q': '[secret:Q]'}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
WORDS = [
    "password",
    "/etc/keys",
    "secret",
    "2026-01-01",
    "token…",
    "12345678",
    "[secret:OTHER]",
    "a@b.org",
    "Basic dXNl",
]
SECRETS = [("A", "k9-ZQX\x07\x08-one"), ("B", "77777777700007"), ("SHORT", "/etc"), ("WORD", "secret"), ("E", "")]


@given(st.lists(st.sampled_from(WORDS) | st.text()).map(" ".join))
def test_text_without_a_secret_is_the_same_afterwards(text: str) -> None:
    assert Outlet(SECRETS).text(text) == text
    assert Outlet(SECRETS, owners={"A": frozenset({"shop"})}).restored(text, "shop") == text


@given(JSON)
def test_data_without_a_secret_is_the_same_afterwards(data: Any) -> None:
    outlet = Outlet(SECRETS)
    assert (outlet.json(data), outlet.foreign(data)) == (data, data)


def test_a_secret_that_is_a_short_word_or_path_is_no_secret() -> None:
    outlet = Outlet([("A", "secret"), ("B", "/etc"), ("C", "1234567")])
    assert outlet.text("secret /etc 1234567") == "secret /etc 1234567"
    assert outlet.foreign([1234567]) == [1234567]
