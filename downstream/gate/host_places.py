"""Which host an address leads to, and whether that is one that a rule names."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from downstream.policy_settings import split_port
from downstream.tool_names import fits
from journal.values import Json

from .told import any_of

_PLAIN_AUTHORITY = re.compile(r"([\w.+=~!$&*:-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?", re.ASCII)
_ENDS_IN_NUMBER = re.compile(r"(.*\.)?(\d+|0[xX][0-9a-fA-F]*)", re.DOTALL)
_USUAL_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
# Mapped, translated (twice) and compatible: the last four bytes are an address of the other family.
_ENDS_IN_IPV4 = tuple(map(ip_network, ("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "::/96")))


def is_host_in(wanted: Sequence[str], text: Json) -> bool | None:
    """Whether an address leads to one of these hosts; None where clients might disagree, or it is no address.

    So it is for an address that leads there by another way (`[::ffff:127.0.0.1]`), and where a port cannot be seen.
    """
    if not isinstance(text, str) or (found := _host_and_port(text)) is None:
        return None
    host, port = found
    return any_of(_is_at(each, host, port) for each in wanted)


def _is_at(wanted: str, host: str, port: int | None) -> bool | None:
    name, wanted_port = split_port(wanted)
    if wanted_port is not None and port is not None and port != wanted_port:
        return False
    if not fits(name, host):
        return None if _meant(name) & _meant(host) else False
    return True if wanted_port in (None, port) else None


def _meant(host: str) -> set[IPv4Address | IPv6Address]:
    """Every address that a client may end at; none for a name, since names are not looked up."""
    try:
        address = ip_address(host)
    except ValueError:
        return set()
    meant = {address}
    if isinstance(address, IPv6Address):
        if any(address in network for network in _ENDS_IN_IPV4):
            meant.add(IPv4Address(address.packed[-4:]))
        if address.sixtofour:
            meant.add(address.sixtofour)
    if any(each.is_unspecified for each in meant):
        # Systems take "no address" for this machine.
        meant |= {ip_address("127.0.0.1"), ip_address("::1")}
    return meant


def _host_and_port(text: str) -> tuple[str, int | None] | None:
    """The host that every client would go to; None where they might disagree, or there is none.

    So is a text in which a second address, a backslash, a blank or an escape stands in or before the host.
    """
    # Some clients add the slashes that are missing here.
    if not text.isprintable() or re.match(r"(https?|wss?|ftp|file):(?!//)", text, re.IGNORECASE):
        return None
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    if not _PLAIN_AUTHORITY.fullmatch(parts.netloc):
        return None
    if ":" in host or _ENDS_IN_NUMBER.fullmatch(host):
        # Numbers that only some resolvers take for an address are nobody's host.
        try:
            host = str(ip_address(host))
        except ValueError:
            return None
    return (host, _USUAL_PORTS.get(parts.scheme) if port is None else port) if host else None
