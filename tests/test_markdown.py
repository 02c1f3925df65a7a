"""Text of models as people get it: whatever it tries, nobody is shown a picture, HTML, or an address to follow."""

import re
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from planner.markdown import cleaned, is_harmless, plain_line

OK = "https://ok.example/a"
# What hosts make links of in plain text, GitHub's dialect among them.
FOLLOWED = re.compile(r"(?<![a-z0-9])(?:https?://|ftp://|www\.)[^\s<]+", re.IGNORECASE)

TABLE = {
    "nested links": "[a [b](https://e.example/1) c](https://e.example/2)",
    "image in known link": f"[![x](https://e.example/i)]({OK})",
    "reference": "[x][r]\n\n[r]: https://e.example",
    "collapsed reference": "[r][]\n\n[r]: <https://e.example> 'title'",
    "shortcut reference": "[r]\n\n[r]:\nhttps://e.example",
    "reference in a quote": "[r]\n\n> [r]: https://e.example",
    "image reference": "![r]\n\n[r]: https://e.example",
    "autolink": "<https://e.example>",
    "mail": "<mailto:a@e.example?body=secret>",
    "underscore before": "_https://e.example",
    "www": "see www.e.example/x",
    "data": "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "script": "[x](java&#115;cript:alert(1))",
    "script in angles": "[x](<javascript:alert(1)>)",
    "entities": "https&colon;//e.example",
    "numeric entities": "&#60;img src=https://e.example&#62; &#x3c;b&#x3e;",
    "entity in target": "[x](https&#58;//e.example)",
    "target of two lines": "[x](\nhttps://e.example\n)",
    "target with title": "[x](https://e.example 'a \"b\" (c)')",
    "escaped brackets": "\\[x](https://e.example) [y\\](https://e.example)",
    "escaped tick": "\\`<img src=https://e.example>`",
    "ticks that do not close": "``` <img src=https://e.example> ``",
    "tildes within": "a ~~~<https://e.example>~~~ b",
    "fence of tildes in a list": "- ~~~\n  x\n\n<img src=https://e.example>",
    "fence that a list ends": "- ```\n\n<img src=https://e.example>\n```",
    "fence of four": "````\n```\n<b>\n````\n<img src=https://e.example>",
    "mermaid": '```mermaid\ngraph TD; A --> B\nclick A href "https://e.example"\n```',
    "mermaid of four": '````mermaid\nclick A href "https://e.example"\n````',
    "mermaid with more": '~~~ mermaid title="x"\nclick A "https://e.example"\n~~~',
    "svg": "```svg\n<svg onload=alert(1)>\n```",
    "html block": "<div>\n<img src=https://e.example>\n</div>",
    "comment": "<!--\nhidden\n-->",
    "declaration": "<!DOCTYPE x> <?php ?> <![CDATA[x]]>",
    "split tag": "<im\u200bg src=https://e.example>",
    "table": "| a |\n|---|\n| [x](https://e.example) <br> ![y](https://e.example) |",
    "foot note": "a[^1]\n\n[^1]: https://e.example",
    "link text that is another": f"[https://bank.example]({OK})",
    "deep": ">" * 300 + " ![x](https://e.example)",
    "brackets": "[" * 500 + "x" + "](https://e.example)" * 5,
    "forged places": "\x000\x00[a](https://e.example)\x001\x00",
    "terminal": "\x1b]8;;https://e.example\x1b\\click\x1b]8;;\x1b\\ \x1b[2J",
    "known and more": f"{OK}[secret {OK}{{secret {OK}(secret) {OK}'secret {OK}?q=secret",
    "bidirectional": "\u202ehttps://e.example\u202c",
}


def tokens(found: Iterable[Token]) -> Iterator[Token]:
    for token in found:
        yield token
        yield from tokens(token.children or ())


def harm(text: str) -> list[str]:
    """All that a reader of the text would be shown or led to, by a parser of the tests' own."""
    reader = MarkdownIt("commonmark", {"maxNesting": 10_000}).enable(["table", "strikethrough"])
    seen: list[str] = []
    for token in tokens(reader.parse(text)):
        if token.type in ("image", "html_block", "html_inline"):
            seen.append(token.type)
        if token.type == "link_open" and token.attrs["href"] != OK:
            seen.append(f"link {token.attrs['href']}")
        if token.type == "fence" and token.info.strip() in ("mermaid", "svg", "html", "math"):
            seen.append(f"drawing {token.info}")
        if token.type == "text":
            seen += [
                found for found in FOLLOWED.findall(token.content) if found.rstrip(".,;:!?*_~\"'()[]{}>|`\\") != OK
            ]
    return [*seen, *re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e]", text)]


@pytest.mark.parametrize("text", TABLE.values(), ids=TABLE.keys())
def test_no_trick_gets_a_picture_html_or_a_foreign_address_through(text: str) -> None:
    for shown in (cleaned(text, known={OK}), cleaned(f"Before {text} after.\n\n{text}", known={OK})):
        assert (harm(shown), is_harmless(shown, known={OK})) == ([], True)
    line = plain_line(text)
    assert [harm(f"{before}{line}") for before in ("", "# ", "- **x**: ", "  > ")] == [[]] * 4
    assert "\n" not in line


PIECES = [
    *"![]()<>`\\|*_&;:#-'\" \n\tx",
    *(
        "``",
        "```",
        "~~~",
        "[x]",
        "[x]:",
        "![x]",
        "](<",
        "](",
        "<b>",
        "</b>",
        "<!--",
        "-->",
        "&lt;",
        "&colon;",
        "&#x3c;",
        "//",
    ),
    *("1. ", "\\`", "\n\n", "    ", "https://e.example", "www.e.example", "javascript:alert(1)", "mermaid", OK),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_nothing_put_together_from_markup_gets_through(text: str) -> None:
    assert harm(cleaned(text, known={OK})) == []
    line = plain_line(text)
    assert [harm(f"{before}{line}") for before in ("", "# ", "- x: ")] == [[]] * 3


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n- one\n- **two** `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nx = [1]\n```\n\nand\n\n```\nplain\n```",
        f"See [this]({OK}) and {OK}.",
        "1 < 2 && 3 > 2, a[0] ~ 5",
    ],
    ids=["markup", "code", "known addresses", "signs"],
)
def test_what_does_no_harm_stays_as_it_was_written(text: str) -> None:
    assert cleaned(text, known={OK}) == text


def test_what_is_too_clever_is_shown_as_code_within_the_limit() -> None:
    text = f"```` ```\n{'x' * 200}<img src=https://e.example>"
    shown = cleaned(f"- {text}", longest=120)
    assert (len(shown) <= 120, harm(shown)) == (True, [])


def test_a_line_is_cut_without_opening_what_was_closed() -> None:
    text = f"look at https://e.example/{'long/' * 60} now"
    line = plain_line(text, longest=200)
    assert (len(line), harm(line), line.endswith("…`")) == (200, [], True)
    assert plain_line("a b", longest=200) == "a b"
