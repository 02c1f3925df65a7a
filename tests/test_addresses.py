"""Whatever clients of tools would follow to this machine or its network is seen, and other texts are left alone."""

import json
import random
import shutil
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import anyio
import pytest

from downstream.gate.addresses import local_addresses
from journal.values import Json


@pytest.mark.parametrize(
    "text",
    [
        *("file:/etc/passwd", "file:etc/passwd", "FILE:\\x", "see file:/etc/passwd there", "view-source:file:/x"),
        *("jar:file:/a!/b", "url:file:/x", "<URL:file:/x>", "local_file:/x", "local-file:/x", " \x00file:/x"),
        *("fi\tle:\n//x", "file: /x", "http://127.0.0.1\u200b/", "http://\u200b127.0.0.1", "http://127.0.0\ufe0f.1/"),
        *("ht\u2060tp://10.0.0.1", "127\xad.0.0.1", "http\t://127.0.0.1", "http:\r//\n10.0.0.1"),
        *("\x00\x1f http://[::1]/", "//\t127.0.0.1", "a.example\nhttp\t://[::1]/", "\uff48ttp\uff1a//10.0.0.1"),
        *("http://good.example\uff1f@127.0.0.1/", "\uff11\uff10.0.0.1", "http://x\u3002localhost", "http://10.0x.0.1"),
        *("http://0x.0.0.0", "http://0177.1", "http://010.0.0.1", "http://012.0.0.1", "http://192.168.257"),
        *("http://0000000000000000000177.0.0.1/", "127.1", "127.1/admin", "0x7f.1", "0x7f000001", "2130706433"),
        *("0177.0.0.1", "192.168.1", "172.16.5", "http://[::127.0.0.1]", "http://[64:ff9b::7f00:1]"),
        *("http://[64:ff9b:1::1]", "http://[2002:7f00:1::]", "http://[2002:a00:1::5]", "http://[::ffff:0:7f00:1]"),
        *("http://[fec0::1]", "http://[ff02::1]", "http://[2a00::5efe:10.0.0.1]", "http://224.0.0.1"),
        *("localhost.localdomain", "ip6-localhost", "root@localhost", "git@127.0.0.1:x", "redis:127.0.0.1:6379"),
        *("http://a b@127.0.0.1/", "http://127.0.0.1:80:80/", "http://good.example\\@127.0.0.1/", "http://:80/"),
        *("foo://?x", "(http://127.0.0.1)", "**http://10.0.0.1**", "http://'127.0.0.1"),
        *("http://a.example,http://127.0.0.1", "[a](http://a.example)[b](http://[::1]/)", "//a.example,//127.0.0.1"),
        *("//a.example/b,//10.1/x",),
        *("http://" + "a" * 2000 + "@a.example", "https://" + "a" * 2000 + "@127.0.0.1/"),
    ],
)
def test_every_spelling_that_a_client_follows_is_seen(text: str) -> None:
    assert local_addresses(text)


@pytest.mark.parametrize(
    "text",
    [
        *("0", "1", "8080", "1.2", "3.11", "10.15.7", "0.5", "10.30", "250.5", "192.0", "0x1F", "0x0", "170000000"),
        *("-1", "10:30", "16:9", "ratio: 3:2", "2026-12-01", "1/2", "10/8", "12.5%", "+49 170 1234567", "1.2.3-rc.1"),
        *("0x7g", "09.1", "see the file:\nreport", "profile:x", "filetype:pdf", "my_file:x", "The file: report"),
        *("File:Example.jpg", "see File:Example.jpg there"),
        *("http: or https:", "use ftp:// links", "x // y", "x //note a.b", "//", "/etc/hosts", "C:\\x", "std::vector"),
        *("a::b", "@home", "me@corp.example", "localhosts", "http://[2606:4700::1111]/", "http://[2002:808:808::]"),
        *("http://[64:ff9b::808:808]", "http://[::ffff:8.8.8.8]/", "http://256.0.0.1", "http://1.2.3.4.5"),
        *("http://08.8.8.8", "https://a.example/?next=https://b.example/c", "https://a.example/a,b;c"),
        *("10.0.0.1 is an address", "\xe9t\xe9", "http://\u4f8b.example/", ""),
    ],
)
def test_numbers_times_versions_and_prose_are_left_alone(text: str) -> None:
    assert local_addresses(text) == []


@pytest.mark.parametrize("text", ["0", "10.1", "127.1", "0x1F", "167772161", "file:x"])
def test_a_mere_number_or_name_is_an_address_where_one_is_asked_for(text: str) -> None:
    assert local_addresses(text, is_place=True)
    assert local_addresses("8.8.8.8", is_place=True) == []
    assert local_addresses("a.example:10", is_place=True) == []


SIGNS: list[str] = [
    *("\t", "\n", "\r", " ", "/", "\\", "@", "#", "?", ":", ";", ".", ",", "%", "&", "=", "[", "]", "<", ">", '"'),
    *("'", "|", "^", "`", "{", "}", "~", "!", "*", "(", ")", "+", "-", "_", "0", "x", "\u200b", "\xad", "\u2060"),
    *("\ufeff", "\u200d", "\u3002", "\uff0e", "\uff61", "\u2044", "\uff0f", "\ufe0f", "\u034f", "%2e", "%2f", "%00"),
    *("%09", "%40", "//", "\\\\", "@good.example", "good.example@", "good.example#@", "good.example\\@", "a:b@"),
    *("\x00", "\x1f", "\x7f", "\u0131", "\u017f", "\u212a", "\uff1f", "\uff20", "\u3000", "file:", "url:", "0x"),
    *("\uff10",),
]
NEAR = ["http://127.0.0.1/a", "http://localhost/a", "http://[::1]/a", "file:///x", "ws://10.0.0.1/x", "https://0x7f.1/"]
HOW_NODE_READS = """
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const read = (text) => {
  try { const url = new URL(text); return [url.protocol, url.hostname]; } catch { return null; }
};
console.log(JSON.stringify(texts.map(read)));
"""


def changed(text: str, chance: random.Random) -> Iterator[str]:
    """The text with every sign put in everywhere, and with some of them in a few places."""
    yield from (text[:at] + sign + text[at:] for at in range(len(text) + 1) for sign in SIGNS)
    yield from (text[:at] + text[at + 1 :] for at in range(len(text)))
    for _ in range(1000):
        other = text
        for _ in range(chance.choice([2, 3])):
            at = chance.randrange(len(other) + 1)
            other = other[:at] + chance.choice(SIGNS) + other[at + chance.choice([0, 0, 1]) :]
        yield other


@pytest.mark.e2e
async def test_nothing_that_node_takes_to_this_machine_or_network_goes_unasked() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here")
    chance = random.Random(7)
    texts = list(dict.fromkeys(text for near in NEAR for text in changed(near, chance)))
    ran = await anyio.run_process([node, "-e", HOW_NODE_READS], input=json.dumps(texts).encode())
    read: list[Any] = json.loads(ran.stdout)
    near = [text for text, found in zip(texts, read, strict=True) if found and leads_here(*found)]
    assert len(near) > 1000
    assert [text for text in near if not local_addresses(text)] == []


def leads_here(protocol: str, host: str) -> bool:
    if protocol == "file:":
        return True
    name = host.strip("[]").rstrip(".")
    try:
        address: Json = ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return not (getattr(address, "ipv4_mapped", None) or address).is_global
