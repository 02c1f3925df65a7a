"""What `steprelay init` takes for a secret, and what it leaves as it is."""

import pytest

from journal.values import JsonObject
from server.hosts_import.hiding import Secret, hidden
from server.hosts_import.secret_text import spans_in, spans_of_argument, spans_of_header


def without(text: str) -> str:
    """The text with each secret part as `*`."""
    for span in reversed(spans_in(text)):
        text = text[: span.start] + "*" + text[span.end :]
    return text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sk-proj-abc123def456", "*"),
        ("ghp_abcdef", "*"),
        ("github_pat_11ABCDEFG0", "*"),
        ("xoxb-1234-abcd", "*"),
        ("AKIAIOSFODNN7EXAMPLE", "*"),
        ("eyJhbGciOi.eyJzdWIi.c2ln", "*"),
        ("8f14e45fceea167a5a36dedd4bea2543", "*"),
        ("550e8400-e29b-41d4-a716-446655440000", "*"),
        ("q7Zk2vN9xB4mT8wR1yL6", "*"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc", "*"),
        ("--api-key=abc", "--api-key=*"),
        ("TOKEN=abc", "TOKEN=*"),
        ("export MY_PASSWORD='a b' && run --token abc --port 80", "export MY_PASSWORD='*' && run --token * --port 80"),
        ('{"Authorization": "Bearer abc", "v": "1"}', '{"Authorization": "Bearer *", "v": "1"}'),
        ("Authorization: Basic YWxhZGRpbjpvcGVu", "Authorization: Basic *"),
        ("https://a.example/x?apiKey=abc&v=2", "https://a.example/x?apiKey=*&v=2"),
        ("https://a.example/#access_token=abc", "https://a.example/#access_token=*"),
        ("https://me:pw@a.example/", "https://me:*@a.example/"),
        ("https://abcdef@a.example/", "https://*@a.example/"),
        ("postgres://me:p@ss@db/x", "postgres://me:*@db/x"),
        ("https://a.example/mcp/sk-ak-abcdefgh/sse", "https://a.example/mcp/*/sse"),
        ("--header=X-Api-Key: abc", "--header=X-Api-Key: *"),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "*"),
        ("--sign=wJal/rXUtn4FEMI/K7MDENG/bPxRfi2Y", "--sign=*"),
        ("Bearer abcd and more", "Bearer * and more"),
        ("${TOKEN} and sk-abcdefgh", "${TOKEN} and *"),
    ],
)
def test_secrets_are_found(text: str, shown: str) -> None:
    assert without(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "@modelcontextprotocol/server-filesystem@2025.8.21",
        "/home/me/Projects/MyLongProjectName2024Backup/node_modules",
        "image@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "git+https://x.example/repo@0123456789abcdef0123456789abcdef01234567",
        "mcp-server-everything-2025-10-21",
        "packages/servers/MyThing2/dist/index",
        "us-east-1-prod-db-01-a",
        "--key-file=/home/me/key.pem",
        "--max-tokens=4096",
        "AUTH_TYPE=oauth",
        "GIT_AUTHOR_NAME=Jane",
        "Bearer ${TOKEN}",
        "https://${USER}:${PASSWORD}@a.example/?key=${KEY}",
        "Authorization:$${AUTH_HEADER}",
        "C:\\Program Files\\nodejs\\npx.cmd",
        "a token is a word",
        "http://@a.example/",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert without(text) == text


@pytest.mark.parametrize(
    ("before", "text", "secret"),
    [
        ("--api-key", "abc", "abc"),
        ("--header", "X-Api-Key: abc", "abc"),
        ("-H", "Accept: text/html", None),
        ("--header", "sk-abcdefgh", "sk-abcdefgh"),
        ("-e", "DB_PASSWORD=a,b&c;d e'f", "a,b&c;d e'f"),
        ("", "--dsn=Server=db;Password=a&b;Database=d", "Server=db;Password=a&b;Database=d"),
        ("", "Server=db;Password=a&b;Database=d", "a&b"),
        ("--no-auth", "8080", None),
        ("--token", "--port", None),
        ("--token", "${TOKEN}", None),
        ("--token-limit", "500", None),
        ("run", "abc", None),
    ],
)
def test_an_argument_is_read_with_the_option_before_it(before: str, text: str, secret: str | None) -> None:
    assert [text[span.start : span.end] for span in spans_of_argument(before, text)] == [secret] * (secret is not None)


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [
        ("Authorization", "Bearer abc", "abc"),
        ("Authorization", "Bearer ${TOKEN}", None),
        ("authorization", "token ${TOKEN}", None),
        ("Authorization", "Bearer prefix12${TOKEN}", "prefix12${TOKEN}"),
        ("Cookie", "sid=1", "sid=1"),
        ("X-Region", "eu", None),
        ("X-Region", "sk-abcdefgh", "sk-abcdefgh"),
    ],
)
def test_of_a_header_the_value_is_secret_and_not_its_scheme(name: str, text: str, secret: str | None) -> None:
    assert [text[span.start : span.end] for span in spans_of_header(name, text)] == [secret] * (secret is not None)


def test_what_is_secret_in_one_place_is_so_in_all_but_words_are_not() -> None:
    entry: JsonObject = {
        "command": "server-postgres",
        "args": ["--as", "pass4711word", "--db", "postgres"],
        "env": {
            "A_PASSWORD": "pass4711word",
            "B_PASSWORD": "postgres",
            "URL": "${URL:-http://x:pw@y}",
            "EMPTY_KEY": "",
        },
    }
    seen: list[Secret] = []

    def chosen(secret: Secret) -> str:
        seen.append(secret)
        return secret.variable or secret.label

    assert hidden(entry, chosen) == {
        "command": "server-postgres",
        "args": ["--as", "${A_PASSWORD}", "--db", "postgres"],
        "env": {"A_PASSWORD": "${A_PASSWORD}", "B_PASSWORD": "${B_PASSWORD}", "URL": "${URL}", "EMPTY_KEY": ""},
    }
    assert seen[-1] == Secret("http://x:pw@y", "URL", "the default in env URL", "URL")
