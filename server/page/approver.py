"""The person who approves, as far as they set themselves up: a PIN, and codes of an authenticator app."""

import base64
import hashlib
import hmac
import json
import secrets
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from journal.errors import SteprelayError
from journal.secret_files import write_private
from journal.settings import state_folder

_COST = {"n": 2**15, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}
_PERIOD = 30
_DIGITS = 6
SHORTEST_PIN = 6


class BadApprover(SteprelayError):
    """A PIN that is none, or a file of the approver that cannot be used."""


@dataclass(frozen=True)
class Approver:
    """What a PIN and a code are checked against; `seed` is null where no codes are asked for."""

    salt: bytes
    hash: bytes
    seed: str | None = None

    @property
    def mark(self) -> str:
        """Names this set-up: sessions of another end."""
        return self.salt.hex()

    def is_pin(self, pin: str) -> bool:
        """Takes about a tenth of a second of a processor, on purpose."""
        return hmac.compare_digest(_hashed(pin, self.salt), self.hash)

    def step_of(self, code: str, *, now: float) -> int | None:
        """The time step that a code belongs to, now or one before or after (RFC 6238); None if it is none."""
        steps = (int(now // _PERIOD) + late for late in (0, -1, 1))
        fits = (
            step for step in steps if self.seed and hmac.compare_digest(totp(self.seed, step).encode(), code.encode())
        )
        return next(fits, None)


def new_approver(pin: str, *, with_codes: bool) -> Approver:
    """Raises BadApprover."""
    if len(pin) < SHORTEST_PIN or len(set(pin)) < 3:
        raise BadApprover(f"a PIN has {SHORTEST_PIN} characters or more, and not one or two that repeat; take another")
    salt = secrets.token_bytes(16)
    seed = base64.b32encode(secrets.token_bytes(20)).decode() if with_codes else None
    return Approver(salt, _hashed(pin, salt), seed)


def changed_approver(present: Approver | None, pin: str, *, with_codes: bool | None) -> Approver:
    """The approver with a new PIN, and with the codes of the present one unless something else is said of codes.

    Raises BadApprover.
    """
    new = new_approver(pin, with_codes=bool(with_codes))
    return replace(new, seed=present.seed) if present is not None and with_codes is None else new


def kept_approver() -> Approver | None:
    """The approver of this user; None where none was set up. Raises BadApprover."""
    path = _path()
    try:
        data = json.loads(path.read_text())
        return Approver(bytes.fromhex(data["salt"]), bytes.fromhex(data["hash"]), data["seed"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadApprover(f"{path} cannot be read; run `steprelay approver init` again") from error


def keep_approver(approver: Approver) -> Path:
    """Write the approver to a file that only this user can read; returns it. Raises BadApprover."""
    path = _path()
    data = {"salt": approver.salt.hex(), "hash": approver.hash.hex(), "seed": approver.seed}
    try:
        write_private(path, json.dumps(data).encode())
    except OSError as error:
        raise BadApprover(f"{path} cannot be written: {error.strerror}; make the folder writable") from error
    return path


def totp(seed: str, step: int) -> str:
    """The code of a time step: RFC 6238 with SHA-1, six digits."""
    mac = hmac.new(base64.b32decode(seed), struct.pack(">Q", step), hashlib.sha1).digest()
    start = mac[-1] & 15
    number = struct.unpack(">I", mac[start : start + 4])[0] & 0x7FFF_FFFF
    return f"{number % 10**_DIGITS:0{_DIGITS}}"


def app_address(seed: str) -> str:
    """What an authenticator app reads the seed from."""
    return f"otpauth://totp/{quote('steprelay')}?secret={seed}&issuer=steprelay"


def _hashed(pin: str, salt: bytes) -> bytes:
    return hashlib.scrypt(pin.encode(), salt=salt, dklen=32, **_COST)


def _path() -> Path:
    return state_folder() / "approver.json"
