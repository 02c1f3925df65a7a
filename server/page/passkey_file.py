"""The passkeys that a person registered: what approvals of level passkey are checked against. No secret is in it."""

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from downstream.policy_settings import PolicySettings
from journal.errors import SteprelayError
from journal.locks import open_lock
from journal.secret_files import write_private
from journal.settings import state_folder

LIBRARY = "webauthn"
_INSTALL = (
    "the extra for passkeys is missing: uv tool install 'steprelay[webauthn]' (or: uvx --with webauthn steprelay)"
)


class BadPasskeys(SteprelayError):
    """The file of the passkeys cannot be used."""


@dataclass(frozen=True)
class Passkey:
    """A credential as its authenticator gave it: `id` and public `key` in base64url, `counter` of its last use."""

    id: str
    key: str
    name: str
    counter: int
    added_at: float


Change = Callable[[tuple[Passkey, ...]], Sequence[Passkey]]


def can_verify() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


def kept_passkeys() -> tuple[Passkey, ...]:
    """The passkeys of this user, oldest first. Raises BadPasskeys."""
    path = _path()
    try:
        return tuple(Passkey(**each) for each in json.loads(path.read_text()))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        raise BadPasskeys(f"{path} cannot be read; delete it, and register your passkeys again") from error


async def change_passkeys(change: Change) -> None:
    """Replace the passkeys by what `change` makes of them, without another process's change between.

    Raises BadPasskeys, and what `change` raises.
    """
    path = _path()
    try:
        async with open_lock(path.with_suffix(".lock")):
            kept = [asdict(each) for each in change(kept_passkeys())]
            write_private(path, json.dumps(kept).encode())
    except OSError as error:
        raise BadPasskeys(f"{path} cannot be written: {error.strerror}; make the folder writable") from error


def with_counter(passkeys: Sequence[Passkey], passkey: Passkey, counter: int) -> list[Passkey]:
    """The passkeys, after a use of one."""
    return [replace(each, counter=counter) if each.id == passkey.id else each for each in passkeys]


def passkeys_missing() -> str | None:
    """Why nobody can approve with a passkey yet, and what to do; None where somebody can."""
    try:
        registered = kept_passkeys()
    except BadPasskeys as error:
        return str(error)
    if not can_verify():
        return _INSTALL
    return None if registered else "no passkey is registered: `steprelay ui` opens the page, where one can be added"


def passkey_warnings(policy: PolicySettings) -> list[str]:
    """A warning for each rule that wants a passkey, while none can be given."""
    wanted = [number for number, rule in enumerate(policy.rules) if rule.via == "passkey"]
    if not wanted or (why := passkeys_missing()) is None:
        return []
    return [f"policy.rules[{number}]: via: passkey, but {why}; until then such calls wait" for number in wanted]


def _path() -> Path:
    return state_folder() / "passkeys.json"
