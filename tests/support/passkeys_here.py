"""The extra `webauthn` for tests, from an environment of its own, and an authenticator made of software."""

import base64
import hashlib
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from third_party import Missing, python_with

UP, UV, ATTESTED = 0x01, 0x04, 0x40
_LIBRARY = "webauthn"
Said: TypeAlias = dict[str, Any]
"""What a browser's script hands to the page of an authenticator's answer."""


@contextmanager
def with_library() -> Generator[None]:
    """Have the extra until the block ends; skips where it can be had neither here nor from the registry."""
    if importlib.util.find_spec(_LIBRARY) is not None:
        yield
        return
    found = python_with("webauthn", ("webauthn>=3,<4",))
    if isinstance(found, Missing):
        pytest.skip(found.reason)  # no registry here: the reason says which
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    # Behind all else, so that only what is not here comes from there.
    sys.path.append(_said_by(found.command, code))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.pop()
        for name in [name for name in sys.modules if name.partition(".")[0] == _LIBRARY]:
            del sys.modules[name]


@contextmanager
def without_library() -> Generator[None]:
    """Have no extra until the block ends, whatever is installed."""
    kept = {name: found for name, found in sys.modules.items() if name.partition(".")[0] == _LIBRARY}
    sys.modules.update(dict.fromkeys([_LIBRARY, *kept]))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in {_LIBRARY, *kept}:
            del sys.modules[name]
        sys.modules.update(kept)


@dataclass
class Authenticator:
    """A device with one passkey. What it says can be made wrong in each way that a verifier must notice."""

    origin: str
    site: str = "localhost"
    flags: int = UP | UV
    counter: int = 0
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    id: bytes = b"\x07" * 32

    def make(self, options: Mapping[str, Any]) -> Said:
        """Its answer to `navigator.credentials.create`."""
        self.counter += 1
        data = self._data(self.flags | ATTESTED) + bytes(16) + len(self.id).to_bytes(2) + self.id + self._public()
        whole = _cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options)
        return self._said({"clientDataJSON": text(client), "attestationObject": text(whole)})

    def sign(self, options: Mapping[str, Any]) -> Said:
        """Its answer to `navigator.credentials.get`."""
        self.counter += 1
        client, data = self._client("webauthn.get", options), self._data(self.flags)
        signature = self.private.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        parts = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        return self._said({name: text(part) for name, part in parts.items()})

    def _said(self, response: Said) -> Said:
        return {"id": text(self.id), "rawId": text(self.id), "type": "public-key", "response": response}

    def _client(self, kind: str, options: Mapping[str, Any]) -> bytes:
        told = {"type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": False}
        return json.dumps(told).encode()

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.site.encode()).digest() + bytes([flags]) + self.counter.to_bytes(4)

    def _public(self) -> bytes:
        """Its key in COSE: elliptic, ES256, P-256."""
        numbers = self.private.public_key().public_numbers()
        return _cbor({1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)})


def text(data: bytes) -> str:
    """Base64url without padding, as WebAuthn has all bytes."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _cbor(data: Any) -> bytes:
    """As much of RFC 8949 as an authenticator needs."""
    if isinstance(data, int):
        return _head(0, data) if data >= 0 else _head(1, -1 - data)
    if isinstance(data, bytes):
        return _head(2, len(data)) + data
    if isinstance(data, str):
        return _head(3, len(data)) + data.encode()
    return _head(5, len(data)) + b"".join(_cbor(key) + _cbor(value) for key, value in data.items())


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind << 5 | number])
    return bytes([kind << 5 | 24, number]) if number < 256 else bytes([kind << 5 | 25]) + number.to_bytes(2)


def _said_by(command: list[str], code: str) -> str:
    return subprocess.run([*command, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
