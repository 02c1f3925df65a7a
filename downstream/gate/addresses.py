"""Addresses in text that lead to this machine or its network, in every spelling that a client would follow."""

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

# Each begins where a word begins: tried from within words too, long text would take forever.
_LINK = re.compile(
    r"(?<![a-z0-9+.-])[0-9+.-]*(?:(?:https?|wss?|ftp):[/\\]*|(?P<scheme>[a-z][a-z0-9+.-]*):[/\\]{2,})"
    r"(?P<rest>[^\s\"'<>]*)",
    re.IGNORECASE,
)
_WITHOUT_SCHEME = re.compile(
    r"(?<![\w:/\\])[/\\]{2,}(?:[?.][/\\]+(?:unc[/\\]+)?)?(?P<rest>[^\s\"'<>/\\][^\s\"'<>]*)", re.IGNORECASE
)
_BARE = re.compile(r"(\[[0-9a-f:.%]+\]|[\w.-]+|[0-9a-f]*:[0-9a-f:.]+)(:\d+)?(/\S*)?", re.IGNORECASE)
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".lan", ".home", ".home.arpa", ".intranet", ".corp")
# Public names that lead back here: all of these, and those that have the address in them.
_NAMES_FOR_HERE = (".localtest.me", ".lvh.me")
_NAMES_WITH_ADDRESS = (".nip.io", ".sslip.io", ".xip.io")
_EMBEDDED = re.compile(
    r"(?<!\d)\d{1,3}(?:[.-]\d{1,3}){3}(?!\d)|(?<![0-9a-z])[0-9a-f]{8}(?![0-9a-z])|[0-9a-f-]*--[0-9a-f-]*"
)
_LONGEST_NAME = 253


def local_addresses(text: str) -> list[str]:
    """Each link, or the text itself if it is an address, that leads to a loopback, link-local or private place."""
    found = [link for link, host in _hosts(text) if not host or _is_local(host, lax=True)]
    for link in _WITHOUT_SCHEME.finditer(text):
        host = _host(link["rest"])
        # Amid other words, `//name` is more likely a comment than a place.
        if host and _is_local(host, lax="." in host or link.group() == text.strip()):
            found.append(link.group())
    if not found and _BARE.fullmatch(text.strip()) and _is_local(_host(text.strip()), lax=False):
        found = [text.strip()]
    return found


def _hosts(text: str) -> Iterator[tuple[str, str]]:
    for link in _LINK.finditer(text):
        is_file = (link["scheme"] or "").lower() == "file"
        yield link.group(), "" if is_file else _host(link["rest"])


def _host(rest: str) -> str:
    authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    name = authority if authority.count(":") > 1 else authority.partition(":")[0]
    return unicodedata.normalize("NFKC", unquote(name)).replace("。", ".").lower().rstrip(".")


def _is_local(host: str, *, lax: bool) -> bool:
    """`lax` also reads the numbers that only resolvers take (127.1, 0x7f000001) and names without a dot as local."""
    address = _address(host.partition("%")[0], lax=lax)
    if address is not None:
        mapped = getattr(address, "ipv4_mapped", None) or address
        return not mapped.is_global
    if f".{host}".endswith(_NAMES_FOR_HERE) or (host.endswith(_NAMES_WITH_ADDRESS) and _has_near_address(host)):
        return True
    return host == "localhost" or host.endswith(_LOCAL_SUFFIXES) or (lax and "." not in host)


def _has_near_address(host: str) -> bool:
    """In the ways of nip.io: 10.0.0.1, 10-0-0-1, 0a000001, and --1 for ::1."""
    found = (part.group() for part in _EMBEDDED.finditer(host.rsplit(".", 2)[0][-_LONGEST_NAME:]))
    return any(_is_local(_written_out(part), lax=False) for part in found)


def _written_out(part: str) -> str:
    if len(part) == 8 and part.isalnum():
        return str(ipaddress.IPv4Address(int(part, 16)))
    return part.replace("-", ":") if "--" in part else part.replace("-", ".")


def _address(host: str, *, lax: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if lax else None
    except (OSError, UnicodeEncodeError, ValueError):
        return None
