"""A host is what every client would go to; an address that leads there by another way cannot be told."""

import pytest
from pydantic import ValidationError

from downstream.gate.matchers import holds
from downstream.policy_settings import Matcher


def in_hosts(host: str, address: str) -> bool | None:
    return holds(Matcher.model_validate({"host_in": [host]}, strict=False), address, of="all")


@pytest.mark.parametrize(
    ("host", "address", "expected"),
    [
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", None),
        ("127.0.0.1", "http://[::ffff:7f00:1]:80/", None),
        ("127.0.0.1", "http://[0:0:0:0:0:ffff:7f00:1]/", None),
        ("127.0.0.1", "http://[::127.0.0.1]/", None),
        ("127.0.0.1", "http://[64:ff9b::7f00:1]/", None),
        ("127.0.0.1", "http://[::ffff:0:7f00:1]/", None),
        ("127.0.0.1", "http://[2002:7f00:1::]/", None),
        ("127.0.0.1", "http://0.0.0.0/", None),
        ("127.0.0.1", "http://[::]/", None),
        ("::1", "http://[::ffff:0.0.0.0]/", None),
        ("[::ffff:127.0.0.1]", "http://127.0.0.1/", None),
        ("[::ffff:127.0.0.1]", "http://[::ffff:7f00:1]/", True),
        ("[::ffff:127.0.0.1]:80", "http://127.0.0.1/", None),
        ("127.0.0.1", "http://[::ffff:127.0.0.2]/", False),
        ("127.0.0.1", "http://[2001:db8::7f00:1]/", False),
        ("127.0.0.1", "http://127.0.0.2/", False),
        ("127.0.0.1", "http://localhost/", False),
        ("[0:0::1]:8080", "http://[::1]:8080/", True),
        ("example.org:443", "https://example.org/", True),
        ("example.org:443", "http://example.org/", False),
        ("example.org:443", "https://example.org:444/", False),
        ("example.org:443", "example.org", None),
        ("example.org:443", "example.net", False),
        ("example.org:443", "gopher://example.org/", None),
        ("*.example.org:8443", "https://a.example.org:8443/", True),
        ("*.example.org:8443", "https://a.example.org/", False),
        ("example.org.", "https://example.org/", True),
    ],
)
def test_an_address_that_may_lead_to_the_host_cannot_be_told(host: str, address: str, expected: bool | None) -> None:
    assert in_hosts(host, address) is expected


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "2130706433", "a:b", "::1::", "a.b:c", "*.7"])
def test_a_host_that_no_address_can_have_is_an_error(host: str) -> None:
    with pytest.raises(ValidationError, match=r"is no host; write example\.org, \*\.example\.org, 192\.0\.2\.1 or"):
        in_hosts(host, "https://example.org/")
