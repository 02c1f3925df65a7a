"""Whether a host is this machine or on its network, however it is written."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from typing import Literal, TypeAlias
from urllib.parse import unquote

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

Care: TypeAlias = Literal["link", "place", "text"]
"""Where a host was found: in a link, in an argument that takes a host or link, or as a text that may be anything.

In a link, names without a dot are near ones. In a place every number that a resolver takes for an address is one (0,
10.1); in a text, those that are hardly anything else (127.1, 0x7f000001).
"""

IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that count for nothing in a name of a host: the default-ignorable ones of Unicode."""

_NAMES = frozenset({"localhost", "localhost6", "ip6-localhost", "ip6-loopback"})
_SUFFIXES = (
    *(".localhost", ".localdomain", ".localdomain6", ".local", ".internal"),
    *(".lan", ".home", ".home.arpa", ".intranet", ".corp"),
)
# Public names that lead back here: all of these, and those that have the address in them.
_NAMES_FOR_HERE = (".localtest.me", ".lvh.me")
_NAMES_WITH_ADDRESS = (".nip.io", ".sslip.io", ".xip.io")
_EMBEDDED = re.compile(
    r"(?<!\d)\d{1,3}(?:[.-]\d{1,3}){3}(?!\d)|(?<![0-9a-z])[0-9a-f]{8}(?![0-9a-z])|[0-9a-f-]*--[0-9a-f-]*"
)
_LONGEST_NAME = 253

_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_MOST_DIGITS = 16
_ENDS_A_HOST = re.compile(r"[\x00-\x20\x7f/\\?#@\"<>]")
_INNER = re.compile(r"[^a-z0-9]*(?P<name>[a-z0-9._-]*).*", re.DOTALL)
# What of short numbers is hardly a version, a price or a share.
_OBVIOUS = tuple(map(ipaddress.IPv4Network, ("127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16")))
# In these an address of the older kind stands in the last bits, or so many bits before them.
_CARRIERS = (
    (ipaddress.IPv6Network("::/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
)
_NOT_GLOBAL = tuple(map(ipaddress.IPv6Network, ("::/127", "64:ff9b:1::/48", "fec0::/10")))
_ISATAP = {0x5EFE, 0x02005EFE}


def is_near(authority: str, *, care: Care) -> bool:
    """Of what stands between the slashes of a link, or of a host with or without port, also in brackets or escaped."""
    written = authority.rpartition("@")[2].strip()
    host = _host(written)
    # Where words follow, the first may be one of them.
    if _is_near(host, care="place" if care == "link" and " " in written else care):
        return True
    # Signs of a sentence, a list or a markup may stand around it; such names without a dot would be too many.
    if ":" in host:
        return False
    inner = _INNER.sub(r"\g<name>", host, count=1).rstrip("._-")
    return inner != host and _is_near(inner, care="place" if care == "link" else care)


def _host(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name = unicodedata.normalize("NFKC", IGNORED.sub("", unquote(host))).replace("\u3002", ".").lower().strip()
    name = _ENDS_A_HOST.split(IGNORED.sub("", name), maxsplit=1)[0]
    return (name if _six(name) is not None else name.partition(":")[0]).rstrip(".")


def _is_near(host: str, *, care: Care) -> bool:
    six = _six(host)
    if six is not None:
        return _six_is_near(six)
    if any(_four_is_near(four, host, care=care) for four in _fours(host)):
        return True
    if f".{host}".endswith(_NAMES_FOR_HERE) or (host.endswith(_NAMES_WITH_ADDRESS) and _has_near_address(host)):
        return True
    return host in _NAMES or host.endswith(_SUFFIXES) or (care == "link" and "." not in host)


def _four_is_near(four: ipaddress.IPv4Address, host: str, *, care: Care) -> bool:
    if care != "text" or host.count(".") == 3:
        return not four.is_global or four.is_multicast
    return any(four in network for network in _OBVIOUS) or ("0x" in host and _is_private(four))


def _is_private(four: ipaddress.IPv4Address) -> bool:
    """Also as a number that is written in one, where small ones count things."""
    return not four.is_global and int(four) >> 24 != 0


def _six(host: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(host.partition("%")[0]) if host.count(":") > 1 else None
    except ValueError:
        return None


def _six_is_near(six: ipaddress.IPv6Address) -> bool:
    carried = [ipaddress.IPv4Address(int(six) >> bits & 0xFFFFFFFF) for net, bits in _CARRIERS if six in net]
    if int(six) >> 32 & 0xFFFFFFFF in _ISATAP:
        carried.append(ipaddress.IPv4Address(int(six) & 0xFFFFFFFF))
    if any(six in network for network in _NOT_GLOBAL) or any(not four.is_global for four in carried):
        return True
    return not carried and (not six.is_global or six.is_multicast)


def _fours(host: str) -> Iterator[ipaddress.IPv4Address]:
    """What one to four numbers stand for: as browsers and C read them (010 is 8), and as others do (010 is 10)."""
    parts = host.split(".", 4)
    if len(parts) > 4 or not all(map(_NUMBER.fullmatch, parts)):
        return
    for zero_means in (8, 10):
        *first, last = [_number(part, zero_means=zero_means) for part in parts]
        if all(number < 256 for number in first) and last < 256 ** (5 - len(parts)):
            yield ipaddress.IPv4Address(sum(number << 8 * (3 - at) for at, number in enumerate(first)) + last)


def _number(part: str, *, zero_means: int) -> int:
    """One that is too large for any address where it cannot be read."""
    base = 16 if part.startswith("0x") else zero_means if part.startswith("0") else 10
    digits = part.removeprefix("0x").lstrip("0") or "0"
    try:
        return int(digits[:_MOST_DIGITS], base)
    except ValueError:
        return 256**4


def _has_near_address(host: str) -> bool:
    """In the ways of nip.io: 10.0.0.1, 10-0-0-1, 0a000001, and --1 for ::1."""
    found = (part.group() for part in _EMBEDDED.finditer(host.rsplit(".", 2)[0][-_LONGEST_NAME:]))
    return any(_is_near(_written_out(part), care="text") for part in found)


def _written_out(part: str) -> str:
    if len(part) == 8 and part.isalnum():
        return str(ipaddress.IPv4Address(int(part, 16)))
    return part.replace("-", ":") if "--" in part else part.replace("-", ".")
